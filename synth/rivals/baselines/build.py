"""A recipe with a chunk count as a schedule with a plan of its own."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from synth.demand.model import Demand
from synth.errors import InvalidInputError
from synth.formulation.flow.network import Network
from synth.formulation.flow.routes import Route, link_bytes
from synth.rivals.baselines.kinds import Recipe
from synth.rivals.baselines.routes import PathChooser, Stepped, in_tree, out_tree, unicast
from synth.rivals.baselines.trees import Edge
from synth.schedule.chunks.build import order_routes, reordered, transfers_of
from synth.schedule.chunks.quantise import Split, chunk_layout, hamilton
from synth.schedule.model import Schedule, Transfer
from synth.schedule.paths import GpuPaths
from synth.schedule.simulate.run import with_times
from synth.solver.flow.certificate import certified_bound
from synth.solver.flow.plan import Plan, SolverInfo
from synth.topology.model import Topology


def build(topology: Topology, demand: Demand, recipe: Recipe, chunks: int, reference: Plan | None = None) -> Schedule:
    """Schedule of a recipe with ``chunks`` chunks per shard.

    Raises
    ------
    InvalidInputError
        When the chunk count is not a positive whole number.
    InfeasibleError
        When some rank cannot be reached.
    """
    if isinstance(chunks, bool) or chunks != int(chunks) or chunks < 1:
        raise InvalidInputError(f"chunks {chunks!r} must be a whole number, 1 or more")
    chunk_bytes, shard_chunks = chunk_layout(demand, chunks)
    parts = _parts(topology, demand, recipe, shard_chunks)
    pairs = [(replace(route, share=n / shard_chunks[route.commodity]), n) for route, _, n in parts if n]
    plan = plan_of_routes(topology, demand, [route for route, _ in pairs], reference)
    loads = np.zeros(len(topology.links))
    for route, n in pairs:
        for hop in route.hops:
            loads[list(hop.links)] += n * chunk_bytes
    time = max(float((plan.network.row_bytes(loads) / plan.network.capacity).max()), plan.time)
    split = Split(chunks, chunk_bytes, shard_chunks, (), (), time, False)
    if recipe.stepped:
        return _in_steps(plan, split, pairs, [steps for _, steps, n in parts if n])
    return order_routes(plan, split, pairs)


Part = tuple[Route, tuple[int, ...], int]
"""A route, the step of each of its hops, and its chunks."""


def _parts(topology: Topology, demand: Demand, recipe: Recipe, shard_chunks: Sequence[int]) -> list[Part]:
    finder = GpuPaths(topology, max(item.size for item in demand.commodities), relays=True)
    chooser = PathChooser(finder, dict(recipe.paths))
    members = {topology.gpus[rank] for rank in demand.ranks}
    if recipe.path is not None:
        return [
            _part(k, item.root, [], unicast(chooser, recipe.path(item.root, -1 if item.dest is None else item.dest)), n)
            for k, (item, n) in enumerate(zip(demand.commodities, shard_chunks, strict=True))
        ]
    out: list[Part] = []
    for k, n in enumerate(shard_chunks):
        item = demand.commodities[k]
        roots = demand.ranks if item.root < 0 and not recipe.rooted else (item.root,)
        ways = [way for root in roots for way in _ways(recipe, root)]
        counts = hamilton(np.ones(len(ways)), n).tolist()
        for (variant, root, edges, back), count in zip(ways, counts, strict=True):
            if count:
                ups = in_tree(chooser, variant, root, back, members) if demand.pattern != "multicast" else []
                downs = out_tree(chooser, variant, root, edges, members) if demand.pattern != "reduction" else []
                out.append(_part(k, root, ups, downs, count))
    return out


def _ways(recipe: Recipe, root: int) -> list[tuple[int, int, list[Edge], list[Edge]]]:
    """(variant, root, edges of the out-tree, edges that a reduction takes backwards)."""
    if recipe.rooted:
        return [(k, at, edges, edges) for k, (at, edges) in enumerate(recipe.rooted)]
    backs = recipe.back or recipe.trees
    return [(k, root, tree(root), back(root)) for k, (tree, back) in enumerate(zip(recipe.trees, backs, strict=True))]


def _part(commodity: int, root: int, ups: list[Stepped], downs: list[Stepped], count: int) -> Part:
    last = 1 + max((step for _, step in ups), default=-1)
    steps = tuple(step for _, step in ups) + tuple(last + step for _, step in downs)
    route = Route(commodity, root, 0.0, tuple(hop for hop, _ in ups), tuple(hop for hop, _ in downs))
    return route, steps, count


def plan_of_routes(topology: Topology, demand: Demand, routes: Sequence[Route], reference: Plan | None) -> Plan:
    """The routes as a plan; its bound is the reference's, or what one GPU's links must carry."""
    network = Network(topology)
    load = network.row_bytes(link_bytes(network, demand, routes))
    time = float((load / network.capacity).max())
    if reference is not None:
        prices, bound = reference.prices, min(reference.bound, time)
    else:
        prices = _gpu_prices(topology, demand)
        bound = min(certified_bound(topology, demand, dict(zip(network.row_ids, prices, strict=True))), time)
    columns = tuple(routes)
    if demand.pattern == "allreduce":
        columns = tuple(half for r in routes for half in (replace(r, copy_hops=()), replace(r, reduce_hops=())))
    info = SolverInfo("baseline", importlib.metadata.version("synth"), 0, len(columns))
    return Plan(topology, demand, columns, time, bound, prices, 1e-6, "baseline", info)


def _gpu_prices(topology: Topology, demand: Demand) -> tuple[float, ...]:
    """Equal prices on the links into or out of the GPU that has most to do for its capacity."""
    best: tuple[float, tuple[float, ...]] = (-1.0, ())
    moved = {topology.gpus[rank]: [0.0, 0.0] for rank in demand.ranks}
    for item in demand.commodities:
        dests = demand.ranks if item.dest is None and demand.pattern != "reduction" else (item.root,)
        sources = demand.ranks if demand.pattern in ("reduction", "allreduce") else (item.root,)
        dests = dests if item.dest is None else (item.dest,)
        for rank in dests:
            moved[topology.gpus[rank]][0] += item.size if sources != (rank,) else 0.0
        for rank in sources:
            moved[topology.gpus[rank]][1] += item.size if dests != (rank,) else 0.0
    for gpu, sides in moved.items():
        for side, size in enumerate(sides):
            links = [k for k, ends in enumerate(topology.ends) if ends[1 - side] == gpu]
            total = sum(topology.links[k].capacity for k in links)
            if links and size / total > best[0]:
                prices = [0.0] * (len(topology.links) + len(topology.resources))
                for k in links:
                    prices[k] = 1.0 / total
                best = (size / total, tuple(prices))
    return best[1]


def _in_steps(
    plan: Plan, split: Split, pairs: Sequence[tuple[Route, int]], steps: Sequence[tuple[int, ...]]
) -> Schedule:
    """Transfers step by step; those of one hop in one step are one message."""
    transfers = transfers_of(plan, pairs)
    step = _step_of(transfers, steps)
    order = sorted(range(len(transfers)), key=lambda k: (step[k], transfers[k].src, transfers[k].links, k))
    number: dict[tuple[tuple[int, int], tuple[int, ...]], int] = {}
    messages = tuple(number.setdefault((step[k], transfers[k].links), len(number)) for k in order)
    schedule = Schedule(
        plan,
        split.chunks,
        split.chunk_bytes,
        split.shard_chunks,
        tuple(route for route, _ in pairs),
        tuple(n for _, n in pairs),
        reordered(transfers, order),
        (),
        (),
        split.time,
        0.0,
        proven=False,
        messages=messages,
    )
    return with_times(schedule)


def _step_of(transfers: Sequence[Transfer], steps: Sequence[tuple[int, ...]]) -> list[tuple[int, int]]:
    """(step, hops since the step began) of each transfer; a route's transfers stand hop by hop, chunk by chunk."""
    place: dict[tuple[int, int], int] = {}
    out: list[tuple[int, int]] = []
    for t in transfers:
        hop = place.get((t.route, t.first), 0)
        place[t.route, t.first] = hop + 1
        now = steps[t.route][hop]
        within = 1 + max((out[d][1] for d in t.deps if out[d][0] == now), default=-1)
        out.append((now, within))
    return out
