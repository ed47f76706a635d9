"""The race check in its plain form, with a full vector clock per block: the oracle of the fast one.

Order comes from program order, waits, and messages from send to receive; not from back-pressure, which depends on the
FIFO's size. Messages are taken one chunk at a time, the weakest order that any message size gives. The method is
FastTrack's (Flanagan, Freund, PLDI 2009): epochs of the last accesses per chunk against vector clocks.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from synth.program.meaning.semantics import Layout
from synth.program.msccl.columns import Ints
from synth.program.msccl.opcodes import READS_DST, READS_SRC, WRITES_DST
from synth.program.msccl.verifying.image import Image

_Ints = NDArray[np.int32]
_Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Op:
    """One real step; ``waits`` are (unit, op index in it)."""

    kind: str
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


@dataclass(frozen=True)
class Unit:
    """One thread block."""

    rank: int
    inbound: int
    outbound: int
    first: int
    ops: tuple[Op, ...]
    image: Image

    def name(self, op: int) -> str:
        return self.image.name(self.first + op)


@dataclass(frozen=True)
class Program:
    """An image as objects."""

    units: tuple[Unit, ...]
    sender: tuple[int, ...]
    layouts: tuple[Layout, ...]
    image: Image

    def chunk(self, rank: int, address: int) -> str:
        return self.image.chunk(rank, address)


def objects(image: Image) -> Program:
    units = []
    for u in range(image.units):
        ops = []
        for k in range(int(image.first[u]), int(image.first[u + 1])):
            awaited = image.wait[image.wait_first[k] : image.wait_first[k + 1]].tolist()
            waits = tuple((int(image.unit[w]), int(w - image.first[image.unit[w]])) for w in awaited)
            numbers = int(image.src[k]), int(image.dst[k]), int(image.cnt[k])
            ops.append(Op(image.kind_name(k), *numbers, waits, bool(image.receives[k]), bool(image.sends[k])))
        ends = int(image.inbound[u]), int(image.outbound[u])
        units.append(Unit(int(image.rank[u]), *ends, int(image.first[u]), tuple(ops), image))
    return Program(tuple(units), tuple(image.sender.tolist()), image.layouts, image)


class _Key(NamedTuple):
    """One race as reported, whatever chunk it was seen on."""

    kind: str
    first: str
    second: str


@dataclass
class _Shadow:
    """Last accesses of the chunks of one rank in one iteration; blocks are unit indices, times are epochs."""

    write_unit: _Ints
    write_time: _Ints
    read_unit: _Ints
    read_time: _Ints
    more_reads: dict[int, dict[int, int]] = field(default_factory=dict)

    @classmethod
    def empty(cls, size: int) -> _Shadow:
        none, start = np.full(size, -1, dtype=np.int32), np.zeros(size, dtype=np.int32)
        return cls(none, start, none.copy(), start.copy())


def reference_races(image: Image, run: Ints, defined: Sequence[_Flags]) -> list[str]:
    """Every race, one message per pair of steps."""
    program = objects(image)
    conflicts = _conflicts(program)
    found: dict[_Key, str] = {}
    order = [(int(image.unit[op]), int(op - image.first[image.unit[op]]), 0) for op in run.tolist()]
    _Pass(program, conflicts, defined, found).run(order)
    return list(found.values())


def _conflicts(image: Program) -> dict[int, _Flags]:
    """Per rank that has any, the addresses that several blocks access and at least one of them writes."""
    first = [np.full(at.total, -1, dtype=np.int32) for at in image.layouts]
    shared = [np.zeros(at.total, dtype=np.bool_) for at in image.layouts]
    written = [np.zeros(at.total, dtype=np.bool_) for at in image.layouts]
    for u, unit in enumerate(image.units):
        for op in unit.ops:
            for address, writes in op.accesses:
                span = slice(address, address + op.cnt)
                owner = first[unit.rank][span]
                shared[unit.rank][span] |= (owner != -1) & (owner != u)
                owner[owner == -1] = u
                if writes:
                    written[unit.rank][span] = True
    both = {rank: shared[rank] & written[rank] for rank in range(len(first))}
    return {rank: flags for rank, flags in both.items() if flags.any()}


class _Pass:
    """One sweep over the order with the clocks of some ranks' blocks."""

    def __init__(
        self, image: Program, conflicts: dict[int, _Flags], defined: Sequence[_Flags], found: dict[_Key, str]
    ) -> None:
        self.image, self.conflicts, self.found = image, conflicts, found
        watched = [u for u, unit in enumerate(image.units) if unit.rank in conflicts and self.touches(u)]
        self.column = np.full(len(image.units), -1, dtype=np.int32)
        self.column[watched] = np.arange(len(watched))
        self.clocks = np.zeros((len(image.units), len(watched)), dtype=np.int32)
        self.time = [0] * len(image.units)
        self.starts: list[list[int]] = [[] for _ in image.units]
        self.queues: list[deque[_Ints]] = [deque() for _ in image.sender]
        self.users: dict[tuple[int, int], int] = defaultdict(int)
        for unit in image.units:
            for op in unit.ops:
                for wait in op.waits:
                    self.users[wait] += 1
        self.posted: dict[tuple[int, int, int], tuple[_Ints, int]] = {}
        self.shadows: dict[tuple[int, int], _Shadow] = {}
        self.defined: dict[tuple[int, int], _Flags] = {}
        self.initially = defined

    def touches(self, u: int) -> bool:
        unit = self.image.units[u]
        flags = self.conflicts[unit.rank]
        return any(flags[a : a + op.cnt].any() for op in unit.ops for a, _ in op.accesses)

    def run(self, order: Sequence[tuple[int, int, int]]) -> None:
        for u, index, iteration in order:
            self.step(u, index, iteration)

    def step(self, u: int, index: int, iteration: int) -> None:
        unit = self.image.units[u]
        op, clock, column = unit.ops[index], self.clocks[u], int(self.column[u])
        for wait in op.waits:
            np.maximum(clock, self.claim(wait, iteration), out=clock)
        start = self.time[u]
        self.starts[u].append(start)
        self.time[u] = start + op.cnt
        message = self.queues[unit.inbound].popleft() if op.receives else None
        if message is None and not op.sends and column < 0:
            rows = clock[None, :]
        else:
            rows = np.repeat(clock[None, :], op.cnt, axis=0) if message is None else np.maximum(message, clock)
            if column >= 0:
                rows[:, column] = np.arange(start + 1, start + op.cnt + 1)
            clock[:] = rows[-1]
        if op.sends:
            self.queues[unit.outbound].append(rows)
        if column >= 0:
            self.check(u, op, iteration, rows, start)
        if (u, index) in self.users:
            self.posted[u, index, iteration] = (clock.copy(), self.users[u, index])

    def claim(self, wait: tuple[int, int], iteration: int) -> _Ints:
        """Clock that a wait receives; dropped after its last use."""
        key = (*wait, iteration)
        clock, left = self.posted[key]
        if left == 1:
            del self.posted[key]
        else:
            self.posted[key] = (clock, left - 1)
        return clock

    def check(self, u: int, op: Op, iteration: int, rows: _Ints, start: int) -> None:
        rank = self.image.units[u].rank
        key = (rank, iteration)
        if key not in self.shadows:
            self.shadows[key] = _Shadow.empty(self.image.layouts[rank].total)
            self.defined[key] = self.initially[rank].copy()
        shadow = self.shadows[key]
        for address, writes in op.accesses:
            index = np.flatnonzero(self.conflicts[rank][address : address + op.cnt])
            if not index.size:
                continue
            at, row, times = index + address, rows[index], (start + 1 + index).astype(np.int32)
            self.against_writes(u, start, at, row, shadow, writes)
            if writes:
                self.against_reads(u, start, at, row, shadow, self.defined[key])
                self.defined[key][at] = True
                shadow.write_unit[at], shadow.write_time[at] = u, times
                shadow.read_unit[at] = -1
            else:
                self.record_read(u, at, row, times, shadow)

    def against_writes(
        self, u: int, start: int, at: NDArray[np.int64], row: _Ints, shadow: _Shadow, writes: bool
    ) -> None:
        writer, time = shadow.write_unit[at], shadow.write_time[at]
        late = self.unordered(u, writer, time, row)
        kind = "write-after-write" if writes else "read-before-write"
        for k in late:
            self.report(kind, (int(writer[k]), int(time[k])), (u, start), int(at[k]), swap=False)

    def against_reads(
        self, u: int, start: int, at: NDArray[np.int64], row: _Ints, shadow: _Shadow, defined: _Flags
    ) -> None:
        reader, time = shadow.read_unit[at], shadow.read_time[at]
        pairs = [(int(k), int(reader[k]), int(time[k])) for k in self.unordered(u, reader, time, row)]
        if shadow.more_reads:
            for k, address in enumerate(at.tolist()):
                for other, when in shadow.more_reads.pop(address, {}).items():
                    if other != u and row[k, self.column[other]] < when:
                        pairs.append((k, other, when))
        for k, other, when in pairs:
            kind = "write-after-read" if defined[at[k]] else "read-before-write"
            self.report(kind, (other, when), (u, start), int(at[k]), swap=not defined[at[k]])

    def unordered(self, u: int, other: _Ints, time: _Ints, row: _Ints) -> list[int]:
        """Positions whose last access by another block is not known to this block's clock."""
        index = np.flatnonzero((other >= 0) & (other != u))
        if not index.size:
            return []
        seen = row[index, self.column[other[index]]]
        return [int(k) for k in index[seen < time[index]]]

    def record_read(self, u: int, at: NDArray[np.int64], row: _Ints, times: _Ints, shadow: _Shadow) -> None:
        reader, time = shadow.read_unit[at], shadow.read_time[at]
        for k in self.unordered(u, reader, time, row):
            # Readers that nothing orders are all kept: a later write must come after every one of them.
            others = shadow.more_reads.setdefault(int(at[k]), {})
            others[int(reader[k])] = int(time[k])
        shadow.read_unit[at], shadow.read_time[at] = u, times

    def report(self, kind: str, earlier: tuple[int, int], later: tuple[int, int], address: int, swap: bool) -> None:
        """Add one race; ``swap`` when the access that came later in the replay is the one that should come first."""
        first, second = self.label(*earlier), self.label(later[0], later[1] + 1)
        if swap:
            first, second = second, first
        chunk = self.image.chunk(self.image.units[later[0]].rank, address)
        text = {
            "write-after-write": f"{first} and {second} both write {chunk} in no fixed order",
            "write-after-read": f"{second} may overwrite {chunk} before {first} reads it",
            "read-before-write": f"{second} may read {chunk} before {first} writes it",
        }[kind]
        self.found.setdefault(_Key(kind, first, second), f"race ({kind}): {text}")

    def label(self, u: int, time: int) -> str:
        unit = self.image.units[u]
        return unit.name((bisect_right(self.starts[u], time - 1) - 1) % len(unit.ops))
