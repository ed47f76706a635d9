"""Rivals: all the schedules among which a sweep over message sizes takes the fastest.

A maker is a pure function from an instance to named schedules. To add a kind of schedule, append its maker to
``RIVALS`` (or pass a longer tuple to :func:`synth.sweep`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from synth.errors import InfeasibleError, InvalidInputError, LimitReachedError, NotExpressibleError
from synth.rivals.baselines.build import build
from synth.rivals.baselines.kinds import KINDS, Recipe, recipes
from synth.rivals.makers import EVEN_CHUNKS, MOST_TRANSFERS, SHALLOW, SLACK, family_of, plan_at, scaled_demand
from synth.rivals.matching.matched import Matcher
from synth.rivals.shallow import shallow_recipe
from synth.schedule.chunks.build import order_routes
from synth.schedule.chunks.quantise import Split, integer_routes, quantise
from synth.schedule.model import Schedule
from synth.schedule.simulate.time_model import TimeModel
from synth.solver.flow.plan import Plan

__all__ = ["RIVALS", "Anchored", "Maker", "family_of", "plan_at", "rivals", "scaled_demand"]


@dataclass(frozen=True, slots=True)
class Anchored:
    """What rivals are made for.

    Attributes
    ----------
    plan
        Certified plan of the collective at some size; plans are alike at all sizes.
    sizes
        nccl-tests sizes in bytes at which orders and paths are chosen: what is best there differs with the size.
    """

    plan: Plan
    sizes: tuple[float, ...]

    @property
    def plans(self) -> list[Plan]:
        """The plan at each size."""
        return [plan_at(self.plan, size) for size in self.sizes]


Maker = Callable[[Anchored], Mapping[str, Schedule]]
"""Named schedules for an instance; none where there are none."""


def planned(instance: Anchored) -> dict[str, Schedule]:
    """The plan in few chunks, in as many as its splits need, and in finer ones, each ordered for each size."""
    out: dict[str, Schedule] = {}
    plan = instance.plan
    for split in _splits(plan):
        for at in instance.plans:
            factor = at.demand.size_bytes / plan.demand.size_bytes
            here = replace(split, chunk_bytes=split.chunk_bytes * factor, time=split.time * factor)
            _add(out, f"plan-k{split.chunks}", order_routes(at, here, integer_routes(at, here)))
    return out


def _splits(plan: Plan) -> Iterator[Split]:
    found: dict[int, Split] = {}
    for chunks in (*EVEN_CHUNKS, None):
        if 1 in found and (chunks or 1) * _transfers(plan, found[1]) > MOST_TRANSFERS:
            continue
        try:
            split = quantise(plan, chunks)
        except LimitReachedError:
            continue
        found.setdefault(split.chunks, split)
        while chunks is None and 2 * _transfers(plan, split) <= MOST_TRANSFERS:
            split = split.refined(2)
            found.setdefault(split.chunks, split)
    for chunks in sorted(found):
        yield found[chunks]


def _transfers(plan: Plan, split: Split) -> int:
    return sum(n * len(route.hops) for route, n in integer_routes(plan, split))


def shallow(instance: Anchored) -> dict[str, Schedule]:
    """Trees that are no deeper than they must be, or one hop deeper."""
    out: dict[str, Schedule] = {}
    for slack in SLACK:
        for variants in SHALLOW:
            recipe = shallow_recipe(instance.plan.topology, instance.plan.demand, variants, slack)
            if recipe is not None:
                _pieces(out, instance, f"shallow{slack}-{variants}", recipe)
    return out


def libraries(instance: Anchored) -> dict[str, Schedule]:
    """Every baseline in every form, at a few chunk counts."""
    out: dict[str, Schedule] = {}
    for name in KINDS:
        try:
            made = recipes(name, instance.plan.topology, instance.plan.demand)
        except (InvalidInputError, InfeasibleError, NotExpressibleError):
            continue  # has no form here
        for k, recipe in enumerate(made):
            _pieces(out, instance, name if len(made) == 1 else f"{name}-{k + 1}", recipe)
    return out


def _pieces(out: dict[str, Schedule], instance: Anchored, name: str, recipe: Recipe) -> None:
    """A recipe at rising chunk counts, until there are too many transfers."""
    whole = {recipe.variants * pieces for pieces in EVEN_CHUNKS}
    counts = sorted(n for n in whole.union(EVEN_CHUNKS) if n >= recipe.variants)
    for count in [recipe.variants] if recipe.stepped else counts:
        most = 0
        for at in instance.plans:
            try:
                schedule = build(at.topology, at.demand, recipe, count, instance.plan)
            except InfeasibleError:
                return
            _add(out, f"{name}-k{count}", schedule)
            most = max(most, len(schedule.transfers))
        if 2 * most > MOST_TRANSFERS:
            return


def _add(out: dict[str, Schedule], name: str, schedule: Schedule) -> None:
    """Add a schedule under a name of its own, unless it is there."""
    same = [other for key, other in out.items() if key == name or key.startswith(f"{name}.")]
    if not any(_key(other) == _key(schedule) for other in same):
        out[f"{name}.{len(same) + 1}" if same else name] = schedule


def _key(schedule: Schedule) -> tuple[object, ...]:
    return schedule.transfers, schedule.messages, schedule.shard_chunks


def matched(instance: Anchored) -> dict[str, Schedule]:
    """The greedy link-chunk matching (:mod:`synth.rivals.matching.greedy`), where it is for the collective."""
    out: dict[str, Schedule] = {}
    for count in EVEN_CHUNKS:
        for at in instance.plans:
            try:
                matcher = Matcher.make(at.topology, at.demand, count, TimeModel(), at)
            except NotExpressibleError:
                return out
            if matcher.transfers > MOST_TRANSFERS:
                return out
            schedule = matcher.schedule(0)
            if schedule is not None:
                _add(out, f"matching-k{count}", schedule)
    return out


RIVALS: Final[tuple[Maker, ...]] = (planned, shallow, matched, libraries)
"""All makers; of equally fast schedules the first one's is taken."""


def rivals(instance: Anchored, makers: Sequence[Maker] = RIVALS) -> dict[str, Schedule]:
    """Schedules of all makers by name; the maker's order decides among equals.

    Raises
    ------
    InvalidInputError
        When nothing has to move, or two makers give different schedules one name.
    """
    if instance.plan.demand.empty:
        raise InvalidInputError("nothing has to move: there is nothing to compare")
    out: dict[str, Schedule] = {}
    for make in makers:
        made = make(instance)
        twice = sorted(out.keys() & made.keys())
        if twice:
            raise InvalidInputError(f"two makers of rivals have a schedule {twice[0]!r}")
        out.update(made)
    return out
