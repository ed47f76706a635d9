"""Step-optimal schedules in Python: topologies by name, collectives by name, sizes as text."""

from __future__ import annotations

from typing import Any

from synth.demand import Demand
from synth.demand.instance import Given, Instance, make_instance
from synth.formulation.send_times.model import AlphaMode
from synth.solver.send_times import optimum as _send_times
from synth.solver.send_times.solution import SendTimes
from synth.solver.steps import optimum as _steps
from synth.solver.steps.optimum import StepFrontier
from synth.solver.steps.solution import StepSolution
from synth.topology import Topology

# Steps and rounds do not depend on the size; times in summaries and schedules do.
DEFAULT_SIZE = 1e9


def _instance(
    topology: Topology | str | Instance,
    collective: str | Demand | None,
    size: float | str | None,
    options: dict[str, Any],
) -> tuple[Instance, dict[str, Any]]:
    """The instance, and the options that are the solver's."""
    given = {name: value for name, value in options.items() if name in Given.__optional_keys__}
    rest = {name: value for name, value in options.items() if name not in given}
    return make_instance(topology, collective, size, default_size=DEFAULT_SIZE, **given), rest


def step_optimum(
    topology: Topology | str | Instance,
    collective: str | Demand | None = None,
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
    asked, rest = _instance(topology, collective, size, options)
    return _steps.step_optimum(asked.topology, asked.demand, chunks=chunks, steps=steps, rounds=rounds, **rest)


def step_frontier(
    topology: Topology | str | Instance,
    collective: str | Demand | None = None,
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
    asked, rest = _instance(topology, collective, size, options)
    return _steps.step_frontier(asked.topology, asked.demand, max_steps=max_steps, max_chunks=max_chunks, **rest)


def send_time_optimum(
    topology: Topology | str | Instance,
    collective: str | Demand | None = None,
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
    asked, rest = _instance(topology, collective, size, options)
    return _send_times.send_time_optimum(asked.topology, asked.demand, chunks=chunks, alpha_mode=alpha_mode, **rest)
