"""Step-optimal schedules in Python: topologies by name, collectives by name, sizes as text."""

from __future__ import annotations

from typing import Any

from synth.demand import Demand, make_demand
from synth.formulation.send_times.model import AlphaMode
from synth.line.api import as_topology
from synth.solver.send_times import optimum as _send_times
from synth.solver.send_times.solution import SendTimes
from synth.solver.steps import optimum as _steps
from synth.solver.steps.optimum import StepFrontier
from synth.solver.steps.solution import StepSolution
from synth.topology import Topology

# Steps and rounds do not depend on the size; times in summaries and schedules do.
DEFAULT_SIZE = 1e9


def _instance(
    topology: Topology | str, collective: str | Demand, size: float | str | None, options: dict[str, Any]
) -> tuple[Topology, Demand]:
    """Topology and demand; takes what describes the demand out of the options."""
    machine = as_topology(topology)
    given = {name: options.pop(name) for name in ("ranks", "root", "matrix", "shards") if name in options}
    if isinstance(collective, Demand):
        return machine, collective
    known = given.get("matrix") is not None or given.get("shards") is not None
    return machine, make_demand(machine, collective, DEFAULT_SIZE if size is None and not known else size, **given)


def step_optimum(
    topology: Topology | str,
    collective: str | Demand,
    size: float | str | None = None,
    *,
    chunks: int = 1,
    steps: int | None = None,
    rounds: int | None = None,
    **options: Any,
) -> StepSolution:
    """Schedule of synchronous steps with the fewest rounds, and the proof that there is none with fewer.

    Parameters
    ----------
    topology
        A :class:`Topology`, a file, or a built-in name.
    collective, size
        See :func:`synth.demand.make_demand`, whose ``ranks``, ``root``, ``matrix`` and ``shards`` are options here.
        Default size: 1 GB; it changes the times that are reported, not the schedule.
    chunks, steps, rounds
        Chunks per shard; number of steps (default: the fewest); any schedule with so many rounds will do.
    options
        round_bandwidth, symmetry, time_limit, engine, progress: see :func:`synth.solver.steps.optimum.step_optimum`.

    Examples
    --------
    >>> import synth
    >>> found = synth.step_optimum("dgx1-v100", "allgather", chunks=6, steps=3)
    >>> found.chunks, found.steps, found.rounds, found.status
    (6, 3, 7, 'optimal')
    """
    machine, demand = _instance(topology, collective, size, options)
    return _steps.step_optimum(machine, demand, chunks=chunks, steps=steps, rounds=rounds, **options)


def step_frontier(
    topology: Topology | str,
    collective: str | Demand,
    size: float | str | None = None,
    *,
    max_steps: int | None = None,
    max_chunks: int = 6,
    **options: Any,
) -> StepFrontier:
    """Pareto frontier of (chunks, steps, rounds per chunk); options as for :func:`step_optimum`.

    Examples
    --------
    >>> import synth
    >>> frontier = synth.step_frontier("ring:4", "allgather", max_chunks=2)
    >>> [(p.chunks, p.steps, p.rounds) for p in frontier.points]
    [(1, 2, 2), (2, 2, 3)]
    """
    machine, demand = _instance(topology, collective, size, options)
    return _steps.step_frontier(machine, demand, max_steps=max_steps, max_chunks=max_chunks, **options)


def send_time_optimum(
    topology: Topology | str,
    collective: str | Demand,
    size: float | str | None = None,
    *,
    chunks: int = 1,
    alpha_mode: AlphaMode = "pipelined",
    **options: Any,
) -> SendTimes:
    """Schedule of least finish time on a few GPUs, whatever their links: trees, order and start times in one MILP.

    Options: ranks, root, matrix, shards, and time_limit, engine, progress (see
    :func:`synth.solver.send_times.optimum.send_time_optimum`).
    """
    machine, demand = _instance(topology, collective, size, options)
    return _send_times.send_time_optimum(machine, demand, chunks=chunks, alpha_mode=alpha_mode, **options)
