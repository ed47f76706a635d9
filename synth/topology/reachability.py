"""Who can send to whom, and in how many hops: asked before any solver runs.

A path starts at one GPU and ends at another. Its interior vertices may be switches, NICs, CPUs and memories, and those
GPUs that relay. Links are directed throughout.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

import networkx as nx

from synth.errors import InfeasibleError, InvalidInputError
from synth.topology.model import Topology

_SHOWN = 10


def unreachable_pairs(topology: Topology, pairs: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Ordered pairs of ranks between which there is no path.

    Parameters
    ----------
    topology
        The machine.
    pairs
        (source rank, destination rank); a rank always reaches itself.

    Returns
    -------
    list of (int, int)
        The unreachable ones, in the order given.

    Raises
    ------
    InvalidInputError
        A rank that the topology does not have.
    """
    asked = list(pairs)
    _check_ranks(topology, asked)
    if not asked:
        return []
    reach = _reached_ranks(topology)
    return [(src, dst) for src, dst in asked if src != dst and not reach[src] >> dst & 1]


def all_connected(topology: Topology, ranks: Iterable[int]) -> bool:
    """Whether every one of these ranks has a path to every other: the usual case, without looking at pairs."""
    members = list(ranks)
    _check_ranks(topology, [(rank, rank) for rank in members])
    wanted = sum(1 << rank for rank in set(members))
    reach = _reached_ranks(topology)
    return all((reach[rank] | 1 << rank) & wanted == wanted for rank in members)


def check_reachable(topology: Topology, pairs: Iterable[tuple[int, int]]) -> None:
    """Refuse a demand that some pair of ranks has no path for.

    Raises
    ------
    InfeasibleError
        Names the unreachable pairs by GPU id and a witness: what can be reached, or that nothing enters or leaves.
    InvalidInputError
        A rank that the topology does not have.
    """
    asked = list(pairs)
    missing = unreachable_pairs(topology, asked)
    if not missing:
        return
    names = topology.gpu_name
    shown = ", ".join(f"{names(src)!r} to {names(dst)!r}" for src, dst in missing[:_SHOWN])
    more = f" and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else ""
    plural = "pair has" if len(missing) == 1 else "ordered pairs have"
    raise InfeasibleError(
        [
            f"{len(missing)} {plural} no path in topology {topology.name!r}: {shown}{more}",
            *_witnesses(topology, missing),
        ]
    )


def hop_distance(topology: Topology, source_rank: int) -> list[int | None]:
    """Fewest GPU-to-GPU hops from one rank to each rank.

    Passing through switches, NICs and the like costs nothing; each GPU that is entered costs one hop.

    Returns
    -------
    list of int or None
        By rank; 0 for the source itself and None where there is no path.

    Raises
    ------
    InvalidInputError
        A rank that the topology does not have.
    """
    _check_ranks(topology, [(source_rank, source_rank)])
    successors = _successors(topology)
    forwards = _forwards(topology)
    source = topology.gpus[source_rank]
    distance = {source: 0}
    settled: set[int] = set()
    queue = deque([source])
    while queue:
        node = queue.popleft()
        if node in settled:
            continue
        settled.add(node)
        if node != source and not forwards[node]:
            continue
        for near in successors[node]:
            cost = 1 if near in topology.rank_of else 0
            if distance[node] + cost < distance.get(near, len(successors) + 1):
                distance[near] = distance[node] + cost
                # Breadth-first with costs 0 and 1: what costs nothing goes in front.
                (queue.append if cost else queue.appendleft)(near)
    return [distance.get(node) for node in topology.gpus]


def check_steps(topology: Topology, pairs: Iterable[tuple[int, int]], steps: int) -> None:
    """Refuse a step budget that some pair of ranks is too far apart for.

    Parameters
    ----------
    topology
        The machine.
    pairs
        (source rank, destination rank) that something must travel between.
    steps
        Allowed number of synchronous steps; one step is one hop from GPU to GPU.

    Raises
    ------
    InfeasibleError
        Names the pairs that need more hops than steps, the farthest first, or that have no path at all.
    InvalidInputError
        A rank that the topology does not have.
    """
    asked = list(pairs)
    check_reachable(topology, asked)
    far: list[tuple[int, int, int]] = []
    distances = {src: hop_distance(topology, src) for src in dict.fromkeys(src for src, _ in asked)}
    for src, dst in asked:
        hops = distances[src][dst]
        if hops is not None and hops > steps:
            far.append((hops, src, dst))
    far.sort(key=lambda row: (-row[0], row[1], row[2]))
    if far:
        faults = [f"rank {src} to rank {dst} needs {hops} hops, {steps} steps are allowed" for hops, src, dst in far]
        if len(faults) > _SHOWN:
            faults[_SHOWN:] = [f"and {len(faults) - _SHOWN} more pairs of ranks"]
        raise InfeasibleError(faults)


def _check_ranks(topology: Topology, pairs: Iterable[tuple[int, int]]) -> None:
    count = len(topology.gpus)
    for rank in sorted({rank for pair in pairs for rank in pair}):
        if not 0 <= rank < count:
            raise InvalidInputError(f"rank {rank} is not in topology {topology.name!r}; it has ranks 0 to {count - 1}")


def _forwards(topology: Topology) -> list[bool]:
    """Per node, whether a path may pass through it."""
    return [node.kind != "gpu" or node.relay for node in topology.nodes]


def _successors(topology: Topology) -> list[list[int]]:
    near: list[dict[int, None]] = [{} for _ in topology.nodes]
    for src, dst in topology.ends:
        near[src][dst] = None
    return [list(row) for row in near]


def _reached_ranks(topology: Topology) -> list[int]:
    """Per rank, the ranks that it reaches, as the bits of an integer.

    One pass over the strongly connected components of the forwarding vertices, last component first, so the cost grows
    with the number of links and not with ranks times links.
    """
    successors = _successors(topology)
    forwards = _forwards(topology)
    bit = {node: 1 << rank for rank, node in enumerate(topology.gpus)}
    graph: nx.DiGraph[int] = nx.DiGraph()
    graph.add_nodes_from(node for node, through in enumerate(forwards) if through)
    graph.add_edges_from((src, dst) for src, dst in topology.ends if forwards[src] and forwards[dst])
    reach = [0] * len(topology.nodes)
    # networkx yields a component only after every component that it leads to.
    for component in nx.strongly_connected_components(graph):
        bits = 0
        for node in component:
            for near in successors[node]:
                bits |= bit.get(near, 0) | reach[near]
        for node in component:
            reach[node] = bits
    found = []
    for node in topology.gpus:
        bits = 0
        for near in successors[node]:
            bits |= bit.get(near, 0) | (reach[near] if forwards[near] else 0)
        found.append(bits)
    return found


def _witnesses(topology: Topology, missing: list[tuple[int, int]]) -> Iterator[str]:
    """Reasons for the first few sources and destinations, the strongest statement that holds for each."""
    reach = _reached_ranks(topology)
    ranks = range(len(topology.gpus))
    nothing_leaves = [src for src in dict.fromkeys(src for src, _ in missing) if not reach[src] & ~(1 << src)]
    nothing_enters = [
        dst
        for dst in dict.fromkeys(dst for _, dst in missing)
        if not any(reach[src] >> dst & 1 for src in ranks if src != dst)
    ]
    if nothing_leaves:
        yield f"no GPU can be reached from {_names(topology, nothing_leaves)}"
    if nothing_enters:
        yield f"no other GPU has a path into {_names(topology, nothing_enters)}"
    for src in dict.fromkeys(src for src, _ in missing):
        if src not in nothing_leaves:
            found = [rank for rank in ranks if rank != src and reach[src] >> rank & 1]
            yield f"from {topology.gpu_name(src)!r} only {_names(topology, found)} can be reached"
            break
    if not all(topology.nodes[node].relay for node in topology.gpus):
        yield "some GPUs do not relay (relay false); allowing them to may open a path"


def _names(topology: Topology, ranks: list[int]) -> str:
    shown = ", ".join(repr(topology.gpu_name(rank)) for rank in ranks[:_SHOWN])
    return f"{shown} and {len(ranks) - _SHOWN} more" if len(ranks) > _SHOWN else shown
