"""Event-driven simulation of one transfer over several paths, chunk by chunk.

Each path has a window: the bytes that it may have outstanding, from the hand-over of a chunk to its arrival. Chunks of
a path go over the wire one after another. The chunks on the wire of all paths share links and pools by max-min fair
rates (see ``synth.ground.fair_rates``); the capacities change in steps.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

from synth.errors import InfeasibleError
from synth.ground.arrays import Floats
from synth.study.adaptive.capacity import Trace
from synth.study.paths import PathSet
from synth.study.sharing import shared_rates

#: Weight of the newest measurement in the running mean of a path's time per byte.
NEWEST = 0.5


@dataclass(frozen=True, slots=True)
class Arrival:
    """One delivered chunk: its path, bytes, and when it was handed over, left the source entirely and arrived (s)."""

    path: int
    size: int
    handed: float
    sent: float
    arrived: float


@dataclass(frozen=True)
class Run:
    """What one policy did.

    Attributes
    ----------
    policy
        Its name.
    paths
        Paths of the transfer.
    arrivals
        Chunks in order of arrival.
    times
        Bounds of the steps between events, seconds, the first is 0.
    rates
        Steps x paths, bytes/second on the wire.
    """

    policy: str
    paths: PathSet
    arrivals: tuple[Arrival, ...]
    times: Floats
    rates: Floats

    @property
    def finish(self) -> float:
        """Seconds until the last byte has arrived."""
        return max((item.arrived for item in self.arrivals), default=0.0)

    @property
    def sent_end(self) -> float:
        """Seconds until the last byte has left the source."""
        return max((item.sent for item in self.arrivals), default=0.0)

    @property
    def path_bytes(self) -> npt.NDArray[np.int64]:
        """Delivered bytes per path."""
        out = np.zeros(len(self.paths.paths), dtype=np.int64)
        for item in self.arrivals:
            out[item.path] += item.size
        return out

    @property
    def sent(self) -> Floats:
        """Bounds x paths: bytes on the wire until each of ``times``."""
        steps = np.diff(self.times)[:, None] * self.rates
        return np.vstack([np.zeros((1, self.rates.shape[1])), np.cumsum(steps, axis=0)])

    def sent_at(self, when: Floats) -> Floats:
        """Bytes that each path has sent by the times ``when`` (times x paths)."""
        return np.stack([np.interp(when, self.times, column) for column in self.sent.T], axis=1)


@dataclass
class Lane:
    """State of one path: its window and what it has measured."""

    window: int
    rate: float  # bytes/second: what the planner was told, then a running mean of what was measured
    queue: deque[tuple[int, float]] = field(default_factory=deque)  # (bytes, hand-over); the first is on the wire
    left: float = 0.0  # bytes of the first chunk that are still to be sent
    begun: float = 0.0  # when the first chunk got onto the wire
    outstanding: int = 0

    def measure(self, size: int, span: float) -> None:
        """Learn from a chunk's time on the wire; times are averaged, so a drop shows sooner than a recovery."""
        self.rate = 1.0 / (NEWEST * span / size + (1 - NEWEST) / self.rate)

    def room(self, size: int) -> bool:
        """Whether the window takes another chunk; an empty one always does."""
        return not self.outstanding or self.outstanding + size <= self.window

    def backlog(self) -> float:
        """Bytes that are handed over and not yet sent."""
        return self.left + sum(size for size, _ in list(self.queue)[1:])


class Policy(Protocol):
    """Who decides which path the next chunk takes."""

    name: str
    #: Per path, weight in the fair sharing.
    weights: Floats
    #: Paths that are served before the others, or None.
    primary: npt.NDArray[np.bool_] | None

    def next_chunk(self, lanes: list[Lane]) -> tuple[int, int] | None:
        """(path, bytes) of a chunk to hand over now, or None."""
        ...

    def capacity_changed(self, lanes: list[Lane], capacity: Floats) -> None:
        """Told at the start and at every change of capacities; online policies do not look."""
        ...


def simulate(paths: PathSet, trace: Trace, windows: tuple[int, ...], policy: Policy) -> Run:
    """Run one transfer to its end.

    Parameters
    ----------
    paths
        Paths of the transfer.
    trace
        Capacities over time.
    windows
        Bytes that each path may have outstanding; one chunk is always allowed.
    policy
        Holds the bytes of the transfer and hands them over.

    Returns
    -------
    Run
    """
    return _Engine(paths, trace, windows, policy).run()


class _Engine:
    def __init__(self, paths: PathSet, trace: Trace, windows: tuple[int, ...], policy: Policy) -> None:
        self.paths, self.policy, self.steps = paths, policy, deque(trace.steps())
        self.lanes = [Lane(w, p.bandwidth) for w, p in zip(windows, paths.paths, strict=True)]
        self.flying: list[tuple[float, int, int, float, float]] = []  # arrival, path, bytes, handed, sent
        self.known: dict[tuple[bool, ...], Floats] = {}
        self.now = 0.0
        self.done: list[Arrival] = []
        self.times = [0.0]
        self.rates: list[Floats] = []
        self.until, self.capacity = math.inf, trace.capacities[0]

    def run(self) -> Run:
        while True:
            self._change()
            self._hand_over()
            if not self.flying and not any(lane.queue for lane in self.lanes):
                break
            self._advance(self._share())
            self._land()
        rates = np.array(self.rates) if self.rates else np.zeros((0, len(self.lanes)))
        return Run(self.policy.name, self.paths, tuple(self.done), np.array(self.times), rates)

    def _change(self) -> None:
        """Enter the step that holds now; the policy is told once per step."""
        while self.steps and self.steps[0][0] <= self.now:
            _, self.until, self.capacity = self.steps.popleft()
            self.policy.capacity_changed(self.lanes, self.capacity)
            self.known.clear()

    def _hand_over(self) -> None:
        while (given := self.policy.next_chunk(self.lanes)) is not None:
            path, size = given
            lane = self.lanes[path]
            if not lane.queue:
                lane.left, lane.begun = float(size), self.now
            lane.queue.append((size, self.now))
            lane.outstanding += size

    def _share(self) -> Floats:
        """Rates on the wire; they stay the same while the same paths are busy and nothing changes."""
        busy = tuple(bool(lane.queue) for lane in self.lanes)
        if busy not in self.known:
            weights = np.where(busy, self.policy.weights, 0.0)
            self.known[busy] = shared_rates(self.paths.uses, self.capacity, weights, self.policy.primary)
        return self.known[busy]

    def _advance(self, rates: Floats) -> None:
        """Go to the next event; chunks that leave the wire there do so exactly, whatever rounding says."""
        now_rates: list[float] = rates.tolist()
        pairs = list(zip(self.lanes, now_rates, strict=True))
        needs = [lane.left / rate if lane.queue and rate > 0 else math.inf for lane, rate in pairs]
        leave = min(needs, default=math.inf)
        landing = min((item[0] for item in self.flying), default=math.inf)
        wire = self.now + leave
        target = min(wire, landing, self.until)
        if not math.isfinite(target):
            raise InfeasibleError("no path carries anything any more: all capacity is taken by other paths")
        span = target - self.now
        for lane, rate in pairs:
            lane.left = max(lane.left - rate * span, 0.0)
        self.now = target
        if span > 0:
            self.times.append(target)
            self.rates.append(rates)
        if target == wire:
            for k, need in enumerate(needs):
                if need <= leave * (1 + 1e-12):
                    self._leave(k)

    def _leave(self, k: int) -> None:
        lane = self.lanes[k]
        size, handed = lane.queue.popleft()
        if self.now > lane.begun:
            lane.measure(size, self.now - lane.begun)
        if lane.queue:
            lane.left, lane.begun = float(lane.queue[0][0]), self.now
        else:
            lane.left = 0.0
        self.flying.append((self.now + self.paths.paths[k].latency, k, size, handed, self.now))

    def _land(self) -> None:
        for item in sorted(item for item in self.flying if item[0] <= self.now):
            arrived, k, size, handed, sent = item
            self.lanes[k].outstanding -= size
            self.done.append(Arrival(k, size, handed, sent, arrived))
        self.flying = [item for item in self.flying if item[0] > self.now]
