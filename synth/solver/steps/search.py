"""Least rounds of a step task: a bound from fractional sends, a schedule with orbit-equal sends, then the proof.

1. Fractional sends with whole rounds, on one root per orbit: a lower bound for all schedules, in milliseconds.
2. The MILP with sends equal on every orbit: far fewer binaries, and nearly always as good.
3. Where its optimum is above the bound, the fractional sends are tightened by one flow per goal (multicast only).
4. Where it still is, the MILP over all schedules is asked for fewer rounds, one number after the other: each
   ``infeasible`` raises the bound, the first solution is optimal.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from synth.engine.pulp_engine import Engine
from synth.errors import VerificationError
from synth.formulation.steps.model import Move, StepModel, StepTask, step_model
from synth.formulation.steps.symmetry import Motion

# Parts of the time left that orbit-equal sends and the two relaxations may take; the rest is for the search over all.
SYMMETRIC_PART = 0.5
RELAXED_PART = 0.25
FLOWS_PART = 0.5
Report = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Bound:
    """A proven least number of rounds, and what proves it."""

    rounds: int
    reason: str

    def raised(self, rounds: int, reason: str) -> Bound:
        """The better of two bounds."""
        return Bound(rounds, reason) if rounds > self.rounds else self


@dataclass(frozen=True, slots=True)
class Found:
    """Outcome of a search; without ``rounds`` nothing was found, and ``bound`` > most means that there is nothing."""

    bound: Bound
    rounds: tuple[int, ...] | None = None
    moves: tuple[Move, ...] = ()
    symmetry: int = 1


def least_rounds(
    task: StepTask,
    group: Sequence[Motion],
    bound: Bound,
    engine: Engine,
    *,
    most: int | None = None,
    enough: bool = False,
    accept: Callable[[StepModel], bool],
    report: Report | None = None,
) -> Found:
    """Search for the fewest rounds.

    Parameters
    ----------
    task, group
        Instance and its automorphisms, the identity first.
    bound
        What is known already.
    engine
        Solves, until its deadline.
    most
        Only schedules with at most so many rounds are of interest.
    enough
        Any of them will do: no proof that there is none with fewer.
    accept
        Replays what a stopped engine left, and says whether it is a schedule.
    report
        Told about progress.
    """
    return _Search(task, tuple(group), engine, accept, report).run(bound, most, enough)


@dataclass(frozen=True)
class _Search:
    task: StepTask
    group: tuple[Motion, ...]
    engine: Engine
    accept: Callable[[StepModel], bool]
    report: Report | None

    def run(self, bound: Bound, most: int | None, enough: bool) -> Found:
        bound = self._relaxed(bound)
        if most is not None and bound.rounds > most:
            return Found(bound)
        self._tell(bound, None)
        found, bound = self._symmetric(bound, most)
        if found.rounds is not None and (enough or sum(found.rounds) <= bound.rounds):
            return Found(bound, found.rounds, found.moves, found.symmetry)
        return self._proof(found, bound, most, enough)

    def _tell(self, bound: Bound, best: int | None) -> None:
        if self.report is not None:
            found = "none found yet" if best is None else f"{best} found"
            self.report(f"{self.task.steps} steps: at least {bound.rounds} rounds, {found}")

    def _relaxed(self, bound: Bound, flows: bool = False) -> Bound:
        """Fractional sends: their average over the group is as good, so one root per orbit proves it for all."""
        model = step_model(self.task, self.group, fewest=bound.rounds, relaxed=True, flows=flows)
        verdict, rounds = self.engine.run(model.problem, self.engine.left * (FLOWS_PART if flows else RELAXED_PART)), 0
        if verdict == "optimal":
            rounds = sum(model.read_rounds() or ())
        elif verdict == "stopped" and 0 < (least := self.engine.lower_bound(model.problem)) < math.inf:
            rounds = math.ceil(least - 1e-6)
        sends = "fractional sends with room for a flow to every goal" if flows else "fractional sends"
        return bound.raised(rounds, f"even {sends} need {rounds} rounds in {self.task.steps} steps")

    def _symmetric(self, bound: Bound, most: int | None) -> tuple[Found, Bound]:
        everything = len(self.group) == 1
        model = step_model(self.task, self.group, fewest=bound.rounds, most=most)
        seconds = self.engine.left * (1.0 if everything else SYMMETRIC_PART)
        verdict = self.engine.run(model.problem, seconds)
        found = Found(bound)
        if verdict == "infeasible" and most is None:  # trees of fewest hops in enough rounds are always a schedule
            raise VerificationError(f"{self.engine.name} finds no schedule where there is one: a defect")
        if verdict == "optimal" or (verdict == "stopped" and self.accept(model)):
            found = self._read(model, bound)
        if everything and verdict == "optimal" and found.rounds is not None:
            total = sum(found.rounds)
            bound = bound.raised(total, self._exhausted(model, f"fewer than {total}"))
        if everything and verdict == "infeasible" and most is not None:
            bound = bound.raised(most + 1, self._exhausted(model, f"{most} or fewer"))
        return found, bound

    def _exhausted(self, model: StepModel, rounds: str) -> str:
        return (
            f"the search over all schedules of {self.task.steps} steps and {rounds} rounds is exhausted "
            f"({self.engine.name}, {len(model.sends)} whole variables)"
        )

    def _read(self, model: StepModel, bound: Bound) -> Found:
        return Found(bound, model.read_rounds(), model.read_moves(), len(model.group))

    def _proof(self, best: Found, bound: Bound, most: int | None, enough: bool) -> Found:
        """All schedules, with one more round at a time, up to what is found already or asked."""
        top = most if best.rounds is None else sum(best.rounds) - 1
        if self.task.cast == "multicast":
            bound = self._relaxed(bound, flows=True)
        while top is None or bound.rounds <= top:
            self._tell(bound, None if best.rounds is None else sum(best.rounds))
            tried = top if enough and top is not None else bound.rounds
            model = step_model(self.task, self.group[:1], fewest=bound.rounds, most=tried)
            verdict = self.engine.run(model.problem)
            if verdict == "infeasible":
                bound = bound.raised(tried + 1, self._exhausted(model, f"{tried} or fewer"))
                continue
            if verdict == "optimal" or self.accept(model):
                best = self._read(model, bound)
            break
        return Found(bound, best.rounds, best.moves, best.symmetry)
