"""Verification of a draft: limits, structure, deadlocks, data, races."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce

import numpy as np

from synth.program.contents import UNDEFINED, Contents, describe_difference, execute
from synth.program.hazards import races
from synth.program.image import Image, build_image, overlap_faults
from synth.program.limits import limit_faults, unaddressable
from synth.program.model import Draft, Semantics
from synth.program.replay import Run, replay
from synth.program.report import Report
from synth.program.semantics import IN_PLACE, ROOTED, Tokens, expected_output, input_tokens, semantics_faults
from synth.program.structure import structure_faults, type_faults
from synth.program.targets import MSCCL, Target

_SHOWN = 12


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
    structure = tuple(structure_faults(draft))
    report = replace(report, limits=tuple(limit_faults(draft, target)), structure=structure)
    if draft.inplace and draft.outofplace and not target.reads_outofplace:
        report = replace(report, warnings=(f"{target.name} runs this only in place: it does not read outofplace",))
    return report if structure or unaddressable(draft, target) else _run(draft, report, iterations)


def _report(draft: Draft, target: Target, structure: tuple[str, ...]) -> Report:
    claim = draft.semantics
    return Report(str(draft.name), str(claim.collective), target.name, claim.ngpus, structure=structure)


def _sized(draft: Draft, target: Target, depth: int | None) -> Report:
    blocks = [block for gpu in draft.gpus for block in gpu.blocks]
    protocol = target.protocol(draft.proto)
    return replace(
        _report(draft, target, ()),
        root=draft.semantics.root,
        steps=sum(len(block.steps) for block in blocks),
        blocks=len(blocks),
        scratch_chunks=max((gpu.s_chunks for gpu in draft.gpus), default=0),
        fifo_depth=depth or (protocol.depth if protocol else 2),
        chunks_per_message=chunks_per_message(draft, target),
    )


def chunks_per_message(draft: Draft, target: Target) -> int:
    """Chunks that fit into one FIFO message at the draft's largest size, the hardest for deadlocks (formats.md 1.6)."""
    protocol = target.protocol(draft.proto)
    if protocol is None or draft.max_bytes <= 0:
        return 1
    chunk_bytes = -(-draft.max_bytes // draft.semantics.nchunks)
    return min(max(1, protocol.payload_bytes // chunk_bytes), target.max_count)


def deadlock_free_max_bytes(draft: Draft, target: Target, limit: int) -> int | None:
    """Largest maxBytes up to ``limit`` at which the draft does not hang.

    Parameters
    ----------
    draft
        A draft without structure faults; its own max_bytes is not used.
    limit
        Largest value to return, bytes.

    Returns
    -------
    int or None
        None when the program hangs at every size.

    Notes
    -----
    Hanging is monotone: with a step cut into more messages, every wait for a free slot only comes earlier.
    """
    protocol = target.protocol(draft.proto)
    if protocol is None or structure_faults(draft):
        return None
    image = build_image(draft, inplace=False)
    low, high = 1, target.max_count + 1
    while low < high:
        middle = (low + high) // 2
        if replay(image, protocol.depth, middle, 1).cycle:
            low = middle + 1
        else:
            high = middle
    if low > target.max_count:
        return None
    return limit if low == 1 else min(limit, protocol.payload_bytes // low * draft.semantics.nchunks)


def _run(draft: Draft, report: Report, iterations: int) -> Report:
    claim = draft.semantics
    in_place = draft.inplace and claim.collective in (*IN_PLACE, "custom")
    modes = [mode for mode, on in ((True, in_place), (False, draft.outofplace or not draft.inplace)) if on]
    if not modes:
        return report
    images = {mode: build_image(draft, mode) for mode in modes}
    run = replay(images[modes[0]], report.fifo_depth, report.chunks_per_message, iterations)
    if run.cycle:
        return replace(report, deadlocks=(_deadlock(images[modes[0]], report, run, iterations),))
    if claim.collective == "custom":
        report = replace(report, warnings=(*report.warnings, "coll custom without semantics: data not checked"))
    if claim.collective in ROOTED and claim.root is None:
        claim = replace(claim, root=_infer_root(images[modes[0]], claim, run))
        note = f"the file names no root; it fits rank {claim.root} only"
        report = replace(report, root=claim.root, warnings=(*report.warnings, note))
    for mode, image in images.items():
        report = _check_mode(report, image, claim, run, "in place" if mode else "out of place")
    return report


def _deadlock(image: Image, report: Report, run: Run, iterations: int) -> str:
    free = replay(image, None, report.chunks_per_message, iterations)
    sizes = f"FIFO depth {report.fifo_depth}, {report.chunks_per_message} chunks per message"
    hint = "at any FIFO depth" if free.cycle else "depth-dependent, passes with deeper FIFOs"
    return f"deadlock ({sizes}; {hint}): {run.cycle}"


def _check_mode(report: Report, image: Image, claim: Semantics, run: Run, mode: str) -> Report:
    overlaps = overlap_faults(image)
    contents = execute(image, claim, run.order)
    wrong, faults = _data_faults(image, claim, contents)
    defined = []
    for rank, at in enumerate(image.layouts):
        flags = np.zeros(at.total, dtype=np.bool_)
        flags[at.i : at.i + len(input_tokens(claim, rank))] = True
        defined.append(flags)
    unsafe = races(image, run.order, defined)
    warnings = list(report.warnings)
    if contents.input_written and mode == "out of place":
        u, op = contents.input_written[0]
        name = image.units[u].name(op)
        warnings.append(f"{len(contents.input_written)} steps write into an input buffer out of place, first {name}")
    return replace(
        report,
        modes=report.modes if claim.collective == "custom" else (*report.modes, mode),
        data=report.data + _labelled(mode, [*overlaps, *contents.faults, *faults]),
        races=report.races + _labelled(mode, unsafe),
        warnings=tuple(warnings),
        wrong_chunks=report.wrong_chunks + wrong,
    )


def _labelled(mode: str, faults: list[str]) -> tuple[str, ...]:
    shown = [f"{mode}: {fault}" for fault in faults[:_SHOWN]]
    hidden = len(faults) - len(shown)
    return (*shown, *([f"{mode}: and {hidden} more"] if hidden else []))


def _data_faults(image: Image, claim: Semantics, contents: Contents) -> tuple[int, list[str]]:
    """Count of wrong output chunks, and the first ones of each rank in words."""
    wrong, faults = 0, []
    for rank, at in enumerate(image.layouts):
        terms = expected_output(claim, rank)
        if not terms:
            continue
        want = _sum(contents, terms)
        have = contents.memory[rank][at.o : at.o + len(want)]
        bad = np.flatnonzero(want != have)
        wrong += bad.size
        for k in bad[:2].tolist():
            text = describe_difference(contents.sets, int(want[k]), int(have[k]), claim.nchunks)
            more = f" (and {bad.size - 2} more chunks of this rank)" if k == bad[:2][-1] and bad.size > 2 else ""
            faults.append(f"output chunk {k} of rank {rank} is wrong: {text}{more}")
    return int(wrong), faults


def _sum(contents: Contents, terms: tuple[Tokens, ...]) -> Tokens:
    return reduce(contents.sets.add, terms)


def _infer_root(image: Image, claim: Semantics, run: Run) -> int:
    """Root whose outputs agree best with what the program computes from everyone's inputs."""
    contents = execute(image, claim, run.order)
    scores = []
    for root in range(claim.ngpus):
        candidate = replace(claim, root=root)
        score = 0
        for rank, at in enumerate(image.layouts):
            terms = expected_output(candidate, rank)
            if terms:
                want = _sum(contents, terms)
                have = contents.memory[rank][at.o : at.o + len(want)]
                score += int(np.count_nonzero((want == have) & (have != UNDEFINED)))
        scores.append(score)
    return scores.index(max(scores))
