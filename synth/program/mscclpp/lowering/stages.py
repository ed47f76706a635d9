"""Pieces as stages: what one rank does at one moment for one piece (wait, add, put), with buffer places."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from synth.program.meaning.channel_types import ChannelType
from synth.program.meaning.claims import input_offset, output_offset
from synth.program.meaning.semantics import Semantics
from synth.program.mscclpp.lowering.pieces import Carry, Piece
from synth.schedule.model import Schedule

Place = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Put:
    """Chunks put into a peer's buffer over a channel of type ``how``.

    ``signals`` says whether the peer acts on them before its block ends.
    """

    carry: int
    peer: int
    how: ChannelType
    src: Place
    dst: Place
    count: int
    signals: bool


@dataclass(frozen=True, slots=True)
class Fold:
    """Local places added up into one."""

    srcs: tuple[Place, ...]
    dst: Place
    count: int


@dataclass(frozen=True, slots=True)
class Stage:
    """Wait for transfers (sender, channel type, transfer), add, put: in this order."""

    order: float
    rank: int
    waits: tuple[tuple[int, ChannelType, int], ...]
    folds: tuple[Fold, ...]
    puts: tuple[Put, ...]


class Stager:
    """Makes stages and gives out scratch.

    Peers put what is to be added, or what a rank only passes on, into fresh scratch; everything else goes straight to
    where it belongs. A partial sum stays in the first arrival's scratch, or in the output for an all-reduce. In place,
    the address that both buffers share is written as ``o`` for an all-gather and as ``i`` otherwise, as upstream's
    python/mscclpp/language/collectives.py does.
    """

    def __init__(self, schedule: Schedule, claim: Semantics, inplace: bool) -> None:
        self.schedule, self.claim, self.inplace = schedule, claim, inplace
        self.pattern = schedule.plan.demand.pattern
        self.members = frozenset(schedule.plan.demand.ranks)
        self.scratch: Counter[int] = Counter()
        self.carries = 0

    def place(self, rank: int, buffer: str, offset: int) -> Place:
        """Address of a place of the input or output; in place both are one buffer."""
        if not self.inplace:
            return buffer, offset
        shard = rank * (self.claim.nchunks // self.claim.ngpus)
        if self.claim.collective == "allgather":
            return "o", offset + (shard if buffer == "i" else 0)
        if self.claim.collective == "reducescatter":
            return "i", offset + (shard if buffer == "o" else 0)
        return "i", offset

    def stages(self, piece: Piece) -> list[Stage]:
        """Stages of a piece; transfers of one rank with the same dependencies are put at once."""
        return list(_PieceStager(self, piece).stages())

    def input(self, rank: int, c: Carry) -> Place:
        """Where a rank has chunks at the start."""
        return self.place(rank, "i", input_offset(self.claim, self.schedule, rank, c.shard) + c.first)

    def output(self, rank: int, c: Carry) -> Place:
        """Where a rank wants chunks in the end."""
        return self.place(rank, "o", output_offset(self.claim, self.schedule, rank, c.shard) + c.first)

    def landing(self, c: Carry) -> Place:
        """Where a transfer puts its chunks."""
        item = self.schedule.plan.demand.commodities[c.shard]
        final = item.dest == c.dst if self.pattern == "unicast" else c.dst in self.members and not c.reduce
        if final:
            return self.output(c.dst, c)
        at = self.scratch[c.dst]
        self.scratch[c.dst] += c.count
        return "s", at

    def adds_at_output(self, c: Carry, rank: int) -> bool:
        """Whether a rank keeps its sum in the output buffer."""
        return self.pattern == "allreduce" or self.schedule.plan.demand.commodities[c.shard].root == rank


class _PieceStager:
    def __init__(self, stager: Stager, piece: Piece) -> None:
        self.stager, self.carries = stager, piece.carries
        self.landed = [stager.landing(c) for c in self.carries]
        self.base = stager.carries
        stager.carries += len(self.carries)
        self.sums: dict[tuple[int, int, int], Place] = {}
        self.added: set[int] = set()
        self.awaited = {d for c in self.carries for d in c.deps}

    def stages(self) -> Iterator[Stage]:
        sinks = self._sinks()
        self.awaited |= {k for ks in sinks.values() for k in ks}
        together: dict[object, list[int]] = {}
        for k, c in enumerate(self.carries):
            together.setdefault((c.src, c.deps, c.shard, c.first), []).append(k)
        for group in together.values():
            head = self.carries[group[0]]
            source, folds = self._source(head)
            yield Stage(head.order, head.src, self._waits(head.deps), folds, tuple(self._put(k, source) for k in group))
        for (rank, _, _), arrivals in sinks.items():
            folds = self._fold(rank, arrivals)
            if folds:
                yield Stage(self.carries[arrivals[-1]].order + 0.5, rank, self._waits(tuple(arrivals)), folds, ())

    def _sinks(self) -> dict[tuple[int, int, int], list[int]]:
        """Sums that nobody passes on: arrivals by rank and chunks."""
        out: dict[tuple[int, int, int], list[int]] = {}
        for k, c in enumerate(self.carries):
            if c.reduce and k not in self.awaited:
                out.setdefault((c.dst, c.shard, c.first), []).append(k)
        return out

    def _waits(self, deps: tuple[int, ...]) -> tuple[tuple[int, ChannelType, int], ...]:
        return tuple((self.carries[d].src, self.carries[d].how, self.base + d) for d in deps)

    def _put(self, k: int, source: Place) -> Put:
        c = self.carries[k]
        return Put(self.base + k, c.dst, c.how, source, self.landed[k], c.count, k in self.awaited)

    def _source(self, c: Carry) -> tuple[Place, tuple[Fold, ...]]:
        """Where the sender has the chunks, and the additions that make them."""
        copied = [d for d in c.deps if not self.carries[d].reduce]
        if copied:
            return self.landed[copied[-1]], ()
        if not c.deps:
            return self.stager.input(c.src, c), ()
        folds = self._fold(c.src, list(c.deps))
        return self.sums[c.src, c.shard, c.first], folds

    def _fold(self, rank: int, arrivals: list[int]) -> tuple[Fold, ...]:
        """Add arrivals that are not added yet to the rank's own input, or to its sum so far."""
        new = [k for k in arrivals if k not in self.added]
        if not new:
            return ()
        self.added.update(new)
        c = self.carries[new[0]]
        key = (rank, c.shard, c.first)
        at_output = self.stager.adds_at_output(c, rank)
        have = self.sums.get(key) or self.stager.input(rank, c)
        self.sums.setdefault(key, self.stager.output(rank, c) if at_output else self.landed[new[0]])
        return (Fold((have, *(self.landed[k] for k in new)), self.sums[key], c.count),)
