"""synth: certified collective-communication schedules by linear programming.

>>> import synth
>>> result = synth.synthesize("ring:4", "allgather", "1 GB")
>>> result.program.report.ok
True
"""

from synth.api import Result, solve, synthesize
from synth.demand import COLLECTIVES, Demand, make_demand, read_matrix
from synth.errors import (
    InfeasibleError,
    InvalidInputError,
    LimitReachedError,
    NotExpressibleError,
    SynthError,
    VerificationError,
)
from synth.program import Program, lower, verify
from synth.schedule import Schedule, make_schedule
from synth.solver import Plan
from synth.study.multipath import compare
from synth.topology import Link, Node, Resource, Topology, builtin, builtin_names, load_topology, resolve

__all__ = [
    "COLLECTIVES",
    "Demand",
    "InfeasibleError",
    "InvalidInputError",
    "LimitReachedError",
    "Link",
    "Node",
    "NotExpressibleError",
    "Plan",
    "Program",
    "Resource",
    "Result",
    "Schedule",
    "SynthError",
    "Topology",
    "VerificationError",
    "builtin",
    "builtin_names",
    "compare",
    "load_topology",
    "lower",
    "make_demand",
    "make_schedule",
    "read_matrix",
    "resolve",
    "solve",
    "synthesize",
    "verify",
]
