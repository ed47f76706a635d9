"""From all optimal solutions take a sparse vertex with short paths and shallow trees."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import compress

import numpy as np

from synth.demand.model import Demand
from synth.engine.highs import INFINITE, GrowingLp
from synth.formulation.flow.columns import Column, families_of
from synth.formulation.flow.network import Network
from synth.formulation.flow.pricing import Pricer
from synth.formulation.flow.routes import Route, normalise, routes_of_column
from synth.formulation.flow.symmetry import Symmetry
from synth.ground.arrays import Floats
from synth.solver.flow.colgen import Relaxation

# Columns whose reduced cost is at most this part of T can be in an optimal solution.
CANDIDATE = 1e-7
# Rounds of shallow trees, for up to so many families and members (one round for more); cost of a level, in hops.
SHALLOW_ROUNDS = 4
MANY_FAMILIES = 64
MANY_MEMBERS = 1024
# With more paths than this only those with a share are candidates.
MANY_PATHS = 30_000
TILT = 1e-6
# Room over the optimal T for the second objective; it goes into the reported gap.
ROOM = 1e-12


def polish(
    network: Network, demand: Demand, relaxation: Relaxation, deadline: float, symmetry: Symmetry
) -> tuple[Route, ...]:
    """Columns of the finished master with their shares; zero-share candidates are kept for ``Plan.to_pulp``.

    A second LP keeps T and minimises the sum of share x (depth + path length), which ends at a sparse vertex. When
    the deadline strikes first, the shares of column generation are returned.
    """
    many = sum(len(column.paths) for column in relaxation.columns) > MANY_PATHS
    columns = [
        column
        for column, value, reduced in zip(relaxation.columns, relaxation.values, relaxation.reduced, strict=True)
        if value > 1e-12 or (reduced <= CANDIDATE and not many)
    ]
    values = dict(zip(relaxation.columns, relaxation.values, strict=True))
    late = time.monotonic() >= deadline
    if not late:
        columns += _shallow(Pricer(network, demand, symmetry), relaxation)
    routes = _candidates(network, demand, columns, values)
    best = None if late else _SecondLp(network, demand, symmetry, relaxation.time).solve(routes, deadline)
    if best is None:
        return routes
    return tuple(replace(route, share=float(x)) for route, x in zip(routes, best, strict=True))


def _shallow(pricer: Pricer, relaxation: Relaxation) -> list[Column]:
    """Shallow trees that are cheapest at the optimal prices, which is what an optimal solution may use."""
    if pricer.demand.pattern == "unicast":
        return []
    few = len(pricer.active) <= MANY_FAMILIES and len(pricer.demand.ranks) <= MANY_MEMBERS
    rounds = SHALLOW_ROUNDS if few else 1
    random = np.random.default_rng(0)
    prices = pricer.network.link_prices(relaxation.prices)
    return [column for _ in range(rounds) for column in pricer.shallow(prices, TILT, random)]


def _candidates(
    network: Network, demand: Demand, columns: Sequence[Column], values: dict[Column, float]
) -> tuple[Route, ...]:
    families = families_of(demand)
    out: dict[tuple[object, ...], Route] = {}
    for column in dict.fromkeys(columns):
        for route in routes_of_column(network, families[column.family], column):
            key = (route.commodity, route.root, route.reduce_hops, route.copy_hops)
            known = out.get(key)
            share = float(values.get(column, 0.0)) + (known.share if known else 0.0)
            out[key] = replace(route, share=share)
    whole = list(out.values())
    if demand.pattern == "allreduce":  # a meeting point is of use only with both its halves
        inward = {route.root for route in whole if route.reduce_hops}
        outward = {route.root for route in whole if route.copy_hops}
        whole = [route for route in whole if route.root in inward & outward]
    return tuple(sorted(whole, key=_order))


def _order(route: Route) -> tuple[object, ...]:
    """Place of a route in a plan; independent of the order in which columns were found."""
    return (route.commodity, route.root, route.depth, [hop.links for hop in route.hops])


class _SecondLp:
    """min sum of share x weight within the optimal time; one row per orbit of resources."""

    def __init__(self, network: Network, demand: Demand, symmetry: Symmetry, span: float) -> None:
        self.network, self.demand, self.symmetry, self.span = network, demand, symmetry, span
        self.meeting = demand.pattern == "allreduce"
        self.full = network.capacity[symmetry.first] * span  # bytes that each row carries in the optimal time

    def solve(self, routes: Sequence[Route], deadline: float) -> Floats | None:
        """Shares of the routes, or None when the deadline strikes first."""
        if self.meeting:
            return self._shares(routes, np.zeros(len(self.full)), deadline)
        # What has one candidate only takes it in full: the LP sees what room that leaves.
        count = Counter(self._group(route) for route in routes)
        only = [count[self._group(route)] == 1 for route in routes]
        shares, load = np.ones(len(routes)), np.zeros(len(self.full))
        for route in compress(routes, only):
            rows, values = self._entry(route, 0, 0)
            np.add.at(load, rows[1:], values[1:])
        open_ones = [k for k, alone in enumerate(only) if not alone]
        if open_ones:
            found = self._shares([routes[k] for k in open_ones], load, deadline)
            if found is None:
                return None
            shares[open_ones] = found
        return shares

    def _shares(self, routes: Sequence[Route], load: Floats, deadline: float) -> Floats | None:
        """Shares of routes when the rows already carry a load (parts of the optimal time)."""
        groups = {key: k for k, key in enumerate(dict.fromkeys(self._group(route) for route in routes))}
        points = sorted({route.root for route in routes}) if self.meeting else []
        need = np.array([0.0 if self.meeting else 1.0] * len(groups) + [1.0] * self.meeting)
        free = np.full(len(load), -INFINITE)
        lp = GrowingLp(np.append(need, free), np.append(need, 1.0 + ROOM - load))
        for k in points:
            of_point = np.array([groups[0, k, "in"], groups[0, k, "out"], len(groups)])
            lp.add([0.0], [(of_point, np.array([-1.0, -1.0, 1.0]))])
        fixed = lp.columns
        entries = [self._entry(route, groups[self._group(route)], len(need)) for route in routes]
        lp.add([self._weight(route) for route in routes], entries)
        solution = lp.solve(deadline - time.monotonic())
        return None if solution is None else np.maximum(solution.values[fixed:], 0.0)

    def _group(self, route: Route) -> tuple[object, ...]:
        if not self.meeting:
            return (route.commodity,)
        return (route.commodity, route.root, "in" if route.reduce_hops else "out")

    def _weight(self, route: Route) -> float:
        size = self.demand.commodities[route.commodity].size / self.demand.largest
        links = sum(len(hop.links) for hop in route.hops)
        return size * (route.depth + 0.01 * links)

    def _entry(self, route: Route, group: int, first: int) -> tuple[np.ndarray, np.ndarray]:
        rows, load = self.symmetry.route_bytes(self.demand, route)
        return np.append(group, first + rows), np.append(1.0, load / self.full[rows])


def used(routes: Sequence[Route], tolerance: float = 1e-9) -> tuple[Route, ...]:
    """Routes with a share, scaled so that every shard's shares add up to 1."""
    return normalise([route for route in routes if route.share > tolerance])
