"""Makers: everything that makes schedules of its own, for contests at one size and for sweeps over many.

A maker is a generator of named schedules for a brief. To add a kind of schedule, append its maker to ``MAKERS`` (or
pass a longer tuple to :func:`synth.fastest` or :func:`synth.sweep`). Whoever asks stops when he has seen enough.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from synth.demand.model import Commodity, Demand, EvenPairs
from synth.errors import InfeasibleError, InvalidInputError, LimitReachedError, NotExpressibleError
from synth.formulation.flow.orbits import OrbitRoutes
from synth.rivals.baselines.build import build
from synth.rivals.baselines.kinds import KINDS, Recipe, recipes
from synth.rivals.depth_priced import DepthPricer
from synth.rivals.matching.matched import Matcher
from synth.rivals.shallow import shallow_recipe
from synth.schedule.chunks.build import order_routes
from synth.schedule.chunks.quantise import Split, chunk_layout, integer_routes, quantise
from synth.schedule.model import Schedule
from synth.schedule.simulate.time_model import TimeModel
from synth.solver.flow.plan import Plan

#: Transfers beyond which a finer schedule is not made.
MOST_TRANSFERS: Final = 4_000
#: Chunk counts that buffers of 2^k elements divide into.
EVEN_CHUNKS: Final = (1, 2, 4, 8, 16, 32, 64)
#: Numbers of shallow trees per shard, and hops by which they may be deeper than they must be.
SHALLOW: Final = (1, 2, 4)
SLACK: Final = (0, 1)

Named = Iterator[tuple[str, Schedule]]


def never(seconds: float) -> bool:
    """No time is hopeless."""
    return False


@dataclass(frozen=True, slots=True)
class Brief:
    """What schedules are made for.

    Attributes
    ----------
    plan
        Certified plan of the collective at some size; plans are alike at all sizes.
    sizes
        nccl-tests sizes in bytes at which orders and paths are chosen: what is best there differs with the size.
    chunks
        Chunk counts to try, rising.
    model
        Time model in which orders and paths are chosen.
    seeds
        Tie-breaks that the matching tries per chunk count.
    most_transfers
        Transfers beyond which a finer schedule is not made.
    hopeless
        Whether a schedule whose busiest resource is busy for so many seconds can win no more.
    own_finer
        Whether the count that the plan's splits ask for is also cut finer.
    """

    plan: Plan
    sizes: tuple[float, ...]
    chunks: tuple[int, ...] = EVEN_CHUNKS
    model: TimeModel = field(default_factory=TimeModel)
    seeds: int = 1
    most_transfers: int = MOST_TRANSFERS
    hopeless: Callable[[float], bool] = never
    own_finer: bool = True

    @property
    def plans(self) -> list[Plan]:
        """The plan at each size."""
        return [plan_at(self.plan, size) for size in self.sizes]


Maker = Callable[[Brief], Named]


def plan_at(plan: Plan, size_bytes: float) -> Plan:
    """The same splits and prices for another message size."""
    factor = size_bytes / plan.demand.size_bytes
    if factor == 1.0:
        return plan
    demand = scaled_demand(plan.demand, factor)
    columns = replace(plan.columns, demand=demand) if isinstance(plan.columns, OrbitRoutes) else plan.columns
    return replace(plan, demand=demand, columns=columns, time=plan.time * factor, bound=plan.bound * factor)


def scaled_demand(demand: Demand, factor: float) -> Demand:
    """The same collective with every shard ``factor`` times as large."""
    items: Sequence[Commodity]
    if isinstance(demand.commodities, EvenPairs):
        items = replace(demand.commodities, size=demand.commodities.size * factor)
    else:
        items = tuple(replace(item, size=item.size * factor) for item in demand.commodities)
    local = tuple(size * factor for size in demand.local)
    return replace(demand, size_bytes=demand.size_bytes * factor, commodities=items, local=local)


def planned(brief: Brief) -> Named:
    """The plan in as many chunks as its splits need, and in the brief's counts, each ordered for each size."""
    yield from own_chunks(brief)
    yield from in_chunks(brief)


def own_chunks(brief: Brief) -> Named:
    """The plan in as few chunks as its splits need, and in finer ones."""
    yield from _ordered(brief, _own_splits(brief))


def in_chunks(brief: Brief) -> Named:
    """The plan in the brief's counts of chunks."""
    yield from _ordered(brief, _splits(brief))


def _ordered(brief: Brief, splits: Iterator[Split]) -> Named:
    plan = brief.plan
    for split in splits:
        for at in brief.plans:
            factor = at.demand.size_bytes / plan.demand.size_bytes
            here = replace(split, chunk_bytes=split.chunk_bytes * factor, time=split.time * factor)
            yield f"plan-k{split.chunks}", order_routes(at, here, integer_routes(at, here))


def _own_splits(brief: Brief) -> Iterator[Split]:
    try:
        split = quantise(brief.plan, None)
    except LimitReachedError:
        return
    moved = _transfers(brief.plan, split)
    yield split
    while brief.own_finer and 2 * moved <= min(brief.most_transfers, MOST_TRANSFERS):
        split, moved = split.refined(2), 2 * moved
        yield split


def _splits(brief: Brief) -> Iterator[Split]:
    least: int | None = None
    for chunks in brief.chunks:
        if least is not None and chunks * least > brief.most_transfers:
            return
        try:
            split = quantise(brief.plan, chunks)
        except LimitReachedError:
            continue
        least = -(-_transfers(brief.plan, split) // split.chunks)
        yield split


def _transfers(plan: Plan, split: Split) -> int:
    return sum(n * len(route.hops) for route, n in integer_routes(plan, split))


def depth_priced(brief: Brief) -> Named:
    """The plan's splits over trees or paths whose latency costs (:mod:`synth.rivals.depth_priced`)."""
    for at in brief.plans:
        pricer = DepthPricer(at, brief.model)
        for chunks in brief.chunks:
            priced = pricer.plan(chunk_layout(at.demand, chunks)[0], float("inf"))
            split = quantise(priced, chunks)
            if _transfers(priced, split) > brief.most_transfers:
                break
            yield f"depth-priced-k{chunks}", order_routes(priced, split, integer_routes(priced, split))


def shallow(brief: Brief) -> Named:
    """Trees that are no deeper than they must be, or one hop deeper."""
    for slack in SLACK:
        for variants in SHALLOW:
            recipe = shallow_recipe(brief.plan.topology, brief.plan.demand, variants, slack)
            if recipe is not None:
                yield from _pieces(brief, f"shallow{slack}-{variants}", recipe)


def libraries(brief: Brief) -> Named:
    """Every baseline in every form, at a few chunk counts."""
    for name in KINDS:
        try:
            made = recipes(name, brief.plan.topology, brief.plan.demand)
        except (InvalidInputError, InfeasibleError, NotExpressibleError):
            continue  # has no form here
        for k, recipe in enumerate(made):
            yield from _pieces(brief, name if len(made) == 1 else f"{name}-{k + 1}", recipe)


def _pieces(brief: Brief, name: str, recipe: Recipe) -> Named:
    """A recipe at rising chunk counts, until there are too many transfers."""
    whole = {recipe.variants * pieces for pieces in brief.chunks}
    counts = sorted(n for n in whole.union(brief.chunks) if n >= recipe.variants)
    for count in [recipe.variants] if recipe.stepped else counts:
        most, busy = 0, float("inf")
        for at in brief.plans:
            try:
                schedule = build(at.topology, at.demand, recipe, count, brief.plan)
            except InfeasibleError:
                return
            yield f"{name}-k{count}", schedule
            most = max(most, len(schedule.transfers))
            busy = min(busy, schedule.quantized)
        if count % recipe.variants == 0 and brief.hopeless(busy):  # more chunks spread the bytes no better
            return
        if 2 * most > brief.most_transfers:
            return


def matched(brief: Brief) -> Named:
    """The greedy link-chunk matching (:mod:`synth.rivals.matching.greedy`), where it is for the collective."""
    for count in brief.chunks:
        for at in brief.plans:
            try:
                matcher = Matcher.make(at.topology, at.demand, count, brief.model, at)
            except NotExpressibleError:
                return
            if matcher.transfers > brief.most_transfers:
                return
            for seed in range(brief.seeds):
                schedule = matcher.schedule(seed)
                if schedule is not None:
                    yield f"matching-k{count}", schedule


MAKERS: Final[tuple[Maker, ...]] = (planned, shallow, matched, libraries)
"""All makers; of equally fast schedules the first one's is taken."""


def family_of(name: str) -> str:
    """Kind of a schedule: its name without the chunk count."""
    return name.rpartition("-k")[0] or name


def all_schedules(brief: Brief, makers: Sequence[Maker] = MAKERS) -> dict[str, Schedule]:
    """Schedules of all makers by name; the makers' order decides among equals. The same schedule is there once.

    Raises
    ------
    InvalidInputError
        When nothing has to move, or two makers give different schedules one name.
    """
    if brief.plan.demand.empty:
        raise InvalidInputError("nothing has to move: there is nothing to compare")
    out: dict[str, Schedule] = {}
    for make in makers:
        made: dict[str, Schedule] = {}
        for name, schedule in make(brief):
            same = [other for key, other in made.items() if key == name or key.startswith(f"{name}.")]
            if not any(_key(other) == _key(schedule) for other in same):
                made[f"{name}.{len(same) + 1}" if same else name] = schedule
        twice = sorted(out.keys() & made.keys())
        if twice:
            raise InvalidInputError(f"two makers of schedules have a schedule {twice[0]!r}")
        out.update(made)
    return out


def _key(schedule: Schedule) -> tuple[object, ...]:
    return schedule.transfers, schedule.messages, schedule.shard_chunks
