"""Schedules: whole chunks in an order that a runtime can follow, and what they take."""

from synth.schedule.build import make_schedule
from synth.schedule.model import Schedule, Transfer
from synth.schedule.simulate import Timeline, simulate
from synth.schedule.steps import step_schedule

__all__ = ["Schedule", "Timeline", "Transfer", "make_schedule", "simulate", "step_schedule"]
