"""What the step search is asked for a collective: one task, or for an all-reduce two, one after the other."""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, Protocol

from synth.demand.build import make_demand
from synth.demand.model import Demand
from synth.engine.pulp_engine import Engine
from synth.errors import LimitReachedError, VerificationError
from synth.formulation.steps.model import Origin, StepModel, StepTask
from synth.formulation.steps.network import FAR, StepNetwork, step_network
from synth.formulation.steps.symmetry import Motion, motions
from synth.solver.flow.driver import check_demand, solve
from synth.solver.flow.plan import Plan
from synth.solver.steps.check import step_faults
from synth.solver.steps.search import Bound, Found, Report, least_rounds
from synth.solver.steps.sends import pieces_of, placed
from synth.solver.steps.solution import StepSend, StepSolution, chunk_bytes
from synth.topology.model import Topology

# A certified bound is a float of relative error 1e-9 or better, of a plan whose gap may be 1e-6.
BOUND_SLACK = 2e-6


@dataclass(frozen=True)
class Setting:
    """Instance and means of a search.

    Attributes
    ----------
    topology, demand
        What is asked.
    unit
        Bytes/second of a link that sends one chunk per round; None: the slowest link.
    symmetry
        ``auto`` or ``off``.
    engine, report
        Solver with its deadline, and who is told about progress.
    """

    topology: Topology
    demand: Demand
    unit: float | None
    symmetry: Literal["auto", "off"]
    engine: Engine
    report: Report | None = None

    @cached_property
    def network(self) -> StepNetwork:
        """The machine for the MILP."""
        return step_network(self.topology, self.unit)

    @cached_property
    def plan(self) -> Plan | None:
        """Certified splits, whose bound holds for any number of steps; None when there is no time for them."""
        try:
            return solve(self.topology, self.demand, time_limit=max(self.engine.left, 0.0) / 4, symmetry=self.symmetry)
        except LimitReachedError:
            return None

    def bound(self, chunks: int, steps: int) -> Bound:
        """Least rounds by counting: one per step, and what the links need at least."""
        bound = Bound(steps, "every step takes at least one round")
        if self.plan is None or self.demand.empty:
            return bound
        rounds = self.plan.bound * self.network.unit / chunk_bytes(self.demand, chunks)
        reason = f"the links need {rounds:.4g} rounds however the chunks are split (certified by the plan's prices)"
        return bound.raised(math.ceil(rounds * (1 - BOUND_SLACK)), reason)


@dataclass(frozen=True)
class Outcome:
    """What a case found: a replayed schedule, or a bound above what was asked, or neither."""

    bound: Bound
    solution: StepSolution | None = None


class Case(Protocol):
    """A collective on a machine, for any number of chunks and steps."""

    setting: Setting

    @property
    def least_steps(self) -> int:
        """Fewest steps in which anything can be done."""
        ...

    def solve(self, chunks: int, steps: int, most: int | None = None, *, enough: bool = False) -> Outcome:
        """Fewest rounds; see :func:`synth.solver.steps.search.least_rounds`."""
        ...


def case_of(setting: Setting) -> Single | Composed:
    """The case of a demand that something can be done about.

    Raises
    ------
    InfeasibleError
        When data cannot get where it is demanded.
    """
    check_demand(setting.topology, setting.demand)
    return Composed(setting) if setting.demand.pattern == "allreduce" else Single(setting)


class Single:
    """Any collective but all-reduce. A reduction is a multicast on the reversed machine, run backwards."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.backwards = setting.demand.pattern == "reduction"
        self.network = setting.network.reversed() if self.backwards else setting.network
        self.shards = {(item.root, item.dest): k for k, item in enumerate(setting.demand.commodities)}
        outside = frozenset(range(len(self.network.relays))) - frozenset(setting.demand.ranks)
        self.lone = outside if self.backwards else frozenset[int]()

    @cached_property
    def group(self) -> tuple[Motion, ...]:
        """Automorphisms, the identity first."""
        ranks = range(len(self.network.relays))
        if self.setting.symmetry == "off" or self.setting.demand.empty:
            return (Motion(tuple(ranks), tuple(range(len(self.network.hops)))),)
        return motions(self.setting.network, self.setting.demand)

    @property
    def least_steps(self) -> int:
        """Largest hop distance of a demanded pair."""
        origins = self._origins(1)
        far = (max(self.network.distances([o.root])[rank] for rank, _ in o.goals) for o in origins)
        return min(max(far, default=1), FAR)

    def shard_chunks(self, chunks: int) -> tuple[int, ...]:
        """Chunks of every shard; the last chunk of a smaller shard may be padded."""
        one = chunk_bytes(self.setting.demand, chunks)
        return tuple(math.ceil(item.size / one * (1 - 1e-12)) for item in self.setting.demand.commodities)

    def _origins(self, chunks: int) -> tuple[Origin, ...]:
        demand = self.setting.demand
        goals: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for item, count in zip(demand.commodities, self.shard_chunks(chunks), strict=True):
            others = demand.ranks if item.dest is None else (item.dest,)
            goals[item.root] += [(rank, count) for rank in others if rank != item.root]
        unicast = demand.pattern == "unicast"
        return tuple(
            Origin(root, tuple(pairs), sum(n for _, n in pairs) if unicast else pairs[0][1])
            for root, pairs in goals.items()
        )

    def _task(self, chunks: int, steps: int) -> StepTask:
        unicast = self.setting.demand.pattern == "unicast"
        cast: Literal["unicast", "multicast"] = "unicast" if unicast else "multicast"
        return StepTask(self.network, self._origins(chunks), steps, cast, self.lone)

    def search(self, chunks: int, steps: int, most: int | None = None, *, enough: bool = False) -> Found:
        """Fewest rounds, as moves of the model."""
        setting = self.setting
        task = self._task(chunks, steps)

        def accept(model: StepModel) -> bool:
            rounds = model.read_rounds()
            if rounds is None or min(rounds) < 1:
                return False
            found = Found(Bound(0, ""), rounds, model.read_moves())
            try:
                return not step_faults(self.solution(chunks, found))
            except (IndexError, StopIteration):  # sends of what is not there
                return False

        bound = setting.bound(chunks, steps)
        return least_rounds(
            task, self.group, bound, setting.engine, most=most, enough=enough, accept=accept, report=setting.report
        )

    def sends(self, chunks: int, found: Found, first_step: int = 0) -> list[StepSend]:
        """Sends of what was found, over physical links."""
        rounds = found.rounds or ()
        task = self._task(chunks, len(rounds))
        pieces = pieces_of(task, found.moves, self.shards)
        return placed(self.network, pieces, rounds, backwards=self.backwards, first_step=first_step)

    def rounds_in_order(self, found: Found) -> tuple[int, ...]:
        """Rounds per step as they happen."""
        rounds = found.rounds or ()
        return rounds[::-1] if self.backwards else rounds

    def solution(self, chunks: int, found: Found) -> StepSolution:
        """What was found as a schedule; not replayed yet."""
        return StepSolution(
            self.setting.topology,
            self.setting.demand,
            chunks,
            self.shard_chunks(chunks),
            self.rounds_in_order(found),
            tuple(self.sends(chunks, found)),
            found.bound.rounds,
            found.bound.reason,
            self.network.unit,
            found.symmetry,
            self.setting.engine.name,
            0.0,
        )

    def solve(self, chunks: int, steps: int, most: int | None = None, *, enough: bool = False) -> Outcome:
        """Fewest rounds, replayed."""
        began = time.monotonic()
        found = self.search(chunks, steps, most, enough=enough)
        if found.rounds is None:
            return Outcome(found.bound)
        return Outcome(found.bound, checked(self.solution(chunks, found), time.monotonic() - began))


class Composed:
    """All-reduce as a reduce-scatter and an all-gather of equal shards, every split of the steps tried.

    The bound is that of all-reduce itself, which other schedules than these might come closer to.
    """

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        demand = setting.demand
        names = ("reducescatter", "allgather")
        halves = (make_demand(setting.topology, name, demand.size_bytes, ranks=demand.ranks) for name in names)
        self.scatter, self.gather = (Single(replace(setting, demand=half)) for half in halves)
        for half in (self.scatter, self.gather):
            check_demand(setting.topology, half.setting.demand)

    @property
    def least_steps(self) -> int:
        """Steps of both halves."""
        return self.scatter.least_steps + self.gather.least_steps

    def solve(self, chunks: int, steps: int, most: int | None = None, *, enough: bool = False) -> Outcome:
        """Fewest rounds over all splits of the steps, replayed; ``bound`` holds for every all-reduce."""
        began = time.monotonic()
        bound = self.setting.bound(chunks, steps)
        best: tuple[int, Found, Found] | None = None
        for first, second in self._splits(steps):
            up = self.scatter.search(chunks, first)
            down = self.gather.search(chunks, second)
            if up.rounds is None or down.rounds is None:
                continue
            total = sum(up.rounds) + sum(down.rounds)
            if best is None or total < best[0]:
                best = total, up, down
            if best[0] <= bound.rounds or (enough and most is not None and best[0] <= most):
                break
        if best is None or (most is not None and best[0] > most):
            return Outcome(bound)
        return Outcome(bound, checked(self._solution(chunks, bound, best[1], best[2]), time.monotonic() - began))

    def _splits(self, steps: int) -> Iterator[tuple[int, int]]:
        """Steps of the halves, the most even split first."""
        least = range(self.scatter.least_steps, steps - self.gather.least_steps + 1)
        yield from sorted(((first, steps - first) for first in least), key=lambda pair: (abs(pair[0] - pair[1]), pair))

    def _solution(self, chunks: int, bound: Bound, up: Found, down: Found) -> StepSolution:
        setting = self.setting
        sends = self.scatter.sends(chunks, up)
        sends += self.gather.sends(chunks, down, len(up.rounds or ()))
        # Shard r of the halves is the part of the buffer that is summed at the r-th rank.
        joined = tuple(sorted(replace(s, shard=0, chunk=s.shard * chunks + s.chunk) for s in sends))
        return StepSolution(
            setting.topology,
            setting.demand,
            chunks,
            (chunks * len(setting.demand.ranks),),
            self.scatter.rounds_in_order(up) + self.gather.rounds_in_order(down),
            joined,
            bound.rounds,
            bound.reason,
            setting.network.unit,
            min(up.symmetry, down.symmetry),
            setting.engine.name,
            0.0,
        )


def checked(solution: StepSolution, seconds: float) -> StepSolution:
    """A solution that was replayed.

    Raises
    ------
    VerificationError
        When the replay finds a fault (a defect of synth or of the engine, never of the input).
    """
    faults = step_faults(solution)
    if faults:
        raise VerificationError(faults)
    return replace(solution, seconds=seconds)
