"""Event-driven alpha-beta simulation of transfers.

A link (and every pool that it uses) is busy for bytes / capacity, the last byte arrives one latency later, a GPU
forwards or adds a chunk when it has all of it, and switches, NICs and CPUs on the way cut through: the next link may
start one latency after this one started, but cannot finish before this one has delivered.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

from synth.schedule.model import Transfer
from synth.topology.model import Topology


@dataclass(frozen=True, slots=True)
class Timeline:
    """Start on the first link and arrival at the destination of each transfer, in seconds, in the given order."""

    starts: tuple[float, ...]
    arrivals: tuple[float, ...]

    @property
    def end(self) -> float:
        """Last arrival."""
        return max(self.arrivals, default=0.0)


def simulate(
    topology: Topology, transfers: Sequence[Transfer], chunk_bytes: float, priority: Sequence[float] | None = None
) -> Timeline:
    """Run transfers as early as their dependencies and links allow.

    Parameters
    ----------
    topology
        Capacities and latencies.
    transfers
        Dependencies name positions in this sequence.
    chunk_bytes
        Bytes of one chunk.
    priority
        Which of several waiting transfers a free link takes first (smallest); default: the sequence's order.

    Returns
    -------
    Timeline
    """
    return _Engine(topology, transfers, chunk_bytes, priority).run()


class _Engine:
    def __init__(
        self, topology: Topology, transfers: Sequence[Transfer], chunk_bytes: float, priority: Sequence[float] | None
    ) -> None:
        self.transfers, self.chunk_bytes = transfers, chunk_bytes
        self.priority = range(len(transfers)) if priority is None else priority
        self.capacity = [link.capacity for link in topology.links]
        self.latency = [link.latency for link in topology.links]
        self.pools: list[list[tuple[int, float]]] = [[] for _ in topology.links]
        self.pool_links: list[list[int]] = []
        for k, pool in enumerate(topology.resources):
            users = [(topology.link_index[link], times / pool.bandwidth) for link, times in pool.uses]
            self.pool_links.append([link for link, _ in users])
            for link, per_byte in users:
                self.pools[link].append((k, per_byte))
        self.link_free = [0.0] * len(topology.links)
        self.pool_free = [0.0] * len(topology.resources)
        self.queue: list[list[tuple[float, int, int]]] = [[] for _ in topology.links]
        self.events: list[tuple[float, int, int, int]] = []  # time, kind (0 head arrives, 1 link, 2 pool free), a, b
        self.waiting = [len(t.deps) for t in transfers]
        self.after: list[list[int]] = [[] for _ in transfers]
        for k, t in enumerate(transfers):
            for d in t.deps:
                self.after[d].append(k)
        self.starts = [0.0] * len(transfers)
        self.arrivals = [0.0] * len(transfers)
        self.ready = [0.0] * len(transfers)
        self.delivered = [0.0] * len(transfers)  # when the link before has delivered its last byte

    def run(self) -> Timeline:
        for k, count in enumerate(self.waiting):
            if not count:
                heapq.heappush(self.events, (0.0, 0, k, 0))
        while self.events:
            now = self.events[0][0]
            touched: set[int] = set()
            while self.events and self.events[0][0] == now:
                _, kind, a, b = heapq.heappop(self.events)
                if kind == 0:
                    link = self.transfers[a].links[b]
                    heapq.heappush(self.queue[link], (self.priority[a], a, b))
                    touched.add(link)
                else:
                    touched.update([a] if kind == 1 else self.pool_links[a])
            for _, link in sorted((self.queue[link][0], link) for link in touched if self.queue[link]):
                self._try_start(link, now)
        return Timeline(tuple(self.starts), tuple(self.arrivals))

    def _try_start(self, link: int, now: float) -> None:
        if self.link_free[link] > now or any(self.pool_free[pool] > now for pool, _ in self.pools[link]):
            return
        _, k, position = heapq.heappop(self.queue[link])
        transfer = self.transfers[k]
        size = transfer.count * self.chunk_bytes
        passed = self.link_free[link] = now + size / self.capacity[link]
        heapq.heappush(self.events, (passed, 1, link, 0))
        for pool, per_byte in self.pools[link]:
            self.pool_free[pool] = now + size * per_byte
            passed = max(passed, self.pool_free[pool])
            heapq.heappush(self.events, (self.pool_free[pool], 2, pool, 0))
        if position == 0:
            self.starts[k] = now
        self.delivered[k] = max(passed, self.delivered[k]) + self.latency[link]
        if position + 1 < len(transfer.links):
            heapq.heappush(self.events, (now + self.latency[link], 0, k, position + 1))
        else:
            self._arrive(k)

    def _arrive(self, k: int) -> None:
        at = self.arrivals[k] = self.delivered[k]
        for later in self.after[k]:
            self.ready[later] = max(self.ready[later], at)
            self.waiting[later] -= 1
            if not self.waiting[later]:
                heapq.heappush(self.events, (self.ready[later], 0, later, 0))
