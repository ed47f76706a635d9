"""The textbook algorithms as trees over positions 0 .. n-1: who passes a shard on to whom, and in which step.

Sources: ring and recursive doubling/halving, Thakur, Rabenseifner and Gropp 2005 (IJHPCA 19); Bruck, Bruck et al. 1997
(IEEE TPDS 8); double binary trees, Sanders, Speck and Traeff 2009 (Parallel Computing 35); hierarchical and 2D, as in
NCCL and on tori. Reductions are the same trees backwards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

Edge = tuple[int, int, int]
"""(from position, to position, step)."""
Tree = Callable[[int], list[Edge]]
"""Root position -> edges, parents before children."""


def ring_tree(n: int) -> Tree:
    """A chain round the ring."""
    return lambda root: [((root + k) % n, (root + k + 1) % n, k) for k in range(n - 1)]


def direct_tree(n: int) -> Tree:
    """A star; every root begins with its next neighbour."""
    return lambda root: [(root, (root + k) % n, 0) for k in range(1, n)]


def doubling_tree(n: int) -> Tree:
    """Recursive doubling over a power of two: in step k everybody exchanges all it has with its 2^k neighbour."""

    def tree(root: int) -> list[Edge]:
        return [(root ^ j, root ^ j ^ 1 << k, k) for k in range(n.bit_length() - 1) for j in range(1 << k)]

    return tree


def bruck_tree(n: int) -> Tree:
    """In step k everybody sends what it has (at most what is missing) to the one 2^k before it; any n."""

    def tree(root: int) -> list[Edge]:
        return [
            ((root - j) % n, (root - j - (1 << k)) % n, k)
            for k in range((n - 1).bit_length())
            for j in range(min(1 << k, n - (1 << k)))
        ]

    return tree


def bruck_path(n: int) -> Callable[[int, int], list[Edge]]:
    """All-to-all: a block goes its distance bit by bit."""

    def path(src: int, dst: int) -> list[Edge]:
        edges, at = [], src
        for k in range((n - 1).bit_length()):
            if (dst - src) % n >> k & 1:
                edges.append((at, (at + (1 << k)) % n, k))
                at = (at + (1 << k)) % n
        return edges

    return path


def binary_trees(n: int, root: int | None) -> list[tuple[int, list[Edge]]]:
    """Two binary trees over all positions in which (nearly) everybody is a leaf of one: [(root, edges), ...].

    Parameters
    ----------
    n
        Positions, at least 2.
    root
        With a root, both trees hang below it; without, they have roots of their own.
    """
    others = list(range(n)) if root is None else [(root + k) % n for k in range(1, n)]
    # Position 0, 2, 4, .. are the leaves of an in-order tree; shifted by one (odd) or mirrored (even) they are not.
    second = [*others[1:], others[0]] if len(others) % 2 else others[::-1]
    out = []
    for order in (others, second):
        top, edges = _in_order(order, 0, len(order), 1 if root is not None else 0)
        out.append((top, edges) if root is None else (root, [(root, top, 0), *edges]))
    return out


def _in_order(order: Sequence[int], begin: int, end: int, step: int) -> tuple[int, list[Edge]]:
    """Binary tree whose in-order walk is ``order[begin:end]``; leaves at even places."""
    size = 1
    while 2 * size <= end - begin:
        size *= 2
    middle = begin + size - 1
    edges: list[Edge] = []
    for low, high in ((begin, middle), (middle + 1, end)):
        if low < high:
            top, below = _in_order(order, low, high, step + 1)
            edges += [(order[middle], top, step), *below]
    return order[middle], edges


def hierarchical_tree(boxes: Sequence[Sequence[int]]) -> Tree:
    """To the ranks at the same place of the other boxes, then inside each box."""
    at = {rank: (h, i) for h, box in enumerate(boxes) for i, rank in enumerate(box)}

    def tree(root: int) -> list[Edge]:
        h, i = at[root]
        order = [boxes[(h + k) % len(boxes)] for k in range(len(boxes))]
        edges = [(root, box[i], 0) for box in order[1:]]
        return edges + [(box[i], box[(i + k) % len(box)], 1) for box in order for k in range(1, len(box))]

    return tree


def hierarchical_path(boxes: Sequence[Sequence[int]]) -> Callable[[int, int], list[Edge]]:
    """All-to-all: inside the box to the rank at the destination's place, then between boxes."""
    at = {rank: (h, i) for h, box in enumerate(boxes) for i, rank in enumerate(box)}

    def path(src: int, dst: int) -> list[Edge]:
        aside = boxes[at[src][0]][at[dst][1]]
        return [(a, b, k) for k, (a, b) in enumerate(((src, aside), (aside, dst))) if a != b]

    return path


def grid_tree(rows: int, columns: int, columns_first: bool, backwards: bool) -> Tree:
    """Round the root's row, then from there round every column (or the other way)."""
    turn = -1 if backwards else 1

    def walk(i: int, j: int, down: bool, step: int) -> Iterator[tuple[int, int, Edge]]:
        for k in range((rows if down else columns) - 1):
            i2, j2 = ((i + turn) % rows, j) if down else (i, (j + turn) % columns)
            yield i2, j2, (i * columns + j, i2 * columns + j2, step + k)
            i, j = i2, j2

    def tree(root: int) -> list[Edge]:
        first = list(walk(*divmod(root, columns), columns_first, 0))
        starts = [divmod(root, columns), *((i, j) for i, j, _ in first)]
        edges = [edge for _, _, edge in first]
        return edges + [e for i, j in starts for _, _, e in walk(i, j, not columns_first, len(first))]

    return tree


def grid_path(columns: int) -> Callable[[int, int], list[Edge]]:
    """All-to-all: along the row, then along the column."""

    def path(src: int, dst: int) -> list[Edge]:
        corner = src - src % columns + dst % columns
        return [(a, b, k) for k, (a, b) in enumerate(((src, corner), (corner, dst))) if a != b]

    return path
