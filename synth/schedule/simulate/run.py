"""Simulation of transfers and schedules in the alpha-beta time model (docs/time-model.md)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from synth.schedule.model import Schedule, Transfer
from synth.schedule.simulate.compiled import CompiledTransfers, Timeline, compile_transfers
from synth.schedule.simulate.events import run_queued
from synth.schedule.simulate.fair import run_fair
from synth.schedule.simulate.ordered import run_ordered
from synth.schedule.simulate.time_model import TimeModel
from synth.topology.model import Topology


def simulate(
    topology: Topology, transfers: Sequence[Transfer], chunk_bytes: float, priority: Sequence[float] | None = None
) -> Timeline:
    """Run transfers as early as their dependencies and links allow (list scheduling), by the topology's numbers alone.

    Parameters
    ----------
    topology
        Capacities and latencies.
    transfers
        Dependencies name positions in this sequence.
    chunk_bytes
        Bytes of one chunk.
    priority
        Which of several waiting transfers a free link takes first (smallest); default: the sequence's order.

    Returns
    -------
    Timeline
    """
    order = range(len(transfers)) if priority is None else priority
    return run_queued(compile_transfers(topology, transfers), chunk_bytes, TimeModel(), order)


def compile_schedule(schedule: Schedule) -> CompiledTransfers:
    """Flatten a schedule once, to run it at many sizes and constants."""
    return compile_transfers(schedule.plan.topology, schedule.transfers, schedule.messages)


def simulate_schedule(
    schedule: Schedule,
    size_bytes: float | None = None,
    model: TimeModel | None = None,
    *,
    compiled: CompiledTransfers | None = None,
) -> Timeline:
    """Start and arrival of every transfer of a schedule at a size.

    Parameters
    ----------
    schedule
        Its chunks keep their number and take their part of the size.
    size_bytes
        nccl-tests size; default: the plan's.
    model
        Constants; default: the topology's capacities and latencies alone, pipelined, in the schedule's order.
    compiled
        What :func:`compile_schedule` made of the schedule, when it is at hand.

    Returns
    -------
    Timeline
        An empty schedule (nothing has to move) has no transfers and ends at 0.
    """
    model = TimeModel() if model is None else model
    size = schedule.plan.demand.size_bytes if size_bytes is None else size_bytes
    chunk_bytes = schedule.chunk_bytes * size / (schedule.plan.demand.size_bytes or 1.0)
    return run(compile_schedule(schedule) if compiled is None else compiled, chunk_bytes, model)


def with_times(schedule: Schedule) -> Schedule:
    """The schedule with the starts, arrivals and simulated time of its own order, in the default model."""
    line = simulate_schedule(schedule)
    return replace(
        schedule,
        starts=tuple(line.starts.tolist()),
        arrivals=tuple(line.arrivals.tolist()),
        simulated=max(line.end, schedule.quantized),
    )


def run(compiled: CompiledTransfers, chunk_bytes: float, model: TimeModel) -> Timeline:
    """Run compiled transfers with chunks of ``chunk_bytes`` bytes, shared as the model says."""
    if model.sharing == "order":
        return run_ordered(compiled, chunk_bytes, model)
    if model.sharing == "fifo":
        return run_queued(compiled, chunk_bytes, model)
    return run_fair(compiled, chunk_bytes, model)
