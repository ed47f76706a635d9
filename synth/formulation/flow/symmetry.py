"""Symmetry: a group of automorphisms of topology and demand, and what it saves in the LP.

The LP is convex, so averaging an optimal solution over a group of automorphisms keeps it optimal. One root per orbit of
roots is priced, one row per orbit of resources stays in the master, and a column of the representative stands for its
images under all elements, each with the share divided by the number of elements that keep its root.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain

import numpy as np
from scipy import sparse

from synth.demand.model import Demand
from synth.formulation.flow.automorphisms import Automorphisms, Permutation
from synth.formulation.flow.candidates import aligned, hinted, library_automorphisms, rotations
from synth.formulation.flow.columns import Family
from synth.formulation.flow.groups import GrowingGroup, elements
from synth.formulation.flow.network import Hop, Network
from synth.formulation.flow.routes import Route
from synth.ground.arrays import Floats, Ints, Table
from synth.topology.model import Topology

# Up to so many members only groups without fixed ranks are used: others give each root the images of several trees.
SMALL = 16


@dataclass(frozen=True, eq=False)
class Symmetry:
    """A group of automorphisms and the orbits of its rows.

    Attributes
    ----------
    topology
        What it acts on; without parallel links unless the group is trivial.
    generators
        Permutations of the nodes that generate it.
    nodes
        elements x nodes: where each element sends each node, the identity first.
    orbit, first, size
        Per row (links, then resources) the number of its orbit; per orbit its first row and its number of rows.
    """

    topology: Topology
    generators: tuple[Permutation, ...]
    nodes: Table
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

    @cached_property
    def uses(self) -> sparse.csc_matrix:
        """Matrix orbits of rows x links: the mean use of an orbit's rows by a byte on a link."""
        rows = len(self.orbit)
        mean = sparse.csr_matrix(
            (1.0 / self.size[self.orbit], (self.orbit, np.arange(rows))), shape=(len(self.size), rows)
        )
        return sparse.csc_matrix(mean @ Network(self.topology).uses)

    def route_bytes(self, demand: Demand, route: Route) -> tuple[Ints, Floats]:
        """Bytes on each row of an orbit when a route and its images carry all of their shards: orbits, bytes.

        Of an all-reduce, whose meeting points share the buffer, when the images carry all of it together.
        """
        images = 1 if demand.pattern == "allreduce" else int(self.orbit_size[route.root])
        spans = [slice(*self.uses.indptr[link : link + 2]) for hop in route.hops for link in hop.links]
        orbits = np.concatenate([self.uses.indices[span] for span in spans])
        load = np.bincount(orbits, np.concatenate([self.uses.data[span] for span in spans]))
        used = np.flatnonzero(load)
        return used, load[used] * (images * demand.commodities[route.commodity].size)

    @cached_property
    def ranks(self) -> Table:
        """Elements x GPUs: where each element sends each rank."""
        rank = np.full(len(self.topology.nodes), -1, dtype=np.int32)
        rank[list(self.topology.gpus)] = np.arange(len(self.topology.gpus), dtype=np.int32)
        return np.asarray(rank[self.nodes[:, list(self.topology.gpus)]])

    @cached_property
    def first_rank(self) -> Table:
        """Per rank the least rank of its orbit."""
        return np.asarray(self.ranks.min(axis=0))

    @cached_property
    def orbit_size(self) -> Ints:
        """Per rank the number of ranks of its orbit."""
        return np.bincount(self.first_rank, minlength=len(self.first_rank))[self.first_rank]

    @cached_property
    def mover(self) -> Ints:
        """Per rank an element that sends the first rank of its orbit there."""
        return np.argmax(self.ranks[:, self.first_rank] == np.arange(self.ranks.shape[1]), axis=0)

    def representatives(self, families: tuple[Family, ...]) -> list[int]:
        """Numbers of the families whose root is the first of its orbit."""
        return [k for k, f in enumerate(families) if self.first_rank[f.rank] == f.rank]

    @cached_property
    def _link_at(self) -> dict[tuple[int, int], int]:
        return {ends: k for k, ends in enumerate(self.topology.ends)}

    def moved_path(self, element: int, links: tuple[int, ...]) -> tuple[int, ...]:
        """Where an element sends links."""
        if element == 0 or not links:
            return links
        to, ends, at = self.nodes[element], self.topology.ends, self._link_at
        return tuple([at[int(to[ends[k][0]]), int(to[ends[k][1]])] for k in links])

    def images(self, demand: Demand, route: Route) -> Iterator[Route]:
        """The images of a route, equal ones as one.

        An all-reduce's share is spread over the meeting points of the orbit; others' over the elements that keep the
        root.
        """
        if self.order == 1:
            yield route
            return
        kept = self.order // int(self.orbit_size[route.root])
        part = route.share / (self.order if demand.pattern == "allreduce" else kept)
        every = (self._image(demand, route, element, part) for element in range(self.order))
        if kept == 1:
            yield from every
            return
        for image, times in Counter(every).items():
            yield replace(image, share=part * times)

    def _image(self, demand: Demand, route: Route, element: int, share: float) -> Route:
        item, rank = demand.commodities[route.commodity], self.ranks[element]
        commodity = 0
        if demand.pattern != "allreduce":
            dest = None if item.dest is None else int(rank[item.dest])
            commodity = demand.position(int(rank[item.root]), dest)
        to = self.nodes[element]

        def moved(hop: Hop) -> Hop:
            return Hop(int(to[hop.src]), int(to[hop.dst]), self.moved_path(element, hop.links))

        return Route(
            commodity,
            int(rank[route.root]),
            share,
            tuple([moved(hop) for hop in route.reduce_hops]),
            tuple([moved(hop) for hop in route.copy_hops]),
        )

    def expand(self, demand: Demand, routes: Iterable[Route]) -> Iterator[Route]:
        """Every image of every route."""
        for route in routes:
            yield from self.images(demand, route)


def trivial(topology: Topology) -> Symmetry:
    """The group of the identity alone."""
    rows = len(topology.links) + len(topology.resources)
    every = np.arange(rows, dtype=np.int64)
    identity = np.arange(len(topology.nodes), dtype=np.int32)[None, :]
    return Symmetry(topology, (), identity, every, every, np.ones(rows, dtype=np.int64))


def find_symmetry(topology: Topology, demand: Demand, free: bool = False) -> Symmetry:
    """A group of automorphisms with at most as many elements as ranks, verified.

    Candidates are the topology's hints, rotations of the digits of the rank number, and what the BLISS library finds.
    A group without fixed ranks is grown first; for more than ``SMALL`` members it then takes in elements with fixed
    ranks as long as they join orbits.

    Parameters
    ----------
    topology
        Without parallel links outside of resources (see ``parallel.bundle``).
    demand
        What the automorphisms must keep as well.
    free
        Only groups without fixed ranks, whatever the number of members.

    Raises
    ------
    InvalidInputError
        When a hint of the topology is not an automorphism; the offending link is named.
    """
    if demand.empty or len(set(topology.ends)) < len(topology.ends):
        return trivial(topology)  # parallel links in resources: which goes where is not tried
    checker = Automorphisms(topology, demand)
    group = GrowingGroup(len(topology.nodes), checker.members)
    orders = (lambda: hinted(topology), lambda: rotations(topology.gpus), lambda: rotations(aligned(checker)))
    for candidate in chain.from_iterable(make() for make in orders):
        if group.orbits == 1:
            break
        if (whole := checker.extended(candidate)) is not None:
            group.offer(whole, free=True)
    if group.orbits > 1:
        known = [found for found in library_automorphisms(checker) if checker.keeps(found)]
        for strict in (True,) if free or len(checker.members) <= SMALL else (True, False):
            for found in known:
                group.offer(found, strict)
    return _symmetry(checker, group.generators, group.table)


def generated_symmetry(topology: Topology, demand: Demand, generators: Iterable[Permutation]) -> Symmetry:
    """The group of given generators.

    Raises
    ------
    ValueError
        When one of them is not an automorphism of topology and demand, or the group has more elements than ranks.
    """
    given = list(generators)
    if not given:
        return trivial(topology)
    checker = Automorphisms(topology, demand)
    nodes = len(topology.nodes)
    if any(sorted(g) != list(range(nodes)) or not checker.keeps(g) for g in given):
        raise ValueError("a symmetry is not an automorphism of its topology and demand")
    table = elements(given, nodes, len(checker.members))
    if table is None:
        raise ValueError("the symmetries generate more elements than there are ranks")
    return _symmetry(checker, given, table)


def _symmetry(checker: Automorphisms, generators: list[Permutation], table: Table) -> Symmetry:
    if not generators:
        return trivial(checker.topology)
    _, first, orbit, size = np.unique(
        checker.orbits(generators), return_index=True, return_inverse=True, return_counts=True
    )
    numbers = orbit.astype(np.int64)
    return Symmetry(checker.topology, tuple(generators), table, numbers, first.astype(np.int64), size.astype(np.int64))
