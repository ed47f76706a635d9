"""The finest schedule that fits a target, or the nearest setting that would."""

from __future__ import annotations

from typing import Any

from synth.errors import NotExpressibleError
from synth.program.limits import limit_faults
from synth.program.lowering import make_draft
from synth.program.model import Draft
from synth.program.targets import Target
from synth.schedule import Schedule, make_schedule
from synth.solver import Plan

# Chunk counts that are tried to say what would fit.
TRIES = 3


def fit(
    plan: Plan,
    target: Target,
    *,
    chunks: int | None = None,
    max_loss: float = 0.02,
    max_steps: int | None = None,
    **options: Any,
) -> tuple[Schedule, Draft]:
    """Schedule and draft of a plan within a target's limits.

    With a free chunk count, chunks are halved less often until the program fits; an asked one is kept.

    Parameters
    ----------
    plan, target
        What to lower for what.
    chunks, max_loss, max_steps
        See :func:`synth.schedule.make_schedule`.
    options
        See :func:`synth.program.make_draft`.

    Raises
    ------
    NotExpressibleError
        With the limits that are broken, and for an asked chunk count one that fits.
    """
    finest: int | None = None
    while True:
        schedule = make_schedule(plan, chunks=chunks, max_loss=max_loss, max_steps=max_steps, finest=finest)
        draft, faults = _attempt(schedule, target, options)
        if draft is not None and not faults:
            return schedule, draft
        if chunks is None and schedule.refined > 1:
            finest = schedule.refined // 2
            continue
        hint = _nearest(plan, target, schedule.chunks_per_shard, options)
        raise NotExpressibleError([*faults, *hint])


def _attempt(schedule: Schedule, target: Target, options: dict[str, Any]) -> tuple[Draft | None, list[str]]:
    try:
        draft = make_draft(schedule, target, **options)
    except NotExpressibleError as error:
        return None, list(error.faults)
    return draft, limit_faults(draft, target)


def _nearest(plan: Plan, target: Target, chunks: int, options: dict[str, Any]) -> list[str]:
    """A smaller chunk count that fits, found by halving the interval a few times."""
    low, high = 0, chunks
    for _ in range(TRIES):
        middle = (low + high + 1) // 2
        if not low < middle < high:
            break
        if _attempt(make_schedule(plan, chunks=middle), target, options)[1]:
            high = middle
        else:
            low = middle
    return [f"with --chunks {low} it fits"] if low else ["no smaller chunk count fits either"]
