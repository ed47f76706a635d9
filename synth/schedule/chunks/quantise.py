"""Whole chunks: the best integer split for a chunk count, and the smallest chunk count within an asked loss."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from synth.demand.model import Demand
from synth.errors import InvalidInputError
from synth.formulation.flow.routes import Route
from synth.ground.arrays import Floats
from synth.schedule.chunks.milp import Counts, best_counts
from synth.schedule.chunks.reroute import Rerouter
from synth.schedule.chunks.softmax import soft_max
from synth.solver.flow.plan import Plan

# Integer columns up to which the MILP is tried.
MOST_INTEGERS = 600
# Work of ruin and recreate while searching for a chunk count, and for the chunk count that is taken.
QUICK_PRICINGS = 40
EXACT_PRICINGS = 600
# Chunk counts that the search tries: all that a runtime likes, then some for shares that need many.
CHUNK_COUNTS = (*range(1, 65), 72, 80, 96, 112, 128, 160, 192, 224, 256)


@dataclass(frozen=True, slots=True)
class Split:
    """Integer chunks per column of a plan.

    Attributes
    ----------
    chunks
        Chunks of the largest shard.
    chunk_bytes
        Bytes of a chunk.
    shard_chunks
        Chunks of each commodity.
    columns
        Routes that carry chunks (halves for an all-reduce): the plan's, or others found to round better.
    counts
        Chunks per column.
    time
        Seconds on the busiest resource.
    proven
        Whether no integer split over the plan's own columns is better.
    """

    chunks: int
    chunk_bytes: float
    shard_chunks: tuple[int, ...]
    columns: tuple[Route, ...]
    counts: tuple[int, ...]
    time: float
    proven: bool

    def refined(self, times: int) -> Split:
        """The same split with every chunk cut into ``times``; no optimum is claimed for it."""
        return Split(
            self.chunks * times,
            self.chunk_bytes / times,
            tuple(n * times for n in self.shard_chunks),
            self.columns,
            tuple(n * times for n in self.counts),
            self.time,
            False,
        )


def quantise(plan: Plan, chunks: int | None = None, max_loss: float = 0.02) -> Split:
    """Round a plan's shares to whole chunks.

    Parameters
    ----------
    plan
        With at least one commodity.
    chunks
        Chunks of the largest shard (an all-reduce's shard is its buffer / ranks); None searches.
    max_loss
        The search takes the smallest count whose time is within ``1 + max_loss`` of the plan's, else the best tried.

    Raises
    ------
    InvalidInputError
        When ``chunks`` is not a positive whole number or ``max_loss`` is negative.
    """
    if chunks is not None and (isinstance(chunks, bool) or chunks != int(chunks) or chunks < 1):
        raise InvalidInputError(f"chunks {chunks!r} must be a whole number, 1 or more")
    if not (math.isfinite(max_loss) and max_loss >= 0):
        raise InvalidInputError(f"chunk loss {max_loss!r} must be 0 or more")
    if chunks is not None:
        return _Rounder(plan, int(chunks)).exact()
    found: tuple[Split, _Rounder] | None = None
    for count in CHUNK_COUNTS:
        rounder = _Rounder(plan, count)
        if not rounder.possible(max_loss) and (count < CHUNK_COUNTS[-1] or found is not None):
            continue
        split = rounder.quick(1 + max_loss)
        if split.time <= plan.time * (1 + max_loss) * (1 + 1e-9):
            return split
        if found is None or split.time < found[0].time * (1 - 1e-9):
            found = (split, rounder)
    if found is None:
        raise InvalidInputError("no chunk count to try")
    return found[1].exact(1 + max_loss)


def chunk_layout(demand: Demand, chunks: int) -> tuple[float, tuple[int, ...]]:
    """Bytes of a chunk, and chunks of each commodity, with ``chunks`` in the largest shard (see :func:`quantise`)."""
    items = demand.commodities
    total = chunks * len(demand.ranks) if demand.pattern == "allreduce" else chunks
    chunk_bytes = max(item.size for item in items) / total
    return chunk_bytes, tuple(max(1, math.ceil(item.size / chunk_bytes - 1e-9)) for item in items)


class _Rounder:
    """Integer split of one plan at one chunk count. Loads are in units of the plan's time."""

    def __init__(self, plan: Plan, chunks: int) -> None:
        self.plan, self.chunks = plan, chunks
        self.meeting = plan.demand.pattern == "allreduce"
        self.chunk_bytes, self.shard_chunks = chunk_layout(plan.demand, chunks)
        self.rerouter = Rerouter(plan, self.chunk_bytes)
        self._use(plan.columns)

    def _use(self, columns: Sequence[Route]) -> None:
        self.columns = tuple(columns)
        self.loads = np.array([self.rerouter.load(column) for column in self.columns])
        self.groups = self._groups()

    def _groups(self) -> list[list[int]]:
        """Columns among which chunks may move: same commodity, and for an all-reduce same meeting point and half."""
        groups: dict[tuple[object, ...], list[int]] = {}
        for k, column in enumerate(self.columns):
            half = (column.root, bool(column.reduce_hops)) if self.meeting else ()
            groups.setdefault((column.commodity, *half), []).append(k)
        return list(groups.values())

    def quick(self, enough: float, pricings: int = QUICK_PRICINGS) -> Split:
        """Largest remainder and single moves among the plan's columns, then new routes by rip-up and reroute.

        Stops at ``enough`` times the plan's time.
        """
        counts = self._descend(self._largest_remainder())
        columns, peak = self._listed(self.columns, counts), self._time(counts)
        if peak > enough + 1e-9:
            chunks = self.rerouter.improve([route for route, n in columns for _ in range(n)], enough, pricings)
            after = float(self.rerouter.total(chunks).max())
            if after < peak - 1e-12:
                columns, peak = list(Counter(chunks).items()), after
        return self._split(columns, peak, peak <= 1 + 1e-9)

    def exact(self, enough: float = 1.0) -> Split:
        """:meth:`quick`, and when that is not ``enough`` the MILP over the plan's columns and those met on the way."""
        split = self.quick(enough, EXACT_PRICINGS)
        peak = split.time / self.plan.time
        if peak <= enough + 1e-9:
            return split
        self._use([*self.plan.columns, *self.rerouter.visited(self.plan.columns)])
        solved, proven = self._milp(enough)
        if solved is not None and self._time(solved) < peak - 1e-12:
            return self._split(self._listed(self.columns, solved), self._time(solved), proven)
        return replace(split, proven=proven)

    def _split(self, columns: list[tuple[Route, int]], peak: float, proven: bool) -> Split:
        return Split(
            self.chunks,
            self.chunk_bytes,
            self.shard_chunks,
            tuple(route for route, _ in columns),
            tuple(n for _, n in columns),
            # Whole chunks are one of the LP's splits, so they cannot beat it by more than its tolerance.
            max(peak, 1.0) * self.plan.time,
            proven,
        )

    def _listed(self, columns: Sequence[Route], counts: Counts) -> list[tuple[Route, int]]:
        return [(replace(route, share=0.0), int(n)) for route, n in zip(columns, counts, strict=True) if n]

    def possible(self, max_loss: float) -> bool:
        """Whether whole chunks on the priced links leave room for a time within ``1 + max_loss`` of the plan's.

        Any split has sum(weight x load) >= the bound, with weight = capacity x price and loads in units of the time.
        A link carries whole chunks only, so below the asked time it can be no fuller than the last whole chunk.
        """
        network, time = self.plan.network, self.plan.time
        weight = np.array(self.plan.prices) * network.capacity
        chunk = self.chunk_bytes / (network.capacity * time)
        most = np.full(len(chunk), 1 + max_loss + 1e-9)
        links = slice(0, len(self.plan.topology.links))
        most[links] = np.floor((most[links] + 1e-9) / chunk[links]) * chunk[links]
        return float(weight @ most) >= self.plan.bound / time - 1e-9

    def _time(self, counts: Counts) -> float:
        return float((counts @ self.loads).max())

    def _largest_remainder(self) -> Counts:
        """Hamilton's method per shard, so that no chunk is lost."""
        share = np.array([max(column.share, 0.0) for column in self.columns])
        counts = np.zeros(len(share), dtype=np.int64)
        if self.meeting:
            for point, chunks in self._seats().items():
                for inward in (True, False):
                    half = self._half(point, inward)
                    counts[half] = hamilton(share[half], chunks)
            return counts
        for group in self.groups:
            counts[group] = hamilton(share[group], self.shard_chunks[self.columns[group[0]].commodity])
        return counts

    def _half(self, point: int, inward: bool) -> list[int]:
        return [k for k, c in enumerate(self.columns) if c.root == point and bool(c.reduce_hops) == inward]

    def _descend(self, counts: Counts, rounds: int = 200) -> Counts:
        """Move single chunks between columns of a group while the soft maximum of the loads falls."""
        moves = np.array([(a, b) for group in self.groups for a in group for b in group if a != b], dtype=np.int64)
        if not 0 < len(moves) * self.loads.shape[1] <= 4_000_000:
            return counts
        change = self.loads[moves[:, 1]] - self.loads[moves[:, 0]]
        counts = counts.copy()
        load = counts @ self.loads
        now = soft_max(load[None, :])[0]
        for _ in range(rounds):
            after = soft_max(load + change)
            after[counts[moves[:, 0]] == 0] = np.inf
            pick = int(np.argmin(after))
            if after[pick] >= now - 1e-12:
                break
            now = after[pick]
            load = load + change[pick]
            counts[moves[pick, 0]] -= 1
            counts[moves[pick, 1]] += 1
        return counts

    def _milp(self, enough: float) -> tuple[Counts | None, bool]:
        """Exact split as a MILP, limited in nodes; stops at a time that is ``enough``.

        An all-reduce is cut in two: the chunks of each meeting point are fixed, and its in-trees and out-trees get
        the room that the plan gives them on every resource. That is no proof, but two problems of half the size.
        """
        if len(self.columns) > MOST_INTEGERS:
            return None, False  # too large for branch and bound to be of use
        everything = list(range(len(self.columns)))
        if not self.meeting:
            needs = {tuple(g): self.shard_chunks[self.columns[g[0]].commodity] for g in self.groups}
            return best_counts(self.loads, everything, needs, np.ones(self.loads.shape[1]), enough)
        seats = self._seats()
        share = np.array([column.share for column in self.columns]) * self.shard_chunks[0]
        spare = np.maximum(1.0 - share @ self.loads, 0.0) / 2
        counts = np.zeros(len(self.columns), dtype=np.int64)
        for inward in (True, False):
            part = [k for k in everything if bool(self.columns[k].reduce_hops) == inward]
            room = share[part] @ self.loads[part] + spare
            needs = {tuple(self._half(point, inward)): int(n) for point, n in seats.items()}
            solved, _ = best_counts(self.loads, part, needs, room, enough)
            if solved is None:
                return None, False
            counts += solved
        return counts, False

    def _seats(self) -> dict[int, int]:
        """Chunks of each meeting point of an all-reduce."""
        points = list(dict.fromkeys(column.root for column in self.columns))
        mass = np.array([sum(max(self.columns[k].share, 0.0) for k in self._half(point, True)) for point in points])
        return dict(zip(points, map(int, hamilton(mass, self.shard_chunks[0])), strict=True))


def hamilton(shares: Floats, seats: int) -> Counts:
    """Largest-remainder rounding of shares to whole seats; ties go to the first."""
    total = float(shares.sum())
    quota = shares / total * seats if total > 0 else np.full(len(shares), seats / len(shares))
    base = np.floor(quota + 1e-9).astype(np.int64)
    rest = seats - int(base.sum())
    order = np.lexsort((np.arange(len(shares)), -(quota - base)))
    base[order[:rest]] += 1
    return base


def integer_routes(plan: Plan, split: Split) -> list[tuple[Route, int]]:
    """Whole routes with their chunk counts; the halves of an all-reduce are joined chunk by chunk."""
    pairs = list(zip(split.columns, split.counts, strict=True))
    if plan.demand.pattern != "allreduce":
        return [(replace(route, share=n / split.shard_chunks[route.commodity]), n) for route, n in pairs]
    out: list[tuple[Route, int]] = []
    for root in dict.fromkeys(route.root for route, _ in pairs):
        ups = _unrolled(pairs, root, True)
        downs = _unrolled(pairs, root, False)
        for (up, down), n in Counter(zip(ups, downs, strict=True)).items():
            out.append((replace(up, copy_hops=down.copy_hops, share=n / split.shard_chunks[0]), n))
    return out


def _unrolled(pairs: list[tuple[Route, int]], root: int, inward: bool) -> list[Route]:
    """The halves of a meeting point, each as often as it has chunks."""
    return [r for r, n in pairs for _ in range(n) if r.root == root and bool(r.reduce_hops) == inward]
