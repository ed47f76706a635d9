"""Where GPUs that are joined directly stand: twins, springs or a circle."""

from __future__ import annotations

import math

import networkx as nx
import numpy as np
import numpy.typing as npt

from synth.ground.arrays import Floats

#: Spring layouts of more nodes take too long and show nothing.
MOST_SPRING_NODES = 100


def circle(count: int, spacing: float = 1.0) -> Floats:
    """Points on a circle, the first on top, clockwise, neighbours ``spacing`` apart."""
    if count == 1:
        return np.zeros((1, 2))
    radius = spacing / (2 * math.sin(math.pi / count))
    angle = math.pi / 2 - 2 * math.pi * np.arange(count) / count
    return radius * np.column_stack((np.cos(angle), np.sin(angle)))


def numbered(nodes: list[int], places: Floats) -> dict[int, Floats]:
    """Places by node."""
    return dict(zip(nodes, places, strict=True))


def in_order(nodes: list[int], places: dict[int, Floats]) -> Floats:
    """Places in the order of some nodes."""
    return np.array([places[k] for k in nodes])


def direct_layout(graph: nx.Graph[int], nodes: list[int]) -> Floats:
    """GPUs that are joined directly: a circle when all are, else so that distance follows the number of hops."""
    count = len(nodes)
    ring = circle(count, 1.5)
    complete = graph.number_of_edges() == count * (count - 1) // 2
    if count < 3 or complete or count > MOST_SPRING_NODES or not nx.is_connected(graph):
        return ring
    twins = _twins(graph, nodes)
    if twins is not None:
        return twins
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


def _twins(graph: nx.Graph[int], nodes: list[int]) -> Floats | None:
    """Two complete halves joined pair by pair, as in a DGX-1: one half on the left, its mirror image on the right."""
    half, rest = divmod(len(nodes), 2)
    left, right = nodes[:half], nodes[half:]
    whole = half * (half - 1) // 2
    if rest or any(graph.subgraph(part).number_of_edges() != whole for part in (left, right)):
        return None
    if graph.number_of_edges() != 2 * whole + half or not all(map(graph.has_edge, left, right)):
        return None
    angle = math.radians(65) * np.linspace(1, -1, half)
    arc = 0.75 * half * np.column_stack((np.cos(angle), np.sin(angle)))
    gap = np.array((0.4, 0.0))
    return np.concatenate((arc * (-1, 1) - gap, arc + gap))


def _springs(graph: nx.Graph[int], nodes: list[int], start: Floats) -> Floats:
    return in_order(nodes, nx.kamada_kawai_layout(graph, pos=numbered(nodes, start)))


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
