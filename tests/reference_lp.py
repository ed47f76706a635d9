"""Second methods for the times of small instances, sharing nothing with the package's formulation or solver.

Plain linear programs over every arborescence (or every link) in ``scipy.optimize.linprog``, cuts by enumeration and
maximum flows by networkx. They are slow on purpose: nothing is priced, nothing is generated.

The rules, from DESIGN.md: members of the collective copy and add; every other vertex only forwards, and a GPU with
``relay`` false does not forward what is neither its own nor for it; resources are links and pools, whose uses may count
more than once; an all-reduce adds along in-trees to any member and copies along out-trees from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations, product

import networkx as nx
import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csr_array

from synth.demand import Demand
from synth.solver.flow import Plan
from synth.topology import Link, Node, Topology

type Cable = tuple[int, int, float]
type Tree = dict[int, int]  # rank -> the rank next to it on the way to the root


def machine(gpus: int, cables: Iterable[Cable], *, switches: int = 0, relay: bool = True) -> Topology:
    """GPUs ``g0``, ``g1``, ... then switches, joined by one-way links (source, destination, GB/s) without latency."""
    names = [f"g{i}" for i in range(gpus)] + [f"s{i}" for i in range(switches)]
    nodes = tuple(Node(name, "gpu" if i < gpus else "switch", relay=relay) for i, name in enumerate(names))
    links = tuple(Link(f"l{k}", names[a], names[b], rate * 1e9) for k, (a, b, rate) in enumerate(cables))
    return Topology("machine", nodes, links)


def duplex(cables: Iterable[Cable]) -> list[Cable]:
    """Each cable in both directions."""
    return [cable for a, b, rate in cables for cable in ((a, b, rate), (b, a, rate))]


def transpose(topology: Topology) -> Topology:
    """The machine with every link turned round; ids, rates and pools stay."""
    return replace(topology, links=tuple(replace(link, src=link.dst, dst=link.src) for link in topology.links))


def scaled(topology: Topology, factor: float) -> Topology:
    """The machine with all capacities multiplied."""
    return replace(
        topology,
        links=tuple(replace(link, bandwidth=link.bandwidth * factor) for link in topology.links),
        resources=tuple(replace(pool, bandwidth=pool.bandwidth * factor) for pool in topology.resources),
    )


def reference_time(topology: Topology, demand: Demand) -> float:
    """Fluid optimum in seconds of any demand (of few members unless it is unicast)."""
    if demand.empty:
        return 0.0
    if demand.pattern == "unicast":
        wanted: dict[tuple[int, int], float] = {}
        for item in demand.commodities:
            assert item.dest is not None
            wanted[item.root, item.dest] = wanted.get((item.root, item.dest), 0.0) + item.size
        return unicast_time(topology, wanted)
    if demand.pattern == "allreduce":
        (item,) = demand.commodities
        return allreduce_time(topology, item.size, demand.ranks)
    shards = {item.root: item.size for item in demand.commodities}
    return tree_time(topology, shards, demand.ranks, inward=demand.pattern == "reduction")


class _Fluid:
    """Minimise T subject to flow equations, and to load <= capacity x T on links and pools."""

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        self.width = 1  # variable 0 is T
        self.equations: list[tuple[dict[int, float], float]] = []
        self.loads: dict[str, dict[int, float]] = {link.id: {} for link in topology.links}

    def variable(self) -> int:
        self.width += 1
        return self.width - 1

    def equation(self, terms: Mapping[int, float], value: float) -> None:
        self.equations.append((dict(terms), value))

    def flow(
        self, usable: Iterable[int], amounts: Mapping[int, Mapping[int, float]], free: Mapping[int, float]
    ) -> None:
        """Flow on the links ``usable`` whose net inflow at node v is ``free[v]`` plus the sum of ``amounts[v]``."""
        balance: dict[int, dict[int, float]] = {}
        for k in usable:
            link, (src, dst) = self.topology.links[k], self.topology.ends[k]
            one = self.variable()
            self.loads[link.id][one] = 1.0
            balance.setdefault(dst, {})[one] = 1.0
            balance.setdefault(src, {})[one] = -1.0
        for node in {*balance, *amounts, *free}:
            terms = balance.get(node, {})
            self.equation(
                {**terms, **{k: -v for k, v in amounts.get(node, {}).items()}},
                free.get(node, 0.0),
            )

    def time(self) -> float:
        """The optimum; demands should be about 1. Rows are scaled so that T is about 1, in a few rounds."""
        capacity = {link.id: link.capacity for link in self.topology.links}
        rows = [(capacity[name], load) for name, load in self.loads.items() if load]
        for pool in self.topology.resources:
            load: dict[int, float] = {}
            for name, uses in pool.uses:
                for k, v in self.loads[name].items():
                    load[k] = load.get(k, 0.0) + uses * v
            rows.append((pool.bandwidth, load))
        unit = 1.0 / max(rate for rate, _ in rows)
        for _ in range(8):
            span = self._solve(rows, unit)
            unit *= span
            if 0.5 < span < 2.0:
                break
        return unit

    def _solve(self, rows: Sequence[tuple[float, dict[int, float]]], unit: float) -> float:
        upper = [({0: -1.0, **{k: v / (rate * unit) for k, v in load.items()}}, 0.0) for rate, load in rows]
        cost = np.zeros(self.width)
        cost[0] = 1.0
        answer = linprog(  # type: ignore[call-overload]  # sparse matrices are allowed, the stubs do not know it
            cost,
            A_ub=_matrix([terms for terms, _ in upper], self.width),
            b_ub=np.zeros(len(upper)),
            A_eq=_matrix([terms for terms, _ in self.equations], self.width),
            b_eq=np.array([value for _, value in self.equations]),
            method="highs",
            options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
        )
        assert answer.status == 0, answer.message
        return float(answer.fun)


def _matrix(rows: Sequence[Mapping[int, float]], width: int) -> csr_array:
    at = [i for i, row in enumerate(rows) for _ in row]
    return csr_array(
        ([v for row in rows for v in row.values()], (at, [k for row in rows for k in row])), shape=(len(rows), width)
    )


def _passable(topology: Topology, members: Iterable[int]) -> set[int]:
    """Nodes that only forward: everything but the members and the GPUs that do not relay."""
    gpus = {topology.gpus[rank] for rank in members}
    return {i for i, node in enumerate(topology.nodes) if i not in gpus and (node.kind != "gpu" or node.relay)}


def unicast_time(topology: Topology, wanted: Mapping[tuple[int, int], float]) -> float:
    """All-to-all(v), gather, scatter, send/recv: one commodity per source on the plain links."""
    unit = max(wanted.values())
    model = _Fluid(topology)
    for source in sorted({src for src, _ in wanted}):
        start = topology.gpus[source]
        through = {i for i, node in enumerate(topology.nodes) if node.kind != "gpu" or node.relay or i == start}
        usable = [k for k, (src, dst) in enumerate(topology.ends) if src in through and dst != start]
        free = {topology.gpus[dst]: size / unit for (src, dst), size in wanted.items() if src == source}
        free[start] = -sum(free.values())
        model.flow(usable, {}, free)
    return model.time() * unit


def arborescences(topology: Topology, root: int, members: Sequence[int]) -> Iterator[Tree]:
    """Every tree over the members; who does not relay has nobody behind it, unless it is the root."""
    others = [rank for rank in members if rank != root]
    inner = [rank for rank in members if rank == root or topology.nodes[topology.gpus[rank]].relay]
    for chosen in product(inner, repeat=len(others)):
        tree = dict(zip(others, chosen, strict=True))
        if all(_reaches(tree, rank, root) for rank in others):
            yield tree


def _reaches(tree: Tree, rank: int, root: int) -> bool:
    for _ in range(len(tree)):
        rank = tree.get(rank, root)
    return rank == root


class _Trees(_Fluid):
    """Shares of arborescences over GPU-to-GPU hops; each hop is a flow through vertices that only forward."""

    def __init__(self, topology: Topology, members: Sequence[int]) -> None:
        super().__init__(topology)
        self.members = members
        self.hops: dict[tuple[int, int], dict[int, float]] = {}

    def add(self, root: int, size: float, *, inward: bool) -> dict[int, float]:
        """All trees of a root; the terms whose sum is their share."""
        shares = {}
        for tree in arborescences(self.topology, root, self.members):
            one = self.variable()
            shares[one] = 1.0
            for child, parent in tree.items():
                hop = (child, parent) if inward else (parent, child)
                self.hops.setdefault(hop, {})[one] = size
        return shares

    def time(self) -> float:
        through = _passable(self.topology, self.members)
        for (src, dst), terms in self.hops.items():
            tail, head = self.topology.gpus[src], self.topology.gpus[dst]
            usable = [
                k
                for k, (a, b) in enumerate(self.topology.ends)
                if (a == tail or a in through) and (b == head or b in through)
            ]
            self.flow(usable, {head: terms, tail: {k: -v for k, v in terms.items()}}, {})
        return super().time()


def tree_time(topology: Topology, shards: Mapping[int, float], members: Sequence[int], *, inward: bool) -> float:
    """All-gather, broadcast (outward), reduce-scatter, reduce (inward), with bytes per root."""
    unit = max(shards.values())
    model = _Trees(topology, members)
    for root, size in shards.items():
        model.equation(model.add(root, size / unit, inward=inward), 1.0)
    return model.time() * unit


def allreduce_time(topology: Topology, size: float, members: Sequence[int]) -> float:
    """In-trees and out-trees of every meeting point, tied by its share."""
    model = _Trees(topology, members)
    points = {}
    for point in members:
        share = model.variable()
        points[share] = 1.0
        for inward in (True, False):
            model.equation({**model.add(point, 1.0, inward=inward), share: -1.0}, 0.0)
    model.equation(points, 1.0)
    return model.time() * size


def composed_time(topology: Topology, size: float, members: Sequence[int]) -> float:
    """Reduce-scatter, then all-gather, with equal shards."""
    shards = dict.fromkeys(members, size / len(members))
    return sum(tree_time(topology, shards, members, inward=inward) for inward in (True, False))


def cut_time(topology: Topology, shards: Mapping[int, float]) -> float:
    """All-gather among all GPUs: the largest (shards in S) / (capacity out of S), S missing at least one GPU."""
    best = 0.0
    nodes = range(len(topology.nodes))
    gpus = set(topology.gpus)
    for size in range(1, len(topology.nodes)):
        for chosen in map(set, combinations(nodes, size)):
            inside = sum(shards.get(topology.rank_of[node], 0.0) for node in chosen & gpus)
            if inside == 0 or gpus <= chosen:
                continue
            ends = zip(topology.links, topology.ends, strict=True)
            out = sum(link.capacity for link, (a, b) in ends if a in chosen and b not in chosen)
            best = max(best, inside / out if out else float("inf"))
    return best


def flow_time(topology: Topology, root: int, size: float) -> float:
    """Broadcast to all GPUs (Edmonds): size / the smallest maximum flow from the root to a GPU."""
    graph: nx.DiGraph[int] = nx.DiGraph()
    for link, (a, b) in zip(topology.links, topology.ends, strict=True):
        before = graph[a][b]["capacity"] if graph.has_edge(a, b) else 0.0
        graph.add_edge(a, b, capacity=before + link.capacity)
    start = topology.gpus[root]
    return size / min(nx.maximum_flow_value(graph, start, node) for node in topology.gpus if node != start)


def time_of_routes(plan: Plan) -> float:
    """Seconds of the busiest resource, from the routes alone; asserts that each route serves its shard by the rules."""
    topology, demand = plan.topology, plan.demand
    members = {topology.gpus[rank] for rank in demand.ranks}
    shares: dict[int, float] = {}
    load = dict.fromkeys(topology.link_index, 0.0)
    for route in plan.routes:
        item = demand.commodities[route.commodity]
        assert route.share > 0
        shares[route.commodity] = shares.get(route.commodity, 0.0) + route.share
        assert item.root in (-1, route.root)
        start = topology.gpus[route.root]
        inward = [(hop.src, hop.dst) for hop in route.reduce_hops]
        outward = [(hop.src, hop.dst) for hop in route.copy_hops]
        if item.dest is not None:
            assert not inward
            assert [start, *(dst for _, dst in outward)] == [*(src for src, _ in outward), topology.gpus[item.dest]]
            assert all(topology.nodes[src].relay for src, _ in outward[1:])
        else:
            assert bool(inward) == (demand.pattern in ("reduction", "allreduce"))
            assert bool(outward) == (demand.pattern in ("multicast", "allreduce"))
            turned = [(dst, src) for src, dst in reversed(inward)]
            for hops in (turned, outward):
                _assert_tree(topology, hops, start, members)
        for hop in (*route.reduce_hops, *route.copy_hops):
            at = hop.src
            for k in hop.links:
                assert topology.ends[k][0] == at
                assert at == hop.src or topology.nodes[at].kind != "gpu"
                at = topology.ends[k][1]
                load[topology.links[k].id] += route.share * item.size
            assert at == hop.dst
    assert sorted(shares) == list(range(len(demand.commodities)))
    assert all(abs(share - 1) <= 1e-9 for share in shares.values())
    spans = [load[link.id] / link.capacity for link in topology.links]
    spans += [sum(uses * load[name] for name, uses in pool.uses) / pool.bandwidth for pool in topology.resources]
    return max(spans, default=0.0)


def _assert_tree(topology: Topology, hops: Sequence[tuple[int, int]], root: int, members: set[int]) -> None:
    """Away from the root, in order: members pass on what they have, others what the hop before brought them."""
    if not hops:
        return
    has = {root}
    for k, (src, dst) in enumerate(hops):
        assert src == root or topology.nodes[src].relay
        assert src in has if src in members else k > 0 and hops[k - 1][1] == src
        if dst in members:
            assert dst not in has
            has.add(dst)
        else:
            assert k + 1 < len(hops)
            assert hops[k + 1][0] == dst
    assert has == members
