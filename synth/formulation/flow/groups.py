"""Groups of permutations by generators: enumeration, and greedy growth by candidates."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

import numpy as np

from synth.ground.arrays import Table

Permutation = tuple[int, ...]


def elements(generators: Sequence[Permutation], points: int, limit: int, free: Sequence[int] = ()) -> Table | None:
    """All products of generators.

    Parameters
    ----------
    generators
        Permutations of ``range(points)``.
    limit
        Most elements.
    free
        Points that no element but the identity may leave in place.

    Returns
    -------
    numpy.ndarray or None
        elements x points, the identity first; ``table[h, v]`` is where element h sends v. None when there are more
        than ``limit`` elements, or one leaves a point of ``free`` in place.
    """
    steps = [np.array(g, dtype=np.int32) for g in generators]
    identity = np.arange(points, dtype=np.int32)
    places = np.array(free, dtype=np.int64)
    table, seen = [identity], {_digest(identity)}
    for element in table:  # grows on the way
        for step in steps:
            product = step[element]
            key = _digest(product)
            if key in seen:
                continue
            if len(table) >= limit or (product[places] == places).any():
                return None
            seen.add(key)
            table.append(product)
    return np.array(table, dtype=np.int32)


def _digest(element: Table) -> bytes:
    return hashlib.blake2b(element.tobytes(), digest_size=16).digest()


def orbit_of(generators: Sequence[Permutation], points: Iterable[int]) -> dict[int, int]:
    """Per point the least point of its orbit."""
    least: dict[int, int] = {}
    for start in sorted(points):
        if start in least:
            continue
        least[start], queue = start, [start]
        for point in queue:
            for step in generators:
                if step[point] not in least:
                    least[step[point]] = start
                    queue.append(step[point])
    return least


class GrowingGroup:
    """A group that takes in a candidate when it stays small and joins orbits of the members.

    Parameters
    ----------
    points
        Number of points that are permuted.
    members
        Points whose orbits count: the group has at most as many elements as members.
    """

    def __init__(self, points: int, members: Sequence[int]) -> None:
        self.points, self.members = points, list(members)
        self.generators: list[Permutation] = []
        self.table: Table = np.arange(points, dtype=np.int32)[None, :]
        self.orbits = len(self.members)

    def offer(self, candidate: Permutation, free: bool) -> bool:
        """Take in a permutation if that joins orbits; ``free``: only if no element but the identity fixes a member."""
        grown = [*self.generators, candidate]
        orbits = len(set(orbit_of(grown, self.members).values()))
        if orbits >= self.orbits:
            return False
        table = elements(grown, self.points, len(self.members), self.members if free else ())
        if table is None:
            return False
        self.generators, self.table, self.orbits = grown, table, orbits
        return True
