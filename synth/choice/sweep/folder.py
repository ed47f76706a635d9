"""A sweep's files: programs alone in one folder, whose every file a runtime loads; index, table and plots beside it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from synth.choice.sweep.plots import sweep_files
from synth.errors import InvalidInputError, VerificationError
from synth.files.writing import write_files
from synth.program.msccl.xml.runtime_parser import accepts
from synth.program.msccl.xml.writer import checked_xml

if TYPE_CHECKING:
    from synth.choice.sweep.result import Sweep


def write_sweep(sweep: Sweep, folder: Path) -> Sweep:
    """Write everything into ``folder`` (made if need be); returns the sweep with ``files`` filled in.

    Raises
    ------
    InvalidInputError
        When a folder or file cannot be written, or the programs' folder holds other files; then nothing has changed.
    VerificationError
        When the runtime would not load what is to be written (a defect of synth).
    """
    contents = {f"file{k + 1}": (sweep.file_name(k), _program(sweep, k)) for k in range(len(sweep.ranges))}
    strangers = _strangers(folder, {name for name, _ in contents.values()})
    if strangers:
        raise InvalidInputError(
            [
                f"{path}: lies where a runtime would load it too; remove it or choose another folder"
                for path in strangers
            ]
        )
    contents["index"] = ("index.json", (json.dumps(sweep.to_dict(), indent=1) + "\n").encode())
    contents["table"] = ("sweep.csv", table_csv(sweep).encode())
    for name, data in sweep_files(sweep).items():
        contents[Path(name).stem] = (name, data)
    write_files(folder, dict(contents.values()))
    return replace(sweep, files={kind: str(folder / name) for kind, (name, _) in contents.items()})


def table_csv(sweep: Sweep) -> str:
    """The table with a line of names; numbers with all their digits."""
    return str(sweep.table.to_csv(index=False, lineterminator="\n"))


def _program(sweep: Sweep, k: int) -> bytes:
    program = sweep.ranges[k].program
    text = checked_xml(program)
    verdict = accepts(text, program.target)
    if not verdict.accepted:
        raise VerificationError([f"{sweep.file_name(k)}: {reason}" for reason in verdict.reasons])
    return text.encode()


def _strangers(folder: Path, names: set[str]) -> list[Path]:
    places = sorted({(folder / name).parent for name in names})
    return sorted(
        path
        for place in places
        if place.is_dir()
        for path in place.iterdir()
        if str(path.relative_to(folder)) not in names
    )
