"""The paths between two GPUs, named by kind: direct, switch, relay, pcie, host, nic."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any

import networkx as nx
import numpy as np

from synth.errors import InfeasibleError, InvalidInputError
from synth.formulation.flow.network import Network
from synth.ground.arrays import Floats
from synth.topology.elements import Link
from synth.topology.model import Topology

#: Kinds of paths, the scale-up network's first. The order breaks ties everywhere.
PATH_KINDS = ("direct", "switch", "relay", "pcie", "host", "nic")
#: Kinds that stay inside the scale-up network (NVLink, xGMI, C2C and their switches).
SCALE_UP = ("direct", "switch", "relay")
#: Links of the longest path that is looked for: two PCIe vertices, NIC, leaf and half a spine on each side, and some.
LONGEST = 12
#: Source, destination and class of a bundle of parallel links.
Hop = tuple[str, str, str]
#: Simple paths that are looked at before a topology counts as too large to enumerate.
MOST = 50_000


@dataclass(frozen=True)
class Path:
    """One way from a GPU to another.

    Attributes
    ----------
    kind
        One of ``PATH_KINDS``.
    links
        Link ids in order.
    uses
        Length rows of :class:`Network`: how often a byte of this path uses each link and pool.
    latency
        Seconds, sum over the links. A byte that leaves at t arrives at t + latency (relays and staging buffers are
        pipelined in slices much smaller than a chunk, so they add no more than their links' latencies).
    bandwidth
        Bytes/second when the path has all its links and pools to itself.
    """

    kind: str
    links: tuple[str, ...]
    uses: tuple[float, ...]
    latency: float
    bandwidth: float

    @property
    def scale_up(self) -> bool:
        """Whether the path stays inside the scale-up network."""
        return self.kind in SCALE_UP


@dataclass(frozen=True)
class PathSet:
    """The paths of one transfer: ``src`` and ``dst`` are ranks."""

    topology: Topology
    src: int
    dst: int
    paths: tuple[Path, ...]

    @cached_property
    def network(self) -> Network:
        """Index view of the topology; its rows are the links, then the pools."""
        return Network(self.topology)

    @cached_property
    def uses(self) -> Floats:
        """Rows x paths matrix of use counts."""
        return np.array([path.uses for path in self.paths], dtype=float).T

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """Kind of each path, numbered where several are of one kind."""
        kinds = [path.kind for path in self.paths]
        counts = {kind: kinds.count(kind) for kind in kinds}
        return tuple(
            kind if counts[kind] == 1 else f"{kind} {1 + kinds[:k].count(kind)}" for k, kind in enumerate(kinds)
        )

    def only(self, kinds: Sequence[str]) -> PathSet:
        """The same transfer with some kinds of paths."""
        return PathSet(self.topology, self.src, self.dst, tuple(p for p in self.paths if p.kind in kinds))


def link_classes(topology: Topology) -> dict[str, str]:
    """Class of each link by id: ``nic``, ``host`` (memory), ``pcie`` (PCIe, CPUs, sockets) or ``scale-up``.

    A NIC at one end decides first, then memory, then a CPU or the kind of the link; a ``net`` link without a NIC
    (shapes such as ``ring:4``) belongs to the scale-up network unless an end of it is a switch that a NIC hangs on.
    """
    kind = {node.id: node.kind for node in topology.nodes}
    fabric = _fabric(topology)
    return {link.id: _link_class(link, {kind[link.src], kind[link.dst]}, fabric) for link in topology.links}


def _link_class(link: Link, ends: set[str], fabric: set[str]) -> str:
    if "nic" in ends or link.kind == "nic":
        # The PCIe link of a NIC is needed by no other path, so it counts as the NIC's.
        return "nic"
    if "memory" in ends or link.kind == "memory":
        return "host"
    if "cpu" in ends or link.kind in ("pcie", "socket"):
        # Peers meet at a root complex or across sockets without a stop in memory.
        return "pcie"
    return "nic" if link.kind == "net" and {link.src, link.dst} & fabric else "scale-up"


def _fabric(topology: Topology) -> set[str]:
    """Switches that are joined to a NIC by other than PCIe, or to such a switch."""
    kind = {node.id: node.kind for node in topology.nodes}
    found: set[str] = set()
    while True:
        more = {
            b
            for link in topology.links
            if link.kind in ("nic", "net")
            for a, b in ((link.src, link.dst), (link.dst, link.src))
            if kind[b] == "switch" and (kind[a] == "nic" or a in found)
        }
        if more <= found:
            return found
        found |= more


def path_kind(topology: Topology, classes: Mapping[str, str], links: Sequence[Link]) -> str:
    """Kind of a path by the classes of its links: nic, else host, else pcie, else by what is in between."""
    touched = {classes[link.id] for link in links}
    for kind in ("nic", "host", "pcie"):
        if kind in touched:
            return kind
    inner = {topology.nodes[topology.node_index[link.dst]].kind for link in links[:-1]}
    if "gpu" in inner:
        return "relay"
    return "switch" if inner else "direct"


def find_paths(topology: Topology, src: int, dst: int, kinds: Sequence[str] | None = None) -> PathSet:
    """Find the paths of each kind between two ranks: of every kind those with the fewest links.

    Parallel links make parallel paths (the k-th path takes the k-th link of every bundle). A relay path forwards
    through one GPU, inside the scale-up network.

    Parameters
    ----------
    topology
        Machine.
    src, dst
        Ranks.
    kinds
        Which of ``PATH_KINDS`` to use; default: all but ``relay``, whose GPUs have traffic of their own as a rule.

    Returns
    -------
    PathSet
        Paths in the order of ``PATH_KINDS``, then of the topology.

    Raises
    ------
    InvalidInputError
        Ranks or kinds that do not exist; more than 50,000 simple paths.
    InfeasibleError
        When there is no path of the kinds asked for.
    """
    wanted = [kind for kind in PATH_KINDS if kind != "relay"] if kinds is None else list(kinds)
    _check(topology, src, dst, wanted)
    classes = link_classes(topology)
    bundles = _bundles(topology, classes)
    found: dict[str, list[list[Hop]]] = {}
    for route in _simple_paths(topology, bundles, src, dst, "relay" in wanted):
        kind = path_kind(topology, classes, [bundles[hop][0] for hop in route])
        if kind not in wanted:
            continue
        kept = found.setdefault(kind, [])
        if kept and len(route) < len(kept[0]):
            kept.clear()
        if not kept or len(route) == len(kept[0]):
            kept.append(route)
    network = Network(topology)
    order = sorted(found, key=PATH_KINDS.index)
    paths = tuple(
        _path(network, kind, strand) for kind in order for r in found[kind] for strand in _strands(bundles, r)
    )
    if not paths:
        names = f"{topology.gpu_name(src)} to {topology.gpu_name(dst)}"
        raise InfeasibleError(f"{topology.name}: no path of kind {', '.join(wanted)} from {names}")
    return PathSet(topology, src, dst, paths)


def _check(topology: Topology, src: int, dst: int, kinds: Sequence[str]) -> None:
    faults = [f"unknown path kind {k!r}: use {', '.join(PATH_KINDS)}" for k in kinds if k not in PATH_KINDS]
    count = len(topology.gpus)
    faults += [f"rank {r} is not in 0-{count - 1} of {topology.name}" for r in (src, dst) if not 0 <= r < count]
    if src == dst:
        faults.append(f"a transfer needs two ranks, not {src} twice")
    if faults:
        raise InvalidInputError(faults)


def _bundles(topology: Topology, classes: Mapping[str, str]) -> dict[Hop, list[Link]]:
    """Parallel links by their ends and class: an NVLink and a PCIe link between the same nodes are two ways."""
    out: dict[Hop, list[Link]] = {}
    for link in topology.links:
        out.setdefault((link.src, link.dst, classes[link.id]), []).append(link)
    return out


def _simple_paths(
    topology: Topology, bundles: Mapping[Hop, list[Link]], src: int, dst: int, relays: bool
) -> Iterator[list[Hop]]:
    """Simple paths over bundles through no other GPU, then, when asked for, scale-up paths through one that may relay.

    Of other hosts only switches are passed.
    """
    ends = topology.gpu_name(src), topology.gpu_name(dst)
    hosts = {topology.nodes[topology.node_index[end]].host for end in ends}
    hidden = {n.id for n in topology.nodes if n.kind == "gpu" or (n.kind != "switch" and n.host not in hosts)}
    yield from _between(topology.name, [hop for hop in bundles if not set(hop[:2]) & hidden - set(ends)], ends)
    middle = [n.id for n in topology.nodes if n.kind == "gpu" and n.relay and n.id not in ends] if relays else []
    for gpu in middle:
        seen = hidden - {*ends, gpu}
        inside = [hop for hop in bundles if hop[2] == "scale-up" and not set(hop[:2]) & seen]
        yield from (r for r in _between(topology.name, inside, ends) if gpu in (hop[1] for hop in r))


def _between(name: str, hops: Sequence[Hop], ends: tuple[str, str]) -> Iterator[list[Hop]]:
    """All simple paths between two nodes, at most ``MOST`` of them."""
    # A key tells parallel bundles apart; the stubs know edges without keys only.
    graph: Any = nx.MultiDiGraph()
    graph.add_nodes_from(ends)
    graph.add_edges_from(hops)
    found: Iterator[Any] = nx.all_simple_edge_paths(graph, *ends, cutoff=LONGEST)
    for k, route in enumerate(islice(found, MOST + 1)):
        if k == MOST:
            raise InvalidInputError(f"{name}: more than {MOST} paths between two GPUs; cut the topology")
        yield [(a, b, key) for a, b, key in route]


def _strands(bundles: Mapping[Hop, list[Link]], route: list[Hop]) -> list[list[Link]]:
    """As many link paths as the widest bundle has links; together they use every link."""
    wide = [bundles[hop] for hop in route]
    return [[bundle[k % len(bundle)] for bundle in wide] for k in range(max(map(len, wide)))]


def _path(network: Network, kind: str, links: Sequence[Link]) -> Path:
    taken = np.zeros(len(network.topology.links))
    for link in links:
        taken[network.topology.link_index[link.id]] += 1
    uses = network.row_bytes(taken)
    used = uses > 0
    bandwidth = float((network.capacity[used] / uses[used]).min())
    latency = sum(link.latency for link in links)
    return Path(kind, tuple(link.id for link in links), tuple(map(float, uses)), latency, bandwidth)
