"""Step-optimal schedules of small machines: least steps, least rounds, and the frontier between them."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Literal

from synth.demand.model import Demand
from synth.engine.pulp_engine import DEFAULT_ENGINE, Engine, check_counts, check_time_limit
from synth.errors import InfeasibleError, InvalidInputError, LimitReachedError
from synth.solver.steps.cases import Case, Outcome, Setting, case_of
from synth.solver.steps.search import Bound, Report
from synth.solver.steps.solution import StepSolution
from synth.topology.model import Topology
from synth.topology.reachability import check_steps

FRONTIER_FORMAT = "synth-step-frontier/1"


def step_optimum(
    topology: Topology,
    demand: Demand,
    *,
    chunks: int = 1,
    steps: int | None = None,
    rounds: int | None = None,
    round_bandwidth: float | None = None,
    symmetry: Literal["auto", "off"] = "auto",
    time_limit: float = 60.0,
    engine: str = DEFAULT_ENGINE,
    progress: Report | None = None,
) -> StepSolution:
    """Find a schedule of synchronous steps with the fewest rounds, and prove that there is none with fewer.

    Parameters
    ----------
    topology, demand
        Instance, up to about 16 GPUs.
    chunks
        Chunks of the largest shard (an all-reduce's shard is its buffer / ranks).
    steps
        Number of steps; default: the fewest possible ones, or with ``rounds`` the fewest that suffice.
    rounds
        Any schedule with at most so many rounds will do. Default: as few as possible.
    round_bandwidth
        Bytes/second of a link that sends one chunk per round; default: the slowest link's.
    symmetry
        ``auto``: schedules with sends equal on the orbits of a group of automorphisms are tried first.
    time_limit
        Wall-clock seconds. With a schedule in hand the best so far is returned as ``feasible`` with its gap.
    engine
        Any engine that PuLP knows and finds.
    progress
        Told in words how far the search is.

    Returns
    -------
    StepSolution
        Replayed by :func:`synth.solver.steps.check.step_faults`.

    Raises
    ------
    InfeasibleError
        When the steps or rounds do not suffice, with what proves it.
    LimitReachedError
        When the time limit strikes before there is a schedule.
    """
    check_counts(chunks=chunks, steps=steps, rounds=rounds)
    setting = _setting(topology, demand, round_bandwidth, symmetry, time_limit, engine, progress)
    case = case_of(setting)
    if demand.empty:
        return StepSolution(
            topology, demand, chunks, (), (), (), 0, "nothing has to move", setting.network.unit, 1, engine, 0.0
        )
    began = time.monotonic()
    solution = _fewest_steps(case, chunks, rounds) if steps is None else _given_steps(case, chunks, steps, rounds)
    return replace(solution, seconds=time.monotonic() - began)


def _setting(
    topology: Topology,
    demand: Demand,
    unit: float | None,
    symmetry: Literal["auto", "off"],
    time_limit: float,
    engine: str,
    progress: Report | None,
) -> Setting:
    check_time_limit(time_limit)
    if symmetry not in ("auto", "off"):
        raise InvalidInputError(f"symmetry {symmetry!r} must be auto or off")
    deadline = time.monotonic() + time_limit
    return Setting(topology, demand, unit, symmetry, Engine(engine, deadline), progress)


def _given_steps(case: Case, chunks: int, steps: int, rounds: int | None) -> StepSolution:
    _check_distance(case, steps)
    outcome = case.solve(chunks, steps, rounds, enough=rounds is not None)
    if outcome.solution is not None:
        return outcome.solution
    raise _nothing(case, outcome.bound, chunks, f"{steps} steps", rounds)


def _fewest_steps(case: Case, chunks: int, rounds: int | None) -> StepSolution:
    """The fewest steps, or the fewest that a number of rounds suffices for (each step takes at least one)."""
    if rounds is None:
        return _given_steps(case, chunks, case.least_steps, None)
    bound = case.setting.bound(chunks, case.least_steps)
    undecided = False
    for steps in range(case.least_steps, rounds + 1 if bound.rounds <= rounds else 0):
        outcome = case.solve(chunks, steps, rounds, enough=True)
        if outcome.solution is not None:
            return outcome.solution
        undecided |= outcome.bound.rounds <= rounds
        bound = outcome.bound
    if undecided:
        bound = case.setting.bound(chunks, case.least_steps)
    raise _nothing(case, bound, chunks, "any number of steps", rounds)


def _check_distance(case: Case, steps: int) -> None:
    check_steps(case.setting.topology, case.setting.demand.pairs, steps)
    if steps < case.least_steps:
        raise InfeasibleError(
            f"a reduce-scatter and an all-gather on {case.setting.topology.name!r} take {case.least_steps} steps "
            f"together, {steps} are allowed"
        )


def _nothing(
    case: Case, bound: Bound, chunks: int, within: str, rounds: int | None
) -> InfeasibleError | LimitReachedError:
    """Why there is no solution: proven, or not found."""
    what = f"{case.setting.demand.collective} on {case.setting.topology.name!r} with {chunks} chunks in {within}"
    if rounds is not None and bound.rounds > rounds:
        return InfeasibleError(
            [f"{what} needs at least {bound.rounds} rounds, {rounds} are allowed", f"because {bound.reason}"]
        )
    if case.setting.engine.left > 0:  # only an all-reduce ends like this: its halves are optimal, their sum need not be
        return LimitReachedError(
            f"{what}: no reduce-scatter and all-gather take {rounds} rounds together; whether another all-reduce does "
            f"is open (at least {bound.rounds} rounds are needed)"
        )
    return LimitReachedError(
        f"{what}: no schedule found within the time limit (at least {bound.rounds} rounds are needed): "
        "give --time-limit more seconds"
    )


@dataclass(frozen=True)
class Skipped:
    """A number of chunks and steps that is not on the frontier.

    ``proven`` says whether it cannot beat what is on it; otherwise the time limit struck, or an all-reduce might.
    """

    chunks: int
    steps: int
    bound: int
    reason: str
    proven: bool


@dataclass(frozen=True)
class StepFrontier:
    """Schedules of which none is beaten by another in chunks, steps and rounds per chunk at once.

    Attributes
    ----------
    points
        By steps, then chunks.
    skipped
        Why the other numbers of chunks and steps are not there.
    max_steps, max_chunks
        What was looked at.
    """

    points: tuple[StepSolution, ...]
    skipped: tuple[Skipped, ...]
    max_steps: int
    max_chunks: int

    @property
    def complete(self) -> bool:
        """Whether every point is optimal and every other number of chunks and steps is proven to be beaten."""
        return all(p.status == "optimal" for p in self.points) and all(s.proven for s in self.skipped)

    @property
    def fastest(self) -> tuple[StepSolution, ...]:
        """Points with the fewest rounds per chunk of all that take no more steps: SCCL's frontier."""
        return tuple(
            p
            for p in self.points
            if not any(
                q is not p and q.steps <= p.steps and q.rounds_per_chunk <= p.rounds_per_chunk for q in self.points
            )
        )

    def to_dict(self) -> dict[str, Any]:
        """Facts for ``--json``."""
        fastest = self.fastest
        return {
            "format": FRONTIER_FORMAT,
            "max_steps": self.max_steps,
            "max_chunks": self.max_chunks,
            "complete": self.complete,
            "points": [point.to_dict() | {"fastest": point in fastest} for point in self.points],
            "skipped": [
                {"chunks": s.chunks, "steps": s.steps, "bound_rounds": s.bound, "reason": s.reason, "proven": s.proven}
                for s in self.skipped
            ],
        }

    def summary(self) -> str:
        """A table for a person, and what was excluded."""
        fastest = self.fastest
        rows = [("chunks", "steps", "rounds", "rounds/chunk", "status", "fastest", "seconds", "because")]
        for p in self.points:
            mark = "yes" if p in fastest else ""
            numbers = (str(p.chunks), str(p.steps), str(p.rounds), str(p.rounds_per_chunk))
            rows.append((*numbers, p.status, mark, f"{p.seconds:.2f}", p.reason))
        widths = [max(len(row[k]) for row in rows) for k in range(7)]
        lines = ["  ".join([*(f"{x:<{w}}" for x, w in zip(row, widths, strict=False)), row[7]]) for row in rows]
        within = f"up to {self.max_chunks} chunks and {self.max_steps} steps"
        if self.complete:
            return "\n".join([*lines, f"complete {within}: everything else is proven to be beaten by one of these"])
        open_ones = [f"({s.chunks}, {s.steps}, >= {s.bound})" for s in self.skipped if not s.proven]
        return "\n".join([*lines, f"not complete {within}; open: {', '.join(open_ones) or 'rounds of the feasible'}"])


def step_frontier(
    topology: Topology,
    demand: Demand,
    *,
    max_steps: int | None = None,
    max_chunks: int = 6,
    round_bandwidth: float | None = None,
    symmetry: Literal["auto", "off"] = "auto",
    time_limit: float = 60.0,
    engine: str = DEFAULT_ENGINE,
    progress: Report | None = None,
) -> StepFrontier:
    """Pareto frontier of (chunks, steps, rounds per chunk): fewer is better in each.

    Steps cost latency, rounds per chunk cost bandwidth (SCCL's time is steps x alpha + rounds / chunks x beta x size),
    chunks cost memory traffic and program length. A number of chunks and steps is tried only when its lower bound beats
    what is there with no more chunks and steps.

    Parameters
    ----------
    topology, demand, round_bandwidth, symmetry, time_limit, engine, progress
        As for :func:`step_optimum`; the time limit is for all of it.
    max_steps
        Default: one more than the fewest possible steps.
    max_chunks
        Most chunks of the largest shard.
    """
    check_counts(max_steps=max_steps, max_chunks=max_chunks)
    setting = _setting(topology, demand, round_bandwidth, symmetry, time_limit, engine, progress)
    case = case_of(setting)
    if demand.empty:
        return StepFrontier((), (), max_steps or 0, max_chunks)
    last = case.least_steps + 1 if max_steps is None else max_steps
    _check_distance(case, last)
    points: list[StepSolution] = []
    skipped: list[Skipped] = []
    for steps in range(case.least_steps, last + 1):
        for chunks in range(1, max_chunks + 1):
            outcome, most = _try_point(case, points, chunks, steps)
            if outcome.solution is not None:
                points.append(outcome.solution)
            else:
                proven = most is not None and outcome.bound.rounds > most
                skipped.append(Skipped(chunks, steps, outcome.bound.rounds, outcome.bound.reason, proven))
    return StepFrontier(tuple(points), tuple(skipped), last, max_chunks)


def _try_point(case: Case, points: Sequence[StepSolution], chunks: int, steps: int) -> tuple[Outcome, int | None]:
    """Look for a schedule that beats the points with no more chunks and steps; how many rounds that takes at most."""
    rivals: list[Fraction] = [p.rounds_per_chunk for p in points if p.chunks <= chunks and p.steps <= steps]
    most = math.ceil(min(rivals) * chunks) - 1 if rivals else None
    bound = case.setting.bound(chunks, steps)
    if most is not None and bound.rounds > most:
        return Outcome(bound), most
    return case.solve(chunks, steps, most), most
