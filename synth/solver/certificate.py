"""The certificate: what prices prove, by shortest paths and arborescences alone.

This module shares no code with the master or the pricing: it reads only the topology and the demand. The arborescence
is Tarjan's algorithm with mergeable heaps (Tarjan 1977; Gabow, Galil, Spencer and Tarjan 1986), the shortest paths are
networkx's Dijkstra.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import networkx as nx

from synth.demand.model import Demand
from synth.errors import InvalidInputError
from synth.topology.model import Topology

Costs = list[list[float]]


def certified_bound(topology: Topology, demand: Demand, prices: Mapping[str, float]) -> float:
    """Lower bound on the time of a demand that resource prices prove.

    For any prices y >= 0, T >= (sum over roots of the cheapest way to serve the root) / (sum of capacity x y).

    Parameters
    ----------
    topology, demand
        Instance.
    prices
        Price of a byte per link id and resource id (missing: 0).

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
    if demand.pattern == "unicast":
        return _unicast(topology, demand, per_link) / budget
    return _trees(topology, demand, per_link) / budget


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


def _graph(topology: Topology, per_link: Mapping[str, float], endings: frozenset[str]) -> nx.DiGraph[tuple[str, str]]:
    """Cheapest link per node pair; nodes in ``endings`` are cut in two, so that no path passes through them."""
    graph: nx.DiGraph[tuple[str, str]] = nx.DiGraph()
    for node in topology.nodes:
        graph.add_node((node.id, "in"))
        graph.add_node((node.id, "out"))
        if node.id not in endings:
            graph.add_edge((node.id, "in"), (node.id, "out"), weight=0.0)
    for link in topology.links:
        tail, head = (link.src, "out"), (link.dst, "in")
        known = graph.get_edge_data(tail, head)
        if known is None or per_link[link.id] < known["weight"]:
            graph.add_edge(tail, head, weight=per_link[link.id])
    return graph


def _distances(graph: nx.DiGraph[tuple[str, str]], source: str) -> dict[tuple[str, str], float]:
    return dict(nx.single_source_dijkstra_path_length(graph, (source, "out"), weight="weight"))


def _rigid(topology: Topology) -> frozenset[str]:
    return frozenset(node.id for node in topology.nodes if node.kind == "gpu" and not node.relay)


def _unicast(topology: Topology, demand: Demand, per_link: Mapping[str, float]) -> float:
    graph = _graph(topology, per_link, _rigid(topology))
    total = 0.0
    for source in dict.fromkeys(item.root for item in demand.commodities):
        reach = _distances(graph, topology.gpu_name(source))
        for item in demand.commodities:
            if item.root == source and item.dest is not None:
                total += item.size * reach.get((topology.gpu_name(item.dest), "in"), math.inf)
    return total


def _trees(topology: Topology, demand: Demand, per_link: Mapping[str, float]) -> float:
    names = [topology.gpu_name(rank) for rank in demand.ranks]
    rigid = _rigid(topology)
    graph = _graph(topology, per_link, rigid | frozenset(names))
    reach = [_distances(graph, name) for name in names]
    out = [[row.get((name, "in"), math.inf) for name in names] for row in reach]
    back = [list(column) for column in zip(*out, strict=True)]
    leaf = [name in rigid for name in names]
    place = {rank: k for k, rank in enumerate(demand.ranks)}
    if demand.pattern == "allreduce":
        size = demand.commodities[0].size
        return size * min(_tree_cost(out, leaf, k) + _tree_cost(back, leaf, k) for k in range(len(names)))
    costs = out if demand.pattern == "multicast" else back
    return sum(item.size * _tree_cost(costs, leaf, place[item.root]) for item in demand.commodities)


def _tree_cost(costs: Costs, leaf: Sequence[bool], root: int) -> float:
    """Cost of a minimum arborescence whose ``leaf`` vertices (other than the root) have no children."""
    heaps: list[_Heap | None] = [None] * len(costs)
    for tail, row in enumerate(costs):
        if leaf[tail] and tail != root:
            continue
        for head, cost in enumerate(row):
            if head not in (root, tail) and cost < math.inf:
                heaps[head] = _merge(heaps[head], _Heap(cost, tail))
    return _contract(heaps, root)


class _Heap:
    """Node of a skew heap of incoming edges; ``add`` is a pending change of all costs below."""

    __slots__ = ("add", "cost", "left", "right", "tail")

    def __init__(self, cost: float, tail: int) -> None:
        self.cost, self.tail, self.add = cost, tail, 0.0
        self.left: _Heap | None = None
        self.right: _Heap | None = None


def _push(heap: _Heap) -> None:
    heap.cost += heap.add
    for child in (heap.left, heap.right):
        if child is not None:
            child.add += heap.add
    heap.add = 0.0


def _merge(one: _Heap | None, two: _Heap | None) -> _Heap | None:
    if one is None or two is None:
        return one or two
    _push(one)
    _push(two)
    if two.cost < one.cost:
        one, two = two, one
    one.left, one.right = _merge(two, one.right), one.left
    return one


def _pop(heap: _Heap) -> _Heap | None:
    _push(heap)
    return _merge(heap.left, heap.right)


def _contract(heaps: list[_Heap | None], root: int) -> float:
    """Grow paths of cheapest incoming edges; a cycle becomes one vertex whose edges cost that much less."""
    group = list(range(len(heaps)))

    def find(v: int) -> int:
        while group[v] != v:
            group[v] = group[group[v]]
            v = group[v]
        return v

    total, done = 0.0, {root}
    for start in range(len(heaps)):
        path: list[int] = []
        v = find(start)
        while v not in done:
            heap = heaps[v]
            while heap is not None and find(heap.tail) == v:
                heap = _pop(heap)
            if heap is None:
                return math.inf
            _push(heap)
            total += heap.cost
            heap.add -= heap.cost
            heaps[v] = heap
            path.append(v)
            v = find(heap.tail)
            if v in path:
                while True:
                    last = path.pop()
                    if last == v:
                        break
                    group[last] = v
                    heaps[v] = _merge(heaps[v], heaps[last])
        done.update(path)
    return total
