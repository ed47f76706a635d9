"""Thread blocks while they are filled: operations, waits by what is read, and their numbering at the end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Literal

from synth.program.msccl.model import Buffer, Step, StepType, ThreadBlock

Place = tuple[Buffer, int]
Direction = Literal["recv", "copy", "send"]
# Order of block ids on a GPU: blocks that others wait for come first, because only ids 0..127 can be waited for.
DIRECTIONS: tuple[Direction, ...] = ("recv", "copy", "send")


@dataclass(frozen=True, slots=True)
class BlockKey:
    """Identity of a thread block on a GPU before it has a number."""

    direction: Direction
    peer: int
    chan: int


@dataclass(frozen=True, slots=True)
class Op:
    """A step whose waits are not yet numbered: ``waits`` are (block, position of the op in it)."""

    type: StepType
    src: Place
    dst: Place
    count: int
    waits: tuple[tuple[BlockKey, int], ...] = ()


@dataclass
class RankBlocks:
    """Blocks of one rank; every op is appended in an order in which all of them could run one after the other."""

    ops: dict[BlockKey, list[Op]] = field(default_factory=dict)
    writer: dict[Place, tuple[BlockKey, int]] = field(default_factory=dict)
    scratch: int = 0

    def add(
        self,
        key: BlockKey,
        kind: StepType,
        src: Place,
        dst: Place,
        count: int,
        *,
        reads: Sequence[Place] = (),
        writes: Place | None = None,
    ) -> None:
        """Append an op; it waits for the last writers, in other blocks, of all the chunks that it reads."""
        waits: dict[BlockKey, int] = {}
        for buffer, first in reads:
            for chunk in range(first, first + count):
                known = self.writer.get((buffer, chunk))
                if known is not None and known[0] != key:
                    waits[known[0]] = max(waits.get(known[0], -1), known[1])
        ops = self.ops.setdefault(key, [])
        if writes is not None:
            for chunk in range(writes[1], writes[1] + count):
                self.writer[writes[0], chunk] = (key, len(ops))
        ops.append(Op(kind, src, dst, count, tuple(waits.items())))

    def reserve(self, count: int) -> Place:
        """Fresh scratch chunks."""
        place: Place = ("s", self.scratch)
        self.scratch += count
        return place

    def numbered(self) -> tuple[ThreadBlock, ...]:
        """Number the blocks, turn waits into step numbers, and several waits of one step into no-ops before it."""
        keys = sorted(self.ops, key=lambda key: (DIRECTIONS.index(key.direction), key.peer, key.chan))
        number = {key: k for k, key in enumerate(keys)}
        position = {key: _positions(self.ops[key]) for key in keys}
        waited = {wait for key in keys for op in self.ops[key] for wait in op.waits}
        blocks = []
        for key in keys:
            steps: list[Step] = []
            for k, op in enumerate(self.ops[key]):
                waits = sorted((number[block], position[block][at]) for block, at in op.waits)
                steps += _steps(op, waits, (key, k) in waited)
            send = key.peer if key.direction == "send" else -1
            recv = key.peer if key.direction == "recv" else -1
            chan = 0 if key.direction == "copy" else key.chan
            blocks.append(ThreadBlock(number[key], send, recv, chan, tuple(steps)))
        return tuple(blocks)


def _positions(ops: list[Op]) -> list[int]:
    """Step number of each op when every wait but the last takes a no-op of its own."""
    extra = list(accumulate(max(0, len(op.waits) - 1) for op in ops))
    return [k + before for k, before in enumerate(extra)]


def _steps(op: Op, waits: list[tuple[int, int]], waited: bool) -> list[Step]:
    steps = [Step("nop", "i", -1, "o", -1, 0, block, step) for block, step in waits[:-1]]
    depid, deps = waits[-1] if waits else (-1, -1)
    steps.append(Step(op.type, op.src[0], op.src[1], op.dst[0], op.dst[1], op.count, depid, deps, waited))
    return steps
