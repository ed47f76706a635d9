"""Cheapest hops between all members, searched from one member per orbit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from synth.formulation.flow.network import HopGraph, ShortestHops
from synth.formulation.flow.symmetry import Symmetry
from synth.ground.arrays import Floats, Table


class MemberHops:
    """Finds hops between the members of a demand at prices that are equal on the orbits of rows.

    Parameters
    ----------
    graph
        Where paths run.
    members
        Node index of each member.
    symmetry
        Group that keeps the members as a set.
    """

    def __init__(self, graph: HopGraph, members: Sequence[int], symmetry: Symmetry) -> None:
        self._graph, self.members, self.symmetry = graph, list(members), symmetry
        ranks = [symmetry.topology.rank_of[node] for node in self.members]
        place_of = {rank: k for k, rank in enumerate(ranks)}
        first = [place_of[int(rank)] for rank in symmetry.first_rank[ranks]]
        self._origins = sorted(set(first))
        self._row = [self._origins.index(k) for k in first]
        self._mover = [int(symmetry.mover[rank]) for rank in ranks]
        place = np.full(len(symmetry.topology.nodes), -1, dtype=np.int32)
        place[self.members] = np.arange(len(self.members), dtype=np.int32)
        # Where the element that brings the first member of an orbit to member k (row k) sends the members.
        self._moved = place[symmetry.nodes[self._mover][:, self.members]]

    def search(self, link_prices: Floats) -> FoundHops:
        """Cheapest hop from every member to every other."""
        found = self._graph.search(link_prices, [self.members[k] for k in self._origins])
        base = found.cost[:, self.members]
        if self.symmetry.order == 1:
            return FoundHops(base, found, self)
        cost = np.empty((len(self.members), len(self.members)))
        np.put_along_axis(cost, self._moved, base[self._row], axis=1)
        return FoundHops(cost, found, self)

    def path(self, found: ShortestHops, start: int, end: int) -> tuple[int, ...]:
        """Links of the hop from member ``start`` to member ``end``."""
        element = self._mover[start]
        node = self.members[end] if element == 0 else int(self._inverse[element][self.members[end]])
        return self.symmetry.moved_path(element, found.path(self._row[start], node))

    @cached_property
    def _inverse(self) -> _Inverses:
        return _Inverses(self.symmetry.nodes)


class _Inverses(dict[int, Table]):
    """Inverse of each element, made when it is asked for."""

    def __init__(self, nodes: Table) -> None:
        super().__init__()
        self._nodes = nodes

    def __missing__(self, element: int) -> Table:
        self[element] = out = np.argsort(self._nodes[element]).astype(np.int32)
        return out


@dataclass(frozen=True, slots=True)
class FoundHops:
    """Result of :meth:`MemberHops.search`: ``cost[i, j]`` from member i to member j (inf when unreachable)."""

    cost: Floats
    _found: ShortestHops
    _hops: MemberHops

    def path(self, start: int, end: int) -> tuple[int, ...]:
        """Link indices of the hop from member ``start`` to member ``end``."""
        return self._hops.path(self._found, start, end)
