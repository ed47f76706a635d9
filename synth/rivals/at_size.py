"""Rivals for the fastest schedule at a size: each tries chunk counts, and every schedule is judged by the simulator."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from synth.demand import Demand
from synth.errors import InfeasibleError, InvalidInputError, NotExpressibleError
from synth.rivals.baselines.textbook import BASELINES, baseline
from synth.rivals.depth_priced import DepthPricer
from synth.rivals.matching.matched import Matcher
from synth.schedule import Schedule, TimeModel, make_schedule, simulate_schedule
from synth.schedule.chunks.justify import justified
from synth.schedule.chunks.quantise import chunk_layout
from synth.solver.flow import Plan
from synth.topology import Topology

CHUNKS: Final = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
"""Chunks per shard that the rivals try."""
# A schedule may have so many transfers; a machine file of more is rarely loaded.
MOST_TRANSFERS: Final = 20_000
# A rival goes on to more chunks until so many in a row were no better.
PATIENCE: Final = 3
# Chunk counts for which the matching tries all seeds.
FINALISTS: Final = 3
# Rounds of forward-backward improvement for schedules that are at most so far from the best.
ROUNDS: Final = 8
WORTHWHILE: Final = 1.3
_EQUAL: Final = 1e-9


@dataclass(frozen=True, eq=False)
class Candidate:
    """A rival's schedule.

    Attributes
    ----------
    rival
        Who made it.
    seconds
        Simulated time in the search's model.
    schedule
        What was simulated.
    """

    rival: str
    seconds: float
    schedule: Schedule


@dataclass
class Search:
    """What is searched, and the best so far.

    Attributes
    ----------
    topology, demand, plan
        Instance and its certified plan.
    model
        Judge.
    seeds
        Tie-breaks that a randomised rival tries.
    bound
        Seconds below which nothing is.
    deadline
        Time (monotonic) at which the present rival stops.
    best
        Least seconds so far.
    """

    topology: Topology
    demand: Demand
    plan: Plan
    model: TimeModel
    seeds: int
    bound: float
    deadline: float
    best: float = field(default=float("inf"))

    @property
    def over(self) -> bool:
        """Whether the time is up, or nothing can be faster."""
        return time.monotonic() >= self.deadline or self.best <= self.bound * (1 + _EQUAL)

    def judged(self, rival: str, schedule: Schedule, improve: bool = True) -> Candidate:
        """The schedule with its simulated time, its order improved when it is near the best."""
        seconds = simulate_schedule(schedule, None, self.model).end
        if improve and seconds <= WORTHWHILE * self.best and not self.over:
            better = justified(schedule, self.model, ROUNDS)
            if better is not schedule:
                schedule, seconds = better, simulate_schedule(better, None, self.model).end
        self.best = min(self.best, seconds)
        return Candidate(rival, seconds, schedule)


Rival = Callable[[Search], Iterator[Candidate]]


def matchings(search: Search) -> Iterator[Candidate]:
    """Greedy matching (:mod:`synth.rivals.matching.greedy`): one seed for all chunk counts, all for the best."""
    tried: list[tuple[Candidate, Matcher]] = []
    for chunks in CHUNKS:
        matcher = _matcher(search, chunks)
        if matcher is None or search.over:
            break
        schedule = matcher.schedule(0) if matcher.least < search.best * (1 - _EQUAL) else None
        if schedule is not None:
            tried.append((search.judged("matching", schedule, improve=False), matcher))
    tried.sort(key=lambda pair: pair[0].seconds)
    for place, (best, matcher) in enumerate(tried):
        for seed in range(1, search.seeds if place < FINALISTS else 1):
            if search.over or best.seconds <= matcher.least * (1 + _EQUAL):
                break
            schedule = matcher.schedule(seed)
            found = best if schedule is None else search.judged("matching", schedule, improve=False)
            if found.seconds < best.seconds * (1 - _EQUAL):
                best = found
        yield search.judged("matching", best.schedule, improve=place < FINALISTS)


def _matcher(search: Search, chunks: int) -> Matcher | None:
    """None where matching is not for the collective, or too large."""
    try:
        matcher = Matcher.make(search.topology, search.demand, chunks, search.model, search.plan)
    except NotExpressibleError:
        return None
    return matcher if chunks == 1 or matcher.transfers <= MOST_TRANSFERS else None


def libraries(search: Search) -> Iterator[Candidate]:
    """What libraries would do (:mod:`synth.rivals.baselines.textbook`)."""
    for name in BASELINES:
        if search.over:
            return
        try:
            made = baseline(name, search.topology, search.demand, model=search.model, reference=search.plan)
        except (InvalidInputError, InfeasibleError, NotExpressibleError):
            continue
        yield search.judged(name, made)


def lp_schedules(search: Search) -> Iterator[Candidate]:
    """The plan's splits in whole chunks."""
    yield from _with_more_chunks(search, "lp", lambda _: search.plan)


def depth_priced(search: Search) -> Iterator[Candidate]:
    """The plan's splits over trees or paths whose latency costs (:mod:`synth.rivals.depth_priced`)."""
    pricer = DepthPricer(search.plan, search.model)

    def plan_for(chunks: int) -> Plan:
        return pricer.plan(chunk_layout(search.demand, chunks)[0], search.deadline)

    yield from _with_more_chunks(search, "depth-priced lp", plan_for)


def _with_more_chunks(search: Search, rival: str, plan_for: Callable[[int], Plan]) -> Iterator[Candidate]:
    best, worse, most = float("inf"), 0, 0
    for chunks in CHUNKS:
        if search.over or worse == PATIENCE:
            return
        schedule = make_schedule(plan_for(chunks), chunks=chunks)
        if len(schedule.transfers) > MOST_TRANSFERS:
            return
        found = search.judged(rival, schedule)
        # Beyond what a runtime can load, transfers are put together and nothing gets finer.
        if len(found.schedule.transfers) < most:
            return
        most = len(found.schedule.transfers)
        worse = 0 if found.seconds < best * (1 - _EQUAL) else worse + 1
        best = min(best, found.seconds)
        yield found


RIVALS: Final[tuple[Rival, ...]] = (matchings, libraries, lp_schedules, depth_priced)
"""Everybody who takes part, in this order; each has an equal part of the time that is left."""
