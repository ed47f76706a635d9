"""Methods that lead on to a later stage.

A room imports only from those below it, and yet ``plan.schedule().lower()`` is how people write. The few methods that
lead upwards are bound here by name, and are looked up when they are called; each is a public function of its room too.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, Final

ONWARD: Final = {
    "Plan.schedule": ("synth.schedule.chunks.build", "make_schedule"),
    "Plan.save": ("synth.solver.flow.plan_file", "save_plan"),
    "Plan.load": ("synth.solver.flow.plan_file", "load_plan"),
    "StepSolution.schedule": ("synth.schedule.from_steps", "step_schedule"),
    "SendTimes.schedule": ("synth.schedule.from_steps", "step_schedule"),
    "Schedule.lower": ("synth.program.msccl.lowering.lower", "lower"),
}


def onward(method: str) -> Callable[..., Any]:
    """Return the function of a later room that a method stands for."""
    module, name = ONWARD[method]
    function: Callable[..., Any] = getattr(import_module(module), name)
    return function
