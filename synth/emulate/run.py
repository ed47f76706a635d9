"""Run a program on real memory and compare what comes out with numpy."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from synth.emulate.build import Built, build_job
from synth.emulate.call import Call, make_call
from synth.emulate.check import Verdict, changed, compare
from synth.emulate.collective import result, sides_of
from synth.emulate.hang import describe_hang
from synth.emulate.host import run_job, shared_memory
from synth.emulate.machine.job import Control, elements_of, memory_size
from synth.emulate.report import Connection, RunReport
from synth.emulate.values import unwritten
from synth.errors import InvalidInputError, LimitReachedError, VerificationError
from synth.program.msccl.model import Draft
from synth.program.msccl.selection import Selection
from synth.program.msccl.targets import MSCCL, Target

Array = NDArray[Any]
# Per root that the result could have (None: there is no root): what every rank must end up with.
Wanted = list[tuple[int | None, list[Array | None]]]

_FILLERS: Final = 4


def run_program(
    draft: Draft,
    size: int,
    *,
    inplace: bool | None = None,
    dtype: str = "float32",
    op: str = "sum",
    timeout: float = 60.0,
    target: Target = MSCCL,
    depth: int | None = None,
    inputs: Sequence[Array] | None = None,
    selection: Selection | None = None,
    check: bool = True,
) -> RunReport:
    """Execute a draft with one process per rank and compare its outputs with numpy's result of the collective.

    Parameters
    ----------
    draft
        Any program, verified or not.
    size
        nccl-tests size, bytes: the buffer of the larger side. Its elements must divide by the program's chunks.
    inplace
        One buffer for both sides? None: out of place where the program has that mode.
    dtype, op
        One of ``synth.emulate.values.DTYPES``; sum, prod, min or max.
    timeout
        Seconds for the ranks. A hang is found at once, not by this limit.
    target, depth
        The runtime whose protocol table applies, and another FIFO depth than the one it says.
    inputs
        Per rank its contribution, instead of numbers that reduce without rounding.
    selection
        Which calls the runtime gives to the program (default: judged from the draft).
    check
        Whether faults are raised; else they are in the report.

    Returns
    -------
    RunReport

    Raises
    ------
    InvalidInputError
        Size, type, operation, mode or inputs do not fit the program.
    VerificationError
        The program hangs, cannot start, or its numbers are wrong (with ``check``).
    LimitReachedError
        The time is up while it still moves, or the system refuses memory or processes.

    Examples
    --------
    >>> import synth
    >>> from synth.emulate import run_program
    >>> draft = synth.synthesize("ring:4", "allreduce", "1 MB").program.draft
    >>> run_program(draft, 1 << 20).ok
    True
    """
    call = make_call(
        draft,
        size,
        inplace=inplace,
        dtype=dtype,
        op=op,
        timeout=timeout,
        target=target,
        depth=depth,
        inputs=inputs,
        selection=selection,
    )
    try:
        report = _execute(call)
    except VerificationError as error:
        report = replace(_report(call), faults=error.faults)
    if check and not report.ok:
        raise VerificationError(report.faults)
    return report


def _execute(call: Call) -> RunReport:
    built = build_job(call.draft, call.cut, call.dtype, call.op, call.inplace, call.timeout)
    with shared_memory(memory_size(built.job)) as (mapping, memory):
        elements, control = elements_of(mapping, built.job), Control.of(mapping, built.job)
        _fill(call, built, elements)
        wanted = _wanted(call, built, elements)
        outcome = run_job(built.job, memory)
        report = _report(call, built, control, outcome["wall_s"])
        faults = _trouble(call, built, control, outcome)
        if faults:
            return replace(report, faults=faults)
        return _judge(call, built, elements, wanted, report)


def _input_of(call: Call, built: Built, elements: Array, rank: int) -> Array:
    start = built.places[rank].starts["i"]
    return elements[start : start + call.counts[rank]]


def _fill(call: Call, built: Built, elements: Array) -> None:
    """Inputs in place, and everywhere else what tells that nobody wrote there."""
    ranks = range(len(built.places))
    starts = [min(place.starts.values()) for place in built.places]
    ends = [*starts[1:], min((ring.base for ring in built.job.rings), default=elements.size)]

    def fill(rank: int) -> None:
        elements[starts[rank] : ends[rank]] = unwritten(call.dtype)
        call.write(rank, _input_of(call, built, elements, rank))

    # The first touch of memory is slow and happens outside the interpreter's lock.
    with ThreadPoolExecutor(min(_FILLERS, os.cpu_count() or 1)) as pool:
        list(pool.map(fill, ranks))


def _wanted(call: Call, built: Built, elements: Array) -> Wanted:
    """Numpy's result, taken before the run, which may overwrite the inputs."""
    claim = call.draft.semantics
    inputs = [_input_of(call, built, elements, rank) for rank in range(claim.ngpus)]
    rootless = claim.collective in ("broadcast", "reduce") and claim.root is None
    roots = (claim.members or range(claim.ngpus)) if rootless else (claim.root,)
    with np.errstate(all="ignore"):
        return [(root, result(replace(claim, root=root), inputs, call.cut.chunk, call.op)) for root in roots]


def _trouble(call: Call, built: Built, control: Control, outcome: dict[str, Any]) -> tuple[str, ...]:
    """Why the program did not end as it should; what is no fault of the program is raised."""
    kind = outcome["outcome"]
    if kind == "hang":
        return (describe_hang(call.draft, built, control, call.cut.depth),)
    if kind == "fault":
        return (f"rank {outcome['rank']}: {outcome['text']}",)
    if kind == "died":
        raise LimitReachedError(f"the process of rank {outcome['rank']} was ended by {outcome['text']}")
    if kind == "timeout":
        total = built.job.iterations * sum(len(block.ops) for blocks in built.job.ranks for block in blocks)
        done = int(control.steps.sum())
        raise LimitReachedError(f"still running after {call.timeout:g} s: {done} of {total} steps done")
    left = control.put - control.got
    return tuple(
        f"{left[number]} messages are left over on g{src}->g{dst} channel {chan}: nobody receives them"
        for number, (src, dst, chan) in enumerate(built.keys)
        if left[number]
    )


def _judge(call: Call, built: Built, elements: Array, wanted: Wanted, report: RunReport) -> RunReport:
    """Compare what is in memory with numpy's result."""
    claim, outputs = call.draft.semantics, []
    for rank, place in enumerate(built.places):
        size = sides_of(claim, rank).wanted * call.cut.chunk
        outputs.append(elements[place.starts["o"] : place.starts["o"] + size])
    root, verdict = _verdict(call, outputs, wanted)
    notes = () if root == claim.root else (f"the file names no root; it fits rank {root} best",)
    return replace(
        report,
        root=root,
        max_difference=verdict.max_difference,
        faults=(*verdict.faults, *_overwritten(call, built, elements)),
        notes=(*report.notes, *notes),
    )


def _verdict(call: Call, outputs: Sequence[Array], wanted: Wanted) -> tuple[int | None, Verdict]:
    """Compare; where the file names no root, with the root that fits best."""
    best: tuple[int | None, Verdict] | None = None
    for root, arrays in wanted:
        verdict = compare(outputs, arrays, call.cut.chunk, call.rounding)
        if best is None or verdict.wrong < best[1].wrong:
            best = root, verdict
    if best is None:
        raise InvalidInputError("no rank takes part")
    return best


def _overwritten(call: Call, built: Built, elements: Array) -> list[str]:
    """Inputs that a call out of place has changed."""
    if call.inplace or call.draft.semantics.collective == "custom":
        return []
    faults: list[str] = []
    buffer = np.empty(max(call.counts, default=0), call.dtype)
    for rank, count in enumerate(call.counts):
        call.write(rank, buffer[:count])
        faults += changed(rank, buffer[:count], _input_of(call, built, elements, rank), call.cut.chunk)
    return faults


def _report(call: Call, built: Built | None = None, control: Control | None = None, wall: float = 0.0) -> RunReport:
    draft, claim, cut, item = call.draft, call.draft.semantics, call.cut, call.dtype.itemsize
    traffic: list[Connection] = []
    if built is not None and control is not None:
        for key, moved, put in zip(built.keys, control.moved.tolist(), control.put.tolist(), strict=True):
            traffic.append(Connection(*key, bytes=moved * item, messages=put))
    notes = []
    if claim.collective == "custom":
        notes.append("the file claims no meaning: data not checked")
    return RunReport(
        name=draft.name,
        collective=claim.collective,
        ranks=claim.ngpus,
        root=claim.root,
        inplace=call.inplace,
        size_bytes=call.size,
        dtype=str(call.dtype),
        op=call.op,
        chunk_bytes=cut.chunk * item,
        iterations=cut.iterations,
        chunks_per_message=cut.per_message,
        fifo_depth=cut.depth,
        blocks=sum(len(gpu.blocks) for gpu in draft.gpus),
        steps=0 if control is None else int(control.steps.sum()),
        checked=claim.collective != "custom",
        max_difference=0.0,
        connections=tuple(traffic),
        wall_s=wall,
        notes=tuple(notes),
        unserved=call.selection.at(call.size, item, call.inplace).reasons,
    )
