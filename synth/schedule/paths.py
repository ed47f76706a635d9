"""Cheapest paths of links between GPUs at a message size, parallel ones told apart."""

from __future__ import annotations

from functools import cache
from itertools import islice, pairwise, product

import networkx as nx

from synth.topology.model import Topology
from synth.topology.paths import path_kind

Path = tuple[int, ...]
# Equally cheap paths of a pair that are told apart.
MOST_PARALLEL = 32
_SCALE_UP = ("nvlink", "xgmi", "c2c")
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
    in_hardware
        Instead, only paths over scale-up links between GPUs, through GPUs that pass traffic on in hardware.
    """

    def __init__(
        self, topology: Topology, message_bytes: float, relays: bool = False, in_hardware: bool = False
    ) -> None:
        self.topology = topology
        self.cost = [link.latency + message_bytes / link.capacity for link in topology.links]
        self.graph: nx.DiGraph[tuple[str, int]] = nx.DiGraph()
        parallel: dict[tuple[int, int], list[int]] = {}
        gpus = set(topology.gpus)
        for k, ends in enumerate(topology.ends):
            if in_hardware and not (gpus.issuperset(ends) and topology.links[k].kind in _SCALE_UP):
                continue
            parallel.setdefault(ends, []).append(k)
        self.strands: dict[tuple[int, int], list[int]] = {}
        for (tail, head), links in parallel.items():
            least = min(self.cost[k] for k in links)
            self.strands[tail, head] = [k for k in links if self.cost[k] <= least * (1 + _TIE)]
            self.graph.add_edge(("out", tail), ("in", head), weight=least)
        for k, node in enumerate(topology.nodes):
            if node.kind != "gpu" or (relays and node.relay) or (in_hardware and node.passes):
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


class PeerPaths:
    """Paths that a message of one thread block takes to its peer: no program on the way forwards it.

    Two GPUs with a scale-up link or switch between them use it. Others take the cheapest of what is left: PCIe, host
    memory, NICs, or scale-up links through GPUs that pass traffic on in hardware (``Node.passes``).
    """

    def __init__(self, topology: Topology, message_bytes: float) -> None:
        self.topology = topology
        self._plain = GpuPaths(topology, message_bytes)
        passing = any(node.passes for node in topology.nodes)
        self._hops = GpuPaths(topology, message_bytes, in_hardware=True) if passing else None

    def between(self, src: int, dst: int) -> tuple[Path, ...]:
        """All cheapest paths from one GPU node to another, as :class:`GpuPaths`; empty when there is none."""
        plain = self._plain.between(src, dst)
        if self._hops is None or (plain and path_kind(self.topology, plain[0]) in ("direct", "switch")):
            return plain
        ways = [found for found in (plain, self._hops.between(src, dst)) if found]
        return min(ways, key=lambda found: sum(self._plain.cost[link] for link in found[0]), default=())

    @property
    def why_none(self) -> str:
        """Why there may be no path between two GPUs, in words."""
        if self._hops is not None:
            return "no path without a GPU on it, nor one through GPUs that pass traffic on in hardware"
        hint = 'mark the GPUs with "passes": true in the topology file if they pass traffic on in hardware'
        return f"no path without a GPU on it ({hint})"
