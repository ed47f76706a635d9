"""Files that appear whole or not at all."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from synth.errors import InvalidInputError


@contextlib.contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """Yield a temporary name beside ``path`` that replaces it when the block succeeds and vanishes when it fails.

    Raises
    ------
    InvalidInputError
        When the folder cannot be written.
    """
    target = Path(path)
    try:
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=target.suffix, dir=target.parent)
    except OSError as error:
        raise InvalidInputError(f"{target}: cannot be written: {error.strerror}") from error
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)  # mkstemp makes private files; this one is an ordinary result
        temporary.replace(target)
    except OSError as error:
        raise InvalidInputError(f"{target}: cannot be written: {error.strerror}") from error
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: str | Path, text: str) -> None:
    """Write UTF-8 text with Unix line ends, whole or not at all."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")


def write_files(folder: Path, files: Mapping[str, bytes]) -> list[Path]:
    """Write several files into a folder (made if need be, and folders in it that names lead to): all or none.

    Raises
    ------
    InvalidInputError
        When the folder or a file cannot be written.
    """
    try:
        for place in {folder, *((folder / name).parent for name in files)}:
            place.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInputError(f"{folder}: cannot be made: {error.strerror}") from error
    with contextlib.ExitStack() as stack:
        for name, data in files.items():
            stack.enter_context(replacing(folder / name)).write_bytes(data)
    return [folder / name for name in files]
