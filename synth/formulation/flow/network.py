"""A topology and its members as arrays: resources as rows, links as columns, cheapest hops as shortest paths."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph

from synth.ground.arrays import Floats, Ints, Table
from synth.topology.model import Topology


@dataclass(frozen=True, slots=True)
class Hop:
    """Data moved from GPU node ``src`` to GPU node ``dst`` over ``links`` (link indices), through no other GPU."""

    src: int
    dst: int
    links: tuple[int, ...]


@dataclass(frozen=True)
class Network:
    """Index view of a topology for the LP.

    Rows (resources) are the links in order, then the shared resources in order. ``uses[p, l]`` says how often a byte
    on link ``l`` uses row ``p``.
    """

    topology: Topology

    @cached_property
    def src(self) -> Ints:
        """Per link, the node index of its source."""
        return np.array([a for a, _ in self.topology.ends], dtype=np.int64)

    @cached_property
    def dst(self) -> Ints:
        """Per link, the node index of its destination."""
        return np.array([b for _, b in self.topology.ends], dtype=np.int64)

    @cached_property
    def row_ids(self) -> tuple[str, ...]:
        """Id of each row: link ids, then resource ids."""
        return tuple(x.id for x in self.topology.links) + tuple(x.id for x in self.topology.resources)

    @cached_property
    def capacity(self) -> Floats:
        """Bytes/second of each row."""
        links = [link.capacity for link in self.topology.links]
        return np.array(links + [pool.bandwidth for pool in self.topology.resources], dtype=float)

    @cached_property
    def uses(self) -> sparse.csr_matrix:
        """Matrix rows x links of use counts."""
        links = len(self.topology.links)
        rows, cols, values = list(range(links)), list(range(links)), [1.0] * links
        for k, pool in enumerate(self.topology.resources):
            for link, times in pool.uses:
                rows.append(links + k)
                cols.append(self.topology.link_index[link])
                values.append(times)
        return sparse.csr_matrix((values, (rows, cols)), shape=(len(self.row_ids), links))

    def link_prices(self, prices: Floats) -> Floats:
        """Price of a byte on each link for row prices."""
        return np.asarray(self.uses.T @ prices)

    def row_bytes(self, link_bytes: Floats) -> Floats:
        """Bytes on each row for bytes on each link."""
        return np.asarray(self.uses @ link_bytes)


class HopGraph:
    """Shortest hops between GPUs: ``split`` GPUs can start or end a path but not lie inside one.

    Multicast splits every member (a copy is made there, so it ends the hop) and every GPU that may not relay; unicast
    splits only the GPUs that may not relay. Other GPUs, switches, NICs and CPUs are passed through.
    """

    def __init__(self, network: Network, split: frozenset[int]) -> None:
        self.network = network
        nodes = len(network.topology.nodes)
        order = sorted(split)
        self._start = {node: nodes + k for k, node in enumerate(order)}
        tail = np.array([self._start.get(int(a), int(a)) for a in network.src], dtype=np.int64)
        size = nodes + len(order)
        self._pair = tail * size + network.dst
        pairs, self._first = np.unique(np.sort(self._pair), return_index=True)
        self._rows, self._cols = pairs // size, pairs % size
        self._indptr = np.searchsorted(self._rows, np.arange(size + 1)).astype(np.int32)
        self._size = size
        self._slot = {(int(a), int(b)): k for k, (a, b) in enumerate(zip(self._rows, self._cols, strict=True))}
        self._node = {start: node for node, start in self._start.items()}

    def start(self, node: int) -> int:
        """Vertex at which paths from ``node`` start."""
        return self._start.get(node, node)

    def search(self, link_prices: Floats, sources: list[int]) -> ShortestHops:
        """Cheapest paths from each source node to every node; prices must be positive."""
        cheapest = np.lexsort((link_prices, self._pair))[self._first]
        matrix = sparse.csr_matrix(
            (link_prices[cheapest], self._cols.astype(np.int32), self._indptr), shape=(self._size, self._size)
        )
        starts = [self.start(node) for node in sources]
        cost, before = csgraph.dijkstra(matrix, directed=True, indices=starts, return_predecessors=True)
        return ShortestHops(np.atleast_2d(cost), np.atleast_2d(before), cheapest, self._slot)


@dataclass(frozen=True, slots=True)
class ShortestHops:
    """Result of :meth:`HopGraph.search`: ``cost[k, v]`` from source number k to node v (inf when unreachable)."""

    cost: Floats
    before: Table
    cheapest: Ints
    slot: dict[tuple[int, int], int]

    def path(self, k: int, node: int) -> tuple[int, ...]:
        """Link indices from source number ``k`` to ``node``, in order."""
        links: list[int] = []
        before = self.before[k]
        while (previous := int(before[node])) >= 0:
            links.append(int(self.cheapest[self.slot[previous, node]]))
            node = previous
        return tuple(reversed(links))


def split_path(topology: Topology, links: tuple[int, ...]) -> tuple[Hop, ...]:
    """Cut a path of links at every GPU into hops."""
    hops: list[Hop] = []
    begin = 0
    for k, link in enumerate(links):
        end = topology.ends[link][1]
        if topology.nodes[end].kind == "gpu":
            hops.append(Hop(topology.ends[links[begin]][0], end, links[begin : k + 1]))
            begin = k + 1
    return tuple(hops)
