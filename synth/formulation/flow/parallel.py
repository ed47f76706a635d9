"""Parallel links: one row in the LP, told apart again in the plan."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from synth.demand.model import Demand
from synth.formulation.flow.network import Hop
from synth.formulation.flow.routes import Route
from synth.ground.arrays import Floats
from synth.topology.elements import Link
from synth.topology.model import Topology


@dataclass(frozen=True)
class Bundles:
    """A topology whose parallel links outside shared resources are bundled into one link each.

    Splitting a flow over parallel links by capacity loads all of them alike, so the LP loses nothing.

    Attributes
    ----------
    topology
        The original.
    strands
        Per bundle, the original link indices.
    """

    topology: Topology
    strands: tuple[tuple[int, ...], ...]

    @cached_property
    def bundled(self) -> Topology:
        """The topology with one link per bundle, named after its first strand."""
        links = self.topology.links
        out = []
        for strand in self.strands:
            first = links[strand[0]]
            whole = sum(links[k].capacity for k in strand)
            out.append(first if len(strand) == 1 else Link(first.id, first.src, first.dst, whole, kind=first.kind))
        return replace(self.topology, links=tuple(out))

    def prices(self, bundled: Floats) -> Floats:
        """Prices of the original rows: every strand costs what its bundle costs."""
        count = len(self.strands)
        out = np.zeros(len(self.topology.links))
        for strand, price in zip(self.strands, bundled[:count], strict=True):
            out[list(strand)] = price
        return np.append(out, bundled[count:])

    def strand_bytes(self, bundled: Floats) -> Floats:
        """Bytes on the original rows: the strands of a bundle share its load by capacity."""
        links = self.topology.links
        out = np.zeros(len(links))
        for strand, load in zip(self.strands, bundled, strict=False):
            capacity = np.array([links[k].capacity for k in strand])
            out[list(strand)] = load * capacity / capacity.sum()
        return np.append(out, bundled[len(self.strands) :])

    def split(self, demand: Demand, routes: Sequence[Route]) -> tuple[Route, ...]:
        """Routes over original links; a route is cut where it runs over the end of a strand's part of the load.

        The routes of a bundle are laid end to end and the strands cut that line in proportion to their capacities, so
        a bundle of m strands adds at most m - 1 routes.
        """
        if len(self.strands) == len(self.topology.links):
            return tuple(routes)  # no parallel links: bundle k is link k
        load = self._loads(demand, routes)
        ends = [self._ends(b, load[b]) for b in range(len(self.strands))]
        position = [0.0] * len(self.strands)
        out: list[Route] = []
        for route in routes:
            size = demand.commodities[route.commodity].size * route.share
            visits: list[tuple[int, float]] = []
            for hop in route.hops:
                for b in hop.links:
                    visits.append((b, position[b]))
                    position[b] += size
            out += self._pieces(route, size, visits, ends)
        return tuple(out)

    def _loads(self, demand: Demand, routes: Sequence[Route]) -> list[float]:
        load = [0.0] * len(self.strands)
        for route in routes:
            for hop in route.hops:
                for b in hop.links:
                    load[b] += demand.commodities[route.commodity].size * route.share
        return load

    def _ends(self, bundle: int, load: float) -> list[float]:
        """Where on the line of a bundle's load each strand's part ends."""
        capacity = np.array([self.topology.links[k].capacity for k in self.strands[bundle]])
        return [float(x) for x in load * np.cumsum(capacity) / capacity.sum()]

    def _pieces(
        self, route: Route, size: float, visits: list[tuple[int, float]], ends: list[list[float]]
    ) -> list[Route]:
        tolerance = 1e-12 * max(size, 1e-300)
        cuts = {0.0, size}
        for b, start in visits:
            cuts.update(end - start for end in ends[b][:-1] if tolerance < end - start < size - tolerance)
        marks = _apart(sorted(cuts), 1e-9 * size)
        pieces = []
        for left, right in itertools.pairwise(marks):
            middle = (left + right) / 2
            chosen = iter([self._strand(b, start + middle, ends[b]) for b, start in visits])
            hops = [Hop(h.src, h.dst, tuple(next(chosen) for _ in h.links)) for h in route.hops]
            cut = len(route.reduce_hops)
            share = route.share * (right - left) / size
            pieces.append(Route(route.commodity, route.root, share, tuple(hops[:cut]), tuple(hops[cut:])))
        if not pieces:  # a candidate without a share takes the first strand everywhere
            hops = [Hop(h.src, h.dst, tuple(self.strands[b][0] for b in h.links)) for h in route.hops]
            cut = len(route.reduce_hops)
            pieces = [Route(route.commodity, route.root, route.share, tuple(hops[:cut]), tuple(hops[cut:]))]
        return pieces

    def _strand(self, bundle: int, at: float, ends: list[float]) -> int:
        strands = self.strands[bundle]
        return strands[min(int(np.searchsorted(ends, at)), len(strands) - 1)]


def _apart(marks: list[float], least: float) -> list[float]:
    """Drop cuts that are closer than ``least`` to the one before; the ends stay."""
    out = marks[:1]
    for mark in marks[1:-1]:
        if mark - out[-1] > least and marks[-1] - mark > least:
            out.append(mark)
    return out + marks[-1:] if len(marks) > 1 and marks[-1] > 0 else []


def bundle(topology: Topology) -> Bundles:
    """Bundle the parallel links that no shared resource counts."""
    pooled = {link for pool in topology.resources for link, _ in pool.uses}
    groups: dict[tuple[object, ...], list[int]] = {}
    for k, link in enumerate(topology.links):
        key = (link.id,) if link.id in pooled else (link.src, link.dst, None)
        groups.setdefault(key, []).append(k)
    return Bundles(topology, tuple(tuple(group) for group in groups.values()))
