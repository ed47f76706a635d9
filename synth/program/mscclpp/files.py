"""Write verified MSCCL++ plans as JSON 0.9, byte for byte the same for the same plan, and read plans of anyone.

Sources: microsoft/mscclpp 0.9.0 src/core/executor/execution_plan.cc (what is read), python/mscclpp/language/internal/
{gpu,threadblock,operations}.py (how upstream writes it).
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Final, NoReturn

from synth.errors import InvalidInputError, VerificationError
from synth.files.writing import write_text
from synth.program.meaning.report import Report
from synth.program.meaning.semantics import Semantics
from synth.program.mscclpp.model import MscclppDraft
from synth.program.mscclpp.object import plan_object
from synth.program.mscclpp.program import MscclppProgram
from synth.program.mscclpp.reader import parse_plan
from synth.program.mscclpp.verifying.loader import loader_faults
from synth.program.mscclpp.verifying.verify import TARGET, verify_mscclpp

__all__ = ["checked_json", "loader_faults", "parse_json", "read_plan", "to_json", "verify_plan", "write_json"]

# Far above any plan that fits into the executor's limits; keeps a hostile file from costing memory.
MAX_BYTES: Final = 64 << 20


def to_json(program: MscclppProgram) -> str:
    """Return the file's text.

    Parameters
    ----------
    program
        A verified plan; nothing else can be exported.

    Raises
    ------
    VerificationError
        When given anything but an MscclppProgram.
    """
    if type(program) is not MscclppProgram or not hasattr(program, "report"):
        raise VerificationError(f"only a verified MscclppProgram can be exported, not {type(program).__name__}")
    return json.dumps(plan_object(program.draft), indent=2) + "\n"


def checked_json(program: MscclppProgram) -> str:
    """Return :func:`to_json` after reading it back.

    Raises
    ------
    VerificationError
        When the text read back is not the plan.
    """
    text = to_json(program)
    draft, faults = parse_plan(parse_json(text, program.draft.name))
    if faults or draft != program.draft:
        raise VerificationError([f"{program.draft.name}: the JSON read back differs from the plan", *faults])
    return text


def write_json(program: MscclppProgram, path: str | os.PathLike[str]) -> None:
    """Write the file, whole or not at all, after reading its text back (see :func:`checked_json`).

    Raises
    ------
    VerificationError
        When the text read back is not the plan.
    InvalidInputError
        When the file cannot be written.
    """
    write_text(Path(path), checked_json(program))


def read_plan(path: str | os.PathLike[str]) -> MscclppDraft:
    """Read a plan; verify it with :func:`~synth.program.mscclpp.verifying.verify.verify_mscclpp`.

    Raises
    ------
    InvalidInputError
        When the file cannot be read, is no JSON, or lacks what the executor reads: all faults at once. What the
        executor refuses for other reasons is left to the verification.
    """
    draft, faults = parse_plan(_load(path))
    if draft is None:
        raise InvalidInputError([f"{path}: {fault}" for fault in faults])
    return draft


def verify_plan(path: str | os.PathLike[str], semantics: Semantics | None = None) -> Report:
    """Report on a plan file, also on one that the executor would not even parse.

    Parameters
    ----------
    path
        The file.
    semantics
        What it should compute (see :func:`~synth.program.mscclpp.verifying.verify.verify_mscclpp`).

    Raises
    ------
    InvalidInputError
        When the file cannot be read or is no JSON.
    """
    plan = _load(path)
    draft, faults = parse_plan(plan)
    if draft is not None:
        return verify_mscclpp(draft, semantics)
    top = plan if isinstance(plan, dict) else {}
    gpus = top.get("gpus")
    ranks = len(gpus) if isinstance(gpus, list) else 0
    name, collective = str(top.get("name", "")), str(top.get("collective", ""))
    return Report(name, collective, TARGET, ranks, accepted=False, reject_reasons=tuple(faults))


def _load(path: str | os.PathLike[str]) -> Any:
    file = Path(path)
    try:
        with file.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise InvalidInputError(f"{file}: cannot be read: {error.strerror}") from error
    if len(data) > MAX_BYTES:
        raise InvalidInputError(f"{file}: larger than {MAX_BYTES >> 20} MiB")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidInputError(f"{file}: not UTF-8 at byte {error.start}") from error
    return parse_json(text, str(file))


def parse_json(text: str, name: str) -> Any:
    """Parse JSON as strictly as the executor's parser: no NaN, no Infinity.

    Raises
    ------
    InvalidInputError
        When the text is no JSON.
    """

    def refuse(word: str) -> NoReturn:
        raise ValueError(f"{word} is no JSON value")

    try:
        return json.loads(text, parse_constant=refuse)
    except RecursionError as error:
        raise InvalidInputError(f"{name}: nested too deeply") from error
    except ValueError as error:
        raise InvalidInputError(f"{name}: not JSON: {error}") from error
