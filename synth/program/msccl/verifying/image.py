"""A draft prepared for execution: nops merged, waits resolved, one address space per rank, all as columns."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from synth.program.meaning.semantics import Layout, layout
from synth.program.msccl.columns import Columns, Flags, Ints, columns, resolve_waits
from synth.program.msccl.model import Draft
from synth.program.msccl.opcodes import READS_DST, READS_SRC, RECEIVES, SENDS, STEP_ORDER, USES_DST, WRITES_DST, place


@dataclass(frozen=True, slots=True, eq=False)
class Image:
    """The whole program for one mode (in place or not).

    A unit is a thread block, an op a real step; units are ordered by rank and then as in the file, ops by unit and then
    as in the block.

    Attributes
    ----------
    rank, block_id
        Of each unit.
    inbound, outbound
        Connection of each unit, or -1.
    first
        First op of each unit, and the number of ops at the end.
    unit, kind, step
        Of each op: its unit, its code in ``STEP_ORDER``, and its index in the thread block as written.
    src, dst
        Addresses in the rank's memory, -1 when that side is not used.
    wait_first, wait
        The ops that must have completed in the same iteration before op ``k``: ``wait[wait_first[k]:wait_first[k+1]]``.
    sender, receiver
        Unit at each end, per connection.
    layouts
        Address space per rank.
    """

    rank: Ints
    block_id: Ints
    inbound: Ints
    outbound: Ints
    first: Ints
    unit: Ints
    kind: Ints
    step: Ints
    src: Ints
    dst: Ints
    cnt: Ints
    receives: Flags
    sends: Flags
    wait_first: Ints
    wait: Ints
    sender: Ints
    receiver: Ints
    layouts: tuple[Layout, ...]

    @property
    def units(self) -> int:
        """Number of thread blocks."""
        return len(self.rank)

    @property
    def ops(self) -> int:
        """Number of real steps."""
        return len(self.kind)

    def name(self, op: int) -> str:
        """Place of an op in messages."""
        unit = self.unit[op]
        return place(int(self.rank[unit]), int(self.block_id[unit]), int(self.step[op]))

    def kind_name(self, op: int) -> str:
        """Type of an op."""
        return STEP_ORDER[self.kind[op]]

    def chunk(self, rank: int, address: int) -> str:
        """Name of a chunk, for example ``g1.s[0]``."""
        at = self.layouts[rank]
        buffers = sorted(((at.s, "s"), (at.o, "o"), (at.i, "i")))
        start, name = next((start, name) for start, name in reversed(buffers) if start <= address)
        return f"g{rank}.{name}[{address - start}]"

    def accesses(self) -> tuple[Ints, Ints, Flags]:
        """(op, address of its first chunk, whether it is written) of every access; in an op, reads come first."""
        parts = [
            (np.flatnonzero(np.isin(self.kind, [STEP_ORDER.index(k) for k in kinds])), addresses, writes)
            for kinds, addresses, writes in (
                (READS_SRC, self.src, False),
                (READS_DST, self.dst, False),
                (WRITES_DST, self.dst, True),
            )
        ]
        ops = np.concatenate([at for at, _, _ in parts])
        addresses = np.concatenate([addresses[at] for at, addresses, _ in parts])
        writes = np.concatenate([np.full(len(at), flag) for at, _, flag in parts])
        return ops, addresses, writes


def build_image(draft: Draft, inplace: bool, table: Columns | None = None) -> Image:
    """Prepare a draft that has no structural faults.

    Parameters
    ----------
    draft
        The program.
    inplace
        Whether the caller passes one buffer for both sides.
    table
        The draft's columns, when they are at hand.
    """
    ordered = tuple(sorted(draft.gpus, key=lambda gpu: gpu.id))
    if ordered != draft.gpus:
        draft, table = replace(draft, gpus=ordered), None
    table = columns(draft) if table is None else table
    sizes = [(gpu.id, (gpu.i_chunks, gpu.o_chunks, gpu.s_chunks)) for gpu in draft.gpus]
    layouts = tuple(layout(draft.semantics, rank, size, inplace) for rank, size in sizes)
    real = np.flatnonzero(~table.are(("nop",)))
    wait_first, wait = _waits(table, real)
    inbound, outbound, sender, receiver = _connections(table)
    return Image(
        rank=table.gpu,
        block_id=table.per_block("id"),
        inbound=inbound,
        outbound=outbound,
        first=np.searchsorted(real, table.first),
        unit=table.block[real],
        kind=table.kind[real],
        step=table.index[real],
        src=_addresses(table, layouts, table.srcbuf, table.srcoff, table.are(READS_SRC))[real],
        dst=_addresses(table, layouts, table.dstbuf, table.dstoff, table.are(USES_DST))[real],
        cnt=table.cnt[real],
        receives=table.are(RECEIVES)[real],
        sends=table.are(SENDS)[real],
        wait_first=wait_first,
        wait=wait,
        sender=sender,
        receiver=receiver,
        layouts=layouts,
    )


def _waits(table: Columns, real: Ints) -> tuple[Ints, Ints]:
    """Waits per op; those that nops carry join the next real step, and are lost when there is none."""
    waits = resolve_waits(table)
    op = np.searchsorted(real, waits.step)
    reached = op < len(real)
    reached[reached] = table.block[real[op[reached]]] == table.block[waits.step[reached]]
    op = op[reached]
    first = np.searchsorted(op, np.arange(len(real) + 1))
    return first, np.searchsorted(real, waits.signal[reached])


def _connections(table: Columns) -> tuple[Ints, Ints, Ints, Ints]:
    """Connection of each unit on both sides, and the units at both ends of each connection."""
    rank, send, recv, chan = table.gpu.tolist(), *(table.per_block(name).tolist() for name in ("send", "recv", "chan"))
    ends = {(rank[u], send[u], chan[u]): u for u in range(len(rank)) if send[u] >= 0}
    sources = {(recv[u], rank[u], chan[u]): u for u in range(len(rank)) if recv[u] >= 0}
    number = {key: k for k, key in enumerate(sorted(ends))}
    inbound = [number.get((recv[u], rank[u], chan[u]), -1) for u in range(len(rank))]
    outbound = [number.get((rank[u], send[u], chan[u]), -1) for u in range(len(rank))]
    sender, receiver = [ends[key] for key in number], [sources[key] for key in number]
    return _array(inbound), _array(outbound), _array(sender), _array(receiver)


def _array(values: list[int]) -> Ints:
    return np.array(values, dtype=np.int64)


def _addresses(table: Columns, layouts: tuple[Layout, ...], buffer: Ints, offset: Ints, used: Flags) -> Ints:
    if not layouts:
        return np.zeros(len(table), dtype=np.int64)
    starts = np.array([[at.i, at.o, at.s, 0] for at in layouts], dtype=np.int64)
    return np.where(used, starts[table.gpu[table.block], buffer] + offset, -1)


def overlapping_ops(image: Image) -> list[int]:
    """Find steps that read and write overlapping chunks: their result depends on how the runtime splits messages."""
    near = (image.src >= 0) & (image.dst >= 0) & (np.abs(image.src - image.dst) < image.cnt)
    near &= (image.src != image.dst) | (image.kind == STEP_ORDER.index("re"))
    found: list[int] = np.flatnonzero(near).tolist()
    return found


def overlap_text(image: Image, op: int) -> str:
    """One such step in words."""
    rank = int(image.rank[image.unit[op]])
    ends = f"{image.chunk(rank, int(image.src[op]))} and {image.chunk(rank, int(image.dst[op]))}"
    detail = f"{ends}, {image.cnt[op]} chunks each"
    return f"{image.name(op)}: {image.kind_name(op)} reads and writes overlapping chunks ({detail})"
