"""Text of a file from a stranger: bounded in size, one character per byte."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from synth.errors import InvalidInputError

MAX_BYTES: Final = 256 << 20


def source_text(source: str | os.PathLike[str]) -> str:
    """Return a text, or the content of a file, as the runtimes see it: one character per byte.

    Parameters
    ----------
    source
        A path, or the text itself (a string that contains ``<``).

    Raises
    ------
    InvalidInputError
        When there is no such file, or it has more than 256 MiB.
    """
    if isinstance(source, str) and "<" in source:
        return source.encode("utf-8", "surrogatepass").decode("latin-1")
    path = Path(source)
    try:
        with path.open("rb") as file:
            # Not ``stat``, which says nothing about pipes and devices.
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise InvalidInputError(f"{path}: {error.strerror}") from error
    except ValueError as error:
        raise InvalidInputError(f"{str(path)!r} is not a path: {error}") from error
    if len(data) > MAX_BYTES:
        raise InvalidInputError(f"{path}: more than {MAX_BYTES} bytes")
    return data.decode("latin-1")
