"""The cut bound: what must cross the slowest cut, found exactly by maximum flows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph

from synth.demand.model import Demand
from synth.formulation.flow.network import Network
from synth.formulation.flow.symmetry import Symmetry, trivial
from synth.ground.arrays import Floats
from synth.topology.model import Topology

# Flows are integers: one unit is this part of all bytes. A cut is judged in floats, so its bound is exact; which of
# two cuts that are closer than this is found is not.
UNIT = 1e-7


@dataclass(frozen=True, slots=True)
class Cut:
    """A set of nodes and what it proves.

    Attributes
    ----------
    inside
        Node indices of the set.
    bound
        Seconds: bytes that must leave the set over the capacity of the links that leave it.
    links
        Indices of those links.
    """

    inside: tuple[int, ...]
    bound: float
    links: tuple[int, ...]

    def prices(self, network: Network) -> Floats:
        """Row prices that prove the bound: even on the links of the cut, with sum(capacity x price) = 1."""
        out = np.zeros(len(network.capacity))
        out[list(self.links)] = 1.0 / float(network.capacity[list(self.links)].sum())
        return out


def tightest_cut(topology: Topology, demand: Demand, symmetry: Symmetry | None = None) -> Cut | None:
    """Slowest cut of a multicast or reduction demand.

    For all-gather, the maximum over sets S of nodes that miss a member of (bytes of the shards in S) / (capacity out
    of S), which ForestColl's optimality rests on. For one receiver at a time Newton's method (Dinkelbach 1967) raises
    the time until a maximum flow from all shards saturates their sources; the minimum cut of a flow that does not is
    the next S. Shared resources are not counted, so with them the bound holds but need not be tight.

    Parameters
    ----------
    topology, demand
        Instance. Reductions are cut on the reversed links. Unicast and all-reduce have no such cut.
    symmetry
        A group that keeps both: one receiver per orbit is enough.

    Returns
    -------
    Cut or None
        None for unicast and all-reduce demands and when nothing has to move.
    """
    if demand.pattern not in ("multicast", "reduction") or demand.empty:
        return None
    search = _Search(topology, demand)
    group = symmetry or trivial(topology)
    best: Cut | None = None
    for rank in demand.ranks:
        if group.first_rank[rank] == rank:
            best = search.improved(topology.gpus[rank], best)
    return best


class _Search:
    def __init__(self, topology: Topology, demand: Demand) -> None:
        network = Network(topology)
        inward = demand.pattern == "reduction"
        self.tail, self.head = (network.dst, network.src) if inward else (network.src, network.dst)
        self.capacity = network.capacity[: len(topology.links)]
        self.shards = np.zeros(len(topology.nodes))
        for item in demand.commodities:
            self.shards[topology.gpus[item.root]] += item.size
        self.total = float(self.shards.sum())

    def improved(self, receiver: int, best: Cut | None) -> Cut | None:
        """The tightest cut that separates shards from a receiver when it is tighter than ``best``, else ``best``."""
        span = 0.0 if best is None else best.bound
        while True:
            inside = self._source_side(receiver, span)
            cut = self._cut(inside)
            if cut is None or cut.bound <= span * (1 + UNIT):
                return best
            best, span = cut, cut.bound

    def _source_side(self, receiver: int, span: float) -> Sequence[int]:
        """Nodes on the source side of a minimum cut when links carry what they can in ``span`` seconds."""
        nodes = len(self.shards)
        roots = np.flatnonzero(self.shards)
        rows = np.concatenate([self.tail, np.full(len(roots), nodes)])
        cols = np.concatenate([self.head, roots])
        bytes_ = np.concatenate([self.capacity * span, self.shards[roots]])
        units = np.floor(np.minimum(bytes_ / (self.total * UNIT), 2**30)).astype(np.int64)
        graph = sparse.csr_array((units.astype(np.int32), (rows, cols)), shape=(nodes + 1, nodes + 1))
        flow = csgraph.maximum_flow(graph, nodes, receiver).flow
        left = sparse.csr_array(graph - flow)
        left.data[left.data < 0] = 0
        left.eliminate_zeros()
        reached = csgraph.breadth_first_order(left, nodes, return_predecessors=False)
        return sorted(int(node) for node in reached if node != nodes)

    def _cut(self, inside: Sequence[int]) -> Cut | None:
        """What a set of nodes proves; None when no shard is in it."""
        within = np.zeros(len(self.shards), dtype=bool)
        within[list(inside)] = True
        owed = float(self.shards[within].sum())
        if owed <= 0:
            return None
        links = np.flatnonzero(within[self.tail] & ~within[self.head])
        width = float(self.capacity[links].sum())
        bound = owed / width if width > 0 else math.inf
        return Cut(tuple(inside), bound, tuple(int(k) for k in links))
