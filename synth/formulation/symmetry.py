"""Symmetry: a group of automorphisms that moves every rank, and what it saves in the LP.

The LP is convex, so averaging an optimal solution over a group of automorphisms of topology and demand keeps it
optimal. With a group in which no element but the identity fixes a rank (a semiregular action), all orbits of roots have
the group's size: one root per orbit is priced, one row per orbit of resources stays in the master, and a column of the
representative stands for its images under all elements.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from synth.demand.model import Demand
from synth.errors import InvalidInputError
from synth.formulation.columns import Family
from synth.formulation.network import Floats, Hop, Ints
from synth.formulation.routes import Route
from synth.topology.model import Resource, Topology

Permutation = tuple[int, ...]


@dataclass(frozen=True)
class Symmetry:
    """Elements of a group as permutations of nodes and of links, the identity first, and the orbits of rows.

    Attributes
    ----------
    nodes, links
        Per element, where each node and each link goes.
    orbit, first, size
        Per row (links, then resources) the number of its orbit; per orbit its first row and its number of rows.
    """

    nodes: tuple[Permutation, ...]
    links: tuple[Permutation, ...]
    orbit: Ints
    first: Ints
    size: Ints

    @property
    def order(self) -> int:
        """Number of elements."""
        return len(self.nodes)

    def average(self, rows: Floats) -> Floats:
        """Mean over each orbit, on every row of it."""
        if self.order == 1:
            return rows
        return np.asarray((np.bincount(self.orbit, rows) / self.size)[self.orbit])

    def representatives(self, topology: Topology, families: tuple[Family, ...]) -> list[int]:
        """Numbers of the families whose root is the first of its orbit."""
        return [k for k, f in enumerate(families) if self._is_first(topology, f.rank)]

    def _is_first(self, topology: Topology, rank: int) -> bool:
        node = topology.gpus[rank]
        return all(topology.rank_of[moved[node]] >= rank for moved in self.nodes)

    def images(self, topology: Topology, demand: Demand, routes: Iterable[Route]) -> Iterator[Route]:
        """Every image of every route; an all-reduce's share is spread over the meeting points of the orbit."""
        if self.order == 1:
            yield from routes
            return
        index = {(c.root, c.dest): k for k, c in enumerate(demand.commodities)}
        part = 1 / self.order if demand.pattern == "allreduce" else 1.0
        for route in routes:
            item = demand.commodities[route.commodity]
            for nodes, links in zip(self.nodes, self.links, strict=True):

                def rank(old: int, nodes: Permutation = nodes) -> int:
                    return topology.rank_of[nodes[topology.gpus[old]]]

                commodity = 0
                if demand.pattern != "allreduce":
                    commodity = index[rank(item.root), None if item.dest is None else rank(item.dest)]
                yield Route(
                    commodity,
                    rank(route.root),
                    route.share * part,
                    tuple(_moved(hop, nodes, links) for hop in route.reduce_hops),
                    tuple(_moved(hop, nodes, links) for hop in route.copy_hops),
                )


def _moved(hop: Hop, nodes: Permutation, links: Permutation) -> Hop:
    return Hop(nodes[hop.src], nodes[hop.dst], tuple(links[k] for k in hop.links))


def trivial(topology: Topology) -> Symmetry:
    """The group of the identity alone."""
    rows = len(topology.links) + len(topology.resources)
    every = np.arange(rows, dtype=np.int64)
    identity = tuple(range(len(topology.nodes)))
    return Symmetry((identity,), (tuple(range(len(topology.links))),), every, every, np.ones(rows, dtype=np.int64))


def find_symmetry(topology: Topology, demand: Demand) -> Symmetry:
    """A group of automorphisms without fixed ranks: from the topology's hints, else by trying rotations of ranks.

    Rank numbers are read as digits of mixed radix; rotating one digit is what a torus shift, a hypercube flip, the
    rotation of hosts in a cluster or of GPUs in a box does. Each candidate is extended to the other nodes and verified.

    Parameters
    ----------
    topology
        Without parallel links outside of resources (see ``parallel.bundle``).
    demand
        What the automorphisms must keep as well.

    Raises
    ------
    InvalidInputError
        When a hint of the topology is not an automorphism; the offending link is named.
    """
    if demand.empty or len(set(topology.ends)) < len(topology.ends):
        return trivial(topology)  # parallel links in resources: which goes where is not tried
    checker = _Checker(topology, demand)
    group: list[Permutation] = [tuple(range(len(topology.nodes)))]
    for candidate in (*_hints(topology), *_rotations(topology)):
        whole = checker.extended(candidate)
        if whole is not None and whole not in group:
            group = _generated(group, whole, checker.members) or group
    return checker.symmetry(group)


def _hints(topology: Topology) -> list[dict[int, int]]:
    index = topology.node_index
    out = []
    for number, hint in enumerate(topology.symmetry):
        given = {index[a]: index[b] for a, b in hint}
        whole = {k: given.get(k, k) for k in range(len(topology.nodes))}
        fault = _link_fault(topology, whole)
        if fault:
            raise InvalidInputError(f"symmetry hint {number} is not an automorphism: {fault}")
        out.append(whole)
    return out


def _link_fault(topology: Topology, moved: dict[int, int]) -> str:
    """Why a map of nodes is no automorphism, or an empty text."""
    if len(set(moved.values())) != len(moved):
        return "two nodes go to one place"
    capacity: dict[tuple[int, int], float] = {}
    for link, (a, b) in zip(topology.links, topology.ends, strict=True):
        capacity[a, b] = capacity.get((a, b), 0.0) + link.capacity
    for link, (a, b) in zip(topology.links, topology.ends, strict=True):
        if capacity.get((moved[a], moved[b])) != capacity[a, b]:
            there = f"{topology.nodes[moved[a]].id} -> {topology.nodes[moved[b]].id}"
            return f"link {link.id!r} has no equal where it goes, {there}"
    return ""


def _rotations(topology: Topology) -> Iterator[dict[int, int]]:
    """Maps of GPU nodes that rotate one digit of the rank, wider digits first."""
    n = len(topology.gpus)
    divisors = [d for d in range(1, n + 1) if n % d == 0]
    pairs = [(low, high) for low in divisors for high in divisors if low < high and high % low == 0]
    for low, high in sorted(pairs, key=lambda pair: (-pair[1] // pair[0], pair)):
        yield {topology.gpus[r]: topology.gpus[_rotated(r, low, high)] for r in range(n)}


def _rotated(rank: int, low: int, high: int) -> int:
    digit = rank % high // low
    return rank + ((digit + 1) * low % high) - digit * low


def _generated(group: list[Permutation], new: Permutation, members: list[int]) -> list[Permutation] | None:
    """Group generated by a group and a new element, or None when it would fix a rank or outgrow the ranks."""
    found = dict.fromkeys(group)
    waiting = [tuple(new[x] for x in element) for element in group]
    while waiting:
        element = waiting.pop()
        if element in found:
            continue
        if len(found) >= len(members) or any(element[m] == m for m in members):
            return None
        found[element] = None
        waiting += [tuple(element[x] for x in other) for other in (*group, new)]
    return list(found)


class _Checker:
    """Extends maps of GPUs to all nodes and tells automorphisms from others."""

    def __init__(self, topology: Topology, demand: Demand) -> None:
        self.topology, self.demand = topology, demand
        self.members = [topology.gpus[rank] for rank in demand.ranks]
        self.kind = [
            (node.kind, node.relay, node.kind == "gpu" and k in self.members) for k, node in enumerate(topology.nodes)
        ]
        self.link_at = {ends: k for k, ends in enumerate(topology.ends)}
        self.signature = self._signatures()
        self.neighbours: list[set[int]] = [set() for _ in topology.nodes]
        for a, b in topology.ends:
            self.neighbours[a].add(b)
            self.neighbours[b].add(a)
        self.outwards = self._outwards()
        self.sizes = {(c.root, c.dest): c.size for c in demand.commodities}

    def _outwards(self) -> list[int]:
        """Nodes in breadth-first order from the GPUs, those out of their reach last."""
        order = dict.fromkeys(self.topology.gpus)
        queue = list(order)
        for node in queue:
            fresh = [x for x in sorted(self.neighbours[node]) if x not in order]
            order.update(dict.fromkeys(fresh))
            queue += fresh
        return [*order, *(k for k in range(len(self.kind)) if k not in order)]

    def _signatures(self) -> list[tuple[object, ...]]:
        """What must be equal for one link to go to another: capacity, and how it uses which kind of resource."""
        uses: list[list[tuple[float, float, int]]] = [[] for _ in self.topology.links]
        for pool in self.topology.resources:
            for link, times in pool.uses:
                uses[self.topology.link_index[link]].append((pool.bandwidth, times, len(pool.uses)))
        return [(link.capacity, tuple(sorted(u))) for link, u in zip(self.topology.links, uses, strict=True)]

    def extended(self, moved: dict[int, int]) -> Permutation | None:
        """A map of all nodes that continues one of GPUs and is an automorphism of topology and demand, or None."""
        whole = dict(moved)
        used = set(whole.values())
        for node in self.outwards:
            if node in whole:
                continue
            known = next((x for x in self.neighbours[node] if x in whole), None)
            near = range(len(self.kind)) if known is None else sorted(self.neighbours[whole[known]])
            goal = next((g for g in near if g not in used and self._fits(node, g, whole)), None)
            if goal is None:
                return None
            whole[node] = goal
            used.add(goal)
        permutation = tuple(whole[k] for k in range(len(self.kind)))
        return permutation if self._keeps_all(permutation) else None

    def _fits(self, node: int, goal: int, whole: dict[int, int]) -> bool:
        if self.kind[node] != self.kind[goal]:
            return False
        known = [(whole[x], x) for x in self.neighbours[node] if x in whole]
        return all(self._same((x, node), (y, goal)) and self._same((node, x), (goal, y)) for y, x in known)

    def _same(self, old: tuple[int, int], new: tuple[int, int]) -> bool:
        one, two = self.link_at.get(old), self.link_at.get(new)
        if one is None or two is None:
            return one is two
        return self.signature[one] == self.signature[two]

    def _keeps_all(self, moved: Permutation) -> bool:
        kinds = all(self.kind[k] == self.kind[goal] for k, goal in enumerate(moved))
        links = all(self._same((a, b), (moved[a], moved[b])) for a, b in self.topology.ends)
        return kinds and links and self._keeps_resources(moved) and self._keeps_demand(moved)

    def _keeps_resources(self, moved: Permutation) -> bool:
        pools = self.topology.resources
        before = {self._pool_key(pool, tuple(range(len(self.topology.links)))) for pool in pools}
        return len(before) == len(pools) and before == {self._pool_key(pool, self._links(moved)) for pool in pools}

    def _pool_key(self, pool: Resource, links: Permutation) -> tuple[object, ...]:
        """A resource by what it is, with its links moved."""
        uses = ((links[self.topology.link_index[link]], times) for link, times in pool.uses)
        return pool.bandwidth, tuple(sorted(uses))

    def _links(self, moved: Permutation) -> Permutation:
        return tuple(self.link_at[moved[a], moved[b]] for a, b in self.topology.ends)

    def _keeps_demand(self, moved: Permutation) -> bool:
        rank_of, gpus = self.topology.rank_of, self.topology.gpus

        def rank(old: int | None) -> int | None:
            return None if old is None or old < 0 else rank_of[moved[gpus[old]]]

        if self.demand.pattern == "allreduce":
            return True  # the kinds say that members go to members
        return all(self.sizes.get((rank(c.root) or 0, rank(c.dest))) == c.size for c in self.demand.commodities)

    def symmetry(self, group: list[Permutation]) -> Symmetry:
        """Orbits of rows under a group."""
        links = tuple(self._links(moved) for moved in group)
        count = len(self.topology.links)
        pools = self.topology.resources
        keys = {self._pool_key(pool, tuple(range(count))): count + k for k, pool in enumerate(pools)}
        least = list(range(count + len(pools)))
        for moved in links:
            for k in range(count):
                least[k] = min(least[k], moved[k])
            for k, pool in enumerate(pools):
                least[count + k] = min(least[count + k], keys[self._pool_key(pool, moved)])
        first, orbit, size = np.unique(np.array(least), return_inverse=True, return_counts=True)
        return Symmetry(tuple(group), links, orbit.astype(np.int64), first.astype(np.int64), size.astype(np.int64))
