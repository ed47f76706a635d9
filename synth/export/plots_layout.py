"""Where nodes of a topology stand in a figure: deterministic, neighbours about one unit apart."""

from __future__ import annotations

import math
import re

import networkx as nx
import numpy as np
import numpy.typing as npt

from synth.formulation.network import Floats
from synth.topology.model import Topology

#: Spring layouts of more nodes take too long and show nothing.
MOST_SPRING_NODES = 100
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
        places = _cluster(topology, hosts) if len(hosts) > 1 else _host(topology, nodes)
    return np.round(places - places.mean(axis=0), 4) + 0.0


def gpu_hosts(topology: Topology) -> list[str]:
    """Hosts that have a GPU, in order."""
    return list(dict.fromkeys(topology.nodes[k].host for k in topology.gpus))


def circle(count: int, spacing: float = 1.0) -> Floats:
    """Points on a circle, the first on top, clockwise, neighbours ``spacing`` apart."""
    if count == 1:
        return np.zeros((1, 2))
    radius = spacing / (2 * math.sin(math.pi / count))
    angle = math.pi / 2 - 2 * math.pi * np.arange(count) / count
    return radius * np.column_stack((np.cos(angle), np.sin(angle)))


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
    return np.column_stack((room * cols, -room * rows)) + depth[:, None] * step


def _hypercube(dim: int) -> Floats:
    """Each bit is a direction; no two bits share one, so no link hides behind another."""
    if dim > 6:
        return circle(2**dim)
    axes = np.array([(1.6, 0.0), (0.0, 1.6), (0.8, 0.65), (3.4, 0.0), (0.0, 3.2), (0.5, 1.15)])
    if dim == 4:  # Petrie polygon: two rings of eight
        angle = math.pi * np.arange(4) / 4
        axes = 1.3 * np.column_stack((np.cos(angle), np.sin(angle)))
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
        return _direct(graph, nodes)
    star = all(set(graph[hub]) == set(gpus) for hub in hubs) and not graph.subgraph(gpus).number_of_edges()
    if star and len(gpus) > 2:
        ring = circle(len(gpus), max(1.2, 1.2 * len(hubs) / len(gpus) * 2))
        return _in_order(nodes, {**_numbered(gpus, ring), **_numbered(hubs, circle(len(hubs), 1.2))})
    return _in_order(nodes, _block(topology, nodes))


def _numbered(nodes: list[int], places: Floats) -> dict[int, Floats]:
    return dict(zip(nodes, places, strict=True))


def _in_order(nodes: list[int], places: dict[int, Floats]) -> Floats:
    return np.array([places[k] for k in nodes])


def _direct(graph: nx.Graph[int], nodes: list[int]) -> Floats:
    """GPUs that are joined directly: a circle when all are, else so that distance follows the number of hops."""
    count = len(nodes)
    ring = circle(count, 1.5)
    complete = graph.number_of_edges() == count * (count - 1) // 2
    if count < 3 or complete or count > MOST_SPRING_NODES or not nx.is_connected(graph):
        return ring
    place = {node: k for k, node in enumerate(nodes)}
    edges = np.array(sorted((place[a], place[b]) for a, b in graph.edges))
    # Springs stop in the nearest valley: of a few fixed starts the one with the fewest crossings is the clearest.
    strides = [s for s in range(1, 10, 2) if math.gcd(s, count) == 1] if count <= 32 else [1]
    starts = [ring[(np.arange(count) * stride) % count] for stride in strides]
    tries = [_springs(graph, nodes, start) for start in starts]
    roomy = [found for found in tries if _closest(found) > 0.2 * float(np.median(np.linalg.norm(found, axis=1)))]
    if not roomy:
        return ring
    best = min(roomy, key=lambda found: _crossings(found, edges))
    return _upright(1.3 * best / _closest(best), edges)


def _springs(graph: nx.Graph[int], nodes: list[int], start: Floats) -> Floats:
    return _in_order(nodes, nx.kamada_kawai_layout(graph, pos=_numbered(nodes, start)))


def _closest(places: Floats) -> float:
    """Distance of the closest two nodes."""
    apart = np.linalg.norm(places[:, None] - places[None], axis=2)
    return float(apart[~np.eye(len(places), dtype=bool)].min())


def _crossings(places: Floats, edges: npt.NDArray[np.int64]) -> int:
    """Number of pairs of straight edges that cross, ends not counted."""

    def side(a: Floats, b: Floats, c: Floats) -> Floats:
        u, v = b - a, c - a
        return np.asarray(np.round(u[..., 0] * v[..., 1] - u[..., 1] * v[..., 0], 6))

    p, q = places[edges[:, 0]], places[edges[:, 1]]
    apart = side(p[:, None], q[:, None], p[None]) * side(p[:, None], q[:, None], q[None]) < 0
    return int((apart & apart.T).sum()) // 2


def _upright(places: Floats, edges: npt.NDArray[np.int64]) -> Floats:
    """Turn so that edges lie along the axes as far as they can, wider than high, the first node top left."""
    along = (places[edges[:, 1]] - places[edges[:, 0]]) @ np.array((1, 1j))
    turn = np.exp(-1j * np.angle((along**4 / np.abs(along) ** 3).sum()) / 4)
    points = (places - places.mean(axis=0)) @ np.array((1, 1j)) * turn
    if np.ptp(points.imag) > np.ptp(points.real) + 1e-6:
        points = points * 1j
    x, y = points.real, points.imag
    return np.column_stack((-x if x[0] > 1e-6 else x, -y if y[0] < -1e-6 else y))


def _block(topology: Topology, nodes: list[int]) -> dict[int, Floats]:
    """A host in rows from top to bottom: switches of the GPU fabric, GPUs, PCIe switches, then NICs, CPUs, memory."""
    graph = _graph(topology, nodes)
    gpus = [k for k in nodes if topology.nodes[k].kind == "gpu"]
    direct = bool(gpus) and graph.subgraph(gpus).number_of_edges() > 0
    row = np.column_stack((1.1 * np.arange(len(gpus)), np.zeros(len(gpus))))
    body = _direct(graph.subgraph(gpus), gpus) if direct else row
    places = _numbered(gpus, body)
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
    per_row = len(hosts) if len(levels) > 1 and len(hosts) <= 4 else math.ceil(len(hosts) / 2)
    if len(hosts) > 16:
        per_row = math.ceil(math.sqrt(len(hosts)))
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
    return _in_order(list(range(len(topology.nodes))), places)


def _gap(strip: dict[int, Floats]) -> float:
    """Room for the fabric: wide rows need a deep one, or links to its centre would lie flat."""
    xs = [place[0] for place in strip.values()]
    return max(2 * ROW, 0.3 * (max(xs) - min(xs)))


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
    away: dict[int, int] = nx.multi_source_dijkstra_path_length(graph, inside) if inside else {}
    far = sorted({away.get(k, 0) for k in shared})
    return [[k for k in shared if away.get(k, 0) == level] for level in far]
