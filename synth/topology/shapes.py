"""Regular shapes: ring, line, mesh, torus, hypercube, full mesh and star. GPUs are ``g0``, ``g1``, ...

Link ids are ``g0-g1:fwd`` and ``g0-g1:rev`` (one cable, both ways) or ``g0-g1`` (one way). Bandwidths are bytes/second
per direction, latencies seconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import product

from synth.topology.elements import Link, LinkKind, Node
from synth.topology.model import Topology

SHAPE_SOURCE = (
    "built-in shape, not a machine; default link: one NVLink 2.0, 25 GB/s nominal per direction (NVIDIA DGX-1), "
    "0.7 us (TE-CCL's NVLink alpha)"
)


def both_ways(
    name: str, src: str, dst: str, bandwidth: float, latency: float, kind: LinkKind = "net", efficiency: float = 1.0
) -> tuple[Link, Link]:
    """One cable as its two directed links ``name:fwd`` (src to dst) and ``name:rev``."""
    return (
        Link(f"{name}:fwd", src, dst, bandwidth, latency, kind, efficiency),
        Link(f"{name}:rev", dst, src, bandwidth, latency, kind, efficiency),
    )


def gpu_nodes(count: int) -> tuple[Node, ...]:
    """``g0`` to ``g{count-1}``, all on one host."""
    return tuple(Node(f"g{i}", "gpu") for i in range(count))


def ring(name: str, n: int, bandwidth: float, latency: float, both_ways: bool) -> Topology:
    """Ring of ``n`` GPUs; a ring of two is one cable, not two."""
    if both_ways:
        return _joined(name, n, _grid_edges((n,), wrap=True), bandwidth, latency)
    pairs = [(i, (i + 1) % n) for i in range(n)] if n > 1 else []
    links = tuple(Link(f"g{a}-g{b}", f"g{a}", f"g{b}", bandwidth, latency) for a, b in pairs)
    return Topology(name, gpu_nodes(n), links, source=SHAPE_SOURCE)


def line(name: str, n: int, bandwidth: float, latency: float) -> Topology:
    """``n`` GPUs in a row, neighbours joined both ways."""
    return _joined(name, n, _grid_edges((n,), wrap=False), bandwidth, latency)


def mesh2d(name: str, rows: int, cols: int, bandwidth: float, latency: float) -> Topology:
    """Grid; the GPU in row ``r`` and column ``c`` has rank ``r * cols + c``."""
    return _joined(name, rows * cols, _grid_edges((rows, cols), wrap=False), bandwidth, latency)


def torus2d(name: str, rows: int, cols: int, bandwidth: float, latency: float) -> Topology:
    """Grid with wrap-around; rank ``r * cols + c``. A dimension of size 2 has ONE cable per pair, not two."""
    return _joined(name, rows * cols, _grid_edges((rows, cols), wrap=True), bandwidth, latency)


def torus3d(name: str, x: int, y: int, z: int, bandwidth: float, latency: float) -> Topology:
    """Grid with wrap-around; rank ``(i * y + j) * z + k``. A dimension of size 2 has ONE cable per pair, not two."""
    return _joined(name, x * y * z, _grid_edges((x, y, z), wrap=True), bandwidth, latency)


def hypercube(name: str, dim: int, bandwidth: float, latency: float) -> Topology:
    """``2**dim`` GPUs; ranks that differ in one bit are joined."""
    pairs = ((a, a | 1 << bit) for a in range(1 << dim) for bit in range(dim) if not a >> bit & 1)
    return _joined(name, 1 << dim, pairs, bandwidth, latency)


def fullmesh(name: str, n: int, bandwidth: float, latency: float) -> Topology:
    """Every pair of ``n`` GPUs joined both ways."""
    return _joined(name, n, ((a, b) for a in range(n) for b in range(a + 1, n)), bandwidth, latency)


def switch(name: str, n: int, bandwidth: float, latency: float) -> Topology:
    """``n`` GPUs, each joined both ways to one non-blocking switch ``sw``; ``latency`` is that of one link."""
    links = [link for i in range(n) for link in both_ways(f"g{i}-sw", f"g{i}", "sw", bandwidth, latency)]
    return Topology(name, (*gpu_nodes(n), Node("sw", "switch")), tuple(links), source=SHAPE_SOURCE)


def _grid_edges(sizes: Sequence[int], wrap: bool) -> Iterator[tuple[int, int]]:
    """Pairs of neighbouring ranks of a grid, last coordinate fastest."""
    strides = [1] * len(sizes)
    for axis in reversed(range(len(sizes) - 1)):
        strides[axis] = strides[axis + 1] * sizes[axis + 1]
    for place in product(*(range(size) for size in sizes)):
        rank = sum(i * stride for i, stride in zip(place, strides, strict=True))
        for axis, size in enumerate(sizes):
            if place[axis] + 1 < size:
                yield rank, rank + strides[axis]
            elif wrap and size > 2:  # with two in a row the wrap-around would double the only cable
                yield rank, rank - (size - 1) * strides[axis]


def _joined(name: str, n: int, pairs: Iterable[tuple[int, int]], bandwidth: float, latency: float) -> Topology:
    links = [link for a, b in pairs for link in both_ways(f"g{a}-g{b}", f"g{a}", f"g{b}", bandwidth, latency)]
    return Topology(name, gpu_nodes(n), tuple(links), source=SHAPE_SOURCE)
