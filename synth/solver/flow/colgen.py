"""Column generation on the root/column LP of DESIGN.md, with dual smoothing and a certified stop."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from synth.demand.model import Demand
from synth.engine.highs import INFINITE, GrowingLp, LpSolution
from synth.errors import LimitReachedError
from synth.formulation.flow.columns import Column
from synth.formulation.flow.network import Hop, Network
from synth.formulation.flow.pricing import Priced, Pricer
from synth.formulation.flow.symmetry import Symmetry
from synth.ground.arrays import Floats
from synth.solver.flow.seeds import packing_seeds

# Share of the best prices so far in the prices that are tried (Wentges 1997): damps the swings of degenerate duals.
SMOOTHING = 0.5
# Total weight of the strictly positive floor under the prices. It breaks ties towards few and wide links and costs
# this relative part of the bound, so it must stay well under the smallest gap that is asked (1e-6).
PRICE_FLOOR = 1e-9
# Columns per row of the master from which on dead ones are removed, and the reduced cost (of T) of a dead one.
DEAD_FACTOR = 3
DEAD_COST = 1e-3


@dataclass(frozen=True, slots=True)
class Progress:
    """State of a running solve: seconds since the start, plan time and certified bound in seconds."""

    iteration: int
    elapsed: float
    plan: float
    bound: float
    columns: int


@dataclass(frozen=True, slots=True)
class Relaxation:
    """Outcome of column generation.

    Attributes
    ----------
    columns, values
        All generated columns and the share of each.
    time, bound
        Plan time and certified lower bound, seconds.
    prices
        Row prices (seconds/byte, sum of capacity x price = 1) that prove the bound.
    reduced
        Reduced cost of each column at the last master duals, relative to ``time``.
    """

    columns: tuple[Column, ...]
    values: Floats
    time: float
    bound: float
    prices: Floats
    reduced: Floats
    iterations: int


@dataclass
class ColumnGeneration:
    """The loop; build one per solve and call :meth:`run`."""

    network: Network
    demand: Demand
    gap: float
    deadline: float
    report: Callable[[Progress], None] | None = None
    symmetry: Symmetry | None = None
    _columns: list[Column] = field(default_factory=list)
    _bytes: list[Floats] = field(default_factory=list)
    _keys: set[tuple[object, ...]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._pricer = Pricer(self.network, self.demand, self.symmetry)
        self._group = self._pricer.symmetry
        self._families = self._pricer.families
        self._served = {family: row for row, family in enumerate(self._pricer.active)}
        self._meeting = self.demand.pattern == "allreduce"
        self._began = time.monotonic()
        capacity = self.network.capacity
        self._floor = PRICE_FLOOR / (len(capacity) * capacity)

    def run(self, seeds: Sequence[Column] = (), hints: Sequence[Floats] = ()) -> Relaxation:
        """Generate columns until the certified gap is at most ``gap`` or the deadline is reached.

        Parameters
        ----------
        seeds
            Columns to start from, besides the cheapest ones at even prices.
        hints
            Row prices that may prove a good bound.
        """
        self._check_time()
        best_prices = 1.0 / (len(self.network.capacity) * self.network.capacity)
        priced = self._price(best_prices)
        best = priced.bound
        self._scale = self._seed_time(priced)
        self._start_master()
        packed = packing_seeds(self._pricer, best, self.deadline)
        self._add((*priced.columns, *seeds, *packed))
        for prices in hints:
            priced = self._price(prices)
            self._add(priced.columns)
            if priced.bound > best:
                best, best_prices = priced.bound, prices
        solution: LpSolution | None = None
        iteration = 0
        while True:
            solved = self._lp.solve(self.deadline - time.monotonic())
            if solved is None:
                break
            solution, iteration = solved, iteration + 1
            plan, duals = solution.objective * self._scale, self._row_prices(solution)
            solution = self._without_dead(solution)
            for weight in (SMOOTHING, 0.0):
                tried = weight * best_prices + (1 - weight) * duals
                priced = self._price(tried)
                if priced.bound > best:
                    best, best_prices = priced.bound, tried
                if self._tell(iteration, plan, best) <= self.gap or self._add(priced.columns):
                    break
            else:
                break  # no column improves the master: its value is optimal up to its own tolerances
            if plan - best <= self.gap * plan or time.monotonic() >= self.deadline:
                break
        if solution is None:
            return self._unsolved(best, best_prices)
        return self._result(solution, best, best_prices, iteration)

    def _price(self, prices: Floats) -> Priced:
        return self._pricer.price(self.network.link_prices(self._floored(prices)))

    def _tell(self, iteration: int, plan: float, bound: float) -> float:
        if self.report is not None:
            self.report(Progress(iteration, time.monotonic() - self._began, plan, bound, len(self._columns)))
        return (plan - bound) / plan

    def _check_time(self) -> None:
        if time.monotonic() >= self.deadline:
            raise LimitReachedError("no solution within the time limit: give --time-limit more seconds")

    def _seed_time(self, priced: Priced) -> float:
        """Time of the plan that uses the first columns in full: the LP's unit of time, so that T is about 1."""
        load = np.sum([self._pricer.load(column) for column in priced.columns], axis=0)
        if self._meeting:
            load = load / (len(self._served) / 2)
        return float((load / self.network.capacity).max())

    def _start_master(self) -> None:
        """Rows: one per family (>= 1, or >= its meeting point's share), the meeting row, one per orbit of resources."""
        families, rows = len(self._served), len(self._group.first)
        need = [0.0 if self._meeting else 1.0] * families + ([1.0] if self._meeting else [])
        lower = np.array(need + [-INFINITE] * rows)
        upper = np.array([INFINITE] * len(need) + [0.0] * rows)
        self._first_row = len(need)
        self._lp = GrowingLp(lower, upper)
        self._lp.add([1.0], [(self._first_row + np.arange(rows), np.full(rows, -1.0))])
        if self._meeting:
            points = [
                (np.array([2 * k, 2 * k + 1, families]), np.array([-1.0, -1.0, 1.0])) for k in range(families // 2)
            ]
            self._lp.add([0.0] * len(points), points)
        self._fixed = self._lp.columns

    def _add(self, columns: tuple[Column, ...]) -> int:
        """Add the columns that are new; returns how many."""
        fresh, entries = [], []
        for column in columns:
            key = _key(column)
            if key in self._keys:
                continue
            self._keys.add(key)
            load = self._pricer.load(column)
            span = load[self._group.first] / (self.network.capacity[self._group.first] * self._scale)
            rows = np.flatnonzero(span)
            entries.append((np.append(self._served[column.family], self._first_row + rows), np.append(1.0, span[rows])))
            fresh.append(column)
            self._bytes.append(load)
        self._lp.add([0.0] * len(fresh), entries)
        self._columns += fresh
        return len(fresh)

    def _without_dead(self, solution: LpSolution) -> LpSolution:
        """Remove columns that are far from paying once there are many more than an optimum can use."""
        rows = self._first_row + len(self._group.first)
        if len(self._columns) <= DEAD_FACTOR * rows:
            return solution
        costs = self._reduced(solution)
        dead = (costs > DEAD_COST) & ~self._lp.basic()[self._fixed :]
        gone = np.flatnonzero(dead)
        self._lp.drop(self._fixed + gone)
        for k in gone:
            self._keys.discard(_key(self._columns[k]))
        self._columns = [column for column, out in zip(self._columns, dead, strict=True) if not out]
        self._bytes = [load for load, out in zip(self._bytes, dead, strict=True) if not out]
        return replace(solution, values=np.delete(solution.values, self._fixed + gone))

    def _reduced(self, solution: LpSolution) -> Floats:
        """Reduced cost of every column at the duals of a solution, relative to the plan's time."""
        duals, pi = self._row_prices(solution), solution.duals[: self._first_row] * self._scale
        costs = np.array([float(load @ duals) for load in self._bytes])
        paid = np.array([pi[self._served[c.family]] for c in self._columns])
        return np.asarray((costs - paid) / (solution.objective * self._scale))

    def _row_prices(self, solution: LpSolution) -> Floats:
        """Row prices; the dual of an orbit is shared by its rows."""
        duals = np.maximum(-solution.duals[self._first_row :], 0.0) / self._group.size
        prices = duals[self._group.orbit] / self.network.capacity
        return np.asarray(prices / float(self.network.capacity @ prices))

    def _unsolved(self, bound: float, prices: Floats) -> Relaxation:
        """Out of time before the first master: the columns so far in equal parts, each family served once."""
        values = np.zeros(len(self._columns))
        if self._meeting:
            one = self._columns[0].family // 2 * 2
            pair = [next(k for k, c in enumerate(self._columns) if c.family == f) for f in (one, one + 1)]
            values[pair] = 1.0
        else:
            counts = np.bincount([c.family for c in self._columns], minlength=len(self._families))
            values[:] = [1.0 / counts[c.family] for c in self._columns]
        load = np.sum([value * rows for value, rows in zip(values, self._bytes, strict=True)], axis=0)
        span = float((load / self.network.capacity).max())
        return Relaxation(tuple(self._columns), values, span, bound, self._floored(prices), np.zeros(len(values)), 0)

    def _floored(self, prices: Floats) -> Floats:
        """Prices with their floor, scaled to sum(capacity x price) = 1."""
        return np.asarray((prices + self._floor) / float(self.network.capacity @ (prices + self._floor)))

    def _result(self, solution: LpSolution, bound: float, prices: Floats, iterations: int) -> Relaxation:
        count = len(solution.values) - self._fixed  # columns added after the last solve have no value yet
        values = np.append(np.maximum(solution.values[self._fixed :], 0.0), np.zeros(len(self._columns) - count))
        return Relaxation(
            tuple(self._columns),
            values,
            solution.objective * self._scale,
            bound,
            self._floored(prices),
            self._reduced(solution),
            iterations,
        )


def _key(column: Column) -> tuple[object, ...]:
    return column.family, frozenset(column.hops), column.paths


def mirrored(network: Network, relaxation: Relaxation) -> Relaxation | None:
    """The same trees run backwards: a reduce-scatter from an all-gather, when every link has an equal opposite.

    Returns None when the network is not its own transpose link by link, or has shared resources.
    """
    back = _opposite_links(network)
    if back is None:
        return None

    def turn(hop: Hop) -> Hop:
        return Hop(hop.dst, hop.src, tuple(back[link] for link in reversed(hop.links)))

    columns = tuple(replace(c, hops=tuple(turn(hop) for hop in reversed(c.hops))) for c in relaxation.columns)
    return replace(relaxation, columns=columns, prices=relaxation.prices[np.argsort(back)])


def _opposite_links(network: Network) -> list[int] | None:
    """Per link, a link of the same capacity in the other direction, one to one."""
    if network.topology.resources:
        return None
    links = network.topology.links
    waiting: dict[tuple[str, str, float], list[int]] = {}
    for k, link in enumerate(links):
        waiting.setdefault((link.src, link.dst, link.capacity), []).append(k)
    back = []
    for link in links:
        partners = waiting.get((link.dst, link.src, link.capacity))
        if not partners:
            return None
        back.append(partners.pop(0))
    return back
