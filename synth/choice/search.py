"""The search for the program of a plan at its size: which schedules take part, and in which order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, Final

from synth.choice.contest import Contest, Timed
from synth.choice.judge import Judge
from synth.program.meaning.semantics import EVEN, SHARDED
from synth.rivals.makers import Brief, Maker, in_chunks, libraries, matched, own_chunks, shallow
from synth.schedule.model import Schedule
from synth.schedule.simulate.bounds import plan_bound
from synth.schedule.simulate.time_model import BlockCosts, TimeModel
from synth.solver.flow.plan import Plan
from synth.timing.simulation import with_costs

#: Chunk counts among which those that serve a size are looked for.
COUNTS: Final = range(1, 65)
# Of the counts that serve a size, each that is tried is at least so many times the one before.
SPREAD: Final = 1.45
# Transfers of a schedule beyond which none is made finer, and those of a full search; its work in transfers.
TRANSFERS: Final = 12_000
FULL_TRANSFERS: Final = 20_000
FULL_EFFORT: Final = 400_000

REST: Final[tuple[Maker, ...]] = (shallow, libraries, in_chunks)
"""Who is asked when the plan itself and the matching, which loses least to order, are still far from the bound."""
# Baselines that libraries run are timed always, in so many chunk counts and transfers.
BASELINE_COUNTS: Final = 4
BASELINE_TRANSFERS: Final = 3_000
# What is no more than this times the bound is good enough to leave the rest out.
ENOUGH: Final = 1.05


def search(
    plan: Plan, judge: Judge, *, chunks: int | None = None, report: Callable[[Timed], None] | None = None
) -> Contest:
    """Time programs of a plan's collective at its size until one is good enough.

    Parameters
    ----------
    plan
        Certified plan; its demand has the size.
    judge
        Runtime, costs and limits.
    chunks
        Chunks per shard that all schedules have; None for those that serve the size, and what the plan asks for.
    report
        Is told of every program.
    """
    contest = _contest(plan, judge, report, finer=chunks is None)
    brief = _brief(plan, contest, chunks, TRANSFERS)
    brief = replace(brief, own_finer=judge.element_bytes == 0)
    second = in_chunks if plan.demand.pattern == "unicast" else matched
    contest.run(_exactly(chunks, _made((own_chunks, second) if chunks is None else (in_chunks, matched), brief)))
    contest.run(_exactly(chunks, _made((libraries,), _baselines(brief))), always=True)
    if contest.best > ENOUGH * contest.bound:
        contest.run(_exactly(chunks, _made(REST if chunks is None else REST[:2], brief)))
    contest.refine()
    return contest


def full_search(
    plan: Plan,
    judge: Judge,
    *,
    makers: Sequence[Maker],
    seeds: int,
    deadline: float,
    report: Callable[[Timed], None] | None = None,
) -> Contest:
    """Let all makers take part until nothing can be better, the work is done, or the deadline (monotonic) strikes."""
    contest = _contest(plan, judge, report, close=1.0 + 1e-9, deadline=deadline, effort=FULL_EFFORT)
    contest.run(_made(makers, replace(_brief(plan, contest, None, FULL_TRANSFERS), seeds=seeds)))
    contest.refine()
    return contest


def _contest(plan: Plan, judge: Judge, report: Callable[[Timed], None] | None, **limits: Any) -> Contest:
    bound = min(program_bound(plan, judge.model, costs) for costs in judge.costs.values())
    return Contest(judge, plan.demand.size_bytes, bound, report, **limits)


def _brief(plan: Plan, contest: Contest, chunks: int | None, most_transfers: int) -> Brief:
    size, judge = plan.demand.size_bytes, contest.judge
    return Brief(
        plan,
        (size,),
        chunks=serving_counts(plan, size, judge.element_bytes) if chunks is None else (chunks,),
        model=judge.model,
        most_transfers=most_transfers,
        hopeless=lambda busy: busy >= contest.best,
    )


def _baselines(brief: Brief) -> Brief:
    return replace(brief, chunks=brief.chunks[:BASELINE_COUNTS], most_transfers=BASELINE_TRANSFERS)


def _made(makers: Sequence[Maker], brief: Brief) -> Iterator[tuple[str, Schedule]]:
    return chain.from_iterable(maker(brief) for maker in makers)


def _exactly(chunks: int | None, schedules: Iterator[tuple[str, Schedule]]) -> Iterator[tuple[str, Schedule]]:
    """Those with the asked chunks per shard: a recipe of several trees takes a multiple of them."""
    return (pair for pair in schedules if chunks is None or pair[1].chunks_per_shard == chunks)


def program_bound(plan: Plan, model: TimeModel, costs: BlockCosts) -> float:
    """Seconds that no program of the plan's collective can beat, with these costs of blocks."""
    return plan_bound(plan, None, with_costs(model, costs)).seconds


def serving_counts(plan: Plan, size: float, element_bytes: int) -> tuple[int, ...]:
    """Chunk counts whose files run at a size, thinned out; all counts when none does."""
    demand = plan.demand
    serving = [c for c in COUNTS if serves(plan, c, size, element_bytes)] or list(COUNTS)
    out: list[int] = []
    for count in serving:
        if not out or count >= SPREAD * out[-1]:
            out.append(count)
    return tuple(out) if demand.largest > 0 else (1,)


def serves(plan: Plan, chunks: int, size: float, element_bytes: int) -> bool:
    """Whether a file of even shards in so many chunks is given a call of this size."""
    demand = plan.demand
    if not element_bytes or demand.collective not in EVEN:
        return True
    ranks = len(demand.ranks)
    count = int(size) // (element_bytes * (ranks if demand.collective in SHARDED else 1))
    return count > 0 and count % (chunks * (ranks if demand.collective == "allreduce" else 1)) == 0
