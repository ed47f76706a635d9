"""Rip-up and reroute: move single chunks to new trees or paths that avoid the fullest resources."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from synth.formulation.flow.columns import Family
from synth.formulation.flow.pricing import Pricer
from synth.formulation.flow.routes import Route, link_bytes, routes_of_column
from synth.ground.arrays import Floats
from synth.schedule.chunks.softmax import soft_max
from synth.solver.flow.plan import Plan

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
    _cache: dict[tuple[object, ...], tuple[Route, Floats]] = field(default_factory=dict)

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
            self._cache[key] = (replace(route, share=0.0), network.row_bytes(used) / self._full)
        return self._cache[key][1]

    def visited(self, known: Sequence[Route]) -> list[Route]:
        """Routes met so far that are not among ``known``, with share 0."""
        seen = {(r.commodity, r.reduce_hops, r.copy_hops) for r in known}
        return [route for key, (route, _) in self._cache.items() if key not in seen]

    def improve(self, chunks: Sequence[Route], enough: float, pricings: int) -> list[Route]:
        """Reroute chunks while the soft maximum of the loads falls; stop at a maximum of ``enough``.

        Each chunk is taken out and put on the cheapest route at prices that grow exponentially with the load
        (the potential-function method for packing, Plotkin, Shmoys and Tardos 1995). Where that sticks, some of the
        chunks on the fullest resources are taken out together and put back one by one (ruin and recreate, Schrimpf
        et al. 2000), with a fixed seed, for at most about ``pricings`` new routes: a limit on work and not on time, so
        that the result does not depend on how fast the machine is.
        """
        random = np.random.default_rng(0)
        best = self._descend(list(chunks), enough)
        calls = pricings
        while (total := self.total(best)).max() > enough + 1e-9 and calls > 0:
            peak = [k for k, route in enumerate(best) if self._touches_peak(route, total)]
            some = max(2, int(random.integers(2, max(3, len(best) // 2 + 1))))
            first = random.permutation(peak)[:some]
            rest = random.permutation([k for k in range(len(best)) if k not in set(first)])[: some - len(first)]
            trial = self._recreate(list(best), [*map(int, first), *map(int, rest)])
            calls -= some
            if soft_max(self.total(trial)) <= soft_max(total) + 1e-12:
                best = self._descend(trial, enough)
                calls -= len(peak)
        return best

    def total(self, routes: Sequence[Route]) -> Floats:
        """Sum of :meth:`load` over single-chunk routes."""
        return np.asarray(np.sum([self.load(route) for route in routes], axis=0))

    def _recreate(self, routes: list[Route], out: Sequence[int]) -> list[Route]:
        total = self.total(routes) - self.total([routes[k] for k in out])
        for k in out:
            routes[k] = self._cheapest(routes[k], total)
            total = total + self.load(routes[k])
        return routes

    def _descend(self, routes: list[Route], enough: float) -> list[Route]:
        total = self.total(routes)
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
        column = self._pricer.some([k], self.plan.network.link_prices(prices))[0]
        found = routes_of_column(self.plan.network, family, column)
        return found[family.commodities.index(route.commodity)]
