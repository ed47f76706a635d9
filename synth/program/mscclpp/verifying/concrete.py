"""A plan at one message size: operations as byte ranges, pipelines unrolled, then everything in equal cells.

Sources: microsoft/mscclpp 0.9.0 src/core/executor/execution_plan.cc (getOffset, calcOffset, calcSize), and the handlers
in src/core/include/execution_kernel.hpp.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from synth.program.mscclpp.model import (
    PUTS,
    SEMAPHORES,
    SIGNALS,
    SYNCS,
    WAITS,
    MscclppBlock,
    MscclppDraft,
    MscclppGpu,
    MscclppOp,
    Slice,
    message_chunks,
)
from synth.program.mscclpp.verifying.hazards import End, channel_ends

SUPPORTED = (*SYNCS, *SIGNALS, *WAITS, "put", "pws", "get", "copy", "flush", "re", "res", "rre", "rres", *SEMAPHORES)


@dataclass(frozen=True, slots=True)
class Range:
    """Part of a buffer of a rank; bytes at first, cells in the end."""

    rank: int
    buffer: str
    start: int
    size: int


@dataclass(frozen=True, slots=True)
class Move:
    """The sum of ``reads`` goes to every one of ``writes``; all have the same size."""

    reads: tuple[Range, ...]
    writes: tuple[Range, ...]


@dataclass(frozen=True, slots=True)
class Action:
    """One operation of a block in execution order.

    Attributes
    ----------
    kind
        sync, barrier, signal, wait, data, port (moves made by the proxy, one per end), acquire or release.
    index
        Position of the operation in the plan's block, for messages.
    name
        The operation's name in the plan.
    ends
        Channel ends of a signal, wait or port put; entry k is served by thread k.
    relaxed
        Whether the signal publishes no data.
    signals
        Whether a port put signals too.
    numbers
        (barrier id, blocks) or semaphore ids.
    """

    kind: str
    index: int
    name: str
    moves: tuple[Move, ...] = ()
    ends: tuple[End, ...] = ()
    relaxed: bool = False
    signals: bool = False
    numbers: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Concrete:
    """A plan at one size.

    Attributes
    ----------
    cells
        Cells per chunk; every range of every move is a whole number of cells.
    blocks
        Per rank and block, its actions.
    faults
        What goes wrong at this size whatever the order.
    unknown
        Operations that cannot be simulated.
    """

    chunk_bytes: int
    cells: int
    blocks: tuple[tuple[tuple[Action, ...], ...], ...]
    faults: tuple[str, ...]
    unknown: tuple[str, ...]


def concretise(draft: MscclppDraft, chunk_bytes: int) -> Concrete:
    """Unroll a plan for one size of a chunk (a multiple of the alignment)."""
    faults: dict[str, None] = {}
    unknown: dict[str, None] = {}
    blocks = tuple(
        tuple(tuple(_Unroller(draft, gpu, block, chunk_bytes, faults, unknown).actions()) for block in gpu.blocks)
        for gpu in draft.gpus
    )
    ranges = [r for gpu in blocks for block in gpu for a in block for m in a.moves for r in (*m.reads, *m.writes)]
    cell = math.gcd(chunk_bytes, *(value for r in ranges for value in (r.start, r.size)))
    scaled = tuple(tuple(tuple(_scaled(action, cell) for action in block) for block in gpu) for gpu in blocks)
    return Concrete(chunk_bytes, chunk_bytes // cell, scaled, tuple(faults), tuple(unknown))


def probe_sizes(draft: MscclppDraft) -> tuple[int, int]:
    """Two chunk sizes in bytes: the smallest in the range, and one that splits pipelines and block groups unevenly."""
    align = draft.buffer_alignment
    chunks = max(message_chunks(draft, gpu) for gpu in draft.gpus)
    smallest = max(1, -(-draft.min_message_size // (chunks * align))) * align
    largest = draft.max_message_size // (chunks * align) * align
    units = [op.iter_context[0] for g in draft.gpus for b in g.blocks for op in b.ops if op.iter_context]
    wanted = max([7 * align, *(-(-(5 * unit) // (2 * align)) * align for unit in units)])
    return smallest, max(smallest, min(largest, max(wanted, smallest + align)))


def _scaled(action: Action, cell: int) -> Action:
    if not action.moves:
        return action

    def cut(r: Range) -> Range:
        return Range(r.rank, r.buffer, r.start // cell, r.size // cell)

    moves = tuple(Move(tuple(map(cut, m.reads)), tuple(map(cut, m.writes))) for m in action.moves)
    fields = (action.ends, action.relaxed, action.signals, action.numbers)
    return Action(action.kind, action.index, action.name, moves, *fields)


def share(size: int, index: int, slices: int, alignment: int) -> int:
    """Offset of slice ``index`` of ``size`` bytes, as calcOffset computes it (its remainder rule included)."""
    units = size // alignment
    if not units:
        return 0
    least, rest = divmod(units, slices)
    return (index * least + min(index % units, rest)) * alignment


class _Unroller:
    """Actions of one block."""

    def __init__(
        self,
        draft: MscclppDraft,
        gpu: MscclppGpu,
        block: MscclppBlock,
        chunk_bytes: int,
        faults: dict[str, None],
        unknown: dict[str, None],
    ) -> None:
        self.draft, self.gpu, self.block, self.chunk_bytes = draft, gpu, block, chunk_bytes
        self.faults, self.unknown = faults, unknown
        ends = {kind: channel_ends(gpu, kind) for kind in ("memory", "port")}
        self.ends = {kind: [ends[kind][i] for i in block.channel_list(kind)] for kind in ends}

    def actions(self) -> Iterator[Action]:
        position = 0
        for op in self.block.ops:
            if op.name != "pipeline":
                yield from self.action(op, position)
                position += 1
                continue
            unit, chunks = op.iter_context or (1, 0)
            for turn in range(-(-chunks * self.chunk_bytes // unit)):
                for k, inner in enumerate(op.ops):
                    yield from self.action(inner, position + 1 + k, turn * unit, unit)
            position += 1 + len(op.ops)

    def action(self, op: MscclppOp, index: int, offset: int = 0, unit: int | None = None) -> Iterator[Action]:
        if op.name not in SUPPORTED:
            self.unknown.setdefault(op.name)
        elif op.name == "nop":
            yield Action("sync", index, op.name)
        elif op.name == "barrier":
            yield Action("barrier", index, op.name, numbers=(op.barrier_id or 0, op.num_threadblocks or 0))
        elif op.name in SEMAPHORES:
            yield Action(op.name.removeprefix("sem_"), index, op.name, numbers=op.semaphore_ids)
        elif op.name in (*SIGNALS, *WAITS):
            relaxed = op.name.startswith("rlx") and op.channel_type == "memory"  # port channels have no relaxed form
            yield Action(op.name.removeprefix("rlx"), index, op.name, (), self.op_ends(op), relaxed)
        elif op.name != "flush":
            self.check(op, index)
            moves = tuple(m for m in self.moves(op, offset, unit) if m.writes[0].size)
            if op.channel_type == "port" and op.name in PUTS:
                yield Action("port", index, op.name, moves, self.op_ends(op), signals=op.name == "pws")
            else:
                yield Action("data", index, op.name, moves)

    def check(self, op: MscclppOp, index: int) -> None:
        if self.draft.reuse_resources and any(part.type == "s" for part in (*op.src, *op.dst)):
            self.unknown.setdefault("scratch with reuse_resources")
        if op.name == "pws" and op.channel_type == "memory":
            self.faults.setdefault(
                f"rank {self.gpu.id} block {self.block.id} op {index}: pws signals on port channels only"
            )

    def op_ends(self, op: MscclppOp) -> tuple[End, ...]:
        return tuple(self.ends[op.channel_type or ""][i] for i in op.channel_ids)

    def moves(self, op: MscclppOp, offset: int, unit: int | None) -> Iterator[Move]:
        src = [self.range(op, part, offset, unit) for part in op.src]
        dst = [self.range(op, part, offset, unit) for part in op.dst]
        if op.name in PUTS:
            yield from (Move((a,), (b,)) for a, b in zip(src, dst, strict=True))
        elif op.name == "get":  # the executor adds the source's offset to the local buffer and vice versa
            for a, b in zip(src, dst, strict=True):
                yield Move((Range(a.rank, a.buffer, b.start, a.size),), (Range(b.rank, b.buffer, a.start, a.size),))
        elif op.name in ("re", "rre"):
            yield Move(tuple(src), (dst[0],))
        else:
            yield Move(tuple(src), tuple(dst))

    def range(self, op: MscclppOp, part: Slice, offset: int, unit: int | None) -> Range:
        rank, buffer = self.gpu.id, part.type or ""
        if part.buffer_id is not None:
            remote = self.gpu.remote_buffers[self.block.buffer_list(op.channel_type or "")[part.buffer_id]]
            rank, buffer = remote.rank, remote.type
        start, size = part.index * self.chunk_bytes, part.size * self.chunk_bytes
        if op.tbg is not None:
            k, n = op.tbg
            align = self.draft.buffer_alignment
            begin, end = share(size, k, n, align), share(size, k + 1, n, align)
            start, size = start + begin, end - begin
        if unit is None:
            return Range(rank, buffer, start, size)
        if offset > size:  # the kernel's 32-bit difference wraps around, and a whole unit is moved
            self.faults.setdefault(
                f"rank {self.gpu.id} block {self.block.id}: the pipeline runs past the slices of {op.name}"
            )
            return Range(rank, buffer, start, 0)
        return Range(rank, buffer, start + offset, min(size - offset, unit))
