"""``synth run``: a program on this machine's memory, one process per rank."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from synth.cli.calibrate import AsJson
from synth.cli.support import say
from synth.errors import InvalidInputError, VerificationError


def run(
    file: Annotated[Path, typer.Argument(help="Any MSCCL XML file.")],
    size: Annotated[str, typer.Option(help="nccl-tests size, such as 64MiB; must divide into the file's chunks.")],
    ranks: Annotated[int | None, typer.Option(help="Ranks of the job; a file for another number is refused.")] = None,
    inplace: Annotated[
        bool | None, typer.Option("--inplace/--out-of-place", help="One buffer for both sides? Default: as the file.")
    ] = None,
    dtype: Annotated[str, typer.Option(help="float16, float32, float64, int8, ..., uint64.")] = "float32",
    op: Annotated[str, typer.Option(help="sum, prod, min or max.")] = "sum",
    timeout: Annotated[str, typer.Option(help="Wall-clock limit, such as 60s; a hang is found at once.")] = "60s",
    target: Annotated[str, typer.Option(help="Runtime whose names and protocol table apply.")] = "msccl",
    as_json: AsJson = False,
) -> None:
    """Execute an MSCCL XML on this machine, one process per rank, and compare the numbers with numpy's result.

    The exit code is 5 when the numbers are wrong, and when the runtime would not run the program for this call.
    """
    from synth.emulate import run_program
    from synth.ground.units import parse_size, parse_time
    from synth.program.msccl import target_named
    from synth.program.msccl.xml import read_selected, read_xml

    runtime = target_named(target)
    draft = read_xml(file, runtime)
    if ranks not in (None, draft.semantics.ngpus):
        raise InvalidInputError(f"{file.name} is for {draft.semantics.ngpus} ranks, not for {ranks}")
    report = run_program(
        draft,
        parse_size(size),
        inplace=inplace,
        dtype=dtype,
        op=op,
        timeout=parse_time(timeout),
        target=runtime,
        selection=read_selected(file, runtime)[1],
        check=False,
    )
    say(report.to_dict() if as_json else report.summary())
    if not (report.ok and report.served):
        raise typer.Exit(VerificationError.exit_code)
