"""A schedule of send times, and its replay."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from synth.demand.model import Demand
from synth.formulation.send_times.model import AlphaMode
from synth.ground.onward import onward
from synth.ground.text import aligned
from synth.solver.steps.check import step_faults
from synth.solver.steps.solution import StepSend, StepSolution, chunk_bytes
from synth.topology.model import Topology

if TYPE_CHECKING:
    from synth.schedule.model import Schedule

FORMAT = "synth-send-times/1"
_TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True)
class TimedSend:
    """A send (its ``step`` is its place in the order of starts) with its start and arrival in seconds."""

    start: float
    arrival: float
    send: StepSend


@dataclass(frozen=True)
class SendTimes:
    """Sends with start times, and a bound on the last arrival.

    Attributes
    ----------
    topology, demand, chunks, shard_chunks
        As in :class:`StepSolution`.
    alpha_mode
        ``pipelined``: a link is busy for bytes / capacity; ``blocking``: for latency + bytes / capacity.
    sends
        By start.
    bound
        Seconds; no schedule of so many chunks ends earlier.
    reason
        What proves the bound.
    engine, seconds
        Who solved, and how long it took.
    """

    topology: Topology
    demand: Demand
    chunks: int
    shard_chunks: tuple[int, ...]
    alpha_mode: AlphaMode
    sends: tuple[TimedSend, ...]
    bound: float
    reason: str
    engine: str
    seconds: float

    @property
    def time(self) -> float:
        """Seconds until the last arrival."""
        return max((timed.arrival for timed in self.sends), default=0.0)

    @property
    def gap(self) -> float:
        """(time - bound) / time."""
        return (self.time - self.bound) / self.time if self.sends else 0.0

    @property
    def status(self) -> Literal["optimal", "feasible"]:
        """``optimal`` up to a relative gap of 1e-5, the tolerance of a MILP with large constants."""
        return "optimal" if self.gap <= 1e-5 else "feasible"

    @property
    def chunk_bytes(self) -> float:
        """Bytes of a chunk."""
        return chunk_bytes(self.demand, self.chunks)

    def as_steps(self) -> StepSolution:
        """The order alone: every send a step of its own, with as many rounds as its links need."""
        unit = min(
            [link.capacity for link in self.topology.links] + [p.bandwidth for p in self.topology.resources] or [1.0]
        )
        most = max([1.0, *(times for pool in self.topology.resources for _, times in pool.uses)])
        rounds = (int(-(-most * max(len(timed.send.links) for timed in self.sends) // 1)),) * len(self.sends)
        sends = tuple(timed.send for timed in self.sends)
        return StepSolution(
            *(self.topology, self.demand, self.chunks, self.shard_chunks, rounds, sends),
            *(0, "an order of sends, not of steps", unit, 1, self.engine, self.seconds),
        )

    def schedule(self) -> Schedule:
        """The same sends as a :class:`Schedule`, simulated in the pipelined model whatever ``alpha_mode``."""
        made: Schedule = onward("SendTimes.schedule")(self.as_steps())
        return made

    def to_dict(self) -> dict[str, Any]:
        """Facts for ``--json``."""
        return {
            "format": FORMAT,
            "topology": self.topology.name,
            "collective": self.demand.collective,
            "ranks": list(self.demand.ranks),
            "size_bytes": self.demand.size_bytes,
            "chunks": self.chunks,
            "alpha_mode": self.alpha_mode,
            "status": self.status,
            "time_us": self.time * 1e6,
            "bound_us": self.bound * 1e6,
            "bound_reason": self.reason,
            "gap": self.gap,
            "sends": len(self.sends),
            "engine": self.engine,
            "solve_s": self.seconds,
        }

    def sends_to_dict(self) -> list[dict[str, Any]]:
        """Every send for a file, with its times in microseconds."""
        return [
            {**{k: v for k, v in row.items() if k != "step"}, "start_us": x.start * 1e6, "arrival_us": x.arrival * 1e6}
            for row, x in zip(self.as_steps().sends_to_dict(), self.sends, strict=True)
        ]

    def summary(self) -> str:
        """A few lines for a person."""
        return aligned(
            [
                ("topology", f"{self.topology.name}, {len(self.demand.ranks)} ranks"),
                ("collective", f"{self.demand.collective}, {self.demand.size_bytes:,.0f} bytes, {self.chunks} chunks"),
                ("time", f"{self.time * 1e6:,.2f} us, at least {self.bound * 1e6:,.2f} us ({self.alpha_mode})"),
                ("status", f"{self.status}, gap {100 * self.gap:.3g} %, {len(self.sends)} sends"),
                ("because", self.reason),
                ("solved", f"with {self.engine}"),
            ]
        )


def send_time_faults(solution: SendTimes) -> list[str]:
    """Everything that is wrong with send times; empty when they are a schedule.

    Independent of the MILP: it reads the topology and the sends. Checked: each send takes as long as its links need,
    sends do not overlap on a link or resource, what is sent has arrived, and everything ends where it is wanted.
    """
    faults = step_faults(solution.as_steps()) if solution.sends else []
    busy: dict[str, list[tuple[float, float, int]]] = defaultdict(list)
    for number, timed in enumerate(solution.sends):
        least, rows = _needs(solution, timed)
        if timed.arrival - timed.start < least * (1 - _TOLERANCE):
            faults.append(f"send {number} takes {timed.arrival - timed.start:g} s, its links need {least:g} s")
        for row, begin, end in rows:
            busy[row].append((begin, end, number))
    for row, spans in sorted(busy.items()):
        spans.sort()
        for (_, end, one), (begin, _, two) in itertools.pairwise(spans):
            if begin < end - _TOLERANCE * solution.time:
                faults.append(f"sends {one} and {two} overlap on {row!r}")
    return faults + _early_faults(solution)


def _needs(solution: SendTimes, timed: TimedSend) -> tuple[float, list[tuple[str, float, float]]]:
    """Seconds from start to arrival, and what is occupied from when to when."""
    topology, size = solution.topology, solution.chunk_bytes
    at, slowest = timed.start, 0.0
    rows: dict[str, tuple[float, float]] = {}
    for k in timed.send.links:
        link = topology.links[k]
        passing = size / link.capacity
        held = passing + (link.latency if solution.alpha_mode == "blocking" else 0.0)
        slowest = max(slowest, passing)
        rows[link.id] = (at, held)
        for pool in topology.resources:
            times = dict(pool.uses).get(link.id, 0.0)
            if times:
                begin, known = rows.get(pool.id, (at, 0.0))
                rows[pool.id] = (begin, known + size * times / pool.bandwidth)
                slowest = max(slowest, rows[pool.id][1])
        at += link.latency
    return at - timed.start + slowest, [(row, begin, begin + held) for row, (begin, held) in rows.items()]


def _early_faults(solution: SendTimes) -> list[str]:
    """Sends that start before all that they pass on has arrived."""
    arrived: dict[tuple[int, int, int], list[TimedSend]] = defaultdict(list)
    for timed in solution.sends:
        arrived[timed.send.dst, timed.send.shard, timed.send.chunk].append(timed)
    faults = []
    for number, timed in enumerate(solution.sends):
        send = timed.send
        needed = (x for x in arrived[send.src, send.shard, send.chunk] if x.send.reduce or not send.reduce)
        if any(x.arrival > timed.start + _TOLERANCE * solution.time for x in needed):
            faults.append(f"send {number} of rank {send.src} starts before what it passes on has arrived")
    return faults


def numbered(sends: Sequence[TimedSend]) -> tuple[TimedSend, ...]:
    """Sends in the order of their starts, each a step of its own."""
    ordered = sorted(sends, key=lambda timed: (timed.start, timed.arrival, timed.send))
    return tuple(replace(timed, send=replace(timed.send, step=k)) for k, timed in enumerate(ordered))
