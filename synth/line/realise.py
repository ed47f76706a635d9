"""From a plan to the program that is written: the search, and its verdict."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from synth.choice.contest import Contest, Timed
from synth.choice.judge import ELEMENT_BYTES, Judge
from synth.choice.search import search
from synth.choice.verdict import judgement
from synth.export.judgement import Judgement
from synth.program.runtime import Runtime, fitted
from synth.schedule.simulate.time_model import BlockCosts, TimeModel
from synth.solver.flow.plan import Plan


@dataclass(frozen=True)
class Wish:
    """What the user says about the program; everything else is the search's.

    Attributes
    ----------
    chunks, max_loss, max_steps
        See :func:`synth.schedule.make_schedule`. With ``max_steps`` the plan's own schedule is taken.
    costs, constants
        Costs of blocks by protocol that may be chosen, and where they are from.
    blocks
        Thread blocks that the program may take on a GPU where there is a choice.
    element_bytes
        Bytes of the elements for which the file shall run; 0 for any chunks.
    """

    costs: Mapping[str, BlockCosts]
    constants: str = "ideal"
    chunks: int | None = None
    max_loss: float = 0.02
    max_steps: int | None = None
    blocks: int | None = None
    element_bytes: int = ELEMENT_BYTES


def realise(runtime: Runtime, plan: Plan, wish: Wish) -> tuple[Timed, Judgement]:
    """The program of a plan's collective, not verified yet, and what it takes.

    Raises
    ------
    NotExpressibleError
        When the runtime can express no schedule; with the limits that are broken, and a chunk count that fits.
    """
    judge = Judge(runtime, wish.costs, TimeModel(), wish.element_bytes, wish.blocks)
    if plan.demand.empty or wish.max_steps is not None:
        contest = _alone(runtime, judge, plan, wish)
    else:
        contest = search(plan, judge, chunks=wish.chunks)
        if not contest.seen:  # says which limit is broken, and what would fit
            contest = _alone(runtime, judge, plan, wish)
    winner = contest.winner()
    return winner, judgement(plan, contest, winner, wish.constants)


def _alone(runtime: Runtime, judge: Judge, plan: Plan, wish: Wish) -> Contest:
    """The plan's own schedule and no other."""
    size = plan.demand.size_bytes
    schedule, _ = fitted(runtime, plan, wish.chunks, wish.max_loss, wish.max_steps)
    contest = Contest(judge, size, 0.0)
    contest.take(f"plan-k{schedule.chunks_per_shard}", schedule)
    return contest
