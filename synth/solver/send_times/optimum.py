"""Schedules of least finish time on small machines whose links are not alike: trees, order and start times at once."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from synth.demand.model import Demand
from synth.engine.pulp_engine import DEFAULT_ENGINE, Engine, check_counts, check_time_limit
from synth.errors import InvalidInputError, LimitReachedError, VerificationError
from synth.formulation.send_times.model import (
    AlphaMode,
    HopTimes,
    Occupancy,
    Parcel,
    SendTask,
    hop_times,
    send_time_model,
)
from synth.formulation.steps.network import step_network
from synth.solver.send_times.solution import SendTimes, TimedSend, numbered, send_time_faults
from synth.solver.steps.cases import Composed, Setting, Single, case_of
from synth.solver.steps.search import Report
from synth.solver.steps.solution import StepSend
from synth.topology.model import Topology

# Relative distance of an engine's optimum or bound from the exact one that its tolerances allow.
TOLERANCE = 1e-6
# Part of the time that the step MILP may take for a first schedule.
FIRST_PART = 0.25


def send_time_optimum(
    topology: Topology,
    demand: Demand,
    *,
    chunks: int = 1,
    alpha_mode: AlphaMode = "pipelined",
    time_limit: float = 60.0,
    engine: str = DEFAULT_ENGINE,
    progress: Report | None = None,
) -> SendTimes:
    """Find send times with the earliest last arrival.

    Parameters
    ----------
    topology, demand
        Instance; a handful of GPUs.
    chunks
        Chunks of the largest shard.
    alpha_mode
        ``pipelined``: a link is busy for bytes / capacity. ``blocking``: for latency + bytes / capacity.
    time_limit
        Wall-clock seconds. The best step schedule, sent as early as it can be, is the first incumbent.
    engine, progress
        As for :func:`synth.solver.steps.optimum.step_optimum`.

    Returns
    -------
    SendTimes
        Replayed. An all-reduce is a reduce-scatter and an all-gather after it, with the bound of all-reduce.

    Raises
    ------
    InfeasibleError
        When data cannot get where it is demanded.
    InvalidInputError
        For reductions that not all GPUs take part in.
    LimitReachedError
        When the time limit strikes before there is any schedule.
    """
    check_counts(chunks=chunks)
    check_time_limit(time_limit)
    if alpha_mode not in ("pipelined", "blocking"):
        raise InvalidInputError(f"alpha mode {alpha_mode!r} must be pipelined or blocking")
    if demand.pattern in ("reduction", "allreduce") and len(demand.ranks) < len(topology.gpus):
        raise InvalidInputError(f"send times of {demand.collective} need all GPUs of {topology.name!r} as ranks")
    began = time.monotonic()
    setting = Setting(topology, demand, None, "auto", Engine(engine, began + time_limit), progress)
    case = case_of(setting)
    if demand.empty:
        return SendTimes(topology, demand, chunks, (), alpha_mode, (), 0.0, "nothing has to move", engine, 0.0)
    if isinstance(case, Composed):
        found = _composed(case, chunks, alpha_mode)
    else:
        found = _Search(case, chunks, alpha_mode).run()
    faults = send_time_faults(found)
    if faults:
        raise VerificationError(faults)
    return replace(found, seconds=time.monotonic() - began)


def _composed(case: Composed, chunks: int, mode: AlphaMode) -> SendTimes:
    """The halves one after the other; links that are free earlier are used earlier."""
    setting, halves = case.setting, []
    for half, part in ((case.scatter, 0.5), (case.gather, 1.0)):
        left = setting.engine.left * part
        engine = replace(setting.engine, deadline=time.monotonic() + left)
        timed = Single(replace(half.setting, engine=engine))
        halves.append(_Search(timed, chunks, mode).run())
    joined = [
        replace(timed.send, shard=0, chunk=timed.send.shard * chunks + timed.send.chunk)
        for half in halves
        for timed in half.sends
    ]
    shard_chunks = (chunks * len(setting.demand.ranks),)
    base = SendTimes(
        setting.topology, setting.demand, chunks, shard_chunks, mode, (), 0.0, "", setting.engine.name, 0.0
    )
    sends = as_early_as_possible(base, joined)
    return _bounded(replace(base, sends=sends), *_counted(setting))


def _counted(setting: Setting) -> tuple[float, str]:
    """The bandwidth bound of the plan, seconds."""
    if setting.plan is None:
        return 0.0, "no bound was found within the time limit"
    return setting.plan.bound, "the links need that long however the shards are split (certified by the plan's prices)"


def _bounded(found: SendTimes, bound: float, reason: str) -> SendTimes:
    return replace(found, bound=min(bound, found.time), reason=reason)


@dataclass(frozen=True)
class _Search:
    case: Single
    chunks: int
    mode: AlphaMode

    def run(self) -> SendTimes:
        setting = self.case.setting
        best = self._first()
        bound, reason = _counted(setting)
        task = self._task(best.time)
        near = max(task.earliest[k][goal] for k, parcel in enumerate(task.parcels) for goal in parcel.goals)
        if near > bound:
            bound, reason = near, "the farthest rank cannot be reached earlier"
        if best.time <= bound * (1 + TOLERANCE):
            return _bounded(best, bound, reason)
        if setting.report is not None:
            setting.report(f"send times: at least {bound * 1e6:.2f} us, {best.time * 1e6:.2f} us found")
        model = send_time_model(task)
        verdict = setting.engine.run(model.problem)
        best = self._better(best, model.read(), task)
        if verdict == "optimal":
            proven = model.read_span() * (1 - TOLERANCE)
            why = f"the search over all trees and orders is exhausted ({setting.engine.name})"
        else:
            proven = setting.engine.lower_bound(model.problem) * model.scale * (1 - TOLERANCE)
            why = f"{setting.engine.name} has excluded anything shorter so far"
        return _bounded(best, *max((bound, reason), (proven, why)))

    def _base(self) -> SendTimes:
        setting = self.case.setting
        counts = self.case.shard_chunks(self.chunks)
        return SendTimes(
            *(setting.topology, setting.demand, self.chunks, counts, self.mode, (), 0.0, "", setting.engine.name, 0.0)
        )

    def _first(self) -> SendTimes:
        """The best of two step schedules, every send as early as its order allows."""
        setting = self.case.setting
        engine = replace(setting.engine, deadline=time.monotonic() + setting.engine.left * FIRST_PART)
        case = Single(replace(setting, engine=engine))
        found = []
        for steps in (case.least_steps, case.least_steps + 1):
            outcome = case.solve(self.chunks, steps)
            if outcome.solution is not None:
                found.append(as_early_as_possible(self._base(), outcome.solution.sends))
        if not found:
            raise LimitReachedError("no schedule within the time limit: give --time-limit more seconds")
        sends = min(found, key=lambda sends: max(timed.arrival for timed in sends))
        return replace(self._base(), sends=sends)

    def _task(self, horizon: float) -> SendTask:
        setting = self.case.setting
        network = step_network(setting.topology, strands=True)
        times = hop_times(network, self._base().chunk_bytes, self.mode)
        if self.case.backwards:
            network, times = network.reversed(), _reversed(times)
        return SendTask(network, times, tuple(self._parcels()), horizon)

    def _parcels(self) -> list[Parcel]:
        demand = self.case.setting.demand
        out = []
        for shard, (item, count) in enumerate(
            zip(demand.commodities, self.case.shard_chunks(self.chunks), strict=True)
        ):
            others = demand.ranks if item.dest is None else (item.dest,)
            goals = tuple(rank for rank in others if rank != item.root)
            out += [Parcel(item.root, goals, shard)] * count
        return out

    def _better(self, best: SendTimes, read: Sequence[tuple[float, int, int]], task: SendTask) -> SendTimes:
        """What the engine left, if it is a schedule and not longer than what was there."""
        try:
            sends = as_early_as_possible(self._base(), self._sends(read, task))
        except KeyError:  # the order of a stopped engine's values is no order
            return best
        found = replace(self._base(), sends=sends)
        return found if not send_time_faults(found) and found.time <= best.time else best

    def _sends(self, read: Sequence[tuple[float, int, int]], task: SendTask) -> list[StepSend]:
        """Sends in the order of their starts; those of a reduction run backwards."""
        read = _pruned(read, task)
        firsts: dict[int, int] = {}
        for number, parcel in enumerate(task.parcels):
            firsts.setdefault(parcel.kind, number)
        if self.case.backwards:
            read = sorted(read, key=lambda send: (-(send[0] + task.times.delay[send[2]]), send))
        out: list[StepSend] = []
        for _, number, hop in read:
            shard = task.parcels[number].kind
            src, dst = task.network.ends[hop][::-1] if self.case.backwards else task.network.ends[hop]
            links = task.network.hops[hop].links
            out.append(StepSend(len(out), shard, number - firsts[shard], src, dst, links, self.case.backwards))
        return out


def _pruned(read: Sequence[tuple[float, int, int]], task: SendTask) -> list[tuple[float, int, int]]:
    """Without sends to ranks that neither want the chunk nor send it on."""
    ends, kept = task.network.ends, list(read)
    while True:
        senders = {(number, ends[hop][0]) for _, number, hop in kept}
        less = [
            (start, number, hop)
            for start, number, hop in kept
            if (dst := ends[hop][1]) in task.parcels[number].goals or (number, dst) in senders
        ]
        if len(less) == len(kept):
            return kept
        kept = less


def _reversed(times: HopTimes) -> HopTimes:
    """The same occupancy seen from the end: a hop starts when the chunk has arrived."""
    occupied = tuple(
        tuple(Occupancy(item.row, max(0.0, delay - item.offset - item.busy), item.busy) for item in rows)
        for rows, delay in zip(times.occupied, times.delay, strict=True)
    )
    return HopTimes(occupied, times.delay)


def as_early_as_possible(base: SendTimes, ordered: Sequence[StepSend]) -> tuple[TimedSend, ...]:
    """Start times of sends that keep their order on every link and resource.

    Parameters
    ----------
    base
        Topology, sizes and alpha mode.
    ordered
        Every send after those that bring what it passes on.

    Raises
    ------
    KeyError
        When a send comes before what it passes on.
    """
    network = step_network(base.topology, strands=True)
    times = hop_times(network, base.chunk_bytes, base.alpha_mode)
    hop_of = {(*network.ends[k], hop.links): k for k, hop in enumerate(network.hops)}
    free: dict[int, float] = defaultdict(float)
    arrived: dict[tuple[int, int, int], float] = _sources(base)
    summed: dict[tuple[int, int, int], float] = defaultdict(float)
    out = []
    for send in ordered:
        hop = hop_of[send.src, send.dst, send.links]
        source, goal = (send.src, send.shard, send.chunk), (send.dst, send.shard, send.chunk)
        start = max(summed[source], 0.0 if send.reduce else arrived.get(source, summed[source]))
        if not send.reduce and source not in arrived and source not in summed:
            raise KeyError(source)
        start = max([start, *(free[item.row] - item.offset for item in times.occupied[hop])])
        for item in times.occupied[hop]:
            free[item.row] = start + item.offset + item.busy
        arrival = start + times.delay[hop]
        if send.reduce:
            summed[goal] = max(summed[goal], arrival)
        else:
            arrived[goal] = arrival
        out.append(TimedSend(start, arrival, send))
    return numbered(out)


def _sources(base: SendTimes) -> dict[tuple[int, int, int], float]:
    """What is where it starts at time 0."""
    if base.demand.pattern in ("reduction", "allreduce"):
        return {}
    return {
        (item.root, shard, chunk): 0.0
        for shard, item in enumerate(base.demand.commodities)
        for chunk in range(base.shard_chunks[shard])
    }
