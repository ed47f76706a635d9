"""Minimum arborescence of a dense cost matrix (Chu and Liu 1965; Edmonds 1967), by vectorised contraction."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.sparse import csgraph

# More vertices than this: contract all strongly connected sets of cheapest edges, not only cycles of picked ones.
WIDE = 200


def min_arborescence(cost: npt.NDArray[np.float64], root: int) -> npt.NDArray[np.int64]:
    """Parents of a cheapest out-tree from ``root`` that reaches every vertex.

    Each round lets every vertex pick its cheapest incoming edge and contracts all cycles at once, in O(n^2) in numpy.
    Where many costs tie, as on large symmetric machines, cycles are short and rounds many; so from ``WIDE`` vertices on
    a round contracts all strongly connected sets of edges that are as cheap as the picked ones.

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
    sets = _cycles(parent.tolist())
    if not sets:
        return parent
    reduced = weights - least
    wide = len(weights) > WIDE
    if wide:
        sets = _free_sets(reduced)
    merged, tails, heads, group_of_root = _contract(reduced, sets, root)
    chosen = _solve(merged, group_of_root)
    groups = np.flatnonzero(chosen >= 0)
    origins = chosen[groups]
    entered = heads[origins, groups]
    if wide:
        for part, head in zip(sets, entered, strict=False):
            _reach_within(reduced, np.array(part), int(head), parent)
    parent[entered] = tails[origins, groups]
    return parent


def _free_sets(reduced: npt.NDArray[np.float64]) -> list[list[int]]:
    """Sets of two or more vertices that reach each other over edges of reduced cost 0."""
    free = sparse.csr_matrix(reduced == 0.0)
    _, label = csgraph.connected_components(free, directed=True, connection="strong")
    order = np.argsort(label, kind="stable")
    parts = np.split(order, np.flatnonzero(np.diff(label[order])) + 1)
    return [part.tolist() for part in parts if len(part) > 1]


def _reach_within(
    reduced: npt.NDArray[np.float64], part: npt.NDArray[np.int64], head: int, parent: npt.NDArray[np.int64]
) -> None:
    """Give every vertex of a set but its head a parent in it, over edges of reduced cost 0, breadth first."""
    free = reduced[np.ix_(part, part)] == 0.0
    waiting = part != head
    fresh = np.flatnonzero(~waiting)
    while len(fresh):
        reached = np.flatnonzero(free[fresh].any(axis=0) & waiting)
        parent[part[reached]] = part[fresh[free[np.ix_(fresh, reached)].argmax(axis=0)]]
        waiting[reached], fresh = False, reached


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
