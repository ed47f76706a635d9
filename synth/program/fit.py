"""The finest schedule that fits a target, or the nearest setting that would."""

from __future__ import annotations

from collections.abc import Callable

from synth.errors import NotExpressibleError
from synth.schedule import Schedule, make_schedule
from synth.solver.flow import Plan

# Chunk counts that are tried to say what would fit.
TRIES = 3


def fit[D](
    plan: Plan,
    draft_of: Callable[[Schedule], D],
    *,
    chunks: int | None = None,
    max_loss: float = 0.02,
    max_steps: int | None = None,
) -> tuple[Schedule, D]:
    """Schedule and draft of a plan within a target's limits.

    With a free chunk count, chunks are halved less often until the program fits; an asked one is kept.

    Parameters
    ----------
    plan
        What to lower.
    draft_of
        Makes the draft of a schedule; raises NotExpressibleError when it breaks a limit.
    chunks, max_loss, max_steps
        See :func:`synth.schedule.make_schedule`.

    Raises
    ------
    NotExpressibleError
        With the limits that are broken, and a chunk count that fits.
    """
    finest: int | None = None
    while True:
        schedule = make_schedule(plan, chunks=chunks, max_loss=max_loss, max_steps=max_steps, finest=finest)
        try:
            return schedule, draft_of(schedule)
        except NotExpressibleError as error:
            if chunks is None and schedule.refined > 1:
                finest = schedule.refined // 2
                continue
            hint = _nearest(plan, draft_of, schedule.chunks_per_shard)
            raise NotExpressibleError([*error.faults, hint]) from error


def _nearest[D](plan: Plan, draft_of: Callable[[Schedule], D], chunks: int) -> str:
    """A smaller chunk count that fits, found by halving the interval a few times."""
    low, high = 0, chunks
    for _ in range(TRIES):
        middle = (low + high + 1) // 2
        if not low < middle < high:
            break
        try:
            draft_of(make_schedule(plan, chunks=middle))
            low = middle
        except NotExpressibleError:
            high = middle
    return f"with --chunks {low} it fits" if low else "no smaller chunk count was found that fits"
