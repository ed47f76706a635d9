"""A program file or a verified program on a topology at many sizes: time, bandwidths, and the lower bound."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from synth.demand import make_demand
from synth.errors import InvalidInputError, VerificationError
from synth.ground.units import parse_size
from synth.program.meaning.semantics import EVEN, member_ranks
from synth.program.msccl import MSCCL, Draft, Program, Target
from synth.program.msccl.judging import judged
from synth.program.msccl.selection import FLOAT_BYTES, Selection, Served
from synth.program.msccl.xml.selecting import read_selected
from synth.schedule.simulate.bounds import latency_bound, plan_bound
from synth.schedule.simulate.time_model import BlockCosts, TimeModel
from synth.solver.flow import Plan
from synth.timing.image import Paths, TimedProgram, timed
from synth.timing.programs import program_time
from synth.topology import Topology, resolve


@dataclass(frozen=True, slots=True)
class SizeTime:
    """A program at one size.

    Attributes
    ----------
    size_bytes
        nccl-tests size.
    seconds
        Simulated time; None when the program hangs at this size.
    bound
        Seconds below which nothing can be in this model; None when the collective is not known.
    bus_factor
        From algorithm to bus bandwidth; 0 when there is none.
    iterations
        Loop iterations of the runtime.
    served
        Whether the runtime gives a call of this size to the program. If not, the library's own algorithm runs, and the
        time is what the program would take.
    """

    size_bytes: int
    seconds: float | None
    bound: float | None
    bus_factor: float
    iterations: int
    served: Served

    @property
    def ok(self) -> bool:
        """Whether the runtime runs the program at this size, and it ends."""
        return self.served.ok and self.seconds is not None

    @property
    def nearly_ok(self) -> bool:
        """Whether it does, or would with another element count near by."""
        return self.served.nearly_ok and self.seconds is not None

    @property
    def algbw(self) -> float | None:
        """Bytes/second; None for a hang."""
        return self.size_bytes / self.seconds if self.seconds else None

    def to_dict(self) -> dict[str, Any]:
        """One row of ``synth simulate --json``."""
        busbw = self.algbw * self.bus_factor if self.algbw and self.bus_factor else None
        return {
            "size_bytes": self.size_bytes,
            "time_us": None if self.seconds is None else self.seconds * 1e6,
            "bound_us": None if self.bound is None else self.bound * 1e6,
            "algbw_GBps": None if self.algbw is None else self.algbw / 1e9,
            "busbw_GBps": None if busbw is None else busbw / 1e9,
            "iterations": self.iterations,
            "served": self.served.ok,
            "reasons": list(self.served.reasons),
        }


def simulate_program(
    program: Program | Draft | str | os.PathLike[str],
    topology: Topology | str,
    sizes: Iterable[int],
    *,
    costs: BlockCosts | None = None,
    model: TimeModel | None = None,
    target: Target | None = None,
    paths: Paths | None = None,
    reference: Plan | None = None,
    selection: Selection | None = None,
    element_bytes: int = FLOAT_BYTES,
) -> list[SizeTime]:
    """Simulate a program at sizes.

    Parameters
    ----------
    program
        A verified program, a draft, or anybody's MSCCL XML file.
    topology
        Rank r runs on its r-th GPU.
    sizes
        nccl-tests sizes in bytes.
    costs, model
        What blocks and links cost (default: blocks nothing, links what the topology says).
    target
        Runtime whose protocol table applies (default: the program's, else msccl).
    paths
        Links of connections (see :func:`synth.timing.image.schedule_paths`).
    reference
        A plan of the same collective, whose prices make the bound tighter.
    selection
        Which calls the runtime gives to the program (default: judged here; of a draft, by what it alone can tell).
    element_bytes
        Size of the data type, which decides whether a size divides into the program's chunks.

    Raises
    ------
    InvalidInputError
        When the file cannot be read, or does not fit on the topology.
    """
    runtime = target or (program.target if isinstance(program, Program) else MSCCL)
    draft = program.draft if isinstance(program, Program) else program
    if not isinstance(draft, Draft):
        draft, selection = read_selected(draft, runtime)
    machine = resolve(topology) if isinstance(topology, str) else topology
    put = timed(draft, machine, runtime, paths=paths)
    costs, model = costs or BlockCosts(), model or TimeModel()
    rules = selection or judged(draft, runtime)
    return [_at(put, rules.at(size, element_bytes), costs, model, reference) for size in sizes]


def _at(program: TimedProgram, served: Served, costs: BlockCosts, model: TimeModel, reference: Plan | None) -> SizeTime:
    size = served.size_bytes
    bound, factor = _bound(program, size, costs, model, reference)
    try:
        time = program_time(program, size, costs, model)
    except VerificationError:
        return SizeTime(size, None, bound, factor, 0, served)
    return SizeTime(size, time.seconds, bound, factor, time.iterations, served)


def _bound(
    program: TimedProgram, size: int, costs: BlockCosts, model: TimeModel, reference: Plan | None
) -> tuple[float | None, float]:
    claim = program.draft.semantics
    if claim.collective not in EVEN or (claim.root is None and claim.collective in ("broadcast", "reduce")):
        return None, 0.0
    demand = make_demand(program.topology, claim.collective, float(size), ranks=member_ranks(claim), root=claim.root)
    whole = with_costs(model, costs)
    if reference is not None:
        return plan_bound(reference, float(size), whole).seconds, demand.bus_factor
    return latency_bound(program.topology, demand, whole).seconds, demand.bus_factor


def with_costs(model: TimeModel, costs: BlockCosts) -> TimeModel:
    """A model for lower bounds of programs: what every message of a block costs at least counts for its hop."""
    return replace(
        model,
        start=model.start + costs.start,
        hop_latency=model.hop_latency + costs.latency,
        overhead=model.overhead + costs.overhead,
    )


def parse_sizes(text: str) -> list[int]:
    """Sizes of ``1KiB:1GiB`` (doubling from the first to the last), ``64KiB`` or ``1KiB,3KiB,1MiB``.

    Raises
    ------
    InvalidInputError
        On anything else.
    """
    if ":" not in text:
        sizes = [parse_size(part.strip()) for part in text.split(",")]
    else:
        low, _, high = text.partition(":")
        begin, end = parse_size(low.strip()), parse_size(high.strip())
        if not 0 < begin <= end:
            raise InvalidInputError(f"sizes {text!r}: the first must be more than 0 and at most the last")
        sizes = [begin << k for k in range((end // begin).bit_length())]
    if min(sizes) <= 0:
        raise InvalidInputError(f"sizes {text!r}: a size of 0 has no time")
    return sizes
