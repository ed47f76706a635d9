"""Event-driven simulation: links serve one message at a time, whichever is first in their queue when they are free."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from synth.schedule.simulate.compiled import CompiledTransfers, Timeline, spread
from synth.schedule.simulate.time_model import TimeModel

_HEAD, _FREE = 0, 1


def run_queued(
    compiled: CompiledTransfers, chunk_bytes: float, model: TimeModel, priority: Sequence[float] | None = None
) -> Timeline:
    """Run messages as early as their dependencies and links allow.

    Parameters
    ----------
    compiled
        What to run.
    chunk_bytes
        Bytes of one chunk.
    model
        Its ``sharing`` is not looked at.
    priority
        Per message: which of several waiting ones a free link takes first (smallest). None: the first that came
        (ties: the first in the schedule).
    """
    engine = _Engine(compiled, chunk_bytes, model, priority)
    engine.run()
    return spread(compiled, engine.starts, engine.arrivals)


class _Engine:
    def __init__(
        self, compiled: CompiledTransfers, chunk_bytes: float, model: TimeModel, priority: Sequence[float] | None
    ) -> None:
        self.compiled, self.chunk_bytes, self.priority = compiled, chunk_bytes, priority
        self.model, self.blocking = model, model.alpha_mode == "blocking"
        self.links, self.latency, self.capacity, self.pools = (
            *(compiled.links, compiled.latency),
            *(compiled.capacity, compiled.pools),
        )
        self.users: dict[int, list[int]] = {}  # links of each pool
        for link, rows in enumerate(compiled.pools):
            for row, _ in rows:
                self.users.setdefault(row, []).append(link)
        self.free = [model.start] * compiled.rows
        self.queue: list[list[tuple[float, int, int]]] = [[] for _ in compiled.capacity]
        self.events: list[tuple[float, int, int, int]] = []  # time, kind, message or row, position
        self.waiting = [len(deps) for deps in compiled.deps]
        self.after: list[list[int]] = [[] for _ in compiled.deps]
        for k, deps in enumerate(compiled.deps):
            for d in deps:
                self.after[d].append(k)
        self.starts = [0.0] * len(compiled)
        self.arrivals = [0.0] * len(compiled)
        self.ready = [model.start] * len(compiled)
        self.delivered = [0.0] * len(compiled)  # when the link before has delivered its last byte

    def run(self) -> None:
        for k, count in enumerate(self.waiting):
            if not count:
                heapq.heappush(self.events, (self.model.start, _HEAD, k, 0))
        events, queue, links, priority = self.events, self.queue, self.links, self.priority
        while events:
            now = events[0][0]
            touched: set[int] = set()
            while events and events[0][0] == now:
                _, kind, a, b = heapq.heappop(events)
                if kind == _HEAD:
                    link = links[a][b]
                    heapq.heappush(queue[link], (now if priority is None else priority[a], a, b))
                    touched.add(link)
                else:
                    touched.update(self.users.get(a, (a,)))
            if len(touched) == 1:
                link = touched.pop()
                if queue[link]:
                    self._try_start(link, now)
                continue
            for _, link in sorted((queue[link][0], link) for link in touched if queue[link]):
                self._try_start(link, now)

    def _try_start(self, link: int, now: float) -> None:
        pools, free = self.pools[link], self.free
        if free[link] > now or any(free[row] > now for row, _ in pools):
            return
        _, k, position = heapq.heappop(self.queue[link])
        size, path = self.compiled.count[k] * self.chunk_bytes, self.links[k]
        last = position + 1 == len(path)
        alpha = self.latency[link] + self.model.hop_latency if last else self.latency[link]
        hold = alpha if self.blocking else 0.0
        begun = now
        if position == 0:
            self.starts[k] = now
            begun += self.model.overhead
        passed = begun + size / self.capacity[link]
        free[link] = passed + hold
        heapq.heappush(self.events, (free[link], _FREE, link, 0))
        for row, per_byte in pools:
            through = begun + size * per_byte
            free[row] = through + hold
            passed = max(passed, through)
            heapq.heappush(self.events, (free[row], _FREE, row, 0))
        self.delivered[k] = max(passed, self.delivered[k]) + alpha
        if not last:
            heapq.heappush(self.events, (begun + alpha, _HEAD, k, position + 1))
        else:
            self._arrive(k, size)

    def _arrive(self, k: int, size: float) -> None:
        at = self.delivered[k]
        if self.compiled.adds[k]:
            at += size / self.model.reduce_rate
        self.arrivals[k] = at
        for later in self.after[k]:
            if at > self.ready[later]:
                self.ready[later] = at
            self.waiting[later] -= 1
            if not self.waiting[later]:
                heapq.heappush(self.events, (self.ready[later], _HEAD, later, 0))
