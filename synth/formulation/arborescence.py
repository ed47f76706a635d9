"""Minimum arborescence of a dense cost matrix (Chu and Liu 1965; Edmonds 1967), by vectorised contraction."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def min_arborescence(cost: npt.NDArray[np.float64], root: int) -> npt.NDArray[np.int64]:
    """Parents of a cheapest out-tree from ``root`` that reaches every vertex.

    Each round lets every vertex pick its cheapest incoming edge and contracts all cycles at once, so the number of
    rounds is at most the contraction depth (usually 2 or 3), each O(n^2) in numpy.

    Parameters
    ----------
    cost
        n x n; ``cost[i, j]`` is the cost of edge i -> j, inf where there is none. The diagonal is ignored.
    root
        Vertex without a parent.

    Returns
    -------
    numpy.ndarray
        ``parent[j]`` for every vertex; -1 for the root.

    Raises
    ------
    ValueError
        When some vertex cannot be reached from the root.
    """
    weights = np.array(cost, dtype=float)
    np.fill_diagonal(weights, np.inf)
    weights[:, root] = np.inf
    return _solve(weights, root)


def _solve(weights: npt.NDArray[np.float64], root: int) -> npt.NDArray[np.int64]:
    parent = np.argmin(weights, axis=0).astype(np.int64)
    least = weights[parent, np.arange(len(weights))]
    parent[root], least[root] = -1, 0.0
    if not np.isfinite(least).all():
        raise ValueError("not every vertex can be reached from the root")
    cycles = _cycles(parent.tolist())
    if not cycles:
        return parent
    merged, tails, heads, group_of_root = _contract(weights - least, cycles, root)
    chosen = _solve(merged, group_of_root)
    groups = np.flatnonzero(chosen >= 0)
    origins = chosen[groups]
    parent[heads[origins, groups]] = tails[origins, groups]
    return parent


def _cycles(parent: list[int]) -> list[list[int]]:
    """Vertices of every cycle of the graph in which each vertex has one incoming edge."""
    seen = [0] * len(parent)
    out = []
    for start in range(len(parent)):
        node, mark = start, start + 1
        while node >= 0 and not seen[node]:
            seen[node] = mark
            node = parent[node]
        if node >= 0 and seen[node] == mark:
            cycle = [node]
            while (node := parent[node]) != cycle[0]:
                cycle.append(node)
            out.append(cycle)
    return out


def _contract(
    reduced: npt.NDArray[np.float64], cycles: list[list[int]], root: int
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64], npt.NDArray[np.int64], int]:
    """Merge each cycle into one vertex, numbered before the rest.

    Returns the least cost between groups, the tail and head of the original edge behind it, and the root's group.
    """
    n, count = len(reduced), len(cycles)
    single = np.ones(n, dtype=bool)
    single[[v for cycle in cycles for v in cycle]] = False
    rest = np.flatnonzero(single)
    rows = np.empty((count + len(rest), n))
    tail_of = np.empty(rows.shape, dtype=np.int64)
    rows[count:], tail_of[count:] = reduced[rest], rest[:, None]
    every = np.arange(n)
    for g, cycle in enumerate(cycles):
        part = np.array(cycle)
        pick = part[np.argmin(reduced[part], axis=0)]
        rows[g], tail_of[g] = reduced[pick, every], pick
    heads = np.empty((len(rows), len(rows)), dtype=np.int64)
    heads[:, count:] = rest
    for g, cycle in enumerate(cycles):
        part = np.array(cycle)
        heads[:, g] = part[np.argmin(rows[:, part], axis=1)]
    merged = np.take_along_axis(rows, heads, axis=1)
    np.fill_diagonal(merged, np.inf)
    tails = np.take_along_axis(tail_of, heads, axis=1)
    return merged, tails, heads, count + int(np.searchsorted(rest, root))
