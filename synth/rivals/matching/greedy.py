"""Greedy link-chunk matching: in order of time, every idle connection takes a chunk that its far end lacks.

Source of the idea: TACOS (Won et al., MICRO'24, section 4: matching on the time-expanded network), here with events
instead of rounds, so that links of different speed, switches and shared pools need no common step.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from synth.ground.arrays import Floats
from synth.rivals.matching.arcs import Arc

Rule = Literal["scarcest", "rarest", "farthest", "thrifty"]
RULES: Final[tuple[Rule, ...]] = ("scarcest", "rarest", "farthest", "thrifty")
"""What an idle connection takes; seed k uses rule k mod 4.

Rarest: the chunk with fewest copies. Scarcest: with fewest copies and connections that can bring it to the same place
together, which leaves to others what only they can bring. Farthest: that has farthest to go. Thrifty: the scarcest
among those that no cheaper connection can bring from a member that has it or will have it.
"""
# Events this close (part of a message's time) are one moment.
_TIE: Final = 1e-9


@dataclass(frozen=True, slots=True)
class Send:
    """A chunk on a connection: ``arc`` is a position in the arcs, ``start`` in seconds."""

    start: float
    arc: int
    chunk: int


def match(
    arcs: Sequence[Arc],
    roots: Sequence[int],
    members: int,
    rigid: frozenset[int] = frozenset(),
    seed: int = 0,
    prices: Sequence[float] | None = None,
) -> list[Send] | None:
    """Bring every chunk to every member.

    Parameters
    ----------
    arcs
        Connections with their times for one chunk.
    roots
        Member that has each chunk at first.
    members
        Number of members.
    rigid
        Members that pass nothing on but what is theirs.
    seed
        Ties and the order of connections; also the rule (``RULES``).
    prices
        What a message on each connection costs, for the thrifty rule; default: the seconds that it takes.

    Notes
    -----
    A connection waits rather than bring late what a busy one would still bring sooner.

    Returns
    -------
    list of Send or None
        In order of start; None when some member cannot be reached.
    """
    if members < 2 or not roots:
        return []
    engine = _Matching(arcs, roots, members, rigid, seed, prices or [arc.interval for arc in arcs])
    engine.run()
    return engine.sends if not any(engine.wanted) else None


def least_time(arcs: Sequence[Arc], roots: Sequence[int], members: int) -> float:
    """Seconds that any matching takes at least: each member's connections must bring it all that it lacks."""
    own = np.bincount(roots, minlength=members)
    return max(
        (
            _least([(arc.seconds, arc.interval) for arc in arcs if arc.dst == v], len(roots) - int(own[v]))
            for v in range(members)
        ),
        default=0.0,
    )


def _least(inward: list[tuple[float, float]], need: int) -> float:
    """Least time in which connections (first arrival, interval) bring ``need`` messages."""
    if not need or not inward:
        return 0.0
    heap = sorted(inward)
    time = 0.0
    for _ in range(need):
        time, interval = heap[0]
        heapq.heapreplace(heap, (time + interval, interval))
    return time


class _Matching:
    def __init__(
        self,
        arcs: Sequence[Arc],
        roots: Sequence[int],
        members: int,
        rigid: frozenset[int],
        seed: int,
        prices: Sequence[float],
    ) -> None:
        self.arcs, self.rule = arcs, RULES[seed % len(RULES)]
        self.shuffle = random.Random(seed)
        self.noise = np.random.default_rng(seed)
        count = len(roots)
        every = (1 << count) - 1
        self.have, self.wanted, self.sendable = [0] * members, [every] * members, [0] * members
        self.has = np.zeros((members, count), dtype=bool)
        self.lacks = np.ones((members, count), dtype=bool)
        self.rigid = rigid
        self.copies = np.ones(count)
        self.prices, self.slack = prices, _TIE * max(prices, default=0.0)
        self.cheapest = np.full((members, count), np.inf)  # price at which a member can get a chunk
        self.suppliers = np.zeros((members, count))  # connections that can bring a member a chunk
        self.hops = _distances(arcs, members)
        self.near = self.hops[list(roots)].copy()  # per chunk and member: seconds from the nearest that has it
        self.far = self.near.max(axis=1)
        self.out: list[list[int]] = [[] for _ in range(members)]
        self.into: list[list[int]] = [[] for _ in range(members)]
        for k, arc in enumerate(arcs):
            self.out[arc.src].append(k)
            self.into[arc.dst].append(k)
        self.wakes = self._wakes()
        self.free: dict[int, float] = dict.fromkeys(self.wakes, 0.0)
        self.idle_at = [0.0] * len(arcs)
        self.patient: list[set[int]] = [set() for _ in range(members)]
        self.events: list[tuple[float, int, int, tuple[int, ...]]] = []  # time, member or -1, chunk, arcs
        self.sends: list[Send] = []
        self.tie = _TIE * min((arc.seconds for arc in arcs), default=1.0)
        self.waits = True
        for chunk, root in enumerate(roots):
            self._claim(root, chunk)
            self._gain(root, chunk, own=True)

    def _wakes(self) -> dict[int, dict[float, tuple[int, ...]]]:
        """Per row and lead, the connections that may start so long before the row is free."""
        found: dict[int, dict[float, list[int]]] = {}
        for k, arc in enumerate(self.arcs):
            for row, lead, _ in arc.uses:
                found.setdefault(row, {}).setdefault(lead, []).append(k)
        return {row: {lead: tuple(users) for lead, users in by.items()} for row, by in found.items()}

    def _claim(self, member: int, chunk: int) -> None:
        """A chunk is at a member, or on its way there."""
        self.wanted[member] &= ~(1 << chunk)
        self.lacks[member, chunk] = False
        self.copies[chunk] += 1
        if self.rule in ("scarcest", "thrifty") and member not in self.rigid:
            for k in self.out[member]:
                dst = self.arcs[k].dst
                self.suppliers[dst, chunk] += 1
                self.cheapest[dst, chunk] = min(self.cheapest[dst, chunk], self.prices[k])
        if self.rule == "farthest":
            np.minimum(self.near[chunk], self.hops[member], out=self.near[chunk])
            self.far[chunk] = self.near[chunk].max()

    def _gain(self, member: int, chunk: int, own: bool = False) -> None:
        self.have[member] |= 1 << chunk
        if own or member not in self.rigid:
            self.sendable[member] |= 1 << chunk
            self.has[member, chunk] = True

    def run(self) -> None:
        self._try(range(len(self.arcs)), 0.0)
        while True:
            self._drain()
            if not self.waits or not any(self.wanted):
                return
            # Whoever waited for a faster connection in vain now takes what there is.
            self.waits = False
            self._try(range(len(self.arcs)), max((s.start + self.arcs[s.arc].seconds for s in self.sends), default=0.0))

    def _drain(self) -> None:
        events = self.events
        while events:
            now = events[0][0]
            ready: set[int] = set()
            while events and events[0][0] <= now + self.tie:
                now, member, chunk, waking = heapq.heappop(events)
                if member >= 0:
                    self._gain(member, chunk)
                    ready.update(self.out[member])
                    ready |= self.patient[member]
                    self.patient[member] = set()
                ready.update(waking)
            self._try(sorted(ready), now)

    def _try(self, ready: Sequence[int], now: float) -> None:
        arcs, wanted, sendable = self.arcs, self.wanted, self.sendable
        open_ones = [k for k in ready if sendable[arcs[k].src] & wanted[arcs[k].dst] and self._idle(k, now)]
        self.shuffle.shuffle(open_ones)
        for k in open_ones:
            arc = arcs[k]
            if sendable[arc.src] & wanted[arc.dst] and self._idle(k, now):
                chunk = self._choice(k, now)
                if chunk < 0:
                    self.patient[arc.dst].add(k)
                else:
                    self._send(k, chunk, now)

    def _idle(self, k: int, now: float) -> bool:
        free, late = self.free, now + self.tie
        return all(free[row] <= late + lead for row, lead, _ in self.arcs[k].uses)

    def _choice(self, k: int, now: float) -> int:
        arc = self.arcs[k]
        found = np.flatnonzero(self.has[arc.src] & self.lacks[arc.dst])
        if self.waits and self.wanted[arc.dst].bit_count() <= len(self.into[arc.dst]):
            found = np.array([c for c in found.tolist() if not self._sooner(k, c, now)], dtype=np.int64)
        if self.waits and self.rule == "thrifty":
            found = found[self.prices[k] <= self.cheapest[arc.dst, found] + self.slack]
        if not len(found):
            return -1
        score = self.noise.random(len(found)) + self.copies[found]
        if self.rule == "farthest":
            score = score * self.tie - self.far[found]
        elif self.rule != "rarest":
            score += self.suppliers[arc.dst, found]
        return int(found[score.argmin()])

    def _sooner(self, k: int, chunk: int, now: float) -> bool:
        """Whether another connection of the far end would bring the chunk sooner, though it is busy now."""
        arrival = now + self.arcs[k].seconds
        return any(
            self.has[self.arcs[j].src, chunk]
            and max(now, self._idle_from(j)) + self.arcs[j].seconds < arrival - self.tie
            for j in self.into[self.arcs[k].dst]
            if j != k
        )

    def _idle_from(self, k: int) -> float:
        return max(self.free[row] - lead for row, lead, _ in self.arcs[k].uses)

    def _send(self, k: int, chunk: int, now: float) -> None:
        arc = self.arcs[k]
        self.sends.append(Send(now, k, chunk))
        self._claim(arc.dst, chunk)
        heapq.heappush(self.events, (now + arc.seconds, arc.dst, chunk, ()))
        for row, _, until in arc.uses:
            self.free[row] = now + until
            for lead, users in self.wakes[row].items():
                heapq.heappush(self.events, (max(now, now + until - lead), -1, -1, users))


def _distances(arcs: Sequence[Arc], members: int) -> Floats:
    """Least seconds from each member to each other along connections."""
    out = np.full((members, members), np.inf)
    np.fill_diagonal(out, 0.0)
    for arc in arcs:
        out[arc.src, arc.dst] = min(out[arc.src, arc.dst], arc.seconds)
    for k in range(members):
        np.minimum(out, out[:, k : k + 1] + out[k : k + 1, :], out=out)
    return out
