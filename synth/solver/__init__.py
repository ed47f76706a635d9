"""The driver: column generation, certificate, plans."""

from synth.solver.certificate import certified_bound
from synth.solver.colgen import Progress
from synth.solver.plan import Plan, SolverInfo
from synth.solver.solve import solve

__all__ = ["Plan", "Progress", "SolverInfo", "certified_bound", "solve"]
