"""The whole line in one call: topology + collective -> plan, schedule, verified program, files."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Literal, Unpack

from synth.choice.judge import ELEMENT_BYTES
from synth.demand import Demand
from synth.demand.instance import Given, Instance, make_instance
from synth.export.result import Planned, Result
from synth.line.realise import Wish, realise
from synth.program.meaning.lowering_options import Lowering
from synth.program.runtime import Runtime, fitted, runtime_named
from synth.schedule import BlockCosts
from synth.solver.flow import Plan, Progress
from synth.solver.flow import solve as solve_plan
from synth.timing.defaults import chosen_costs
from synth.topology import Topology, check_steps


def solve(
    topology: Topology | str | Instance,
    collective: str | Demand | None = None,
    size: float | str | None = None,
    *,
    gap: float = 1e-6,
    time_limit: float = 60.0,
    progress: Callable[[Progress], None] | None = None,
    symmetry: Literal["auto", "off"] = "auto",
    **given: Unpack[Given],
) -> Plan:
    """Certified traffic splits of a collective on a topology.

    Parameters
    ----------
    topology
        A :class:`Topology`, a file, or a built-in name such as ``"dgx1-v100"``; or an :class:`Instance`, alone.
    collective, size
        See :func:`synth.demand.make_demand`; a ready :class:`Demand` may be given instead of a name.
    gap, time_limit, progress, symmetry
        See :func:`synth.solver.flow.solve`.
    given
        ``ranks``, ``root``, ``matrix``, ``shards``, ``relay``, ``paths``, ``capacities``: see
        :class:`synth.demand.instance.Given`.

    Returns
    -------
    Plan

    Examples
    --------
    >>> import synth
    >>> plan = synth.solve("dgx1-v100", "allgather", "8 GB")
    >>> round(plan.time * 1e3, 4)
    46.6667
    """
    asked = make_instance(topology, collective, size, **given)
    return solve_plan(
        asked.topology, asked.demand, gap=gap, time_limit=time_limit, progress=progress, symmetry=symmetry
    )


def plan_only(
    topology: Topology | str | Instance,
    collective: str | Demand | None = None,
    size: float | str | None = None,
    **options: Any,
) -> Planned:
    """Run the line up to the plan, with the same options as :func:`solve`; the plan can be written with its plots."""
    began = time.monotonic()
    plan = solve(topology, collective, size, **options)
    return Planned(plan, {**plan.timings, "total": time.monotonic() - began})


def synthesize(
    topology: Topology | str | Instance,
    collective: str | Demand | None = None,
    size: float | str | None = None,
    *,
    chunks: int | None = None,
    max_loss: float = 0.02,
    max_steps: int | None = None,
    target: str = "msccl",
    lowering: Lowering | Mapping[str, Any] | None = None,
    search: bool = False,
    constants: Mapping[str, BlockCosts] | str | None = None,
    blocks: int | None = None,
    element_bytes: int = ELEMENT_BYTES,
    gap: float = 1e-6,
    time_limit: float = 60.0,
    progress: Callable[[Progress], None] | None = None,
    symmetry: Literal["auto", "off"] = "auto",
    **given: Unpack[Given],
) -> Result:
    """Run the whole line: plan, schedule, verified program.

    Parameters
    ----------
    topology, collective, size, gap, time_limit, progress, symmetry, given
        As for :func:`solve`.
    chunks, max_loss, max_steps
        See :func:`synth.schedule.make_schedule`. With ``max_steps`` the hop distance is checked before any solver.
    target
        Name of the runtime: msccl, msccl-executor, rccl or mscclpp.
    lowering
        A :class:`synth.Lowering`, or its fields by name.
    search
        Judge programs instead of taking the plan's own schedule: matchings, baselines and the plan in several chunk
        counts are lowered, timed by the program simulator, and the fastest is written (:mod:`synth.choice.search`).
        Chunks are chosen so that the file runs at the asked size; ``max_loss`` is not looked at.
    constants
        For the search, what thread blocks cost per protocol: a file of ``synth calibrate``, a mapping, or None
        (``"ideal"``) for blocks that cost nothing; see :func:`synth.timing.defaults.chosen_costs`.
    blocks
        For the search, thread blocks that the program may take on a GPU where there is a choice.
    element_bytes
        For the search, bytes of the elements for which the file shall run; 0 for any chunks.

    Returns
    -------
    Result
    """
    began = time.monotonic()
    runtime = runtime_named(target, lowering)
    asked = make_instance(topology, collective, size, **given)
    if max_steps is not None:
        check_steps(asked.topology, asked.demand.pairs, max_steps)
    plan = solve(asked, gap=gap, time_limit=time_limit, progress=progress, symmetry=symmetry)
    if search:
        costs, source = chosen_costs(constants, runtime)
        wish = Wish(costs, source, chunks, max_loss, max_steps, blocks, element_bytes)
        return _searched(runtime, plan, wish, began)
    fitting = time.monotonic()
    schedule, draft = fitted(runtime, plan, chunks, max_loss, max_steps)
    checking = time.monotonic()
    program = runtime.program(draft)
    ended = time.monotonic()
    scheduled = schedule.timings.get("schedule", 0.0)
    timings = {
        **plan.timings,
        "schedule": scheduled,
        "lower": checking - fitting - scheduled,
        "verify": ended - checking,
        "total": ended - began,
    }
    return Result(plan, schedule, program, timings, runtime=runtime)


def _searched(runtime: Runtime, plan: Plan, wish: Wish, began: float) -> Result:
    """The result of the program that the search finds fastest."""
    searching = time.monotonic()
    winner, verdict = realise(runtime, plan, wish)
    checking = time.monotonic()
    made = winner.entry.runtime or runtime
    program = made.program(winner.entry.draft)
    ended = time.monotonic()
    timings = {
        **plan.timings,
        "schedule": checking - searching,
        "lower": 0.0,
        "verify": ended - checking,
        "total": ended - began,
    }
    return Result(plan, winner.schedule, program, timings, runtime=made, judgement=verdict)
