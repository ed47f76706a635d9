"""What part of a plan's bytes each kind of path delivers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import get_args

from synth.formulation.flow.network import Hop
from synth.formulation.flow.routes import Route
from synth.solver.flow.plan import Plan
from synth.topology.paths import PathKind, path_kind

KINDS: tuple[PathKind, ...] = get_args(PathKind)


def kind_shares(plan: Plan) -> Mapping[PathKind, float]:
    """Part of the delivered bytes per kind of path; the sum is 1 (all 0 when nothing moves).

    A delivery goes from who has the data to the next who wants it: in an all-gather from a rank to a child in the
    tree, in a reduction from a child to its parent, in an all-to-all from source to destination. A GPU between them
    that only forwards makes it a relay, whatever the links (:func:`~synth.topology.paths.path_kind`).
    """
    topology, demand = plan.topology, plan.demand
    kind = lru_cache(maxsize=None)(lambda links: path_kind(topology, links))
    total: dict[PathKind, float] = dict.fromkeys(KINDS, 0.0)
    members = {topology.gpus[rank] for rank in demand.ranks}
    for route in plan.routes:
        item = demand.commodities[route.commodity]
        size = item.size * route.share
        ends = members if item.dest is None else {topology.gpus[item.root], topology.gpus[item.dest]}
        for links in deliveries(route, ends):
            total[kind(links)] += size
    whole = sum(total.values())
    return {name: part / whole if whole else 0.0 for name, part in total.items()}


def deliveries(route: Route, ends: set[int]) -> Iterator[tuple[int, ...]]:
    """Links of each delivery of a route; ``ends`` are the GPU nodes that have or want the data."""
    yield from _outward(route.copy_hops, ends)
    backwards = tuple(Hop(hop.dst, hop.src, hop.links[::-1]) for hop in reversed(route.reduce_hops))
    yield from (links[::-1] for links in _outward(backwards, ends))


def _outward(hops: tuple[Hop, ...], ends: set[int]) -> Iterator[tuple[int, ...]]:
    """Links from each holder to the next; hops are given parents first."""
    passed: dict[int, tuple[int, ...]] = {}
    for hop in hops:
        links = passed.get(hop.src, ()) + hop.links
        if hop.dst in ends:
            yield links
        else:
            passed[hop.dst] = links
