"""Cheapest paths of links between GPUs at a message size, parallel ones told apart."""

from __future__ import annotations

from functools import cache
from itertools import islice, pairwise, product

import networkx as nx

from synth.topology.model import Topology

Path = tuple[int, ...]
# Equally cheap paths of a pair that are told apart.
MOST_PARALLEL = 32
# Costs this close (relative) are equal: sums of the same links in another order.
_TIE = 1e-9


class GpuPaths:
    """Cheapest paths between GPUs of one topology; a link costs its latency + bytes / capacity.

    Parameters
    ----------
    topology
        The machine.
    message_bytes
        Size at which links are compared.
    relays
        Whether paths may pass through GPUs that relay; else through switches, NICs, CPUs and memories only.
    """

    def __init__(self, topology: Topology, message_bytes: float, relays: bool) -> None:
        self.topology = topology
        self.cost = [link.latency + message_bytes / link.capacity for link in topology.links]
        self.graph: nx.DiGraph[tuple[str, int]] = nx.DiGraph()
        parallel: dict[tuple[int, int], list[int]] = {}
        for k, ends in enumerate(topology.ends):
            parallel.setdefault(ends, []).append(k)
        self.strands: dict[tuple[int, int], list[int]] = {}
        for (tail, head), links in parallel.items():
            least = min(self.cost[k] for k in links)
            self.strands[tail, head] = [k for k in links if self.cost[k] <= least * (1 + _TIE)]
            self.graph.add_edge(("out", tail), ("in", head), weight=least)
        for k, node in enumerate(topology.nodes):
            if node.kind != "gpu" or (relays and node.relay):
                self.graph.add_edge(("in", k), ("out", k), weight=0.0)
        self.between = cache(self._between)

    def _between(self, src: int, dst: int) -> tuple[Path, ...]:
        """All cheapest paths (at most ``MOST_PARALLEL``) from one GPU node to another; empty when there is none."""
        start, goal = ("out", src), ("in", dst)
        if start not in self.graph or goal not in self.graph:
            return ()
        try:
            ways = list(islice(nx.all_shortest_paths(self.graph, start, goal, weight="weight"), MOST_PARALLEL))
        except nx.NetworkXNoPath:
            return ()
        out: list[Path] = []
        for way in ways:
            hops = [(a[1], b[1]) for a, b in pairwise(way) if a[0] == "out"]
            out += islice(product(*(self.strands[hop] for hop in hops)), MOST_PARALLEL)
        return tuple(sorted(out)[:MOST_PARALLEL])
