"""Where nodes of a topology stand in a figure: deterministic, neighbours about one unit apart."""

from __future__ import annotations

import math
import re

import networkx as nx
import numpy as np

from synth.export.plots.springs import circle, direct_layout, in_order, numbered
from synth.ground.arrays import Floats
from synth.topology.model import Topology

#: Distance of a host's rows (its switches, GPUs, NICs).
ROW = 1.9
_NAMED = re.compile(r"(ring|line|mesh2d|torus2d|torus3d|hypercube):([0-9]+(?:x[0-9]+)*)(?:,.*)?")


def layout(topology: Topology) -> Floats:
    """Position of each node (nodes x 2).

    Built-in shapes look like their name. GPUs on several hosts stand in one block per host, with what joins the hosts
    between the blocks. A single host is a circle around its switches, rows (switches, GPUs, NICs and CPUs), or a
    Kamada-Kawai layout that starts from a circle.
    """
    places = _shape(topology)
    if places is None:
        hosts = gpu_hosts(topology)
        nodes = list(range(len(topology.nodes)))
        single = len(hosts) < 2 or len(hosts) == len(nodes)
        places = _host(topology, nodes) if single else _cluster(topology, hosts)
    return np.round(places - places.mean(axis=0), 4) + 0.0


def gpu_hosts(topology: Topology) -> list[str]:
    """Hosts that have a GPU, in order."""
    return list(dict.fromkeys(topology.nodes[k].host for k in topology.gpus))


def _shape(topology: Topology) -> Floats | None:
    """Places of a built-in shape; None for anything else, and when the nodes are not those of the name."""
    match = _NAMED.fullmatch(topology.name)
    count = len(topology.nodes)
    if match is None or len(topology.gpus) != count:
        return None
    kind, sizes = match[1], [int(size) for size in match[2].split("x")]
    if count != (2 ** min(sizes[0], 32) if kind == "hypercube" else math.prod(sizes)):
        return None
    if kind == "ring":
        return circle(count, 1.3)
    if kind == "line":
        return _snake(count)
    return _hypercube(sizes[0]) if kind == "hypercube" else _grid(sizes)


def _snake(count: int) -> Floats:
    """A row that turns at its end, so that neighbours stay neighbours."""
    width = count if count <= 12 else math.ceil(math.sqrt(2 * count))
    rows, cols = np.divmod(np.arange(count), width)
    return 1.3 * np.column_stack((np.where(rows % 2, width - 1 - cols, cols), -rows))


def _grid(sizes: list[int]) -> Floats:
    """Rows and columns; a third dimension goes into the depth (first coordinate, oblique)."""
    if len(sizes) == 2:
        rows, cols = np.divmod(np.arange(math.prod(sizes)), sizes[1])
        return 1.5 * np.column_stack((cols, -rows)).astype(float)
    depth, rows, cols = np.unravel_index(np.arange(math.prod(sizes)), sizes)
    step = np.array((1.0, 0.7))
    room = max(1.6, 1.0 * sizes[0])
    return np.asarray(np.column_stack((room * cols, -room * rows)) + depth[:, None] * step)


def _hypercube(dim: int) -> Floats:
    """Each bit is a direction; no two bits share one, so no link hides behind another."""
    if dim > 6:
        return circle(2**dim)
    axes = np.array([(1.6, 0.0), (0.0, 1.6), (0.8, 0.65), (3.4, 0.0), (0.0, 3.2), (0.5, 1.15)])
    if dim == 4:  # Petrie polygon: two rings of eight
        angle = math.pi * np.arange(4) / 4
        axes = 2.3 * np.column_stack((np.cos(angle), np.sin(angle)))
    elif dim > 4:
        axes = np.array([(1.7, 0.1), (-0.1, 1.7), (0.85, 0.65), (4.2, 0.5), (-0.5, 4.2), (10.0, 1.0)])
    bits = np.arange(2**dim)[:, None] >> np.arange(dim) & 1
    return np.asarray(bits @ axes[:dim] * (1, -1), dtype=float)


def _graph(topology: Topology, nodes: list[int]) -> nx.Graph[int]:
    """Who is joined to whom among some nodes."""
    graph: nx.Graph[int] = nx.Graph()
    graph.add_nodes_from(nodes)
    inside = set(nodes)
    graph.add_edges_from((a, b) for a, b in topology.ends if a in inside and b in inside)
    return graph


def _host(topology: Topology, nodes: list[int]) -> Floats:
    """Places of one host's nodes, in the order of ``nodes``."""
    graph = _graph(topology, nodes)
    gpus = [k for k in nodes if topology.nodes[k].kind == "gpu"]
    hubs = [k for k in nodes if topology.nodes[k].kind != "gpu"]
    if not hubs:
        return direct_layout(graph, nodes)
    star = all(set(graph[hub]) == set(gpus) for hub in hubs) and not graph.subgraph(gpus).number_of_edges()
    if star and len(gpus) > 2:
        ring = circle(len(gpus), max(1.2, 1.2 * len(hubs) / len(gpus) * 2))
        return in_order(nodes, {**numbered(gpus, ring), **numbered(hubs, circle(len(hubs), 1.2))})
    return in_order(nodes, _block(topology, nodes))


def _block(topology: Topology, nodes: list[int]) -> dict[int, Floats]:
    """A host in rows from top to bottom: switches of the GPU fabric, GPUs, PCIe switches, then NICs, CPUs, memory."""
    graph = _graph(topology, nodes)
    gpus = [k for k in nodes if topology.nodes[k].kind == "gpu"]
    # GPUs joined in pairs or islands stay in a row, where their PCIe links do not cross.
    direct = len(gpus) > 1 and nx.is_connected(graph.subgraph(gpus))
    row = np.column_stack((1.1 * np.arange(len(gpus)), np.zeros(len(gpus))))
    body = direct_layout(graph.subgraph(gpus), gpus) if direct else row
    places = numbered(gpus, body)
    low, high = (body[:, 1].min(), body[:, 1].max()) if gpus else (0.0, 0.0)
    left, right = (body[:, 0].min() - 0.55, body[:, 0].max() + 0.55) if gpus else (0.0, 1.0)
    above = [k for k in nodes if topology.nodes[k].kind == "switch" and _fast(topology, k)]
    middle = [k for k in nodes if topology.nodes[k].kind == "switch" and k not in above]
    below = [k for k in nodes if topology.nodes[k].kind not in ("gpu", "switch")]
    places |= spread(graph, above, places, (left, right), high + ROW)
    for group in (middle, below):
        if group:
            low -= ROW
            places |= spread(graph, group, places, (left, right), low)
    return places


def _fast(topology: Topology, node: int) -> bool:
    """Whether a switch joins GPUs by their own links rather than by PCIe."""
    kinds = {link.kind for link, ends in zip(topology.links, topology.ends, strict=True) if node in ends}
    return bool(kinds & {"nvlink", "xgmi", "c2c"}) or kinds == {"net"}


def spread(
    graph: nx.Graph[int],
    group: list[int],
    placed: dict[int, Floats],
    span: tuple[float, float],
    y: float,
    grain: float = 1e-3,
) -> dict[int, Floats]:
    """Put a group into a row between two abscissas, ordered by where its neighbours stand, up to ``grain``."""
    centre = sum(span) / 2

    def pull(node: int) -> float:
        near = [placed[k][0] for k in graph[node] if k in placed]
        # Memory hangs on a CPU of its own row: it is pulled to where that CPU is pulled to.
        near = near or [placed[k][0] for other in graph[node] if other in group for k in graph[other] if k in placed]
        return float(np.mean(near)) if near else centre

    ranked = sorted(group, key=lambda node: (round((pull(node) - centre) / grain), group.index(node)))
    width = max(span[1] - span[0], 1.1 * len(group))
    left = centre - width / 2
    return {node: np.array((left + width * (i + 0.5) / len(ranked), y)) for i, node in enumerate(ranked)}


def _cluster(topology: Topology, hosts: list[str]) -> Floats:
    """Blocks of hosts above and below (mirrored) what joins them; above only when that has several levels."""
    members: dict[str, list[int]] = {host: [] for host in hosts}
    shared: list[int] = []
    for k, node in enumerate(topology.nodes):
        members.get(node.host, shared).append(k)
    levels = _levels(topology, shared)
    per_row = _per_row(_block(topology, members[hosts[0]]), len(hosts), len(levels))
    places: dict[int, Floats] = {}
    top = 0.0
    for begin in range(0, len(hosts), per_row):
        mirrored = begin > 0 and len(hosts) <= 16 and len(levels) <= 1
        strip = _strip(topology, [members[host] for host in hosts[begin : begin + per_row]], mirrored)
        height = max(place[1] for place in strip.values()) - min(place[1] for place in strip.values())
        shift = np.array((0.0, top - max(place[1] for place in strip.values())))
        places |= {k: place + shift for k, place in strip.items()}
        top -= height + (_gap(strip) if len(levels) == 1 else ROW)
    graph = _graph(topology, list(range(len(topology.nodes))))
    xs = [place[0] for place in places.values()]
    between = len(hosts) <= 16 and len(levels) == 1 and per_row < len(hosts)
    y = _middle(places, members, hosts, per_row) if between else min(p[1] for p in places.values()) - ROW
    grain = max(1.0, (max(xs) - min(xs)) / per_row)  # rails keep their order
    for level in levels:
        places |= spread(graph, level, places, (min(xs), max(xs)), y, grain)
        y -= 1.5 * ROW
    return in_order(list(range(len(topology.nodes))), places)


def _per_row(block: dict[int, Floats], hosts: int, levels: int) -> int:
    """Blocks side by side: all, or half of them, whichever comes closer to the shape of a page; of many, a square."""
    if hosts > 16:
        return math.ceil(math.sqrt(hosts))
    if levels > 1 and hosts <= 4:
        return hosts
    extent = np.ptp(np.array(list(block.values())), axis=0)
    width, height = float(extent[0]) + 2.5, float(extent[1]) + 1.0

    def misfit(per_row: int) -> float:
        rows = math.ceil(hosts / per_row)
        return abs(math.log(per_row * width / (rows * height + 2 * ROW) / 1.2))

    return min(math.ceil(hosts / 2), hosts, key=misfit)


def _gap(strip: dict[int, Floats]) -> float:
    """Room for the fabric: wide rows need a deep one, or links to its centre would lie flat."""
    xs = [place[0] for place in strip.values()]
    return float(max(2 * ROW, 0.3 * (max(xs) - min(xs))))


def _middle(places: dict[int, Floats], members: dict[str, list[int]], hosts: list[str], per_row: int) -> float:
    """Height between the upper and the lower blocks."""
    upper = min(places[k][1] for host in hosts[:per_row] for k in members[host])
    lower = max(places[k][1] for host in hosts[per_row:] for k in members[host])
    return float(upper + lower) / 2


def _strip(topology: Topology, blocks: list[list[int]], mirrored: bool) -> dict[int, Floats]:
    """Blocks side by side, 1.5 units apart."""
    out: dict[int, Floats] = {}
    left = 0.0
    for nodes in blocks:
        block = _block(topology, nodes)
        xs = [place[0] for place in block.values()]
        flip = np.array((1.0, -1.0 if mirrored else 1.0))
        out |= {k: place * flip + np.array((left - min(xs), 0.0)) for k, place in block.items()}
        left += max(xs) - min(xs) + 2.5
    return out


def _levels(topology: Topology, shared: list[int]) -> list[list[int]]:
    """Nodes outside the GPUs' hosts by their distance from these."""
    graph = _graph(topology, list(range(len(topology.nodes))))
    inside = set(range(len(topology.nodes))) - set(shared)
    lengths = nx.multi_source_dijkstra_path_length(graph, inside) if inside else {}
    away = {node: int(length) for node, length in lengths.items()}
    far = sorted({away.get(k, 0) for k in shared})
    return [[k for k in shared if away.get(k, 0) == level] for level in far]
