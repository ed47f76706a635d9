"""``synth verify``: whether a runtime accepts a program file, and what happens when it runs it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from synth.cli.calibrate import AsJson
from synth.cli.support import say
from synth.errors import VerificationError


def verify(
    file: Annotated[Path, typer.Argument(help="An MSCCL XML of any dialect, or an MSCCL++ plan.")],
    target: Annotated[str, typer.Option(help="Runtime that would load it: msccl, msccl-executor or rccl.")] = "msccl",
    ranks: Annotated[int | None, typer.Option(help="Ranks of the job; a file for another number is refused.")] = None,
    protocol: Annotated[str | None, typer.Option(help="Replay with this protocol's FIFO, not the file's.")] = None,
    sms: Annotated[int | None, typer.Option(help="SMs or CUs of the GPU: blocks that can be resident at once.")] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Refuse races and undefined reads also on data that no output depends on.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Say whether a runtime accepts an MSCCL XML, and what happens then: data, races, deadlocks, unchecked hazards."""
    from synth.program.msccl import target_named
    from synth.program.msccl.xml import verify_file
    from synth.program.mscclpp.files import verify_plan
    from synth.program.runtime import MSCCLPP

    if target == MSCCLPP or file.suffix == ".json":
        report = verify_plan(file)
    else:
        runtime = target_named(target)
        report = verify_file(file, runtime if sms is None else runtime.on_gpu(sms), ranks=ranks, protocol=protocol)
    say({**report.to_dict(), "strict": strict} if as_json else report.summary(strict))
    if not (report.strict_ok if strict else report.ok):
        raise typer.Exit(VerificationError.exit_code)
