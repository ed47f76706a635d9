"""A draft prepared for execution: nops merged, waits resolved, one address space per rank."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from synth.program.model import Draft, GpuProgram, ThreadBlock
from synth.program.opcodes import READS_DST, READS_SRC, RECEIVES, SENDS, USES_DST, WRITES_DST, place
from synth.program.semantics import Layout, layout
from synth.program.structure import signal_values

# (rank, block id, awaited number) to (unit index, op index).
_Wait = Callable[[int, int, int], tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Op:
    """One real step.

    Attributes
    ----------
    step
        Index in the thread block as written.
    src, dst
        Addresses in the rank's memory, -1 when that side is not used.
    waits
        (block index, op index) pairs that must have completed in the same iteration.
    """

    kind: str
    step: int
    src: int
    dst: int
    cnt: int
    waits: tuple[tuple[int, int], ...]
    receives: bool
    sends: bool

    @property
    def accesses(self) -> Iterator[tuple[int, bool]]:
        """(address of the first chunk, whether it is written), reads first."""
        if self.kind in READS_SRC:
            yield self.src, False
        if self.kind in READS_DST:
            yield self.dst, False
        if self.kind in WRITES_DST:
            yield self.dst, True


@dataclass(frozen=True, slots=True)
class Unit:
    """One thread block; ``inbound`` and ``outbound`` are connection indices or -1."""

    rank: int
    block: int
    inbound: int
    outbound: int
    ops: tuple[Op, ...]

    def name(self, op: int) -> str:
        """Place of an op in messages."""
        return place(self.rank, self.block, self.ops[op].step) if op < len(self.ops) else f"g{self.rank}.tb{self.block}"


@dataclass(frozen=True, slots=True)
class Image:
    """The whole program for one mode (in place or not).

    Attributes
    ----------
    units
        Thread blocks, ordered by rank and then as in the file.
    sender, receiver
        Unit index at each end, per connection.
    layouts
        Address space per rank.
    """

    units: tuple[Unit, ...]
    sender: tuple[int, ...]
    receiver: tuple[int, ...]
    layouts: tuple[Layout, ...]

    def chunk(self, rank: int, address: int) -> str:
        """Name of a chunk, for example ``g1.s[0]``."""
        at = self.layouts[rank]
        buffers = sorted(((at.s, "s"), (at.o, "o"), (at.i, "i")))
        start, name = next((start, name) for start, name in reversed(buffers) if start <= address)
        return f"g{rank}.{name}[{address - start}]"


def build_image(draft: Draft, inplace: bool) -> Image:
    """Prepare a draft that has no structural faults."""
    gpus = sorted(draft.gpus, key=lambda gpu: gpu.id)
    blocks = [(gpu, block) for gpu in gpus for block in gpu.blocks]
    index = {(gpu.id, block.id): i for i, (gpu, block) in enumerate(blocks)}
    ends = {(gpu.id, block.send, block.chan): i for i, (gpu, block) in enumerate(blocks) if block.send >= 0}
    connections = {key: k for k, key in enumerate(sorted(ends))}
    sources = {(block.recv, gpu.id, block.chan): i for i, (gpu, block) in enumerate(blocks) if block.recv >= 0}
    layouts = tuple(layout(draft.semantics, gpu, inplace) for gpu in gpus)
    signals = {(gpu.id, block.id): signal_values(block) for gpu, block in blocks}
    real = {key: _real_index(block) for key, (_, block) in zip(index, blocks, strict=True)}

    def wait(rank: int, block: int, value: int) -> tuple[int, int]:
        step = next(step for step, number in signals[rank, block] if number >= value)
        return index[rank, block], real[rank, block][step]

    units = []
    for gpu, block in blocks:
        ops = tuple(_ops(gpu, block, layouts[gpu.id], wait))
        inbound = connections.get((block.recv, gpu.id, block.chan), -1)
        units.append(Unit(gpu.id, block.id, inbound, connections.get((gpu.id, block.send, block.chan), -1), ops))
    order = sorted(ends)
    return Image(tuple(units), tuple(ends[key] for key in order), tuple(sources[key] for key in order), layouts)


def _real_index(block: ThreadBlock) -> dict[int, int]:
    steps = [i for i, step in enumerate(block.steps) if step.type != "nop"]
    return {step: op for op, step in enumerate(steps)}


def _ops(gpu: GpuProgram, block: ThreadBlock, at: Layout, wait: _Wait) -> Iterator[Op]:
    pending: list[tuple[int, int]] = []
    for index, step in enumerate(block.steps):
        if step.depid >= 0:
            pending.append(wait(gpu.id, step.depid, step.deps))
        if step.type == "nop":
            continue
        src = at.at(step.srcbuf, step.srcoff) if step.type in READS_SRC else -1
        dst = at.at(step.dstbuf, step.dstoff) if step.type in USES_DST else -1
        yield Op(step.type, index, src, dst, step.cnt, tuple(pending), step.type in RECEIVES, step.type in SENDS)
        pending = []


def overlap_faults(image: Image) -> list[str]:
    """Find steps that read and write overlapping chunks: their result depends on how the runtime splits messages."""
    faults = []
    for unit in image.units:
        for i, op in enumerate(unit.ops):
            if op.src < 0 or op.dst < 0 or abs(op.src - op.dst) >= op.cnt:
                continue
            if op.src != op.dst or op.kind == "re":
                chunks = f"{image.chunk(unit.rank, op.src)} and {image.chunk(unit.rank, op.dst)}, {op.cnt} chunks each"
                faults.append(f"{unit.name(i)}: {op.kind} reads and writes overlapping chunks ({chunks})")
    return faults
