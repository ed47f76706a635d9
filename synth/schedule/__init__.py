"""Schedules: whole chunks in an order that a runtime can follow, and what they take."""

from synth.schedule.chunks.build import make_schedule
from synth.schedule.from_steps import step_schedule
from synth.schedule.model import Schedule, Transfer
from synth.schedule.simulate.compiled import CompiledTransfers, Timeline
from synth.schedule.simulate.run import compile_schedule, simulate, simulate_schedule
from synth.schedule.simulate.time_model import BlockCosts, TimeModel

__all__ = [
    "BlockCosts",
    "CompiledTransfers",
    "Schedule",
    "TimeModel",
    "Timeline",
    "Transfer",
    "compile_schedule",
    "make_schedule",
    "simulate",
    "simulate_schedule",
    "step_schedule",
]
