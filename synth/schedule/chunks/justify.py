"""Forward-backward improvement of an order: run it from the end, then from the start, as long as that helps.

Source of the idea: double justification of schedules under resource constraints (Valls, Ballestin, Quintanilla,
"Justification and RCPSP", EJOR 165, 2005).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from synth.schedule.chunks.build import reordered
from synth.schedule.model import Schedule
from synth.schedule.simulate.compiled import CompiledTransfers, compile_transfers
from synth.schedule.simulate.events import run_queued
from synth.schedule.simulate.run import simulate_schedule, with_times
from synth.schedule.simulate.time_model import TimeModel

# Rounds without gain after which it stops.
PATIENCE: Final = 2


def justified(schedule: Schedule, model: TimeModel, rounds: int) -> Schedule:
    """The schedule in the fastest order that was found; itself when that is its own.

    Parameters
    ----------
    schedule
        Transfers that go alone; one with messages is returned as it is.
    model
        Times of messages; a free link serves who comes first in the order of the round before.
    rounds
        Most rounds; each runs the transfers backwards and forwards once.
    """
    if schedule.messages or not schedule.transfers:
        return schedule
    compiled = compile_transfers(schedule.plan.topology, schedule.transfers)
    mirror = backwards(compiled)
    best, best_end = schedule, simulate_schedule(schedule, None, model, compiled=compiled).end
    bound = schedule.quantized + model.start
    ends = simulate_schedule(schedule, None, model, compiled=compiled).arrivals
    worse = 0
    for _ in range(rounds):
        if best_end <= bound * (1 + 1e-9) or worse == PATIENCE:
            break
        late = run_queued(mirror, schedule.chunk_bytes, model, (-ends[::-1]).tolist()).arrivals[::-1]
        line = run_queued(compiled, schedule.chunk_bytes, model, (-late).tolist())
        ends, starts = line.arrivals, line.starts.tolist()
        tried = _sorted_by(schedule, sorted(range(len(starts)), key=lambda k: (starts[k], -late[k], k)))
        end = simulate_schedule(tried, None, model).end
        worse = 0 if end < best_end * (1 - 1e-9) else worse + 1
        if end < best_end * (1 - 1e-9):
            best, best_end = tried, end
    return best if best is schedule else with_times(best)


def backwards(compiled: CompiledTransfers) -> CompiledTransfers:
    """The same messages with time turned round: last first, hops from their end, what waited is waited for."""
    last = len(compiled) - 1
    after: list[list[int]] = [[] for _ in compiled.deps]
    for k, deps in enumerate(compiled.deps):
        for d in deps:
            after[last - d].append(last - k)
    return replace(
        compiled,
        count=compiled.count[::-1],
        links=[path[::-1] for path in reversed(compiled.links)],
        deps=[tuple(sorted(users)) for users in after],
        adds=compiled.adds[::-1],
        message_of=np.arange(len(compiled), dtype=np.int64),
    )


def _sorted_by(schedule: Schedule, order: list[int]) -> Schedule:
    return replace(schedule, transfers=reordered(list(schedule.transfers), order))
