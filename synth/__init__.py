"""synth: certified collective-communication schedules by linear programming.

>>> import synth
>>> result = synth.synthesize("ring:4", "allgather", "1 GB")
>>> result.program.report.ok
True
"""

from synth.choice.fastest import Choice, fastest
from synth.choice.sweep.sweep import Sweep, sweep
from synth.demand import COLLECTIVES, Demand, make_demand, read_matrix
from synth.demand.instance import Instance, make_instance
from synth.errors import (
    InfeasibleError,
    InvalidInputError,
    LimitReachedError,
    NotExpressibleError,
    SynthError,
    VerificationError,
)
from synth.export.result import Result
from synth.line.api import solve, synthesize
from synth.line.steps import send_time_optimum, step_frontier, step_optimum
from synth.program.meaning.lowering_options import Lowering
from synth.program.msccl import Program, lower, verify
from synth.rivals.baselines.textbook import baseline, baselines
from synth.schedule import BlockCosts, Schedule, TimeModel, make_schedule, simulate_schedule, step_schedule
from synth.solver.flow import Plan
from synth.study.multipath.gains import compare
from synth.timing.simulation import simulate_program
from synth.topology import Link, Node, Resource, Topology, builtin, builtin_names, load_topology, resolve

__all__ = [
    "COLLECTIVES",
    "BlockCosts",
    "Choice",
    "Demand",
    "InfeasibleError",
    "Instance",
    "InvalidInputError",
    "LimitReachedError",
    "Link",
    "Lowering",
    "Node",
    "NotExpressibleError",
    "Plan",
    "Program",
    "Resource",
    "Result",
    "Schedule",
    "Sweep",
    "SynthError",
    "TimeModel",
    "Topology",
    "VerificationError",
    "baseline",
    "baselines",
    "builtin",
    "builtin_names",
    "compare",
    "fastest",
    "load_topology",
    "lower",
    "make_demand",
    "make_instance",
    "make_schedule",
    "read_matrix",
    "resolve",
    "send_time_optimum",
    "simulate_program",
    "simulate_schedule",
    "solve",
    "step_frontier",
    "step_optimum",
    "step_schedule",
    "sweep",
    "synthesize",
    "verify",
]
