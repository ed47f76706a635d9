"""The certificate: what prices prove, by shortest paths and arborescences alone.

This module shares no code with the master, the pricing or the symmetry: it reads only the topology, the demand, the
prices and, to save work, claimed automorphisms, which it checks itself. The value of a minimum arborescence is its
dual's: each round adds what every vertex must pay for its cheapest incoming edge and merges the strongly connected sets
of free edges (Edmonds 1967; Fulkerson 1974).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.sparse import csgraph

from synth.demand.model import Demand, EvenPairs
from synth.errors import InvalidInputError
from synth.topology.model import Topology

Floats = npt.NDArray[np.float64]


def certified_bound(
    topology: Topology, demand: Demand, prices: Mapping[str, float], symmetry: Sequence[Sequence[int]] = ()
) -> float:
    """Lower bound on the time of a demand that resource prices prove.

    For any prices y >= 0, T >= (sum over roots of the cheapest way to serve the root) / (sum of capacity x y).

    Parameters
    ----------
    topology, demand
        Instance.
    prices
        Price of a byte per link id and resource id (missing: 0).
    symmetry
        Claimed automorphisms: per permutation, the number of the node that each node goes to. Roots that one sends to
        another cost the same, so one per orbit is priced. Claims that do not keep prices and demand are not used.

    Returns
    -------
    float
        Seconds.

    Raises
    ------
    InvalidInputError
        When a price is negative or not finite, names no resource, or all are 0.
    """
    budget = _budget(topology, prices)
    if demand.empty:
        return 0.0
    per_link = {link.id: prices.get(link.id, 0.0) for link in topology.links}
    for pool in topology.resources:
        for link, times in pool.uses:
            per_link[link] += times * prices.get(pool.id, 0.0)
    check = _Check(topology, demand, np.array(list(per_link.values())), symmetry)
    return check.total() / budget


def _budget(topology: Topology, prices: Mapping[str, float]) -> float:
    capacity = {link.id: link.capacity for link in topology.links} | {p.id: p.bandwidth for p in topology.resources}
    faults = [f"price of {key!r}: no such link or resource" for key in prices if key not in capacity]
    faults += [
        f"price of {key!r} is {y}: must be finite and >= 0" for key, y in prices.items() if not 0 <= y < math.inf
    ]
    budget = sum(capacity.get(key, 0.0) * y for key, y in prices.items())
    if not faults and not budget > 0:
        faults.append("all prices are 0: they prove nothing")
    if faults:
        raise InvalidInputError(faults)
    return budget


class _Check:
    def __init__(self, topology: Topology, demand: Demand, price: Floats, symmetry: Sequence[Sequence[int]]) -> None:
        self.topology, self.demand = topology, demand
        self.nodes = len(topology.nodes)
        ends = np.array(topology.ends, dtype=np.int64).reshape(-1, 2)
        code = ends[:, 0] * self.nodes + ends[:, 1]
        order = np.lexsort((price, code))
        self.pairs, first = np.unique(code[order], return_index=True)
        self.price = price[order][first]  # the cheapest link of each pair of nodes
        self.members = np.array([topology.gpus[rank] for rank in demand.ranks], dtype=np.int64)
        self.rigid = np.array([node.kind == "gpu" and not node.relay for node in topology.nodes])
        self.steps = [moved for moved in (np.array(g, dtype=np.int64) for g in symmetry) if self._keeps(moved)]
        self.place = np.full(self.nodes, -1, dtype=np.int64)
        self.place[self.members] = np.arange(len(self.members))

    def _keeps(self, moved: npt.NDArray[np.int64]) -> bool:
        """Whether a permutation of nodes keeps members, relays, prices and the demand."""
        if sorted(moved.tolist()) != list(range(self.nodes)) or set(moved[self.members]) != set(self.members):
            return False
        tail, head = np.divmod(self.pairs, self.nodes)
        there = moved[tail] * self.nodes + moved[head]
        order = np.argsort(there)
        priced = (there[order] == self.pairs).all() and (self.price[order] == self.price).all()
        return bool(priced and (self.rigid[moved] == self.rigid).all() and self._keeps_demand(moved))

    def _keeps_demand(self, moved: npt.NDArray[np.int64]) -> bool:
        if isinstance(self.demand.commodities, EvenPairs) or self.demand.pattern == "allreduce":
            return True
        rank = {node: k for k, node in enumerate(self.topology.gpus)}
        to = {k: rank[int(moved[node])] for node, k in rank.items() if int(moved[node]) in rank}
        sizes = {(c.root, c.dest): c.size for c in self.demand.commodities}
        moved_sizes = {(to[a], None if b is None else to[b]): size for (a, b), size in sizes.items()}
        return sizes == moved_sizes

    def _orbits(self) -> dict[int, int]:
        """Place of the first member of each orbit to the number of members in it."""
        left, out = set(range(len(self.members))), {}
        while left:
            start = min(left)
            left.discard(start)
            queue = [start]
            for place in queue:
                fresh = {int(self.place[step[self.members[place]]]) for step in self.steps} & left
                left -= fresh
                queue += fresh
            out[start] = len(queue)
        return out

    def _reach(self, sources: Sequence[int], split: npt.NDArray[np.bool_]) -> Iterator[Floats]:
        """Price of the cheapest path from each source node to every node; no path passes a node of ``split``."""
        twin = np.where(split, self.nodes + np.arange(self.nodes), np.arange(self.nodes))  # where its paths start
        tail, head = np.divmod(self.pairs, self.nodes)
        shape = (2 * self.nodes, 2 * self.nodes)
        graph = sparse.csr_matrix((self.price, (twin[tail], head)), shape=shape)
        for source in sources:
            yield csgraph.dijkstra(graph, indices=int(twin[source]))[: self.nodes]

    def total(self) -> float:
        """Sum over the roots of the cheapest way to serve each; all-reduce: the cheapest meeting point."""
        if self.demand.pattern == "unicast":
            return self._paths()
        hops = self._hops()
        leaf = self.rigid[self.members]
        out = self._orbits()
        sizes = {self.demand.ranks.index(c.root): c.size for c in self.demand.commodities if c.root >= 0}
        if self.demand.pattern == "allreduce":
            both = (_tree_cost(hops, leaf, k) + _tree_cost(hops.T, leaf, k) for k in out)
            return self.demand.commodities[0].size * min(both)
        costs = hops if self.demand.pattern == "multicast" else hops.T
        return sum(times * sizes[k] * _tree_cost(costs, leaf, k) for k, times in out.items() if sizes.get(k))

    def _paths(self) -> float:
        orbits = self._orbits()
        rank, gpus, items = self.demand.ranks, np.array(self.topology.gpus), self.demand.commodities
        far = self._reach([int(self.members[k]) for k in orbits], self.rigid)
        total = 0.0
        if isinstance(items, EvenPairs):
            for (k, times), cost in zip(orbits.items(), far, strict=True):
                total += times * items.size * float(np.delete(cost[self.members], k).sum())
            return total
        sent: dict[int, list[tuple[int, float]]] = {}
        for item in items:
            if item.dest is not None:
                sent.setdefault(item.root, []).append((item.dest, item.size))
        for (k, times), cost in zip(orbits.items(), far, strict=True):
            total += times * sum(size * float(cost[gpus[dest]]) for dest, size in sent.get(rank[k], []))
        return total

    def _hops(self) -> Floats:
        """Price of the cheapest hop between each two members; one search per orbit, the rest by the automorphisms."""
        split = self.rigid.copy()
        split[self.members] = True
        cost = np.full((len(self.members), len(self.members)), np.nan)
        starts = list(self._orbits())
        for start, row in zip(starts, self._reach([int(self.members[k]) for k in starts], split), strict=True):
            cost[start] = row[self.members]
        queue = list(starts)
        done = set(queue)
        moves = [self.place[step[self.members]] for step in self.steps]
        for k in queue:
            for move in moves:
                if (there := int(move[k])) not in done:
                    cost[there, move] = cost[k]
                    done.add(there)
                    queue.append(there)
        return cost


def _tree_cost(costs: Floats, leaf: npt.NDArray[np.bool_], root: int) -> float:
    """Cost of a minimum arborescence whose ``leaf`` vertices (other than the root) have no children."""
    weights = costs.copy()
    barren = leaf.copy()
    barren[root] = False
    weights[barren] = math.inf
    weights[:, root] = math.inf
    np.fill_diagonal(weights, math.inf)
    total = 0.0
    while True:
        least = weights.min(axis=0)
        least[root] = 0.0
        if not np.isfinite(least).all():
            return math.inf
        total += float(least.sum())
        weights -= least
        heads = np.delete(np.arange(len(weights)), root)
        tails = weights[:, heads].argmin(axis=0)
        free = sparse.coo_matrix((np.ones(len(heads)), (tails, heads)), shape=weights.shape)
        count, label = csgraph.connected_components(free, directed=True, connection="strong")
        if count == len(weights):
            return total
        weights, root = _merged(weights, label), int(label[root])


def _merged(weights: Floats, label: npt.NDArray[np.int32]) -> Floats:
    """Least weight between each two sets of vertices with equal labels."""
    order = np.argsort(label, kind="stable")
    starts = np.searchsorted(label[order], np.arange(int(label.max()) + 1))
    rows = np.minimum.reduceat(weights[order], starts, axis=0)
    out = np.minimum.reduceat(rows[:, order], starts, axis=1)
    np.fill_diagonal(out, math.inf)
    return np.asarray(out)
