"""The whole line in one call: topology + collective -> plan, schedule, verified program, files."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from synth.demand import Demand, make_demand
from synth.errors import InvalidInputError
from synth.line.facts import result_facts
from synth.line.planned import Planned, result_dict
from synth.program.channel_paths import ChannelPaths
from synth.program.msccl import Program
from synth.program.runtime import AnyProgram, Runtime, facts_of, file_of, target_names
from synth.schedule import Schedule
from synth.solver.flow import Plan, Progress
from synth.solver.flow import solve as solve_plan
from synth.solver.flow.summary import aligned, html_table
from synth.topology import PathGroup, Topology, check_steps, rented, resolve, select_paths


@dataclass(frozen=True)
class Result:
    """Everything that one run of the line made.

    Attributes
    ----------
    plan, schedule, program
        The three stages; the program is verified.
    timings
        Seconds per stage: formulate, solve, schedule, lower, verify, total.
    files
        Written files by kind (see :meth:`write`).
    runtime
        Target with the options of the lowering.
    """

    plan: Plan
    schedule: Schedule
    program: AnyProgram
    timings: Mapping[str, float] = field(default_factory=dict, compare=False)
    files: Mapping[str, str] = field(default_factory=dict, compare=False)
    runtime: Runtime = field(default_factory=lambda: Runtime("msccl", {}), compare=False)

    @cached_property
    def paths(self) -> ChannelPaths:
        """Which path each channel stands for: its kind and links, and settings that lead there."""
        return self.runtime.paths(self.schedule)

    @cached_property
    def text(self) -> str:
        """The file that the runtime loads: MSCCL XML, or MSCCL++ JSON."""
        return file_of(self.program)[1]

    @property
    def xml_program(self) -> Program:
        """The program of an XML runtime.

        Raises
        ------
        InvalidInputError
            When the target is mscclpp, whose plans are JSON.
        """
        if not isinstance(self.program, Program):
            raise InvalidInputError("an mscclpp plan is JSON, not XML: use .program and .text")
        return self.program

    @property
    def xml(self) -> str:
        """The program as MSCCL XML; the same error for mscclpp."""
        return file_of(self.xml_program)[1]

    def to_dict(self) -> dict[str, Any]:
        """The ``synth-result/1`` object of the CLI's ``--json``."""
        schedule, facts = self.schedule, facts_of(self.program)
        after = {
            "chunks_per_shard": schedule.chunks_per_shard,
            "quantized_us": schedule.quantized * 1e6,
            "simulated_us": schedule.simulated * 1e6,
            "target": facts.target,
            "active_bytes": [facts.low, facts.high],
        }
        return result_dict(self.plan, after, self.timings, self.files)

    def summary(self) -> str:
        """A few aligned lines for a person."""
        return aligned(result_facts(self))

    def _repr_html_(self) -> str:
        return html_table(result_facts(self))

    def write(self, folder: str | Path) -> Result:
        """Write plan.json, schedule.json, the program, summary.txt and the plots; returns a result with ``files``.

        All files are made before the first one appears under its name.
        """
        from synth.line.folder import write_folder

        return write_folder(self, Path(folder))


def as_topology(topology: Topology | str, capacities: str | None = None) -> Topology:
    """A topology, or what a file or built-in name stands for, with nominal or achievable capacities."""
    if isinstance(topology, str):
        return resolve(topology, capacities)
    if capacities is not None:
        raise InvalidInputError(f"capacities {capacities!r}: {topology.name} is made already; give a built-in's name")
    return topology


def instance(
    topology: Topology | str,
    collective: str | Demand,
    size: float | str | None = None,
    *,
    ranks: Sequence[int] | None = None,
    root: int | None = None,
    matrix: Any = None,
    shards: Sequence[float] | None = None,
    relay: bool = True,
    paths: Collection[PathGroup] | None = None,
    capacities: str | None = None,
) -> tuple[Topology, Demand]:
    """What :func:`solve` is asked for: the machine as far as it may be used, and the demand."""
    machine = as_topology(topology, capacities)
    if paths is not None:
        machine = select_paths(machine, paths)
    demand = collective
    if not isinstance(demand, Demand):
        demand = make_demand(machine, demand, size, ranks=ranks, root=root, matrix=matrix, shards=shards)
    return rented(machine, demand.ranks, relay), demand


def solve(
    topology: Topology | str,
    collective: str | Demand,
    size: float | str | None = None,
    *,
    ranks: Sequence[int] | None = None,
    root: int | None = None,
    matrix: Any = None,
    shards: Sequence[float] | None = None,
    relay: bool = True,
    paths: Collection[PathGroup] | None = None,
    capacities: str | None = None,
    gap: float = 1e-6,
    time_limit: float = 60.0,
    progress: Callable[[Progress], None] | None = None,
    symmetry: Literal["auto", "off"] = "auto",
) -> Plan:
    """Certified traffic splits of a collective on a topology.

    Parameters
    ----------
    topology
        A :class:`Topology`, a file, or a built-in name such as ``"dgx1-v100"``.
    collective, size, ranks, root, matrix, shards
        See :func:`synth.demand.make_demand`; a ready :class:`Demand` may be given instead of a name.
    relay
        Whether GPUs that take no part may forward (see :func:`synth.topology.rented`).
    paths
        Groups of path kinds to use: ``nvlink`` (scale-up), ``pcie``, ``host``, ``nic``; None for all.
    capacities
        ``nominal`` or ``achievable``, for a built-in that knows both.
    gap, time_limit, progress, symmetry
        See :func:`synth.solver.flow.driver`.

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
    given: dict[str, Any] = {"ranks": ranks, "root": root, "matrix": matrix, "shards": shards, "relay": relay}
    machine, demand = instance(topology, collective, size, paths=paths, capacities=capacities, **given)
    return solve_plan(machine, demand, gap=gap, time_limit=time_limit, progress=progress, symmetry=symmetry)


def plan_only(
    topology: Topology | str, collective: str | Demand, size: float | str | None = None, **options: Any
) -> Planned:
    """Run the line up to the plan, with the same options as :func:`solve`; the plan can be written with its plots."""
    began = time.monotonic()
    plan = solve(topology, collective, size, **options)
    return Planned(plan, {**plan.timings, "total": time.monotonic() - began})


def synthesize(
    topology: Topology | str,
    collective: str | Demand,
    size: float | str | None = None,
    *,
    chunks: int | None = None,
    max_loss: float = 0.02,
    max_steps: int | None = None,
    target: str = "msccl",
    lowering: Mapping[str, Any] | None = None,
    **options: Any,
) -> Result:
    """Run the whole line: plan, schedule, verified program.

    Parameters
    ----------
    topology, collective, size
        As for :func:`solve`, which also takes ``options``.
    chunks, max_loss, max_steps
        See :func:`synth.schedule.make_schedule`. With ``max_steps`` the hop distance is checked before any solver.
    target
        Name of the runtime: msccl, msccl-executor, rccl or mscclpp.
    lowering
        Options of :func:`synth.program.make_draft`: inplace, name, min_bytes, max_bytes, protocol, instances,
        max_channels; and ``sms``, the thread blocks that the GPU can hold at once.

    Returns
    -------
    Result
    """
    began = time.monotonic()
    runtime = Runtime(target, dict(lowering or {}))
    if target not in target_names():
        raise InvalidInputError(f"unknown target {target!r}: use one of {', '.join(target_names())}")
    names = ("ranks", "root", "matrix", "shards", "relay", "paths", "capacities")
    given = {name: options.pop(name) for name in names if name in options}
    machine, collective = instance(topology, collective, size, **given)
    if max_steps is not None:
        check_steps(machine, collective.pairs, max_steps)
    plan = solve(machine, collective, **options)
    fitting = time.monotonic()
    schedule, draft = runtime.fitted(plan, chunks, max_loss, max_steps)
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
