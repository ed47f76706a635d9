"""The time of a program that was lowered from a schedule, whatever the runtime."""

from __future__ import annotations

from collections.abc import Callable

from synth.program.msccl.model import Draft
from synth.program.runtime import AnyDraft, Runtime, XmlRuntime
from synth.schedule.model import Schedule
from synth.schedule.simulate.compiled import compile_transfers
from synth.schedule.simulate.run import simulate_schedule
from synth.schedule.simulate.time_model import BlockCosts, TimeModel
from synth.timing.image import schedule_paths, timed
from synth.timing.programs import program_time

ProgramTimer = Callable[[float, BlockCosts, TimeModel], float]
"""Seconds of a program at a size in bytes, with costs of blocks, in a model of links."""


def program_timer(runtime: Runtime, draft: AnyDraft, schedule: Schedule) -> ProgramTimer:
    """Prepare the draft that a runtime made of a schedule; links are those of the schedule's transfers.

    Raises
    ------
    VerificationError
        By the timer, when the program hangs at the asked size.
    """
    topology = schedule.plan.topology
    if isinstance(runtime, XmlRuntime) and isinstance(draft, Draft):
        paths = schedule_paths(schedule, runtime.target, runtime.options)
        prepared = timed(draft, topology, runtime.target, paths=paths)
        return lambda size, costs, model: program_time(prepared, size, costs, model).seconds
    compiled = compile_transfers(topology, schedule.transfers)
    return lambda size, costs, model: simulate_schedule(schedule, size, model, compiled=compiled).end
