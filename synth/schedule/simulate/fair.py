"""Links and pools shared by all messages at once, max-min fair: the fluid counterpart of queues.

A message is a flow over all links of its hop, at one rate. Rates are found by progressive filling whenever a flow
starts or ends.
"""

from __future__ import annotations

import heapq

import numpy as np

from synth.ground.fair_rates import fair_rates
from synth.schedule.simulate.compiled import CompiledTransfers, Timeline, spread
from synth.schedule.simulate.time_model import TimeModel

# A flow with less than this part of its bytes left is done: what rounding leaves.
_NOTHING = 1e-12


def run_fair(compiled: CompiledTransfers, chunk_bytes: float, model: TimeModel) -> Timeline:
    """Run messages as soon as their dependencies have arrived, sharing what they meet on.

    Parameters
    ----------
    compiled
        What to run.
    chunk_bytes
        Bytes of one chunk.
    model
        In ``blocking`` mode a flow keeps its share for the latency of its hop after its last byte.
    """
    engine = _Fair(compiled, chunk_bytes, model)
    engine.run()
    return spread(compiled, engine.starts, engine.arrivals)


class _Fair:
    def __init__(self, compiled: CompiledTransfers, chunk_bytes: float, model: TimeModel) -> None:
        self.compiled, self.model, self.chunk_bytes = compiled, model, chunk_bytes
        self.uses = [_uses(compiled, path) for path in compiled.links]
        self.alpha = [sum(compiled.latency[link] for link in path) + model.hop_latency for path in compiled.links]
        self.waiting = [len(deps) for deps in compiled.deps]
        self.after: list[list[int]] = [[] for _ in compiled.deps]
        for k, deps in enumerate(compiled.deps):
            for d in deps:
                self.after[d].append(k)
        self.ready = [model.start] * len(compiled)
        self.starts = [0.0] * len(compiled)
        self.arrivals = [0.0] * len(compiled)
        self.events: list[tuple[float, int]] = []  # when a message may move its first byte
        self.left: dict[int, float] = {}  # bytes of each flow that moves
        self.held: list[tuple[float, int]] = []  # blocking: when a finished flow gives its share back

    def run(self) -> None:
        for k, count in enumerate(self.waiting):
            if not count:
                self._release(k)
        now = self.model.start
        while self.events or self.left or self.held:
            sharers = [*self.left, *(k for _, k in self.held)]
            rates = dict(zip(sharers, fair_rates([self.uses[k] for k in sharers]), strict=True))
            finish = min((left / rates[k] for k, left in self.left.items()), default=np.inf)
            then = min(
                now + finish,
                self.events[0][0] if self.events else np.inf,
                self.held[0][0] if self.held else np.inf,
            )
            done = [k for k, left in self.left.items() if left <= finish * rates[k] * (1 + _NOTHING)]
            span, ends = then - now, then >= now + finish
            now = then
            for k in self.left:
                self.left[k] -= rates[k] * span
            for k in done if ends else ():
                self._finish(k, now)
            while self.held and self.held[0][0] <= now:
                heapq.heappop(self.held)
            while self.events and self.events[0][0] <= now:
                _, k = heapq.heappop(self.events)
                self.left[k] = self.compiled.count[k] * self.chunk_bytes

    def _release(self, k: int) -> None:
        self.starts[k] = self.ready[k]
        heapq.heappush(self.events, (self.ready[k] + self.model.overhead, k))

    def _finish(self, k: int, now: float) -> None:
        del self.left[k]
        arrival = now + self.alpha[k]
        if self.model.alpha_mode == "blocking" and self.alpha[k] > 0:
            heapq.heappush(self.held, (arrival, k))
        if self.compiled.adds[k]:
            arrival += self.compiled.count[k] * self.chunk_bytes / self.model.reduce_rate
        self.arrivals[k] = arrival
        for later in self.after[k]:
            self.ready[later] = max(self.ready[later], arrival)
            self.waiting[later] -= 1
            if not self.waiting[later]:
                self._release(later)


def _uses(compiled: CompiledTransfers, path: tuple[int, ...]) -> dict[int, float]:
    """Seconds per byte that a flow over a path takes of each row."""
    out: dict[int, float] = {}
    for link in path:
        out[link] = out.get(link, 0.0) + 1.0 / compiled.capacity[link]
        for row, per_byte in compiled.pools[link]:
            out[row] = out.get(row, 0.0) + per_byte
    return out
