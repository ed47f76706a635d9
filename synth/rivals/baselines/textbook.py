"""What libraries would do: ring, trees, recursive doubling, Bruck, direct, hierarchical, 2D, as schedules."""

from __future__ import annotations

from typing import Final

from synth.demand.model import Demand
from synth.errors import InfeasibleError, InvalidInputError, NotExpressibleError
from synth.rivals.baselines.build import build
from synth.rivals.baselines.kinds import KINDS, Recipe, recipes
from synth.schedule.model import Schedule
from synth.schedule.simulate.run import simulate_schedule
from synth.schedule.simulate.time_model import TimeModel
from synth.solver.flow.plan import Plan
from synth.topology.model import Topology

BASELINES: Final = tuple(KINDS)
"""Names of all baselines."""
# Chunk counts per route of a shard that are tried, up to so many transfers.
PIECES: Final = (1, 2, 4, 8, 16, 32, 64)
MOST_TRANSFERS: Final = 20_000
# More pieces have to shorten the time by this part.
WORTH: Final = 1e-3


def baseline(
    name: str,
    topology: Topology,
    demand: Demand,
    *,
    chunks: int | None = None,
    model: TimeModel | None = None,
    reference: Plan | None = None,
) -> Schedule:
    """Schedule of a library's algorithm.

    Parameters
    ----------
    name
        One of ``BASELINES``.
    topology, demand
        Instance. Every hop takes a cheapest path (latency + bytes / capacity).
    chunks
        Chunks per shard; None tries a few and takes the fastest.
    model
        Time model that decides.
    reference
        A solved plan of the same demand whose prices certify the lower bound; without it the bound is what one GPU's
        links must carry.

    Returns
    -------
    Schedule
        Its plan holds the algorithm's own splits; ``plan.gap`` says how far from optimal they are at least known to
        be at most.

    Raises
    ------
    InvalidInputError
        Unknown name, or an algorithm that has no form for this collective or machine.
    InfeasibleError
        When some rank cannot be reached.
    """
    if name not in KINDS:
        raise InvalidInputError(f"unknown baseline {name!r}: use one of {', '.join(BASELINES)}")
    if demand.empty:
        raise InvalidInputError("nothing has to move: there is no baseline to compare with")
    made = recipes(name, topology, demand)
    model = TimeModel() if model is None else model
    candidates = [_best(topology, demand, recipe, chunks, model, reference) for recipe in made]
    return min(candidates, key=lambda schedule: simulate_schedule(schedule, None, model).end)


def baselines(
    topology: Topology,
    demand: Demand,
    *,
    chunks: int | None = None,
    model: TimeModel | None = None,
    reference: Plan | None = None,
) -> dict[str, Schedule]:
    """Every baseline that has a form for this collective and machine, by name (see :func:`baseline`)."""
    out = {}
    for name in BASELINES:
        try:
            out[name] = baseline(name, topology, demand, chunks=chunks, model=model, reference=reference)
        except (InvalidInputError, InfeasibleError, NotExpressibleError):
            continue
    return out


def _best(
    topology: Topology, demand: Demand, recipe: Recipe, chunks: int | None, model: TimeModel, reference: Plan | None
) -> Schedule:
    if chunks is not None:
        return build(topology, demand, recipe, chunks, reference)
    best: tuple[float, Schedule] | None = None
    worse = 0
    for pieces in (1,) if recipe.stepped else PIECES:
        count = pieces * recipe.variants
        schedule = build(topology, demand, recipe, count, reference)
        time = simulate_schedule(schedule, None, model).end
        if best is None or time <= best[0] * (1 - WORTH):
            best, worse = (time, schedule), 0
        else:
            worse += 1
        if worse == 2 or 2 * len(schedule.transfers) > MOST_TRANSFERS:
            break
    if best is None:  # PIECES is not empty
        raise InvalidInputError("no chunk count to try")
    return best[1]
