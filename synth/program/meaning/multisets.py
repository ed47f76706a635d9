"""Multisets of input chunks with exact equality in constant time: hash-consed Patricia tries.

Equal multisets get the same number however they were summed, so a comparison of numbers is exact. Two tries that share
subtrees share memory, so the partial sums of a ring over 128 ranks cost a few nodes each, not their length (Okasaki and
Gill, "Fast mergeable integer maps", 1998).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

UNDEFINED = -1


class Multisets:
    """Interned multisets of tokens; number ``t`` below ``tokens`` is the single token ``t``.

    Parameters
    ----------
    tokens
        How many different tokens there are.
    """

    def __init__(self, tokens: int) -> None:
        self._tokens = tokens
        # Per number beyond the tokens: smallest token, branching bit (-1 for a leaf), and subtries or multiplicity.
        self._low: list[int] = []
        self._bit: list[int] = []
        self._left: list[int] = []
        self._right: list[int] = []
        self._nodes: dict[tuple[int, int, int], int] = {}
        self._memo: dict[tuple[int, int], int] = {}

    def add(self, a: NDArray[np.int64], b: NDArray[np.int64]) -> NDArray[np.int64]:
        """Elementwise sum of two arrays of multisets."""
        return np.array([self.plus(x, y) for x, y in zip(a.tolist(), b.tolist(), strict=True)], dtype=np.int64)

    def plus(self, a: int, b: int) -> int:
        """Sum of two multisets; undefined plus anything is undefined."""
        if a < 0 or b < 0:
            return UNDEFINED
        key = (a, b) if a <= b else (b, a)
        known = self._memo.get(key)
        if known is None:
            known = self._memo[key] = self._merge(*key)
        return known

    def items(self, content: int) -> tuple[tuple[int, int], ...]:
        """(token, multiplicity) pairs in token order; empty for undefined contents."""
        if content == UNDEFINED:
            return ()
        found, stack = [], [content]
        while stack:
            node = stack.pop()
            low, bit = self._head(node)
            if bit < 0:
                found.append((low, self._times(node)))
            else:
                k = node - self._tokens
                stack += (self._right[k], self._left[k])
        return tuple(found)

    def _head(self, node: int) -> tuple[int, int]:
        """Smallest token and branching bit."""
        if node < self._tokens:
            return node, -1
        return self._low[node - self._tokens], self._bit[node - self._tokens]

    def _times(self, leaf: int) -> int:
        return 1 if leaf < self._tokens else self._right[leaf - self._tokens]

    def _merge(self, a: int, b: int) -> int:
        (low_a, bit_a), (low_b, bit_b) = self._head(a), self._head(b)
        differ = (low_a ^ low_b).bit_length() - 1
        if differ > bit_a and differ > bit_b:
            left, right = (a, b) if low_a < low_b else (b, a)
            return self._node(min(low_a, low_b), differ, left, right)
        if bit_a == bit_b < 0:
            return self._node(low_a, -1, -1, self._times(a) + self._times(b))
        if bit_a < bit_b:
            a, b, low_a, low_b, bit_a, bit_b = b, a, low_b, low_a, bit_b, bit_a
        left, right = self._left[a - self._tokens], self._right[a - self._tokens]
        if bit_a == bit_b:
            left = self.plus(left, self._left[b - self._tokens])
            right = self.plus(right, self._right[b - self._tokens])
        elif low_b >> bit_a & 1:
            right = self.plus(right, b)
        else:
            left = self.plus(left, b)
        return self._node(min(low_a, low_b), bit_a, left, right)

    def _node(self, low: int, bit: int, left: int, right: int) -> int:
        # A leaf is known by its token and multiplicity, a branch by its subtries, which determine the rest.
        key = (low if bit < 0 else -1, left, right)
        known = self._nodes.get(key)
        if known is None:
            known = self._nodes[key] = self._tokens + len(self._low)
            self._low.append(low)
            self._bit.append(bit)
            self._left.append(left)
            self._right.append(right)
        return known


def describe_difference(sets: Multisets, want: int, have: int, chunks: int) -> str:
    """Say in words which contributions are missing or extra in one chunk."""
    if have == UNDEFINED:
        return "never written (or made from undefined data)"
    wanted, got = dict(sets.items(want)), dict(sets.items(have))
    parts = []
    for token in sorted({*wanted, *got}):
        need, found = wanted.get(token, 0), got.get(token, 0)
        if need != found:
            rank, chunk = divmod(token, chunks)
            parts.append(f"chunk {chunk} of rank {rank} {found} times instead of {need}")
    return "; ".join(parts[:4]) + (f"; and {len(parts) - 4} more" if len(parts) > 4 else "")
