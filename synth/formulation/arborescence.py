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
    n = len(weights)
    parent = np.argmin(weights, axis=0).astype(np.int64)
    least = weights[parent, np.arange(n)]
    parent[root], least[root] = -1, 0.0
    if not np.all(np.isfinite(least)):
        raise ValueError("not every vertex can be reached from the root")
    label = _cycle_labels(parent)
    if label is None:
        return parent
    reduced = weights - least[None, :]
    merged, tails, heads = _contract(reduced, label)
    chosen = _solve(merged, int(label[root]))
    out = parent.copy()
    for group in range(len(merged)):
        origin = int(chosen[group])
        if origin >= 0:
            out[heads[origin, group]] = tails[origin, group]
    return out


def _cycle_labels(parent: npt.NDArray[np.int64]) -> npt.NDArray[np.int64] | None:
    """Group number of each vertex with every cycle one group, or None when there is no cycle."""
    n = len(parent)
    seen = np.zeros(n, dtype=np.int64)
    label = np.full(n, -1, dtype=np.int64)
    found = 0
    for start in range(n):
        node, mark = start, start + 1
        while node >= 0 and seen[node] == 0:
            seen[node] = mark
            node = int(parent[node])
        if node >= 0 and seen[node] == mark and label[node] < 0:
            while label[node] < 0:
                label[node] = found
                node = int(parent[node])
            found += 1
    if not found:
        return None
    rest = label < 0
    label[rest] = found + np.arange(int(rest.sum()))
    return label


def _contract(
    reduced: npt.NDArray[np.float64], label: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Merge each group into one vertex: least cost between groups, and the original edge (tail, head) behind it."""
    n, groups = len(reduced), int(label.max()) + 1
    order = np.argsort(label, kind="stable")
    first = np.searchsorted(label[order], np.arange(groups))
    sizes = np.diff(np.append(first, n))
    tail_of = np.empty((groups, n), dtype=np.int64)
    rows = np.empty((groups, n))
    for g in range(groups):
        part = order[first[g] : first[g] + sizes[g]]
        pick = np.argmin(reduced[part], axis=0)
        tail_of[g], rows[g] = part[pick], reduced[part[pick], np.arange(n)]
    merged = np.empty((groups, groups))
    heads = np.empty((groups, groups), dtype=np.int64)
    for g in range(groups):
        part = order[first[g] : first[g] + sizes[g]]
        pick = np.argmin(rows[:, part], axis=1)
        heads[:, g] = part[pick]
        merged[:, g] = rows[np.arange(groups), heads[:, g]]
    tails = np.take_along_axis(tail_of, heads, axis=1)
    np.fill_diagonal(merged, np.inf)
    return merged, tails, heads
