"""Routes: the columns of a finished plan, written as hops between GPUs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from synth.demand.model import Demand
from synth.formulation.flow.columns import Column, Family
from synth.formulation.flow.network import Hop, Network, split_path
from synth.ground.arrays import Floats


@dataclass(frozen=True, slots=True)
class Route:
    """One way to serve a shard, and the part of the shard that takes it.

    Attributes
    ----------
    commodity
        Index into ``Demand.commodities``.
    root
        Root rank of the tree (the source of a path).
    share
        Part of the shard's bytes, 0 to 1.
    reduce_hops
        In-tree towards the root, children before parents (data is added on the way).
    copy_hops
        Out-tree or path away from the root, parents before children (data is copied or forwarded).
    """

    commodity: int
    root: int
    share: float
    reduce_hops: tuple[Hop, ...] = ()
    copy_hops: tuple[Hop, ...] = ()

    @property
    def hops(self) -> tuple[Hop, ...]:
        """All hops in an order in which they can happen."""
        return self.reduce_hops + self.copy_hops

    @property
    def depth(self) -> int:
        """Longest chain of hops."""
        down: dict[int, int] = {}
        for hop in self.reduce_hops:
            down[hop.dst] = max(down.get(hop.dst, 0), down.get(hop.src, 0) + 1)
        base = max(down.values(), default=0)
        level: dict[int, int] = {}
        for hop in self.copy_hops:
            level[hop.dst] = level.get(hop.src, 0) + 1
        return base + max(level.values(), default=0)


def link_bytes(network: Network, demand: Demand, routes: Iterable[Route]) -> Floats:
    """Bytes that routes put on each link (length: links)."""
    out = np.zeros(len(network.topology.links))
    for route in routes:
        size = demand.commodities[route.commodity].size * route.share
        for hop in route.hops:
            for link in hop.links:
                out[link] += size
    return out


def routes_of_column(network: Network, family: Family, column: Column) -> list[Route]:
    """A column as routes with share 0: one per tree, one per path; hops are cut at every GPU that they pass."""
    topology = network.topology
    if column.paths:
        pairs = zip(family.commodities, column.paths, strict=True)
        return [Route(c, family.rank, 0.0, (), split_path(topology, path)) for c, path in pairs]
    hops = tuple(piece for hop in column.hops for piece in split_path(topology, hop.links))
    inward = family.kind == "in"
    return [Route(family.commodities[0], family.rank, 0.0, hops if inward else (), () if inward else hops)]


def join_halves(halves: Sequence[Route], tolerance: float = 1e-9) -> tuple[Route, ...]:
    """Pair the in-trees and the out-trees of each all-reduce meeting point, share by share (north-west corner)."""
    out: list[Route] = []
    for root in dict.fromkeys(route.root for route in halves):
        ups = [r for r in halves if r.root == root and r.reduce_hops and r.share > tolerance]
        downs = [r for r in halves if r.root == root and r.copy_hops and r.share > tolerance]
        while ups and downs:
            up, down = ups[0], downs[0]
            part = min(up.share, down.share)
            out.append(replace(up, share=part, copy_hops=down.copy_hops))
            ups[0], downs[0] = replace(up, share=up.share - part), replace(down, share=down.share - part)
            for queue in (ups, downs):
                if queue[0].share <= tolerance:
                    queue.pop(0)
    return normalise(out)


def normalise(routes: Sequence[Route]) -> tuple[Route, ...]:
    """Scale the shares of every shard to add up to 1."""
    total: dict[int, float] = {}
    for route in routes:
        total[route.commodity] = total.get(route.commodity, 0.0) + route.share
    return tuple(replace(route, share=route.share / total[route.commodity]) for route in routes)
