"""Verification of a draft: limits, structure, deadlocks, data, races."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from synth.program.meaning.report import Report
from synth.program.meaning.semantics import IN_PLACE, ROOTED, Semantics, semantics_faults
from synth.program.msccl.columns import Columns, columns
from synth.program.msccl.limits.check import launch_faults, limit_items, unaddressable
from synth.program.msccl.model import Draft
from synth.program.msccl.selection import selection_of
from synth.program.msccl.targets import MSCCL, Target
from synth.program.msccl.verifying.contents import execute
from synth.program.msccl.verifying.data import check_mode
from synth.program.msccl.verifying.deadlocks import (
    chunks_per_message,
    deadlock_free_max_bytes,
    largest_size,
    range_limit,
)
from synth.program.msccl.verifying.image import Image, build_image
from synth.program.msccl.verifying.outputs import infer_root
from synth.program.msccl.verifying.replay import Run, replay
from synth.program.msccl.verifying.structure import structure_faults, type_faults

__all__ = ["chunks_per_message", "deadlock_free_max_bytes", "verify"]


def verify(
    draft: Draft, target: Target = MSCCL, *, ranks: int | None = None, depth: int | None = None, iterations: int = 2
) -> Report:
    """Check everything that can be checked about a draft.

    Parameters
    ----------
    draft
        A program as written, for example from ``read_xml``.
    target
        The runtime that would execute it.
    ranks
        Number of ranks of the job; a file for another number is refused before anything else.
    depth
        FIFO messages per connection; None means the target's number for the draft's protocol.
    iterations
        Loop iterations to replay.

    Returns
    -------
    Report
        Never raises for a faulty draft.

    Raises
    ------
    ValueError
        When ``depth`` or ``iterations`` is below 1.
    TypeError
        When ``draft`` is no Draft at all.
    """
    if type(draft) is not Draft or type(draft.semantics) is not Semantics:
        raise TypeError(f"expected a Draft, got {type(draft).__name__}")
    if iterations < 1 or (depth is not None and depth < 1):
        raise ValueError(f"depth={depth} and iterations={iterations} must be at least 1")
    if ranks is not None and ranks != draft.semantics.ngpus:
        return _report(
            draft, target, structure=(f"the program is for {draft.semantics.ngpus} ranks, the job has {ranks}",)
        )
    wrong = tuple(type_faults(draft)) or tuple(semantics_faults(draft.semantics))
    if wrong:
        return _report(draft, target, structure=wrong)
    return _static(draft, target, _sized(draft, target, depth), iterations)


def _static(draft: Draft, target: Target, report: Report, iterations: int) -> Report:
    table = columns(draft)
    structure = tuple(structure_faults(draft, table))
    items = limit_items(draft, target, table)
    refused = tuple(text for refuses, text in items if refuses)
    rules = selection_of(draft, target)
    report = replace(
        report,
        served_bytes=None if rules.never else rules.size_range,
        count_multiple=rules.rule.multiple,
        accepted=not refused,
        reject_reasons=refused,
        launch_reasons=tuple(launch_faults(draft, target, table)),
        hazards=(*(text for refuses, text in items if not refuses), *structure),
        limits=tuple(text for _, text in items),
        structure=structure,
    )
    report = replace(report, warnings=tuple(_warnings(draft, target)))
    return report if structure or unaddressable(draft, target) else _run(draft, target, report, iterations, table)


def _warnings(draft: Draft, target: Target) -> Iterator[str]:
    collective = draft.semantics.collective
    if draft.inplace and draft.outofplace and not target.reads_outofplace:
        yield f"{target.name} runs this only in place: it does not read outofplace"
    if draft.proto == "Simple" and collective in target.simple_hangs_between_hosts:
        yield f"{target.name} may hang in a {collective} over Simple between hosts; LL and LL128 do not"


def _report(draft: Draft, target: Target, structure: tuple[str, ...]) -> Report:
    claim = draft.semantics
    return Report(str(draft.name), str(claim.collective), target.name, claim.ngpus, structure=structure)


def _sized(draft: Draft, target: Target, depth: int | None) -> Report:
    blocks = [block for gpu in draft.gpus for block in gpu.blocks]
    protocol = target.protocol(draft.proto)
    per_message = chunks_per_message(draft, target)
    return replace(
        _report(draft, target, ()),
        root=draft.semantics.root,
        steps=sum(len(block.steps) for block in blocks),
        blocks=len(blocks),
        scratch_chunks=max((gpu.s_chunks for gpu in draft.gpus), default=0),
        fifo_depth=depth or (protocol.depth if protocol else 2),
        # A file that no size selects cannot hang by its size: it is run as at the smallest of messages.
        chunks_per_message=target.max_count if selection_of(draft, target).size_range is None else per_message,
    )


def _run(draft: Draft, target: Target, report: Report, iterations: int, table: Columns) -> Report:
    claim = draft.semantics
    in_place = draft.inplace and claim.collective in (*IN_PLACE, "custom")
    modes = [mode for mode, on in ((True, in_place), (False, draft.outofplace or not draft.inplace)) if on]
    if not modes:
        return report
    images = {mode: build_image(draft, mode, table) for mode in modes}
    image, limit = images[modes[0]], range_limit(draft, target)
    run = replay(image, report.fifo_depth, report.chunks_per_message, iterations)
    if run.cycle:
        size = largest_size(draft, target, image, report.fifo_depth, limit)
        text = _deadlock(image, report, run, iterations)
        return replace(report, deadlocks=(text,), deadlock_free_max_bytes=size)
    report = replace(report, deadlock_free_max_bytes=limit)
    if claim.collective == "custom":
        report = replace(report, warnings=(*report.warnings, "coll custom without semantics: data not checked"))
    if claim.collective in ROOTED and claim.root is None:
        claim = replace(claim, root=infer_root(image, claim, execute(image, claim, run.order)))
        note = f"the file names no root; it fits rank {claim.root} only"
        report = replace(report, root=claim.root, warnings=(*report.warnings, note))
    for mode, image in images.items():
        report = check_mode(report, image, claim, run.order, "in place" if mode else "out of place")
    return report


def _deadlock(image: Image, report: Report, run: Run, iterations: int) -> str:
    free = replay(image, None, report.chunks_per_message, iterations)
    sizes = f"FIFO depth {report.fifo_depth}, {report.chunks_per_message} chunks per message"
    hint = "at any FIFO depth" if free.cycle else "depth-dependent, passes with deeper FIFOs"
    return f"deadlock ({sizes}; {hint}): {run.cycle}"
