"""The LP plan with trees and paths whose latency costs: min T + mean latency of the routes, by column generation.

A chunk that goes down a chain of hops arrives by what the hops take for it; in a pipeline that adds to the time of the
busiest resource once. So a route costs the seconds that one chunk takes along its longest chain, against T in seconds.
The chunk's size thus decides how much depth is worth.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from synth.demand.model import Demand
from synth.engine.highs import INFINITE, GrowingLp, LpSolution
from synth.formulation.flow.columns import families_of
from synth.formulation.flow.network import Hop
from synth.formulation.flow.pricing import Pricer
from synth.formulation.flow.routes import Route, link_bytes, routes_of_column
from synth.schedule.simulate.time_model import TimeModel
from synth.solver.flow.plan import Plan

# Rounds of pricing, and the price of a level in mean hops that a round tries.
ROUNDS: Final = 25
TILTS: Final = (0.01, 0.05, 0.2, 1.0)
# Members up to which trees are priced: a round costs members^3.
MOST_MEMBERS: Final = 64
# Columns of a plan that the LP starts with; of a larger plan only those with a share.
MANY_COLUMNS: Final = 5_000
# Columns within this reduced cost (parts of T) may take whole chunks when shares are rounded.
NEAR: Final = 1e-6


class DepthPricer:
    """Depth-priced plans of one plan at several chunk sizes; columns found for one size serve the others.

    Parameters
    ----------
    plan
        Its columns are the first, its demand the instance.
    model
        Latency and overhead of a hop.
    """

    def __init__(self, plan: Plan, model: TimeModel) -> None:
        self.base, self.model, self.demand = plan, model, plan.demand
        self.network = plan.network
        self.meeting = self.demand.pattern == "allreduce"
        self.pricer = Pricer(self.network, self.demand)
        self.families = families_of(self.demand)
        self.random = np.random.default_rng(0)
        self.known: dict[tuple[object, ...], Route] = {}
        columns = [c for c in plan.columns if c.share > 1e-9 or len(plan.columns) <= MANY_COLUMNS]
        self.groups = {_group(self.demand, r): 0 for r in columns}
        self.groups = {key: k for k, key in enumerate(sorted(self.groups))}
        self._fresh(columns)

    def plan(self, chunk_bytes: float, deadline: float) -> Plan:
        """The depth-priced plan for chunks of a size; the best so far when the deadline (monotonic) strikes."""
        lp = _Master(self, chunk_bytes)
        lp.add(list(self.known.values()))
        solution = lp.solve(deadline)
        for _ in range(ROUNDS):
            if solution is None or time.monotonic() >= deadline:
                break
            fresh = self._fresh(self._priced(lp, solution))
            paying = [route for route in fresh if lp.reduced(solution, route) < -1e-9]
            for key in {_key(route) for route in fresh} - {_key(route) for route in paying}:
                del self.known[key]
            if not paying:
                break
            lp.add(paying)
            solution = lp.solve(deadline) or solution
        return self.base if solution is None else self._finished(lp, solution)

    def _fresh(self, routes: Iterable[Route]) -> list[Route]:
        """Those that are new; they are known from now on."""
        out = []
        for route in routes:
            if _key(route) not in self.known and _group(self.demand, route) in self.groups:
                self.known[_key(route)] = replace(route, share=0.0)
                out.append(self.known[_key(route)])
        return out

    def _priced(self, lp: _Master, solution: LpSolution) -> list[Route]:
        """Routes that are cheap at the prices of a solution, deeper and shallower ones."""
        rows = np.maximum(-solution.duals[lp.first :], 0.0)
        floor = 1e-9 / (len(rows) * self.network.capacity)
        prices = self.network.link_prices(rows / self.network.capacity / (rows.sum() or 1.0) + floor)
        if self.demand.pattern == "unicast":
            links = self.network.topology.links
            hop = np.array([link.latency + lp.chunk_bytes / link.capacity for link in links])
            columns = self.pricer.price(prices + hop * lp.unit / (self.demand.largest * lp.shards)).columns
        else:
            if len(self.demand.ranks) > MOST_MEMBERS:
                return []
            columns = tuple(c for tilt in TILTS for c in self.pricer.shallow(prices, tilt, self.random))
        return [r for c in columns for r in routes_of_column(self.network, self.families[c.family], c)]

    def _finished(self, lp: _Master, solution: LpSolution) -> Plan:
        kept = [
            replace(route, share=float(max(share, 0.0)))
            for route, share in zip(lp.routes, solution.values[lp.fixed :], strict=False)
            if share > 1e-9 or lp.reduced(solution, route) <= NEAR
        ]
        if self.meeting:  # a meeting point is of use only with both its halves
            used = {half: {r.root for r in kept if bool(r.copy_hops) == half and r.share > 0} for half in (True, False)}
            kept = [route for route in kept if route.root in used[True] & used[False]]
        total: dict[int, float] = {}
        for route in kept:
            if not (self.meeting and route.copy_hops):
                total[route.commodity] = total.get(route.commodity, 0.0) + route.share
        columns = sorted(
            (replace(r, share=r.share / total[r.commodity]) for r in kept),
            key=lambda r: (r.commodity, r.root, r.depth, [hop.links for hop in r.hops]),
        )
        load = self.network.row_bytes(link_bytes(self.network, self.demand, columns))
        span = float((load / self.network.capacity).max())
        return replace(
            self.base,
            columns=tuple(columns),
            time=span,
            bound=min(self.base.bound, span),
            method=f"{self.base.method}, depth priced",
        )


def _key(route: Route) -> tuple[object, ...]:
    return (route.commodity, route.root, route.reduce_hops, route.copy_hops)


def _group(demand: Demand, route: Route) -> tuple[int, int, bool]:
    """Row that a route serves: its shard, and for an all-reduce the half of a meeting point."""
    return (
        (route.commodity, route.root, bool(route.reduce_hops))
        if demand.pattern == "allreduce"
        else (route.commodity, 0, False)
    )


class _Master:
    """min T + mean latency, in units of the plan's time; rows: groups, (meeting), resources."""

    def __init__(self, owner: DepthPricer, chunk_bytes: float) -> None:
        self.owner, self.chunk_bytes, self.unit = owner, chunk_bytes, 1.0 / owner.base.time
        groups, rows = owner.groups, len(owner.network.capacity)
        self.shards = 1 if owner.meeting else len(owner.demand.commodities)
        need = [0.0 if owner.meeting else 1.0] * len(groups) + [1.0] * owner.meeting
        self.first = len(need)
        self.lp = GrowingLp(np.array(need + [-INFINITE] * rows), np.array([INFINITE] * len(need) + [0.0] * rows))
        self.lp.add([1.0], [(self.first + np.arange(rows), np.full(rows, -1.0))])
        if owner.meeting:
            points = sorted({root for _, root, _ in groups})
            both = [p for p in points if (0, p, True) in groups and (0, p, False) in groups]
            entries = [np.array([groups[0, p, True], groups[0, p, False], len(groups)]) for p in both]
            self.lp.add([0.0] * len(both), [(rows_of, np.array([-1.0, -1.0, 1.0])) for rows_of in entries])
        self.fixed = self.lp.columns
        self.routes: list[Route] = []
        self._entries: dict[Route, tuple[np.ndarray, np.ndarray, float]] = {}

    def add(self, routes: Sequence[Route]) -> None:
        """Add columns."""
        self.routes += routes
        made = [self._entry(route) for route in routes]
        self.lp.add([cost for _, _, cost in made], [(rows, values) for rows, values, _ in made])

    def solve(self, deadline: float) -> LpSolution | None:
        """None when the deadline strikes first."""
        return self.lp.solve(deadline - time.monotonic())

    def reduced(self, solution: LpSolution, route: Route) -> float:
        """Reduced cost of a route."""
        rows, values, cost = self._entry(route)
        return cost - float(values @ solution.duals[rows])

    def _entry(self, route: Route) -> tuple[np.ndarray, np.ndarray, float]:
        if route not in self._entries:
            owner = self.owner
            load = link_bytes(owner.network, owner.demand, [replace(route, share=1.0)])
            spans = owner.network.row_bytes(load) / owner.network.capacity * self.unit
            used = np.flatnonzero(spans)
            group = owner.groups[_group(owner.demand, route)]
            cost = latency_of(route, self._hop_seconds) * self.unit / self.shards
            self._entries[route] = (np.append(group, self.first + used), np.append(1.0, spans[used]), cost)
        return self._entries[route]

    def _hop_seconds(self, hop: Hop) -> float:
        links, model = self.owner.network.topology.links, self.owner.model
        slowest = min(links[k].capacity for k in hop.links)
        fixed = model.hop_latency + model.overhead + sum(links[k].latency for k in hop.links)
        return fixed + self.chunk_bytes / slowest


def latency_of(route: Route, seconds: Callable[[Hop], float]) -> float:
    """Seconds of the longest chain of hops."""
    down: dict[int, float] = {}
    for hop in route.reduce_hops:
        down[hop.dst] = max(down.get(hop.dst, 0.0), down.get(hop.src, 0.0) + seconds(hop))
    level: dict[int, float] = {}
    for hop in route.copy_hops:
        level[hop.dst] = level.get(hop.src, 0.0) + seconds(hop)
    return max(down.values(), default=0.0) + max(level.values(), default=0.0)
