"""First columns: an approximate fractional packing by exponential prices.

Each family in turn takes the cheapest column at prices that grow exponentially with the load so far (Plotkin, Shmoys
and Tardos 1995; Young 1995). After a few rounds the columns complement each other, which the columns of one price
vector do not: those of a degenerate master pile up on the same cheap links. The master LP then finds the optimum among
them, or almost.
"""

from __future__ import annotations

import time

import numpy as np

from synth.formulation.flow.columns import Column
from synth.formulation.flow.pricing import Pricer
from synth.ground.arrays import Floats

# Rounds over all families, and how sharply fuller resources cost more.
ROUNDS = 8
SHARPNESS = 4.0
# Families that are priced at the same prices: one part in so many, since the shortest hops are searched once for them.
PARTS = 12


def packing_seeds(pricer: Pricer, bound: float, deadline: float) -> list[Column]:
    """Columns of a packing of all families (all-reduce: of cheapest meeting points), in the order they were found.

    Parameters
    ----------
    pricer
        Instance.
    bound
        Any positive lower bound on the time, seconds.
    deadline
        ``time.monotonic()`` at which to stop with what there is.
    """
    packing = _Packing(pricer, bound, deadline)
    return packing.meeting() if pricer.demand.pattern == "allreduce" else packing.rounds()


class _Packing:
    def __init__(self, pricer: Pricer, bound: float, deadline: float) -> None:
        self.network, self.pricer = pricer.network, pricer
        self.bound, self.deadline = bound, deadline
        self.load = np.zeros(len(self.network.capacity))  # seconds on each resource, all rounds together
        self.columns: list[Column] = []

    def rounds(self) -> list[Column]:
        families = self.pricer.active
        step = max(1, -(-len(families) // PARTS))
        for turn in range(ROUNDS):
            for begin in range(0, len(families), step):
                if time.monotonic() >= self.deadline:
                    return self.columns
                done = turn + begin / len(families)
                for column in self.pricer.some(families[begin : begin + step], self._prices(done)):
                    self._take(column)
        return self.columns

    def meeting(self) -> list[Column]:
        """Each round takes the in-tree and the out-tree of the cheapest meeting point."""
        for turn in range(2 * ROUNDS):
            if time.monotonic() >= self.deadline:
                break
            priced = self.pricer.price(self._prices(float(turn)))
            by_family = {column.family: column for column in priced.columns}
            both = priced.costs[0::2] + priced.costs[1::2]
            point = int(np.argmin(both))
            for family in self.pricer.active[2 * point : 2 * point + 2]:
                self._take(by_family[family])
        return self.columns

    def _prices(self, done: float) -> Floats:
        """Link prices after ``done`` rounds; the time that a round should take is estimated from both sides."""
        even = 1.0 / (len(self.load) * self.network.capacity)
        peak = float(self.load.max())
        span = max(self.bound, 0.9 * peak / done) if done >= 1 else self.bound
        prices = np.exp(SHARPNESS * (self.load - peak) / span) / self.network.capacity
        prices = prices / float(self.network.capacity @ prices) + 1e-6 * even
        return self.network.link_prices(prices)

    def _take(self, column: Column) -> None:
        self.load += self.pricer.load(column) / self.network.capacity
        self.columns.append(column)
