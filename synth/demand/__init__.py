"""Collectives as demands on a topology."""

from synth.demand.build import make_demand, read_matrix
from synth.demand.model import COLLECTIVES, Commodity, Demand

__all__ = ["COLLECTIVES", "Commodity", "Demand", "make_demand", "read_matrix"]
