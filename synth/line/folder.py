"""A result's files in one folder: all of them, or none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from synth.export.paths_json import dump_paths, paths_name
from synth.export.plots.figures import figure_files
from synth.export.schedule_json import dump_schedule
from synth.files.writing import write_files
from synth.program.runtime import file_of
from synth.solver.flow.plan_file import dump_plan

if TYPE_CHECKING:
    from synth.line.api import Result


def write_folder(result: Result, folder: Path) -> Result:
    """Write everything into ``folder`` (made if need be); returns the result with ``files`` filled in.

    Raises
    ------
    InvalidInputError
        When the folder or a file cannot be written; then no file has changed.
    """
    contents: dict[str, tuple[str, bytes]] = {
        "plan": ("plan.json", dump_plan(result.plan).encode()),
        "schedule": ("schedule.json", dump_schedule(result.schedule).encode()),
        "summary": ("summary.txt", (result.summary() + "\n").encode()),
    }
    for name, data in figure_files(result.schedule).items():
        contents[Path(name).stem] = (name, data)
    name, text = file_of(result.program)
    contents["program"] = (name, text.encode())
    contents["paths"] = (paths_name(name), dump_paths(result.paths, name).encode())
    write_files(folder, dict(contents.values()))
    return replace(result, files={kind: str(folder / name) for kind, (name, _) in contents.items()})
