"""A schedule as independent pieces: the hops of one run of chunks, which depend on each other and on nothing else.

Thread blocks of MSCCL++ wait for signals of other ranks, and only 16 semaphores and barriers order blocks of one rank.
So everything that depends on each other stays in one lane: one block per rank, which talks to the lane's blocks of
other ranks only. Pieces are what is given out to lanes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from synth.errors import NotExpressibleError
from synth.program.meaning.channel_types import ChannelType, channel_type
from synth.schedule.model import Schedule

Signature = tuple[tuple[int, int, ChannelType, bool, tuple[int, ...]], ...]


@dataclass(frozen=True, slots=True)
class Carry:
    """A transfer between ranks over a type of channel.

    ``deps`` are positions in its piece, ``order`` is its place in the schedule.
    """

    order: int
    shard: int
    first: int
    count: int
    src: int
    dst: int
    how: ChannelType
    reduce: bool
    deps: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Piece:
    """Transfers that depend on each other, in schedule order. ``part`` numbers the instances of a piece."""

    carries: tuple[Carry, ...]
    part: int = 0

    @property
    def route(self) -> tuple[int, int, Signature]:
        """Pieces with equal routes carry different chunks of a shard over the same hops and channels."""
        hops = tuple((c.src, c.dst, c.how, c.reduce, c.deps) for c in self.carries)
        return self.carries[0].shard, self.part, hops

    @property
    def uniform(self) -> bool:
        """Whether all transfers carry the same chunks."""
        head = self.carries[0]
        return all((c.shard, c.first, c.count) == (head.shard, head.first, head.count) for c in self.carries)

    @property
    def pipelined(self) -> bool:
        """Whether it pays to send its chunks one after the other: something waits for something."""
        return any(c.deps or c.reduce for c in self.carries)


def pieces_of(schedule: Schedule) -> list[Piece]:
    """Group transfers by dependency; what is added up at one rank belongs together too."""
    transfers, rank_of = schedule.transfers, schedule.plan.topology.rank_of
    leader = list(range(len(transfers)))

    def find(k: int) -> int:
        while leader[k] != k:
            leader[k] = leader[leader[k]]
            k = leader[k]
        return k

    adding: dict[tuple[int, int], int] = {}
    for k, t in enumerate(transfers):
        together = list(t.deps)
        if schedule.plan.demand.pattern in ("reduction", "allreduce"):
            together.append(adding.setdefault((t.shard, t.first), k))
        for other in together:
            a, b = sorted((find(k), find(other)))
            leader[b] = a
    groups: dict[int, list[int]] = {}
    for k in range(len(transfers)):
        groups.setdefault(find(k), []).append(k)
    out = []
    for members in groups.values():
        at = {k: i for i, k in enumerate(members)}
        carries = []
        for k in members:
            t = transfers[k]
            deps = tuple(at[d] for d in t.deps)
            how = channel_type(schedule.plan.topology, t)
            carries.append(Carry(k, t.shard, t.first, t.count, rank_of[t.src], rank_of[t.dst], how, t.reduce, deps))
        out.append(Piece(tuple(carries)))
    return out


def split(pieces: Sequence[Piece], parts: int) -> list[Piece]:
    """Cut every piece into ``parts`` of equal size; a chunk then counts ``parts`` units.

    Raises
    ------
    NotExpressibleError
        When transfers of a piece carry different chunks, so that their parts would not match.
    """
    if parts == 1:
        return list(pieces)
    if not all(piece.uniform for piece in pieces):
        raise NotExpressibleError("transfers that depend on each other carry different chunks: use one instance")
    return [
        Piece(tuple(replace(c, first=c.first * parts + k * c.count) for c in piece.carries), k)
        for piece in pieces
        for k in range(parts)
    ]


def merge(pieces: Sequence[Piece], most: int) -> list[list[Piece]]:
    """Bundles of pieces with equal routes, runs of up to ``most`` neighbouring pieces merged into one.

    Pieces that nothing waits for are merged whatever their number, because their order does not matter.
    """
    bundles: dict[object, list[Piece]] = {}
    for k, piece in enumerate(pieces):
        bundles.setdefault(piece.route if piece.uniform else k, []).append(piece)
    return [list(_merged(bundle, most)) for bundle in bundles.values()]


def _merged(bundle: list[Piece], most: int) -> Iterator[Piece]:
    """Neighbours as one piece, at the place of the first of them in the schedule."""
    if len(bundle) == 1:
        yield bundle[0]
        return
    ordered = sorted(bundle, key=lambda piece: piece.carries[0].first)
    ends = [piece.carries[0].first + piece.carries[0].count for piece in ordered]
    gaps = [k for k in range(1, len(ordered)) if ordered[k].carries[0].first != ends[k - 1]]
    limit = most if bundle[0].pipelined else len(ordered)
    runs: list[int] = []
    for k in range(len(ordered)):
        begin = not runs or k in gaps or k - runs[-1] >= limit
        runs.append(k if begin else runs[-1])
    for _, group in groupby(range(len(ordered)), key=lambda k: runs[k]):
        run = [ordered[k] for k in group]
        head = min(run, key=lambda piece: piece.carries[0].order)
        first, count = run[0].carries[0].first, sum(piece.carries[0].count for piece in run)
        yield Piece(tuple(replace(c, first=first, count=count) for c in head.carries), head.part)
