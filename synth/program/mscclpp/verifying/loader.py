"""Whether the MSCCL++ executor loads a plan: everything that it throws on or dies of, at every size or at some.

Sources: microsoft/mscclpp 0.9.0 src/core/executor/execution_plan.cc (checkMessageSize, getSizeAndChunks, calcOffset)
and src/core/executor/executor.cc (setupDeviceExecutionPlan).
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from synth.program.mscclpp.model import (
    MSCCLPP_LIMITS,
    MscclppDraft,
    MscclppGpu,
    MscclppLimits,
    flat_ops,
    message_chunks,
)
from synth.program.mscclpp.reader import parse_plan


def loader_faults(plan: object, limits: MscclppLimits = MSCCLPP_LIMITS) -> list[str]:
    """Everything for which the 0.9 executor refuses a plan.

    Parameters
    ----------
    plan
        The JSON object, or a draft.
    limits
        The executor's limits.

    Returns
    -------
    list of str
        One message per fault; empty when every rank loads the plan at every size of its range that is a multiple of
        ``size_step``.
    """
    if isinstance(plan, MscclppDraft):
        return draft_faults(plan, limits)
    draft, faults = parse_plan(plan)
    return faults if draft is None else draft_faults(draft, limits)


def draft_faults(draft: MscclppDraft, limits: MscclppLimits = MSCCLPP_LIMITS) -> list[str]:
    """:func:`loader_faults` of a plan whose keys and types are right."""
    faults = [] if draft.gpus else ["gpus is empty"]
    if draft.buffer_alignment <= 0:
        faults.append(f"buffer_alignment {draft.buffer_alignment}: integer division by zero")
    for rank, gpu in enumerate(draft.gpus):
        faults += _gpu_faults(draft, rank, gpu, limits)
    if not faults:
        faults += _size_faults(draft)
    return faults


def size_step(draft: MscclppDraft) -> int:
    """Bytes of which every message size must be a multiple: chunks times alignment, on every rank.

    The executor wants (size / alignment) % chunks == 0 for the input and for the output.
    """
    return draft.buffer_alignment * math.lcm(*(message_chunks(draft, gpu) for gpu in draft.gpus))


def valid_sizes(draft: MscclppDraft, size: int) -> tuple[int, int]:
    """Nearest message sizes that the executor takes, at or below and at or above a size (0 when there is none)."""
    step = size_step(draft)
    first = max(step, -(-draft.min_message_size // step) * step)
    last = draft.max_message_size // step * step
    below, above = min(size // step * step, last), max(-(-size // step) * step, first)
    return (below if below >= first else 0), (above if above <= last else 0)


def _gpu_faults(draft: MscclppDraft, rank: int, gpu: MscclppGpu, limits: MscclppLimits) -> Iterator[str]:
    at = f"gpus[{rank}]"
    if gpu.id != rank:
        yield f"{at}: id {gpu.id} is not its position: GPU rank does not match"
    for key in ("input_chunks", "output_chunks"):
        if getattr(gpu, key) <= 0:
            yield f"{at}: {key} is {getattr(gpu, key)}: integer division by zero kills the process"
    if gpu.scratch_chunks < 0:
        yield f"{at}: scratch_chunks is {gpu.scratch_chunks}"
    yield from _ratio_faults(draft, at, gpu)
    for block in gpu.blocks:
        ops = flat_ops(block.ops)
        if len(ops) > limits.max_ops:
            yield f"{at} block {block.id}: {len(ops)} operations, at most {limits.max_ops} are supported"
        if any(part.size <= 0 for op in ops for part in (*op.src, *op.dst)):
            yield f"{at} block {block.id}: a slice of no chunks: integer division by zero kills the process"
        if any(op.tbg is not None and op.tbg[1] <= 0 for op in ops):
            yield f"{at} block {block.id}: tbg_size below 1: integer division by zero kills the process"
        if any(op.iter_context is not None and op.iter_context[0] <= 0 for op in ops):
            yield f"{at} block {block.id}: unit_size below 1: integer division by zero kills the process"


def _ratio_faults(draft: MscclppDraft, at: str, gpu: MscclppGpu) -> Iterator[str]:
    """Sizes per chunk must agree; the ratio of the sizes is the collective's."""
    n = len(draft.gpus)
    into, out = {"allgather": (1, n), "reducescatter": (n, 1)}.get(draft.collective, (1, 1))
    known = ("allgather", "reducescatter", "allreduce", "alltoall", "broadcast", "reduce")
    if draft.collective in known and gpu.input_chunks * out != gpu.output_chunks * into:
        yield (
            f"{at}: Size per chunks inconsistent: {draft.collective} of {n} ranks with {gpu.input_chunks} input and "
            f"{gpu.output_chunks} output chunks"
        )


def _size_faults(draft: MscclppDraft) -> list[str]:
    if draft.min_message_size > draft.max_message_size:
        return [f"min_message_size {draft.min_message_size} is above max_message_size {draft.max_message_size}"]
    step = size_step(draft)
    if draft.max_message_size // step * step < max(step, draft.min_message_size):
        return [
            f"no size from {draft.min_message_size} to {draft.max_message_size} bytes is a multiple of {step} "
            f"(chunks x alignment): Input or output size is not aligned with buffer alignment or chunks"
        ]
    return []
