"""Where automorphisms are looked for: hints, rotations of rank digits, and the BLISS library's generators."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import igraph
import numpy as np

from synth.errors import InvalidInputError
from synth.formulation.flow.automorphisms import Automorphisms, Permutation
from synth.topology.model import Topology


def hinted(topology: Topology) -> list[dict[int, int]]:
    """Maps of nodes that the topology's ``symmetry`` hints give.

    Raises
    ------
    InvalidInputError
        When a hint is not an automorphism; the offending link is named.
    """
    index = topology.node_index
    out = []
    for number, hint in enumerate(topology.symmetry):
        given = {index[a]: index[b] for a, b in hint}
        whole = {k: given.get(k, k) for k in range(len(topology.nodes))}
        fault = _link_fault(topology, whole)
        if fault:
            raise InvalidInputError(f"symmetry hint {number} is not an automorphism: {fault}")
        out.append(whole)
    return out


def _link_fault(topology: Topology, moved: dict[int, int]) -> str:
    """Why a map of nodes is no automorphism, or an empty text."""
    if len(set(moved.values())) != len(moved):
        return "two nodes go to one place"
    capacity: dict[tuple[int, int], float] = {}
    for link, (a, b) in zip(topology.links, topology.ends, strict=True):
        capacity[a, b] = capacity.get((a, b), 0.0) + link.capacity
    for link, (a, b) in zip(topology.links, topology.ends, strict=True):
        if capacity.get((moved[a], moved[b])) != capacity[a, b]:
            there = f"{topology.nodes[moved[a]].id} -> {topology.nodes[moved[b]].id}"
            return f"link {link.id!r} has no equal where it goes, {there}"
    return ""


def rotations(gpus: Sequence[int]) -> Iterator[dict[int, int]]:
    """Maps of GPU nodes, given in an order, that rotate one digit of the place in it, wider digits first.

    Places are read as digits of mixed radix; rotating one digit is what a torus shift, a hypercube flip, the rotation
    of hosts in a cluster or of GPUs in a box does.
    """
    n = len(gpus)
    divisors = [d for d in range(1, n + 1) if n % d == 0]
    pairs = [(low, high) for low in divisors for high in divisors if low < high and high % low == 0]
    for low, high in sorted(pairs, key=lambda pair: (-pair[1] // pair[0], pair)):
        yield {gpus[r]: gpus[_rotated(r, low, high)] for r in range(n)}


def _rotated(rank: int, low: int, high: int) -> int:
    digit = rank % high // low
    return rank + ((digit + 1) * low % high) - digit * low


def aligned(checker: Automorphisms) -> list[int]:
    """GPU nodes host by host, those of each host in an order that tells how they hang on what the hosts share.

    Empty when there is one host only.

    A file may list GPUs in any order. Colour refinement (Weisfeiler and Leman 1968) from shared nodes of one colour
    each, such as the switches of rails, tells the GPUs of a host apart in the same way on every host.
    """
    topology = checker.topology
    hosts = dict.fromkeys(topology.nodes[node].host for node in topology.gpus)
    if len(hosts) == 1:
        return []
    kinds = zip(checker.kind, topology.nodes, strict=True)
    colour = _refined(checker, [(int(kind), "" if node.host in hosts else node.id) for kind, node in kinds])
    place = {host: k for k, host in enumerate(hosts)}
    return sorted(topology.gpus, key=lambda node: (place[topology.nodes[node].host], colour[node], node))


def _refined(checker: Automorphisms, start: Sequence[tuple[int, str]]) -> list[int]:
    """Colours of nodes, refined by those of their neighbours until they stay."""
    names = {key: k for k, key in enumerate(sorted(set(start)))}
    colour, count = [names[key] for key in start], 0
    while count < len(set(colour)):
        count = len(set(colour))
        near: list[list[tuple[int, int, int]]] = [[] for _ in colour]
        for signature, (a, b) in zip(checker.signature.tolist(), checker.topology.ends, strict=True):
            near[a].append((0, signature, colour[b]))
            near[b].append((1, signature, colour[a]))
        keys = [(own, tuple(sorted(around))) for own, around in zip(colour, near, strict=True)]
        numbers = {key: k for k, key in enumerate(sorted(set(keys)))}
        colour = [numbers[key] for key in keys]
    return colour


def library_automorphisms(checker: Automorphisms) -> list[Permutation]:
    """Automorphisms that BLISS finds (Junttila and Kaski 2007: colour refinement, then search), in igraph.

    First the products of generators that do not commute with each other: of transpositions, which is what equal hosts
    and equal GPUs give, such a product is one long cycle. Then the generators themselves.
    """
    nodes = len(checker.topology.nodes)
    graph, colours = _coloured(checker)
    found = [tuple(g[:nodes]) for g in graph.automorphism_group(color=colours)]
    return [*_products(found), *found]


def _coloured(checker: Automorphisms) -> tuple[igraph.Graph, list[int]]:
    """The instance as an undirected graph: a link is two vertices in a row, a shared resource a vertex."""
    topology = checker.topology
    nodes = len(topology.nodes)
    edges: list[tuple[int, int]] = []
    colours: list[tuple[object, ...]] = [("node", int(kind)) for kind in checker.kind]
    for k, (a, b) in enumerate(topology.ends):
        out = nodes + 2 * k
        edges += [(a, out), (out, out + 1), (out + 1, b)]
        colours += [("out", int(checker.signature[k])), ("in", int(checker.signature[k]))]
    for pool in topology.resources:
        centre = len(colours)
        colours.append(("pool", pool.bandwidth))
        for link, times in pool.uses:
            edges += [(centre, len(colours)), (len(colours), nodes + 2 * topology.link_index[link])]
            colours.append(("use", times))
    numbers = {colour: k for k, colour in enumerate(dict.fromkeys(colours))}
    return igraph.Graph(len(colours), edges), [numbers[colour] for colour in colours]


def _products(generators: Sequence[Permutation]) -> list[Permutation]:
    """Product of each connected set of generators, two being joined when they do not commute."""
    tables = [np.array(g) for g in generators]
    left = set(range(len(tables)))
    out = []
    while left:
        group = [min(left)]
        left.discard(group[0])
        for k in group:
            near = [j for j in sorted(left) if (tables[k][tables[j]] != tables[j][tables[k]]).any()]
            left.difference_update(near)
            group += near
        product = np.arange(len(tables[0]))
        for k in group:
            product = tables[k][product]
        out.append(tuple(product.tolist()))
    return out
