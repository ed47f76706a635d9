"""Lower bounds with latency: hop distance, and what the slowest cut must carry in the time that latency leaves it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import networkx as nx
import numpy as np

from synth.demand.model import Demand
from synth.ground.arrays import Floats
from synth.schedule.simulate.time_model import TimeModel
from synth.solver.flow.plan import Plan
from synth.topology.model import Topology

Reach = Mapping[int, Mapping[tuple[int, str], float]]


@dataclass(frozen=True, slots=True)
class LatencyBound:
    """Lower bounds in seconds; each holds for every schedule and program in the time model.

    Attributes
    ----------
    distance
        No data is there before the latency of its shortest path.
    gpu_cut
        What must enter or leave one GPU, in the time that is left when the farthest of it has come, or has yet to go.
    priced_cut
        The certified bandwidth bound plus the latency around the links that carry its prices; 0 without prices.
    """

    distance: float
    gpu_cut: float
    priced_cut: float = 0.0

    @property
    def seconds(self) -> float:
        """The largest."""
        return max(self.distance, self.gpu_cut, self.priced_cut)

    @property
    def reason(self) -> str:
        """Name of the largest."""
        named = {"distance": self.distance, "gpu_cut": self.gpu_cut, "priced_cut": self.priced_cut}
        return max(named, key=lambda name: named[name])


def plan_bound(plan: Plan, size_bytes: float | None = None, model: TimeModel | None = None) -> LatencyBound:
    """Lower bound of a plan's collective at a size, with the prices that certify its bandwidth bound.

    Parameters
    ----------
    plan
        Its prices prove the same cut at every size.
    size_bytes
        nccl-tests size; default: the plan's.
    model
        ``start``, ``hop_latency`` and ``overhead`` count; the rest is left to the simulation.
    """
    prices = dict(zip(plan.network.row_ids, plan.prices, strict=True))
    factor = 1.0 if size_bytes is None else size_bytes / (plan.demand.size_bytes or 1.0)
    return latency_bound(plan.topology, plan.demand, model, factor, prices, plan.bound)


def latency_bound(
    topology: Topology,
    demand: Demand,
    model: TimeModel | None = None,
    factor: float = 1.0,
    prices: Mapping[str, float] | None = None,
    certified: float = 0.0,
) -> LatencyBound:
    """Lower bound of a demand in the time model.

    Parameters
    ----------
    topology, demand
        Instance.
    model
        See :func:`plan_bound`.
    factor
        The demand's bytes are taken this many times.
    prices, certified
        Prices per link and resource id, and the bound in seconds that they prove at factor 1
        (:func:`synth.solver.flow.certificate.certified_bound`).

    Notes
    -----
    A link can carry what is of use only from when data can have come to its tail until so long before the end that
    data can still get from its head to who needs it. With prices y and these windows in place of T, the certificate's
    inequality becomes sum y c max(0, T - lost) >= bound x sum y c; the least T that fulfils it is the priced cut.
    """
    model = TimeModel() if model is None else model
    if demand.empty:
        return LatencyBound(0.0, 0.0)
    reach = _reach(topology, demand, model)
    ends = [(item.size * factor, *_ends(demand, item.root, item.dest)) for item in demand.commodities]
    gpus = topology.gpus
    distance = max(reach[gpus[s]].get((gpus[d], "in"), math.inf) for s, d in demand.pairs)
    priced = 0.0
    if prices is not None:
        priced = model.start + _priced_cut(certified * factor, *_lost(topology, demand, model, prices))
    cuts = model.start + _gpu_cuts(topology, ends, reach)
    return LatencyBound(model.start + distance, cuts, priced)


def _ends(demand: Demand, root: int, dest: int | None) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Ranks that have a part of a shard at first, and ranks that need all of it at last."""
    if dest is not None:
        return (root,), (dest,)
    if demand.pattern == "multicast":
        return (root,), demand.ranks
    return demand.ranks, (root,) if demand.pattern == "reduction" else demand.ranks


def _ways(topology: Topology, model: TimeModel, link: int) -> list[tuple[tuple[int, str], tuple[int, str], float]]:
    """A link as (half node, half node, latency): once, or more often where GPUs pass traffic on in hardware.

    A hop pays its overhead where it leaves a GPU and the extra latency where it enters one; a GPU that passes traffic
    on in hardware is only left and entered in this sense where a program runs, not in between ("pass").
    """
    tail, head = topology.ends[link]
    latency = topology.links[link].latency
    leaves, enters = topology.nodes[tail], topology.nodes[head]
    starts = [("out", model.overhead if leaves.kind == "gpu" else 0.0), *([("pass", 0.0)] if leaves.passes else [])]
    ends = [("in", model.hop_latency if enters.kind == "gpu" else 0.0), *([("pass", 0.0)] if enters.passes else [])]
    return [((tail, a), (head, b), latency + more + extra) for a, more in starts for b, extra in ends]


def _graph(topology: Topology, model: TimeModel) -> nx.DiGraph[tuple[int, str]]:
    """Nodes cut in two (in, out), joined where they forward; links weigh their latency."""
    graph: nx.DiGraph[tuple[int, str]] = nx.DiGraph()
    for k, node in enumerate(topology.nodes):
        graph.add_node((k, "in"))
        graph.add_node((k, "out"))
        if node.kind != "gpu" or node.relay:
            graph.add_edge((k, "in"), (k, "out"), weight=0.0)
    for k in range(len(topology.links)):
        for tail, head, weight in _ways(topology, model, k):
            known = graph.get_edge_data(tail, head)
            if known is None or weight < known["weight"]:
                graph.add_edge(tail, head, weight=weight)
    return graph


def _reach(topology: Topology, demand: Demand, model: TimeModel) -> Reach:
    """Least latency from each member GPU to every half node."""
    graph = _graph(topology, model)
    return {
        topology.gpus[rank]: nx.single_source_dijkstra_path_length(graph, (topology.gpus[rank], "out"))
        for rank in demand.ranks
    }


def _gpu_cuts(topology: Topology, ends: list[tuple[float, tuple[int, ...], tuple[int, ...]]], reach: Reach) -> float:
    into: dict[int, list[tuple[float, float]]] = {}
    out_of: dict[int, list[tuple[float, float]]] = {}
    gpus = topology.gpus
    for size, sources, dests in ends:
        for cuts, heres, theres, inward in ((into, dests, sources, True), (out_of, sources, dests, False)):
            for here in heres:
                far = [
                    reach[gpus[there if inward else here]].get((gpus[here if inward else there], "in"), math.inf)
                    for there in theres
                    if there != here
                ]
                if far:
                    cuts.setdefault(gpus[here], []).append((max(far), size))
    capacity_in: dict[int, float] = {}
    capacity_out: dict[int, float] = {}
    for (tail, head), link in zip(topology.ends, topology.links, strict=True):
        capacity_out[tail] = capacity_out.get(tail, 0.0) + link.capacity
        capacity_in[head] = capacity_in.get(head, 0.0) + link.capacity
    return max(
        (
            _staircase(items, capacity.get(gpu, 0.0))
            for cuts, capacity in ((into, capacity_in), (out_of, capacity_out))
            for gpu, items in cuts.items()
        ),
        default=0.0,
    )


def _staircase(items: list[tuple[float, float]], capacity: float) -> float:
    """Largest of latency + bytes of at least that latency / capacity."""
    if not capacity:
        return math.inf
    best, size = 0.0, 0.0
    for latency, part in sorted(items, reverse=True):
        size += part
        best = max(best, latency + size / capacity)
    return best


def _priced_cut(bound: float, lost: Floats, weight: Floats) -> float:
    """Least T with sum(weight x max(0, T - lost)) >= bound; the weights add up to 1."""
    order = np.argsort(lost, kind="stable")
    lost, weight = lost[order], weight[order]
    use = (lost < math.inf) & (weight > 0)
    lost, weight = lost[use], weight[use]
    if not len(lost):
        return math.inf
    total, cost = np.cumsum(weight), np.cumsum(weight * lost)
    # With the first k windows open the sum is total T - cost; it is right up to where the next one opens.
    for k, opens in enumerate([*lost[1:].tolist(), math.inf]):
        time = float((bound + cost[k]) / total[k])
        if time <= opens:
            return time
    return math.inf


def _lost(topology: Topology, demand: Demand, model: TimeModel, prices: Mapping[str, float]) -> tuple[Floats, Floats]:
    """Per price: time in which the link or resource cannot carry anything of use, and capacity x price (sum 1)."""
    sources = {topology.gpus[r] for item in demand.commodities for r in _ends(demand, item.root, item.dest)[0]}
    dests = {topology.gpus[r] for item in demand.commodities for r in _ends(demand, item.root, item.dest)[1]}
    graph = _graph(topology, model)
    ahead = nx.multi_source_dijkstra_path_length(graph, {(k, "out") for k in sources})
    behind = nx.multi_source_dijkstra_path_length(graph.reverse(copy=False), {(k, "in") for k in dests})
    lost = [
        min(
            ahead.get(tail, math.inf) + weight + behind.get(head, math.inf)
            for tail, head, weight in _ways(topology, model, k)
        )
        for k in range(len(topology.links))
    ]
    by_id = {link.id: lost[k] for k, link in enumerate(topology.links)}
    capacity = {link.id: link.capacity for link in topology.links}
    for pool in topology.resources:
        by_id[pool.id] = min((by_id[name] for name, _ in pool.uses), default=math.inf)
        capacity[pool.id] = pool.bandwidth
    weight = np.array([capacity[key] * price for key, price in prices.items()])
    return np.array([by_id[key] for key in prices]), weight / weight.sum()
