"""The solver against second methods that share nothing with it (``tests/reference_lp.py``), on random machines."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import synth
from synth.demand import COLLECTIVES, Demand
from synth.program.msccl.xml import read_xml
from synth.solver.flow import Plan, certified_bound
from synth.topology import Link, Node, Resource, Topology
from tests.reference_lp import (
    allreduce_time,
    composed_time,
    cut_time,
    flow_time,
    reference_time,
    scaled,
    time_of_routes,
    transpose,
)
from tests.strategies import bandwidths, topologies

RELATIVE = 1e-6
GB = 1e9
TREES = ("allgather", "reducescatter", "broadcast", "reduce")
UNICAST = ("alltoall", "alltoallv", "gather", "scatter", "sendrecv")

some = settings(max_examples=20, deadline=None, derandomize=True)
few = settings(max_examples=10, deadline=None, derandomize=True)


def assert_certified(plan: Plan, reference: float) -> None:
    """The plan is the optimum, and says so; its bound never lies."""
    assert plan.status == "optimal"
    assert plan.gap <= RELATIVE
    assert plan.recheck() == pytest.approx(plan.bound, rel=1e-9)
    assert plan.bound <= plan.time
    assert plan.time == pytest.approx(reference, rel=RELATIVE)
    assert plan.bound <= reference * (1 + 1e-9)
    assert time_of_routes(plan) == pytest.approx(plan.time, rel=1e-9)
    assert sum(plan.network.capacity * plan.prices) == pytest.approx(1.0, rel=1e-9)


@st.composite
def demands(
    draw: st.DrawFn, topology: Topology, collectives: Sequence[str] = COLLECTIVES, *, subset: bool = True
) -> Demand:
    """A collective among some ranks in any order, with uneven shards or matrices where there may be any."""
    count = len(topology.gpus)
    ranks = draw(st.permutations(range(count)))
    if subset:
        ranks = ranks[: draw(st.integers(2, count))]
    collective = draw(st.sampled_from(collectives))
    sizes = st.sampled_from((0.0, 1e9, 2e9, 0.3e9)) | st.floats(1e6, 1e10)
    if collective == "alltoallv":
        matrix = [[draw(sizes) for _ in ranks] for _ in ranks]
        return synth.make_demand(topology, collective, ranks=ranks, matrix=matrix)
    if collective in ("allgather", "reducescatter") and draw(st.booleans()):
        return synth.make_demand(topology, collective, ranks=ranks, shards=[draw(sizes) for _ in ranks])
    root = draw(st.sampled_from(ranks)) if collective in ("broadcast", "reduce", "gather", "scatter") else None
    return synth.make_demand(topology, collective, draw(st.sampled_from((1e9, 1e6, 123456.0))), ranks=ranks, root=root)


# (a) unicast against the plain source-aggregated edge-flow LP


@some
@given(st.data())
def test_unicast_against_the_edge_flow_lp(data: st.DataObject) -> None:
    topology = data.draw(topologies(min_gpus=2, max_gpus=6, relays=data.draw(st.booleans())))
    demand = data.draw(demands(topology, UNICAST))
    plan = synth.solve(topology, demand)
    if demand.empty:
        assert (plan.time, plan.bound) == (0.0, 0.0)
        return
    assert_certified(plan, reference_time(topology, demand))


# (b) multicast and reduction against all arborescences, cuts and maximum flows


@some
@given(st.data())
def test_trees_against_all_arborescences(data: st.DataObject) -> None:
    topology = data.draw(topologies(min_gpus=2, max_gpus=4, relays=data.draw(st.booleans())))
    demand = data.draw(demands(topology, TREES))
    plan = synth.solve(topology, demand)
    if demand.empty:
        assert (plan.time, plan.bound) == (0.0, 0.0)
        return
    assert_certified(plan, reference_time(topology, demand))


@some
@given(st.data())
def test_allgather_against_all_cuts(data: st.DataObject) -> None:
    topology = data.draw(topologies(min_gpus=2, max_gpus=6, pools=False, switches=False))
    shards = [data.draw(st.sampled_from((1e9, 2e9, 0.5e9))) for _ in topology.gpus]
    gathered = synth.solve(topology, "allgather", shards=shards)
    assert_certified(gathered, cut_time(topology, dict(enumerate(shards))))
    scattered = synth.solve(topology, "reducescatter", shards=shards)
    assert_certified(scattered, cut_time(transpose(topology), dict(enumerate(shards))))


@few
@given(st.data())
def test_allgather_through_balanced_switches_against_all_cuts(data: st.DataObject) -> None:
    """With as much capacity into a switch as out of it, forwarding alone reaches the cut bound (ForestColl)."""
    topology = duplexed(data.draw(topologies(min_gpus=2, max_gpus=5, pools=False)))
    plan = synth.solve(topology, "allgather", 1e9)
    assert_certified(plan, cut_time(topology, dict.fromkeys(range(len(topology.gpus)), 1e9 / len(topology.gpus))))


@few
@given(topologies(min_gpus=2, max_gpus=5, pools=False))
def test_no_cut_is_ever_beaten(topology: Topology) -> None:
    plan = synth.solve(topology, "allgather", 1e9)
    cut = cut_time(topology, dict.fromkeys(range(len(topology.gpus)), 1e9 / len(topology.gpus)))
    assert plan.time >= cut * (1 - 1e-9)


@few
@given(topologies(min_gpus=2, max_gpus=7, pools=False, switches=False))
def test_broadcast_and_reduce_against_maximum_flows(topology: Topology) -> None:
    root = len(topology.gpus) - 1
    assert_certified(synth.solve(topology, "broadcast", 1e9, root=root), flow_time(topology, root, 1e9))
    assert_certified(synth.solve(topology, "reduce", 1e9, root=root), flow_time(transpose(topology), root, 1e9))


@few
@given(st.data())
def test_reduction_is_multicast_on_the_transposed_machine(data: st.DataObject) -> None:
    topology = data.draw(topologies(max_gpus=6, relays=data.draw(st.booleans())))
    turned = transpose(topology)
    forward = synth.solve(topology, "reducescatter", 1e9).time
    assert forward == pytest.approx(synth.solve(turned, "allgather", 1e9).time, rel=RELATIVE)
    root = data.draw(st.integers(0, len(topology.gpus) - 1))
    inward = synth.solve(topology, "reduce", 1e9, root=root).time
    assert inward == pytest.approx(synth.solve(turned, "broadcast", 1e9, root=root).time, rel=RELATIVE)


def duplexed(topology: Topology) -> Topology:
    """Every link with an equal one back."""
    back = (replace(link, id=f"{link.id}-back", src=link.dst, dst=link.src) for link in topology.links)
    return replace(topology, links=(*topology.links, *back))


# (c) all-reduce against all pairs of in-trees and out-trees


@some
@given(st.data())
def test_allreduce_against_all_tree_pairs(data: st.DataObject) -> None:
    topology = data.draw(topologies(min_gpus=2, max_gpus=4, relays=data.draw(st.booleans())))
    demand = data.draw(demands(topology, ("allreduce",)))
    plan = synth.solve(topology, demand)
    assert_certified(plan, allreduce_time(topology, demand.size_bytes, demand.ranks))
    composed = composed_time(topology, demand.size_bytes, demand.ranks)
    assert plan.alternatives["reducescatter+allgather"] == pytest.approx(composed, rel=RELATIVE)
    assert plan.alternatives[plan.method] == pytest.approx(plan.time, rel=1e-9)


def test_allreduce_without_reduce_scatter() -> None:
    """Only g1 both hears from and reaches everyone, so it is the only meeting point and all-gather is impossible."""
    nodes = tuple(Node(f"g{i}", "gpu", relay=False) for i in range(3))
    cables = [("g0", "g1"), ("g1", "g0"), ("g2", "g1"), ("g1", "g2")]
    topology = Topology("hub", nodes, tuple(Link(f"{a}{b}", a, b, GB) for a, b in cables))
    plan = synth.solve(topology, "allreduce", 1e9)
    assert_certified(plan, 1.0)
    assert plan.time == pytest.approx(allreduce_time(topology, 1e9, range(3)), rel=RELATIVE)
    assert plan.method == "tree"
    with pytest.raises(synth.InfeasibleError):
        synth.solve(topology, "allgather", 1e9)


# invariances


@few
@given(st.data(), st.sampled_from((1e-9, 1e9)))
def test_scale_invariance(data: st.DataObject, factor: float) -> None:
    """Rates times f and sizes times f: the same time. Sizes times f alone: f times the time."""
    topology = data.draw(topologies(max_gpus=4))
    demand = data.draw(demands(topology))
    plain = synth.solve(topology, demand).time
    both = synth.solve(scaled(topology, factor), magnified(demand, factor))
    assert both.gap <= RELATIVE
    assert both.time == pytest.approx(plain, rel=2 * RELATIVE)
    assert synth.solve(topology, magnified(demand, factor)).time == pytest.approx(plain * factor, rel=2 * RELATIVE)


def magnified(demand: Demand, factor: float) -> Demand:
    return replace(
        demand,
        size_bytes=demand.size_bytes * factor,
        commodities=tuple(replace(item, size=item.size * factor) for item in demand.commodities),
        local=tuple(size * factor for size in demand.local),
    )


@few
@given(st.data())
def test_relabelling_and_reordering_change_nothing(data: st.DataObject) -> None:
    topology = data.draw(topologies(max_gpus=5, relays=data.draw(st.booleans())))
    demand = data.draw(demands(topology))
    nodes = data.draw(st.permutations(topology.nodes))
    links = data.draw(st.permutations(topology.links))
    pools = [replace(pool, uses=tuple(reversed(pool.uses))) for pool in reversed(topology.resources)]
    names = {node.id: f"n{i * 7 % 97}-{node.id}" for i, node in enumerate(nodes)}
    other = Topology(
        "other",
        tuple(replace(node, id=names[node.id]) for node in nodes),
        tuple(replace(link, src=names[link.src], dst=names[link.dst]) for link in links),
        tuple(pools),
    )
    rank = {r: other.rank_of[other.node_index[names[topology.gpu_name(r)]]] for r in range(len(topology.gpus))}
    moved = replace(
        demand,
        ranks=tuple(rank[r] for r in demand.ranks),
        root=None if demand.root is None else rank[demand.root],
        commodities=tuple(
            replace(item, root=rank.get(item.root, -1), dest=None if item.dest is None else rank[item.dest])
            for item in demand.commodities
        ),
    )
    assert synth.solve(other, moved).time == pytest.approx(synth.solve(topology, demand).time, rel=2 * RELATIVE)


@few
@given(st.data())
def test_more_capacity_never_hurts(data: st.DataObject) -> None:
    topology = data.draw(topologies(max_gpus=5))
    demand = data.draw(demands(topology))
    before = synth.solve(topology, demand).time
    k = data.draw(st.integers(0, len(topology.links) - 1))
    link = topology.links[k]
    wider = (*topology.links[:k], replace(link, bandwidth=link.bandwidth * 2), *topology.links[k + 1 :])
    assert synth.solve(replace(topology, links=wider), demand).time <= before * (1 + RELATIVE)
    more = (*topology.links, Link("new", link.dst, link.src, data.draw(bandwidths())))
    assert synth.solve(replace(topology, links=more), demand).time <= before * (1 + RELATIVE)


# the whole line


@pytest.mark.parametrize("collective", COLLECTIVES)
def test_times_are_ordered_and_programs_verify_again(collective: str) -> None:
    @settings(max_examples=3, deadline=None, derandomize=True)
    @given(st.data())
    def check(data: st.DataObject) -> None:
        topology = data.draw(topologies(max_gpus=5, relays=data.draw(st.booleans())))
        demand = data.draw(demands(topology, (collective,)))
        chunks = data.draw(st.sampled_from((1, 2, 3, 5)))
        result = synth.synthesize(topology, demand, chunks=chunks)
        found = result.to_dict()
        order = [found[f"{name}_us"] for name in ("bound", "plan", "quantized", "simulated")]
        assert all(math.isfinite(value) and value >= 0 for value in order)
        assert order == sorted(order)  # exactly: who reads the file may compare
        assert synth.verify(result.xml_program.draft).ok
        again = read_xml(result.xml)
        report = synth.verify(again, ranks=len(topology.gpus))
        assert report.ok, report.faults

    check()


# certificates under attack

NODES = tuple(Node(f"g{i}", "gpu") for i in range(4))


def _victims() -> list[Topology]:
    def build(
        name: str, pairs: Sequence[tuple[str, str, float]], *more: Node, pools: Sequence[Resource] = ()
    ) -> Topology:
        links = tuple(Link(f"l{k}", a, b, rate * GB) for k, (a, b, rate) in enumerate(pairs))
        return Topology(name, (*NODES, *more), links, tuple(pools))

    ids = [f"g{i}" for i in range(4)]
    ring = [(ids[i], ids[(i + 1) % 4], 1.0 + i) for i in range(4)]
    star = [pair for i, g in enumerate(ids) for pair in ((g, "sw", 1.0 + i), ("sw", g, 2.0))]
    mesh = [(a, b, 1.0 + (3 * i) % 5) for i, (a, b) in enumerate(permutations(ids, 2))]
    pool = Resource("pool", 3 * GB, (("l0", 1.0), ("l1", 2.0), ("l5", 1.2)))
    return [
        build("ring", ring),
        build("both", [*ring, *((b, a, 1.5) for a, b, _ in ring)]),
        build("star", star, Node("sw", "switch")),
        build("mesh", mesh, pools=[pool]),
        build("mixed", [*ring, *star], Node("sw", "switch"), pools=[pool]),
    ]


ATTACKED = [("allgather", {}), ("reduce", {"root": 2}), ("alltoall", {}), ("allreduce", {})]


@pytest.mark.parametrize("topology", _victims(), ids=lambda topology: topology.name)
@pytest.mark.parametrize(("collective", "options"), ATTACKED, ids=[name for name, _ in ATTACKED])
def test_no_prices_prove_more_than_the_optimum(topology: Topology, collective: str, options: dict[str, int]) -> None:
    """Ten random price vectors each, 200 in all: uniform, sparse, and the optimal ones spoilt."""
    import random

    demand = synth.make_demand(topology, collective, 4e9, **options)  # type: ignore[arg-type]
    best = reference_time(topology, demand)
    plan = synth.solve(topology, demand)
    good = dict(zip(plan.network.row_ids, plan.prices, strict=True))
    names = list(good)
    dice = random.Random(f"{topology.name} {collective}")
    for k in range(10):
        if k < 4:
            prices = {name: dice.random() for name in names}
        elif k < 7:
            prices = {name: dice.expovariate(1.0) for name in dice.sample(names, max(1, len(names) // 2))}
        else:
            prices = {name: price * dice.choice((0.0, 0.5, 1.0, 2.0)) for name, price in good.items()}
            prices[names[0]] = prices[names[0]] + 1e-12
        bound = certified_bound(topology, demand, prices)
        assert 0 <= bound <= best * (1 + 1e-9)


@pytest.mark.parametrize("collective", ["allgather", "alltoall", "allreduce"])
def test_spoilt_prices_are_refused(collective: str) -> None:
    topology = _victims()[3]
    plan = synth.solve(topology, collective, 4e9)
    good = dict(zip(plan.network.row_ids, plan.prices, strict=True))
    assert certified_bound(topology, plan.demand, good) == pytest.approx(plan.bound, rel=1e-9)
    first = next(iter(good))
    for bad in (math.nan, math.inf, -math.inf, -1e-15, -1.0):
        with pytest.raises(synth.InvalidInputError):
            certified_bound(topology, plan.demand, {**good, first: bad})
    for wrong in ({**good, "no such link": 1.0}, {}, dict.fromkeys(good, 0.0), {"g0": 1.0}):
        with pytest.raises(synth.InvalidInputError):
            certified_bound(topology, plan.demand, wrong)


@pytest.mark.parametrize("factor", [1e-30, 1e-9, 0.5, 3.0, 1e9, 1e30])
def test_scaling_the_prices_proves_nothing_more(factor: float) -> None:
    for topology in _victims():
        plan = synth.solve(topology, "allgather", 4e9)
        prices = {name: price * factor for name, price in zip(plan.network.row_ids, plan.prices, strict=True)}
        assert certified_bound(topology, plan.demand, prices) == pytest.approx(plan.bound, rel=1e-9)


def test_a_plan_with_other_prices_rechecks_to_their_bound() -> None:
    """Whoever edits the prices of a plan gets the bound of the new prices, not the claimed one."""
    plan = synth.solve(_victims()[1], "allgather", 4e9)
    assert plan.recheck() == pytest.approx(plan.bound, rel=1e-9)
    worse = replace(plan, prices=tuple(1.0 for _ in plan.prices))
    assert worse.recheck() < plan.bound * (1 - 1e-3)
    with pytest.raises(synth.InvalidInputError):
        replace(plan, prices=tuple(-price for price in plan.prices)).recheck()
