"""Shallow trees: as deep as the hop distances, or a little deeper, and spread over the links."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from synth.demand.model import Demand
from synth.rivals.baselines.kinds import Recipe
from synth.rivals.baselines.trees import Edge
from synth.schedule.paths import GpuPaths
from synth.topology.model import Topology

Rates = dict[tuple[int, int], float]
"""(from rank, to rank) -> bytes/second over hops that pass no GPU."""


def shallow_recipe(topology: Topology, demand: Demand, variants: int, slack: int = 0) -> Recipe | None:
    """Trees in which every rank is at most ``slack`` hops farther from the root than it has to be.

    Each tree takes, hop by hop, the pair of ranks whose rate is used least by the trees before it.

    Parameters
    ----------
    topology, demand
        Instance; only ranks that take part pass data on.
    variants
        Trees per root, each for an equal part of its shard.
    slack
        Hops by which a rank may be farther away than in a breadth-first tree.

    Returns
    -------
    Recipe or None
        None where there is no such tree that is not a star: for pairs (all-to-all), where every rank is next to
        every other, where one may not relay or is out of reach.
    """
    if demand.pattern == "unicast" or not all(topology.nodes[topology.gpus[r]].relay for r in demand.ranks):
        return None
    rates = _rates(topology, demand)
    distance = {root: _distances(root, demand.ranks, rates) for root in demand.ranks}
    farthest = [max(found.values()) for found in distance.values() if len(found) == len(demand.ranks)]
    if len(farthest) < len(demand.ranks) or max(farthest) < 2:
        return None
    used = dict.fromkeys(rates, 0)
    roots = demand.ranks if demand.root is None else (demand.root,)
    trees = [{root: _tree(root, distance[root], rates, used, slack) for root in roots} for _ in range(variants)]
    return Recipe(tuple(_lookup(tree) for tree in trees))


def _lookup(trees: dict[int, list[Edge]]) -> Callable[[int], list[Edge]]:
    return lambda root: trees[root]


def _rates(topology: Topology, demand: Demand) -> Rates:
    finder = GpuPaths(topology, max(item.size for item in demand.commodities), relays=False)
    links, out = topology.links, {}
    for a in demand.ranks:
        for b in demand.ranks:
            ways = finder.between(topology.gpus[a], topology.gpus[b]) if a != b else ()
            if ways:
                # Parallel cables add up; ways that meet in a switch are bounded by the first link of each.
                slowest = {way[0]: min(links[k].capacity for k in way) for way in ways}
                out[a, b] = sum(slowest.values())
    return out


def _distances(root: int, ranks: Sequence[int], rates: Rates) -> dict[int, int]:
    distance, queue = {root: 0}, [root]
    for a in queue:
        for b in ranks:
            if b not in distance and (a, b) in rates:
                distance[b] = distance[a] + 1
                queue.append(b)
    return distance


def _tree(
    root: int, distance: dict[int, int], rates: Rates, used: dict[tuple[int, int], int], slack: int
) -> list[Edge]:
    """Grow a tree by the least used pair; its breadth-first parent always is a choice, so that no rank is left out."""
    depth, edges = {root: 0}, []
    while len(depth) < len(distance):
        a, b = min(
            ((a, b) for a, b in rates if a in depth and b not in depth and depth[a] < distance[b] + slack),
            key=lambda pair: ((used[pair] + 1) / rates[pair], depth[pair[0]], pair),
        )
        depth[b] = depth[a] + 1
        used[a, b] += 1
        edges.append((a, b, depth[a]))
    return edges
