"""What each rival takes at each message size, in the time model or as a program with calibrated costs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from synth.errors import InvalidInputError, NotExpressibleError, VerificationError
from synth.ground.arrays import Floats
from synth.program.meaning.claims import claim_of
from synth.program.meaning.lowering_options import Lowering
from synth.program.meaning.semantics import EVEN, SHARDED
from synth.program.msccl import Draft, Target, make_draft
from synth.program.msccl.limits.check import limit_faults
from synth.program.msccl.selection import count_rule
from synth.program.msccl.verifying.deadlocks import UNLIMITED, deadlock_free_max_bytes
from synth.rivals.at_sizes import family_of
from synth.rivals.baselines.kinds import KINDS
from synth.schedule import BlockCosts, Schedule, TimeModel, compile_schedule, simulate_schedule
from synth.schedule.simulate.bounds import plan_bound
from synth.solver.flow import Plan
from synth.timing.image import schedule_paths, timed
from synth.timing.programs import program_time
from synth.timing.simulation import parse_sizes, with_costs

# Points between powers of two keep so many leading binary digits, so that buffers still divide into 2^k chunks.
LEADING_BITS = 4
# Schedules per size that are timed as programs.
FASTEST = 3


@dataclass(frozen=True)
class Candidate:
    """A rival's schedule with a protocol, for one runtime.

    Attributes
    ----------
    rival
        Name of the schedule.
    schedule, protocol, target, inplace
        What is lowered, and how.
    model
        Time model.
    costs
        What blocks of the protocol cost; None: the schedule is timed, not its program.
    """

    rival: str
    schedule: Schedule
    protocol: str
    target: Target
    inplace: bool
    model: TimeModel
    costs: BlockCosts | None = None

    @cached_property
    def draft(self) -> Draft:
        """Its program for all sizes, neither checked nor verified."""
        topology = self.schedule.plan.topology.name
        collective = self.schedule.plan.demand.collective
        name = f"synth_{collective}_{topology}_{self.rival}"
        return make_draft(
            self.schedule,
            self.target,
            Lowering(inplace=self.inplace, protocol=self.protocol, name=name, max_bytes=UNLIMITED),
        )

    @cached_property
    def fits(self) -> bool:
        """Whether the runtime can load the program and it cannot hang at any size."""
        try:
            draft = self.draft
        except NotExpressibleError:
            return False
        if limit_faults(draft, self.target):
            return False
        return deadlock_free_max_bytes(draft, self.target, UNLIMITED) == UNLIMITED

    @cached_property
    def seconds(self) -> Callable[[int], float]:
        """Time at a size in bytes; infinite where the program hangs or cannot be made."""
        if self.costs is None:
            compiled = compile_schedule(self.schedule)
            return lambda size: simulate_schedule(self.schedule, size, self.model, compiled=compiled).end
        return self._program_seconds(self.costs)

    def _program_seconds(self, costs: BlockCosts) -> Callable[[int], float]:
        try:
            paths = schedule_paths(self.schedule, self.target)
            put = timed(self.draft, self.schedule.plan.topology, self.target, paths=paths)
        except NotExpressibleError:
            return lambda size: np.inf

        def seconds(size: int) -> float:
            try:
                return program_time(put, size, costs, self.model).seconds
            except VerificationError:
                return np.inf

        return seconds

    def served(self, size: int, element_bytes: int) -> bool:
        """Whether the runtime gives a call of this size to the program: its element count divides into the chunks."""
        claim = claim_of(self.schedule)
        if not element_bytes or claim.collective not in EVEN:
            return True
        ranks = claim.ngpus if claim.collective in SHARDED else 1
        return count_rule(claim).serves(size // (element_bytes * ranks))


@dataclass(frozen=True)
class Judge:
    """How candidates are timed.

    Attributes
    ----------
    target, inplace
        The runtime, and the kind of call.
    model
        Time model of links.
    protocols
        Protocol -> costs of its blocks, or None for the schedule alone.
    """

    target: Target
    inplace: bool = False
    model: TimeModel = field(default_factory=TimeModel)
    protocols: Mapping[str, BlockCosts | None] = field(default_factory=lambda: {"Simple": None})

    def __post_init__(self) -> None:
        known = [p.name for p in self.target.protocols]
        if not self.protocols or not set(self.protocols) <= set(known):
            raise InvalidInputError(
                f"protocols {', '.join(self.protocols) or 'none'}: {self.target.name} has {', '.join(known)}"
            )

    def candidates(self, schedules: Mapping[str, Schedule]) -> dict[str, Candidate]:
        """Every schedule with every protocol, by name."""
        out = {}
        for rival, schedule in schedules.items():
            for protocol, costs in self.protocols.items():
                name = rival if len(self.protocols) == 1 else f"{rival}:{protocol}"
                out[name] = Candidate(rival, schedule, protocol, self.target, self.inplace, self.model, costs)
        return out

    def promising(self, schedules: Mapping[str, Schedule], sizes: Sequence[int]) -> dict[str, Schedule]:
        """Schedules that are worth timing as programs: all where none is; else the fastest few of every size.

        They are timed as schedules with the blocks' costs per hop, which takes far less; of the baselines of each kind
        the fastest stays too, so that there is something to compare with.
        """
        if None in self.protocols.values():
            return dict(schedules)
        names, kept = list(schedules), set()
        for costs in self.protocols.values():
            model = self.model if costs is None else with_costs(self.model, costs)
            rows = [Candidate(n, s, "", self.target, self.inplace, model) for n, s in schedules.items()]
            times = times_of(rows, sizes)
            kept |= set(np.argsort(times, axis=0, kind="stable")[:FASTEST].ravel().tolist())
            for family in {family_of(name) for name in names}:
                own = [k for k, name in enumerate(names) if family_of(name) == family and family in KINDS]
                kept |= {own[k] for k in times[own].argmin(axis=0).tolist()} if own else set()
        return {name: schedules[name] for k, name in enumerate(names) if k in kept}

    def bound(self, plan: Plan, size: int) -> float:
        """Seconds that no candidate can beat at a size."""
        models = [self.model if costs is None else with_costs(self.model, costs) for costs in self.protocols.values()]
        return min(plan_bound(plan, size, model).seconds for model in models)


def times_of(
    candidates: Iterable[Candidate], sizes: Iterable[int], progress: Callable[[str], None] | None = None
) -> Floats:
    """Seconds, candidates x sizes."""
    rows, points = list(candidates), list(sizes)
    out = np.empty((len(rows), len(points)))
    for k, candidate in enumerate(rows):
        if progress is not None:
            progress(f"simulating {candidate.rival} ({k + 1} of {len(rows)})")
        out[k] = [candidate.seconds(size) for size in points]
    return out


def sweep_sizes(sizes: str | Iterable[int], points_per_octave: int, unit: int) -> tuple[int, ...]:
    """Sizes of a sweep, rising.

    Parameters
    ----------
    sizes
        ``1KiB:4GiB``, a list with commas, or numbers.
    points_per_octave
        Points from one size to its double, of a range.
    unit
        Sizes are rounded down to multiples of this (one element per rank), as nccl-tests does; points between the
        powers of a range keep few binary digits, so that buffers still divide into chunks.

    Raises
    ------
    InvalidInputError
        On anything else.
    """
    if points_per_octave < 1:
        raise InvalidInputError(f"points per octave {points_per_octave!r} must be 1 or more")
    if not isinstance(sizes, str):
        exact = list(sizes)
        if not exact or min(exact) <= 0:
            raise InvalidInputError("sizes must be one or more positive numbers of bytes")
    elif ":" not in sizes:
        exact = parse_sizes(sizes)
    else:
        (end,) = parse_sizes(sizes.partition(":")[2])
        points = [size * 2 ** (k / points_per_octave) for size in parse_sizes(sizes) for k in range(points_per_octave)]
        return tuple(sorted({unit * _rounded(int(point / unit)) for point in points if point <= end}))
    return tuple(sorted({unit * max(1, int(size) // unit) for size in exact}))


def _rounded(units: int) -> int:
    shift = max(0, units.bit_length() - LEADING_BITS)
    return max(1, units >> shift << shift)
