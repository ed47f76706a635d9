"""The driver: column generation, certificate, plans."""

from synth.solver.flow.certificate import certified_bound
from synth.solver.flow.colgen import Progress
from synth.solver.flow.driver import solve
from synth.solver.flow.plan import Plan, SolverInfo

__all__ = ["Plan", "Progress", "SolverInfo", "certified_bound", "solve"]
