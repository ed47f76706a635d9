"""The asynchronous variant of the step MILP in PuLP: send times instead of steps, for links that are not alike.

Binary sends choose a tree per chunk, continuous variables their start times, and one binary per two sends that could
meet on a link says which goes first (the disjunctive model of machine scheduling; Manne, Operations Research 8, 1960).
A send over several links cuts through: each link starts one latency after the one before.
"""

from __future__ import annotations

import heapq
import itertools
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import pulp

from synth.formulation.steps.network import StepNetwork

AlphaMode = Literal["pipelined", "blocking"]
INFINITE = float("inf")


@dataclass(frozen=True, slots=True)
class Occupancy:
    """A row that a hop occupies: ``busy`` seconds from ``offset`` seconds after the hop's start."""

    row: int
    offset: float
    busy: float


@dataclass(frozen=True)
class HopTimes:
    """What a chunk costs on each hop of a network, in seconds.

    Attributes
    ----------
    occupied
        Per hop, its rows.
    delay
        Per hop, from its start to the arrival of the chunk.
    """

    occupied: tuple[tuple[Occupancy, ...], ...]
    delay: tuple[float, ...]


def hop_times(network: StepNetwork, chunk_bytes: float, mode: AlphaMode) -> HopTimes:
    """Seconds of a chunk on every hop; a row that a hop passes several times is occupied once, for all of them.

    ``pipelined``: a link is busy for bytes / capacity, and the last byte arrives one latency later. ``blocking``: it is
    busy for latency + bytes / capacity. Shared resources are busy for bytes x uses / bandwidth in both.
    """
    machine = network.bundles.bundled
    pools: list[list[tuple[int, float]]] = [[] for _ in machine.links]
    for row, pool in enumerate(machine.resources, len(machine.links)):
        for name, times in pool.uses:
            pools[machine.link_index[name]].append((row, times / pool.bandwidth))
    occupied, delay = [], []
    for hop in network.hops:
        offset, slowest = 0.0, 0.0
        rows: dict[int, Occupancy] = {}
        for link in hop.links:
            one = machine.links[link]
            passing = chunk_bytes / one.capacity
            held = passing + (one.latency if mode == "blocking" else 0.0)
            slowest = max(slowest, passing)
            for row, busy in ((link, held), *((row, chunk_bytes * per_byte) for row, per_byte in pools[link])):
                known = rows.get(row, Occupancy(row, offset, 0.0))
                rows[row] = Occupancy(row, known.offset, known.busy + busy)
            offset += one.latency
        shared = [item.busy for item in rows.values() if item.row >= len(machine.links)]
        occupied.append(tuple(rows.values()))
        delay.append(offset + max([slowest, *shared]))
    return HopTimes(tuple(occupied), tuple(delay))


@dataclass(frozen=True, slots=True)
class Parcel:
    """A chunk: where it is, and who wants it. ``kind`` is equal for chunks that may be exchanged."""

    root: int
    goals: tuple[int, ...]
    kind: int


@dataclass(frozen=True)
class SendTask:
    """Chunks to be sent within a horizon (seconds) over a network whose parallel links are apart."""

    network: StepNetwork
    times: HopTimes
    parcels: tuple[Parcel, ...]
    horizon: float

    @cached_property
    def earliest(self) -> tuple[tuple[float, ...], ...]:
        """Per chunk, when it can be at each rank at the earliest; inf when never."""
        roots = {parcel.root: self._search(parcel.root) for parcel in self.parcels}
        return tuple(roots[parcel.root] for parcel in self.parcels)

    def _search(self, root: int) -> tuple[float, ...]:
        network = self.network
        found = [INFINITE] * len(network.relays)
        found[root] = 0.0
        queue = [(0.0, root)]
        while queue:
            at, rank = heapq.heappop(queue)
            if at > found[rank] or not (rank == root or network.relays[rank]):
                continue
            for hop in network.out_of[rank]:
                other, arrival = network.ends[hop][1], at + self.times.delay[hop]
                if arrival < found[other]:
                    found[other] = arrival
                    heapq.heappush(queue, (arrival, other))
        return tuple(found)


Send = tuple[int, int]  # parcel, hop


@dataclass(frozen=True)
class SendModel:
    """A built model; times in it are in units of ``scale`` seconds."""

    task: SendTask
    problem: pulp.LpProblem
    scale: float
    span: pulp.LpVariable
    used: dict[Send, pulp.LpVariable]
    start: dict[Send, pulp.LpVariable]

    def read_span(self) -> float:
        """The last arrival in seconds; 0 when the engine left no values."""
        return (self.span.value() or 0.0) * self.scale

    def read(self) -> tuple[tuple[float, int, int], ...]:
        """(start in seconds, parcel, hop) of every send, in order of their starts; not checked."""
        chosen = [key for key, variable in self.used.items() if (variable.value() or 0.0) > 0.5]
        return tuple(sorted(((self.start[key].value() or 0.0) * self.scale, *key) for key in chosen))


def send_time_model(task: SendTask) -> SendModel:
    """Build ``min T`` over all trees and orders of a task.

    Variables: ``x_parcel_hop`` (is it sent), ``t_parcel_hop`` (when), ``a_parcel_rank`` (arrival), ``o_...`` (order).
    """
    return _Builder(task).build()


class _Builder:
    def __init__(self, task: SendTask) -> None:
        self.task = task
        self.scale = max(task.times.delay, default=1.0)
        self.end = task.horizon / self.scale
        self.delay = [seconds / self.scale for seconds in task.times.delay]
        self.problem = pulp.LpProblem("synth_send_times", pulp.LpMinimize)
        self.span = self.problem.add_variable("T", 0, self.end)
        self.used: dict[Send, pulp.LpVariable] = {}
        self.start: dict[Send, pulp.LpVariable] = {}
        self.early: dict[Send, float] = {}

    def build(self) -> SendModel:
        self.problem += self.span
        arrivals = [self._parcel(number, parcel) for number, parcel in enumerate(self.task.parcels)]
        self._alike(arrivals)
        rows: dict[int, list[tuple[Send, Occupancy]]] = defaultdict(list)
        for key in self.used:
            for item in self.task.times.occupied[key[1]]:
                rows[item.row].append((key, item))
        for _, sends in sorted(rows.items()):
            self._row_bound(sends)
        self._orders(rows)
        return SendModel(self.task, self.problem, self.scale, self.span, self.used, self.start)

    def _parcel(self, number: int, parcel: Parcel) -> dict[int, pulp.LpVariable]:
        """Tree and times of one chunk."""
        task, network = self.task, self.task.network
        early = [seconds / self.scale for seconds in task.earliest[number]]
        arrival: dict[int, pulp.LpVariable] = {}
        for rank in range(len(network.relays)):
            if rank != parcel.root and early[rank] <= self.end * (1 + 1e-9):
                arrival[rank] = self.problem.add_variable(f"a_{number}_{rank}", early[rank], max(early[rank], self.end))
        for hop, (src, dst) in enumerate(network.ends):
            if dst not in arrival or not (src == parcel.root or (src in arrival and network.relays[src])):
                continue
            if early[src] + self.delay[hop] <= self.end * (1 + 1e-9):
                key = number, hop
                self.used[key] = self.problem.add_variable(f"x_{number}_{hop}", 0, 1, cat="Integer")
                self.start[key] = self.problem.add_variable(f"t_{number}_{hop}", early[src], max(early[src], self.end))
                self.early[key] = early[src]
        for rank, at in arrival.items():
            self._rank(number, parcel, rank, at, early[rank])
        return arrival

    def _rank(self, number: int, parcel: Parcel, rank: int, at: pulp.LpVariable, early: float) -> None:
        network = self.task.network
        into = [(number, hop) for hop in network.into[rank] if (number, hop) in self.used]
        out = [(number, hop) for hop in network.out_of[rank] if (number, hop) in self.used]
        received = pulp.lpSum(self.used[key] for key in into)
        if rank in parcel.goals:
            self.problem += received == 1
            self.problem += self.span - at >= 0
        else:
            self.problem += received <= 1
        for key in into:
            delay, slack = self.delay[key[1]], self.end + self.delay[key[1]] - early
            self.problem += at - self.start[key] - slack * self.used[key] >= delay - slack
        if rank in parcel.goals:  # without an order the arrival is at least what the chosen hop can do
            least = pulp.lpSum((self.early[key] + self.delay[key[1]]) * self.used[key] for key in into)
            self.problem += at - least >= 0
        for key in out:
            self.problem += self.start[key] - at >= 0
            self.problem += self.used[key] - received <= 0

    def _alike(self, arrivals: Sequence[dict[int, pulp.LpVariable]]) -> None:
        """Chunks that may be exchanged reach their first goal in the order of their numbers."""
        for (k, one), (m, two) in itertools.pairwise(enumerate(self.task.parcels)):
            if one.kind == two.kind:
                self.problem += arrivals[m][two.goals[0]] - arrivals[k][one.goals[0]] >= 0

    def _row_bound(self, sends: list[tuple[Send, Occupancy]]) -> None:
        """T is at least all that a row has to serve, with what must pass before and after it."""
        scale = self.scale
        head = min(self.early[key] + item.offset / scale for key, item in sends)
        tail = min(self.delay[key[1]] - (item.offset + item.busy) / scale for key, item in sends)
        work = pulp.lpSum(item.busy / scale * self.used[key] for key, item in sends)
        any_used = [self.used[key] for key, _ in sends]
        if len(any_used) == 1:
            self.problem += self.span - work >= 0
            return
        # Head and tail count only when the row is used at all; each single send says so.
        for variable in any_used:
            self.problem += self.span - work - (head + max(tail, 0.0)) * variable >= 0

    def _orders(self, rows: dict[int, list[tuple[Send, Occupancy]]]) -> None:
        """Two sends on one row: one of them is over when the other begins."""
        same_hop: set[tuple[Send, Send]] = set()
        for row, sends in sorted(rows.items()):
            for (one, a), (two, b) in itertools.combinations(sends, 2):
                if one[1] == two[1]:
                    if (one, two) in same_hop:
                        continue
                    same_hop.add((one, two))
                    a = b = max(self.task.times.occupied[one[1]], key=lambda item: item.busy)
                order = self.problem.add_variable(f"o_{row}_{one[0]}_{one[1]}_{two[0]}_{two[1]}", 0, 1, cat="Integer")
                self._before(one, a, two, b, order)
                self._before(two, b, one, a, 1 - order)

    def _before(
        self, one: Send, a: Occupancy, two: Send, b: Occupancy, order: pulp.LpVariable | pulp.LpAffineExpression
    ) -> None:
        """If both are sent and ``order`` is 1: the second starts when the first has left the row."""
        least = (a.offset + a.busy - b.offset) / self.scale
        slack = max(0.0, self.end + least - self.early[two])
        both = self.used[one] + self.used[two] + order
        self.problem += self.start[two] - self.start[one] - slack * both >= least - 3 * slack
