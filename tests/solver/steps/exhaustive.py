"""Least rounds by trying everything, for machines of 3 or 4 GPUs: no MILP, no relaxation, no symmetry.

A state says who holds which chunks. Holding more is never worse, so every link sends as much as it may; the last step
needs no search, since the receivers do not interfere and each can ask its neighbours by a matching.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence

import networkx as nx

Links = Mapping[tuple[int, int], int]  # (src, dst) -> chunks per round
State = tuple[frozenset[int], ...]


def fewest_rounds(links: Links, start: State, wanted: Sequence[frozenset[int]], steps: int, most: int) -> int | None:
    """Fewest rounds in exactly so many steps, or None when even ``most`` do not suffice."""
    for rounds in range(steps, most + 1):
        for split in itertools.product(range(1, rounds + 1), repeat=steps):
            if sum(split) == rounds and _possible(links, start, wanted, split):
                return rounds
    return None


def _possible(links: Links, start: State, wanted: Sequence[frozenset[int]], split: Sequence[int]) -> bool:
    states = {start}
    for rounds in split[:-1]:
        states = {after for state in states for after in _after(links, state, rounds)}
    return any(_last(links, state, wanted, split[-1]) for state in states)


def _after(links: Links, state: State, rounds: int) -> Iterator[State]:
    choices = []
    for (src, dst), width in links.items():
        new = sorted(state[src] - state[dst])
        choices.append([(dst, some) for some in itertools.combinations(new, min(len(new), rounds * width))])
    for sends in itertools.product(*choices):
        after = list(state)
        for dst, chunks in sends:
            after[dst] = after[dst] | frozenset(chunks)
        yield tuple(after)


def _last(links: Links, state: State, wanted: Sequence[frozenset[int]], rounds: int) -> bool:
    for rank, goal in enumerate(wanted):
        missing = goal - state[rank]
        graph: nx.DiGraph[object] = nx.DiGraph()
        graph.add_nodes_from(("from", "to"))
        for chunk in missing:
            graph.add_edge("from", chunk, capacity=1)
            for (src, dst), width in links.items():
                if dst == rank and chunk in state[src]:
                    graph.add_edge(chunk, (src, dst), capacity=1)
                    graph.add_edge((src, dst), "to", capacity=rounds * width)
        if missing and nx.maximum_flow_value(graph, "from", "to") < len(missing):
            return False
    return True


def allgather_state(ranks: int, chunks: int) -> tuple[State, list[frozenset[int]]]:
    """Who holds what before an all-gather, and what everybody wants."""
    everything = frozenset(range(ranks * chunks))
    return tuple(frozenset(range(r * chunks, (r + 1) * chunks)) for r in range(ranks)), [everything] * ranks


def alltoall_state(ranks: int, chunks: int) -> tuple[State, list[frozenset[int]]]:
    """The same for an all-to-all; chunk (a, b, i) is numbered (a * ranks + b) * chunks + i."""

    def block(a: int, b: int) -> set[int]:
        return set(range((a * ranks + b) * chunks, (a * ranks + b + 1) * chunks))

    pairs = [(a, b) for a in range(ranks) for b in range(ranks) if a != b]
    start = tuple(frozenset().union(*(block(a, b) for a, b in pairs if a == r)) for r in range(ranks))
    return start, [frozenset().union(*(block(a, b) for a, b in pairs if b == r)) for r in range(ranks)]
