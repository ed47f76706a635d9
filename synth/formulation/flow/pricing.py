"""Pricing: the cheapest column of every family for given link prices, and the bound that the prices prove."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from synth.demand.model import Demand
from synth.formulation.flow.arborescence import min_arborescence
from synth.formulation.flow.columns import Column, Family, column_bytes, families_of
from synth.formulation.flow.memberhops import FoundHops, MemberHops
from synth.formulation.flow.network import Hop, HopGraph, Network, ShortestHops
from synth.formulation.flow.symmetry import Symmetry, trivial
from synth.ground.arrays import Floats, Ints


@dataclass(frozen=True, slots=True)
class Priced:
    """Outcome of one pricing round.

    Attributes
    ----------
    columns
        Cheapest column of each active family, in family order.
    costs
        Its cost at the prices: sum over links of bytes x price.
    bound
        Lower bound on T that the prices prove, for prices with sum(capacity x price) = 1.
    """

    columns: tuple[Column, ...]
    costs: Floats
    bound: float


class Pricer:
    """Prices the families of a demand on a network; prices must be positive on every link.

    With a symmetry only the first family of each orbit is priced (``active``), at prices that must be equal on the
    orbits of rows.
    """

    def __init__(self, network: Network, demand: Demand, symmetry: Symmetry | None = None) -> None:
        self.network = network
        self.demand = demand
        self.families = families_of(demand)
        topology = network.topology
        self.symmetry = symmetry or trivial(topology)
        self.active = self.symmetry.representatives(self.families)
        # One family stands for its orbit; of the meeting points of an all-reduce, one is as good as the whole orbit.
        meeting = demand.pattern == "allreduce"
        self._weight = {
            k: 1.0 if meeting else float(self.symmetry.orbit_size[self.families[k].rank]) for k in self.active
        }
        self._members = [topology.gpus[rank] for rank in demand.ranks]
        self._place = {rank: k for k, rank in enumerate(demand.ranks)}
        rigid = {n for n in topology.gpus if not topology.nodes[n].relay}
        self._rigid = np.array([n in rigid for n in self._members])
        multicast = demand.pattern != "unicast"
        self._graph = HopGraph(network, frozenset(rigid | set(self._members) if multicast else rigid))
        self._ends: dict[int, tuple[list[int], Floats]] = {}
        self._hops = MemberHops(self._graph, self._members, self.symmetry)

    def price(self, link_prices: Floats) -> Priced:
        """Cheapest columns at the given link prices (seconds/byte, positive)."""
        if self.demand.pattern == "unicast":
            columns, costs = self._paths(link_prices)
        else:
            columns, costs = self._trees(link_prices)
        return Priced(tuple(columns), costs, self._bound(costs))

    def load(self, column: Column) -> Floats:
        """Bytes on each row when a column and all its images are used in full."""
        used = column_bytes(self.network, self.demand, self.families[column.family], column)
        return self._weight[column.family] * self.symmetry.average(self.network.row_bytes(used))

    def some(self, numbers: Sequence[int], link_prices: Floats) -> list[Column]:
        """Cheapest column of each of the families with these numbers."""
        if self.demand.pattern == "unicast":
            found = self._graph.search(link_prices, [self._source(k) for k in numbers])
            return [self._path_column(k, found, row)[0] for row, k in enumerate(numbers)]
        hops = self._hops.search(link_prices)
        return [self._tree_column(k, hops)[0] for k in numbers]

    def shallow(self, link_prices: Floats, tilt: float, random: np.random.Generator) -> list[Column]:
        """Trees that are cheapest, or as good as, at the prices and as shallow as that allows.

        Every hop costs ``tilt`` times the mean hop more per hop between the root and the vertex that it leaves, and a
        random part of that, which tells apart trees of one depth.
        """
        hops = self._hops.search(link_prices)
        usable = np.isfinite(hops.cost)
        step = tilt * float(hops.cost[usable].mean())
        out = []
        for k in self.active:
            family = self.families[k]
            depth = _levels(usable if family.kind == "out" else usable.T, self._place[family.rank])
            extra = step * (depth[:, None] + 0.5 * random.random(usable.shape))
            with contextlib.suppress(ValueError):  # all-reduce: this meeting point does not reach everybody
                out.append(self._tree_column(k, hops, extra)[0])
        return out

    def _bound(self, costs: Floats) -> float:
        """Every family must be paid for once; all-reduce may choose the cheapest meeting point."""
        if self.demand.pattern == "allreduce":
            return float((costs[0::2] + costs[1::2]).min())
        return float(np.array([self._weight[k] for k in self.active]) @ costs)

    def _source(self, k: int) -> int:
        return self.network.topology.gpus[self.families[k].rank]

    def _paths(self, link_prices: Floats) -> tuple[list[Column], Floats]:
        found = self._graph.search(link_prices, [self._source(k) for k in self.active])
        priced = [self._path_column(k, found, row) for row, k in enumerate(self.active)]
        return [column for column, _ in priced], np.array([cost for _, cost in priced])

    def _path_column(self, k: int, found: ShortestHops, row: int) -> tuple[Column, float]:
        ends, sizes = self._destinations(k)
        return Column(k, paths=tuple([found.path(row, end) for end in ends])), float(sizes @ found.cost[row, ends])

    def _destinations(self, k: int) -> tuple[list[int], Floats]:
        """Nodes that a family of paths goes to, and the bytes for each."""
        if k not in self._ends:
            numbers, items = self.families[k].commodities, self.demand.commodities
            ends = [self.network.topology.gpus[d] for c in numbers if (d := items[c].dest) is not None]
            self._ends[k] = ends, self.demand.sizes(numbers)
        return self._ends[k]

    def _trees(self, link_prices: Floats) -> tuple[list[Column], Floats]:
        hops = self._hops.search(link_prices)
        columns, costs = [], np.full(len(self.active), np.inf)
        for place, k in enumerate(self.active):
            try:
                column, costs[place] = self._tree_column(k, hops)
            except ValueError:
                continue  # all-reduce: this meeting point does not reach everybody
            columns.append(column)
        return columns, costs

    def _tree_column(self, k: int, hops: FoundHops, extra: Floats | float = 0.0) -> tuple[Column, float]:
        """Cheapest tree of a family, and its cost with the ``extra`` cost per hop; ValueError when there is none."""
        family = self.families[k]
        root = self._place[family.rank]
        weights = (hops.cost if family.kind == "out" else hops.cost.T) + extra
        leaves = self._rigid.copy()
        leaves[root] = False
        weights[leaves] = np.inf  # a GPU that may not relay has no children in a tree that is not its own
        parent = min_arborescence(weights, root)
        others = np.delete(np.arange(len(parent)), root)
        cost = family.size * float(weights[parent[others], others].sum())
        return self._tree(k, family, hops, parent, root), cost

    def _tree(self, k: int, family: Family, hops: FoundHops, parent: Ints, root: int) -> Column:
        children: dict[int, list[int]] = {}
        for v, p in enumerate(parent):
            if v != root:
                children.setdefault(int(p), []).append(v)
        order, queue = [], [root]
        for v in queue:
            order += [(v, child) for child in children.get(v, [])]
            queue += children.get(v, [])
        nodes = self._members
        if family.kind == "out":
            return Column(k, tuple(Hop(nodes[a], nodes[b], hops.path(a, b)) for a, b in order))
        return Column(k, tuple(Hop(nodes[b], nodes[a], hops.path(b, a)) for a, b in reversed(order)))


def _levels(usable: npt.NDArray[np.bool_], root: int) -> Floats:
    """Fewest hops from a root to each member."""
    level = np.full(len(usable), np.inf)
    level[root], fresh, depth = 0.0, np.array([root]), 0.0
    while len(fresh):
        depth += 1.0
        fresh = np.flatnonzero(usable[fresh].any(axis=0) & np.isinf(level))
        level[fresh] = depth
    return level
