"""Tells automorphisms of a topology and a demand from other maps of nodes, and extends maps of GPUs to all nodes."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph

from synth.demand.model import Demand
from synth.ground.arrays import Ints
from synth.topology.model import Topology

Permutation = tuple[int, ...]


class Automorphisms:
    """Checks maps of the nodes of one instance; the topology has no parallel links (see ``parallel.bundle``).

    Attributes
    ----------
    members
        Node index of each rank of the demand.
    kind, signature
        Per node and per link the number of its class: what must be equal for one to go to another.
    """

    def __init__(self, topology: Topology, demand: Demand) -> None:
        self.topology, self.demand = topology, demand
        self.members = [topology.gpus[rank] for rank in demand.ranks]
        self.kind = _numbered(self._kinds())
        self.signature = _numbered(self._signatures())
        self._tail = np.array([a for a, _ in topology.ends], dtype=np.int64)
        self._head = np.array([b for _, b in topology.ends], dtype=np.int64)
        codes = self._tail * len(topology.nodes) + self._head
        self._order = np.argsort(codes)
        self._codes = codes[self._order]
        self.link_at = {ends: k for k, ends in enumerate(topology.ends)}
        self.neighbours: list[set[int]] = [set() for _ in topology.nodes]
        for a, b in topology.ends:
            self.neighbours[a].add(b)
            self.neighbours[b].add(a)

    def _kinds(self) -> list[tuple[object, ...]]:
        rooted: dict[int, float] = {}
        if not self.demand.uniform:
            for item in self.demand.commodities:
                rooted[item.root] = rooted.get(item.root, 0.0) + item.size
        inside, rank_of = set(self.members), self.topology.rank_of
        return [
            (node.kind, node.relay, k in inside, rooted.get(rank_of.get(k, -1), 0.0))
            for k, node in enumerate(self.topology.nodes)
        ]

    def _signatures(self) -> list[tuple[object, ...]]:
        """Capacity of each link, and how it uses which kind of resource."""
        uses: list[list[tuple[float, float, int]]] = [[] for _ in self.topology.links]
        for pool in self.topology.resources:
            for link, times in pool.uses:
                uses[self.topology.link_index[link]].append((pool.bandwidth, times, len(pool.uses)))
        return [(link.capacity, tuple(sorted(u))) for link, u in zip(self.topology.links, uses, strict=True)]

    def extended(self, moved: dict[int, int]) -> Permutation | None:
        """A map of all nodes that continues one of GPUs and is an automorphism of topology and demand, or None."""
        whole = dict(moved)
        taken = set(whole.values())
        for node in self._outwards:
            if node in whole:
                continue
            known = next((x for x in self.neighbours[node] if x in whole), None)
            near = range(len(self.kind)) if known is None else sorted(self.neighbours[whole[known]])
            goal = next((g for g in near if g not in taken and self._fits(node, g, whole)), None)
            if goal is None:
                return None
            whole[node] = goal
            taken.add(goal)
        permutation = tuple(whole[k] for k in range(len(self.kind)))
        return permutation if self.keeps(permutation) else None

    @cached_property
    def _outwards(self) -> list[int]:
        """Nodes in breadth-first order from the GPUs, those out of their reach last."""
        order = dict.fromkeys(self.topology.gpus)
        queue = list(order)
        for node in queue:
            fresh = [x for x in sorted(self.neighbours[node]) if x not in order]
            order.update(dict.fromkeys(fresh))
            queue += fresh
        return [*order, *(k for k in range(len(self.kind)) if k not in order)]

    def _fits(self, node: int, goal: int, whole: dict[int, int]) -> bool:
        if self.kind[node] != self.kind[goal]:
            return False
        known = [(whole[x], x) for x in self.neighbours[node] if x in whole]
        return all(self._same((x, node), (y, goal)) and self._same((node, x), (goal, y)) for y, x in known)

    def _same(self, old: tuple[int, int], new: tuple[int, int]) -> bool:
        one, two = self.link_at.get(old), self.link_at.get(new)
        if one is None or two is None:
            return one is two
        return bool(self.signature[one] == self.signature[two])

    def keeps(self, moved: Permutation) -> bool:
        """Whether a map of all nodes keeps kinds, links, capacities, shared resources and the demand."""
        table = np.array(moved, dtype=np.int64)
        if len(np.unique(table)) < len(table) or not (self.kind[table] == self.kind).all():
            return False
        links = self.links(table)
        if links is None or not (self.signature[links] == self.signature).all():
            return False
        return self.pools(links) is not None and self._keeps_demand(table)

    def links(self, moved: Ints) -> Ints | None:
        """Where each link goes, or None when some link has no image."""
        wanted = moved[self._tail] * len(moved) + moved[self._head]
        place = np.minimum(np.searchsorted(self._codes, wanted), len(self._codes) - 1)
        return self._order[place] if len(place) == 0 or (self._codes[place] == wanted).all() else None

    def pools(self, links: Ints) -> list[int] | None:
        """Where each shared resource goes when the links are moved, or None when one has no image."""
        known = self._pool_at
        if len(known) < len(self.topology.resources):
            return None  # equal resources on equal links: which goes where is not told apart
        goals = [known.get(_pool_key(width, uses, links)) for width, uses in self._pools]
        found = [goal for goal in goals if goal is not None]
        return found if len(found) == len(goals) else None

    @cached_property
    def _pools(self) -> list[tuple[float, list[tuple[int, float]]]]:
        index = self.topology.link_index
        return [(pool.bandwidth, [(index[k], times) for k, times in pool.uses]) for pool in self.topology.resources]

    @cached_property
    def _pool_at(self) -> dict[tuple[object, ...], int]:
        every = np.arange(len(self.topology.links))
        return {_pool_key(width, uses, every): k for k, (width, uses) in enumerate(self._pools)}

    def _keeps_demand(self, moved: Ints) -> bool:
        if self.demand.uniform:
            return True  # the kinds say that members go to members
        rank_of, gpus = self.topology.rank_of, self.topology.gpus

        def rank(old: int) -> int:
            return rank_of[int(moved[gpus[old]])]

        items = self.demand.commodities
        sizes = {(c.root, c.dest): c.size for c in items}
        images = [(rank(c.root), None if c.dest is None else rank(c.dest)) for c in items]
        return all(sizes.get(ends) == c.size for c, ends in zip(items, images, strict=True))

    def orbits(self, generators: list[Permutation]) -> Ints:
        """Number of the orbit of each row (links, then shared resources), by least row."""
        count = len(self.topology.links)
        rows = count + len(self.topology.resources)
        pairs = []
        for moved in generators:
            links = self.links(np.array(moved, dtype=np.int64))
            pools = None if links is None else self.pools(links)
            if links is None or pools is None:
                raise ValueError("a generator is not an automorphism")
            pairs.append(np.append(links, count + np.array(pools, dtype=np.int64)))
        if not pairs:
            return np.arange(rows, dtype=np.int64)
        start = np.tile(np.arange(rows), len(pairs))
        graph = sparse.coo_matrix((np.ones(len(start)), (start, np.concatenate(pairs))), shape=(rows, rows))
        return np.asarray(csgraph.connected_components(graph, directed=False)[1], dtype=np.int64)


def _pool_key(width: float, uses: list[tuple[int, float]], links: Ints) -> tuple[object, ...]:
    """A resource by what it is, with its links moved."""
    return width, tuple(sorted((int(links[link]), times) for link, times in uses))


def _numbered(classes: list[tuple[object, ...]]) -> Ints:
    numbers: dict[tuple[object, ...], int] = {}
    return np.array([numbers.setdefault(item, len(numbers)) for item in classes], dtype=np.int64)
