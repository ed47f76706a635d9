"""Roots and columns of the LP: a family is served by its columns, each one out-tree, in-tree or set of paths."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from synth.demand.model import Demand, EvenPairs
from synth.formulation.flow.network import Hop, Network
from synth.ground.arrays import Floats

FamilyKind = Literal["out", "in", "paths"]


@dataclass(frozen=True, slots=True)
class Family:
    """One convexity row of the master.

    Attributes
    ----------
    kind
        ``out`` and ``in``: trees rooted at ``rank``; ``paths``: unicast from ``rank``.
    rank
        Root rank.
    size
        Bytes of the shard (of each of ``commodities`` in turn for ``paths``: see ``Demand.commodities``).
    commodities
        Indices into ``Demand.commodities`` that a column of this family serves.
    """

    kind: FamilyKind
    rank: int
    size: float
    commodities: Sequence[int]


@dataclass(frozen=True, slots=True)
class Column:
    """One way to serve a family.

    Attributes
    ----------
    family
        Index of the family.
    hops
        Trees: the hops, parents before children for ``out``, children before parents for ``in``.
    paths
        Unicast: link indices per commodity of the family, in the family's order.
    """

    family: int
    hops: tuple[Hop, ...] = ()
    paths: tuple[tuple[int, ...], ...] = ()


def families_of(demand: Demand) -> tuple[Family, ...]:
    """Families of a demand: one per shard, one per unicast source, or two per meeting point for all-reduce."""
    items = demand.commodities
    if demand.pattern == "allreduce":
        size = items[0].size
        return tuple(Family(kind, rank, size, (0,)) for rank in demand.ranks for kind in ("in", "out"))
    if isinstance(items, EvenPairs):
        return tuple(Family("paths", s, items.size, items.of_source(k)) for k, s in enumerate(items.ranks))
    if demand.pattern == "unicast":
        groups: dict[int, list[int]] = {}
        for k, c in enumerate(items):
            groups.setdefault(c.root, []).append(k)
        return tuple(Family("paths", s, max(items[k].size for k in group), tuple(group)) for s, group in groups.items())
    kind: FamilyKind = "out" if demand.pattern == "multicast" else "in"
    return tuple(Family(kind, c.root, c.size, (k,)) for k, c in enumerate(items))


def column_bytes(network: Network, demand: Demand, family: Family, column: Column) -> Floats:
    """Bytes that a column used in full puts on each link (length: links)."""
    links = [link for hop in column.hops for link in hop.links] + [link for path in column.paths for link in path]
    sizes: Floats | None = None
    if column.paths:
        sizes = np.repeat(demand.sizes(family.commodities), [len(path) for path in column.paths])
    used = np.bincount(np.array(links, dtype=np.int64), sizes, minlength=len(network.topology.links))
    return np.asarray(used if column.paths else used * family.size, dtype=float)
