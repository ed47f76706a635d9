"""Rip-up and reroute: move single chunks to new trees or paths that avoid the fullest resources."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from synth.formulation.columns import Family
from synth.formulation.network import Floats
from synth.formulation.pricing import Pricer
from synth.formulation.routes import Route, link_bytes, routes_of_column
from synth.schedule.softmax import soft_max
from synth.solver.plan import Plan

# Passes over all chunks, and how sharply fuller resources cost more.
PASSES = 8
SHARPNESS = 60.0


@dataclass
class Rerouter:
    """Improves a list of single-chunk routes of one plan.

    Attributes
    ----------
    plan
        Whose commodities the chunks belong to.
    chunk_bytes
        Bytes of one chunk.
    """

    plan: Plan
    chunk_bytes: float
    _cache: dict[tuple[object, ...], Floats] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._pricer = Pricer(self.plan.network, self.plan.demand)
        network = self.plan.network
        self._full = network.capacity * self.plan.time
        self._family_of: dict[tuple[object, ...], tuple[int, Family]] = {}
        for k, family in enumerate(self._pricer.families):
            for commodity in family.commodities:
                self._family_of[commodity, family.rank, family.kind == "in"] = (k, family)

    def load(self, route: Route) -> Floats:
        """Part of the plan's time that one chunk of a route takes on each resource."""
        key = (route.commodity, route.reduce_hops, route.copy_hops)
        if key not in self._cache:
            share = self.chunk_bytes / self.plan.demand.commodities[route.commodity].size
            network = self.plan.network
            used = link_bytes(network, self.plan.demand, [replace(route, share=share)])
            self._cache[key] = network.row_bytes(used) / self._full
        return self._cache[key]

    def improve(self, chunks: Sequence[Route], enough: float) -> list[Route]:
        """Reroute chunks one by one while the soft maximum of the loads falls; stop at a maximum of ``enough``.

        Each chunk is taken out and put on the cheapest route at prices that grow exponentially with the load
        (the potential-function method for packing, Plotkin, Shmoys and Tardos 1995).
        """
        routes = list(chunks)
        total = np.sum([self.load(route) for route in routes], axis=0)
        for _ in range(PASSES):
            moved = False
            for k, route in enumerate(routes):
                if total.max() <= enough + 1e-9:
                    return routes
                if not self._touches_peak(route, total):
                    continue
                rest = total - self.load(route)
                other = self._cheapest(route, rest)
                after = rest + self.load(other)
                if soft_max(after) < soft_max(total) - 1e-12:
                    routes[k], total, moved = other, after, True
            if not moved:
                break
        return routes

    def _touches_peak(self, route: Route, total: Floats) -> bool:
        return bool((self.load(route)[total >= total.max() - 1e-9] > 0).any())

    def _cheapest(self, route: Route, load: Floats) -> Route:
        step = self.chunk_bytes / self._full  # what one more chunk adds to each resource
        prices = step * np.exp(SHARPNESS * (load + step - (load + step).max())) + 1e-12 * step
        k, family = self._family_of[route.commodity, route.root, bool(route.reduce_hops)]
        column = self._pricer.cheapest(k, self.plan.network.link_prices(prices))
        found = routes_of_column(self.plan.network, family, column)
        return found[family.commodities.index(route.commodity)]
