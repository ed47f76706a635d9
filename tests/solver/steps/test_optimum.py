"""Step optima: SCCL's frontier, oracles by hand, exhaustive search on tiny machines, and what infeasible says."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import synth
from synth.demand import make_demand
from synth.engine.pulp_engine import Engine
from synth.formulation.steps.model import Origin, StepTask, step_model
from synth.formulation.steps.network import step_network
from synth.formulation.steps.symmetry import motions
from synth.solver.steps.check import step_faults
from synth.topology import Link, Node, Resource, Topology
from tests.solver.steps.exhaustive import Links, allgather_state, alltoall_state, fewest_rounds

GBPS = 25e9


def machine(ranks: int, links: Links, name: str = "tiny") -> Topology:
    """Direct links; several chunks per round are parallel links."""
    cables = [
        Link(f"{a}-{b}.{k}", f"g{a}", f"g{b}", GBPS, 1e-6) for (a, b), width in links.items() for k in range(width)
    ]
    return Topology(name, tuple(Node(f"g{r}", "gpu") for r in range(ranks)), tuple(cables))


@st.composite
def tiny_links(draw: st.DrawFn, ranks: int, extra: int) -> Links:
    """A one-way ring, which connects everything, and some more links of width 1 or 2."""
    order = draw(st.permutations(range(ranks)))
    ring = [(order[k], order[(k + 1) % ranks]) for k in range(ranks)]
    others = [(a, b) for a in range(ranks) for b in range(ranks) if a != b and (a, b) not in ring]
    more = draw(st.lists(st.sampled_from(others), unique=True, max_size=extra)) if others else []
    return {pair: draw(st.sampled_from((1, 1, 2))) for pair in [*ring, *more]}


def test_sccl_allgather_frontier_on_dgx1() -> None:
    frontier = synth.step_frontier("dgx1-v100", "allgather", max_steps=3, max_chunks=6)
    points = [(p.chunks, p.steps, p.rounds) for p in frontier.points]
    assert points == [(1, 2, 2), (2, 2, 3), (3, 3, 4), (4, 3, 5), (5, 3, 6), (6, 3, 7)]
    assert [(p.chunks, p.steps, p.rounds) for p in frontier.fastest] == [(2, 2, 3), (6, 3, 7)]
    assert frontier.complete
    assert frontier.points[-1].rounds_per_chunk == Fraction(7, 6)
    # Seven shards of six chunks arrive over six NVLinks: every link is busy in every round.
    loads = frontier.points[-1].table.groupby("links").size()
    assert len(loads) == 48
    assert set(loads) == {7}


@pytest.mark.parametrize(
    ("collective", "chunks", "steps", "rounds"),
    [
        ("allgather", 2, 2, 2),
        ("allgather", 3, 2, 4),
        ("allgather", 6, 3, 6),
        ("alltoall", 1, 2, 2),
        ("alltoall", 3, 2, 7),
    ],
)
def test_fewer_rounds_on_dgx1_are_infeasible(collective: str, chunks: int, steps: int, rounds: int) -> None:
    with pytest.raises(synth.InfeasibleError, match=rf"needs at least {rounds + 1} rounds, {rounds} are allowed"):
        synth.step_optimum("dgx1-v100", collective, chunks=chunks, steps=steps, rounds=rounds)


@pytest.mark.parametrize(
    ("name", "collective", "chunks", "steps", "rounds"),
    [
        ("dgx1-v100", "alltoall", 1, 2, 3),
        ("dgx1-v100", "alltoall", 3, 2, 8),
        ("dgx1-v100", "reducescatter", 6, 3, 7),
        ("dgx1-v100", "allreduce", 1, 4, 4),
        ("dgx1-v100", "allreduce", 6, 6, 14),
        ("ring:4", "allgather", 1, 2, 2),
        ("ring:4", "allgather", 2, 2, 3),
        ("ring:4", "alltoall", 1, 2, 2),
        ("ring:4,both_ways=false", "allgather", 1, 3, 3),
        ("ring:4,both_ways=false", "alltoall", 1, 3, 6),
        ("switch:8", "allgather", 1, 1, 7),  # seven shards enter each port
        ("switch:4", "alltoall", 2, 1, 6),
        ("hypercube:3", "allgather", 3, 3, 7),  # 7 shards x 3 chunks over 3 links
        ("line:3", "broadcast", 4, 5, 5),  # a pipeline: chunks + hops - 1
        ("line:3", "reduce", 4, 5, 5),
        ("torus2d:4x4", "alltoall", 1, 4, 8),  # 16 x 32 hops of distance over 64 links
    ],
)
def test_proven_optima(name: str, collective: str, chunks: int, steps: int, rounds: int) -> None:
    found = synth.step_optimum(name, collective, chunks=chunks, steps=steps)
    assert (found.chunks, found.steps, found.rounds, found.status) == (chunks, steps, rounds, "optimal")
    assert step_faults(found) == []


def test_broadcast_pipelines_as_far_as_sccl_got() -> None:
    """SCCL's best after minutes: 13 chunks in 4 steps of one round on a DGX-1."""
    found = synth.step_optimum("dgx1-v100", "broadcast", chunks=13, steps=4, rounds=4)
    assert (found.rounds, found.status) == (4, "optimal")


@settings(max_examples=20)
@given(st.data())
def test_allgather_agrees_with_exhaustive_search(data: st.DataObject) -> None:
    ranks = data.draw(st.sampled_from((3, 4)))
    chunks = data.draw(st.sampled_from((1, 2) if ranks == 3 else (1,)))
    links = data.draw(tiny_links(ranks, 3))
    topology = machine(ranks, links)
    found = synth.step_optimum(topology, "allgather", chunks=chunks)
    start, wanted = allgather_state(ranks, chunks)
    assert found.status == "optimal"
    assert found.rounds == fewest_rounds(links, start, wanted, found.steps, found.rounds)
    if found.steps > 1:
        assert fewest_rounds(links, start, wanted, found.steps - 1, found.rounds + 3) is None
    turned = machine(ranks, {(b, a): width for (a, b), width in links.items()})
    assert synth.step_optimum(turned, "reducescatter", chunks=chunks, steps=found.steps).rounds == found.rounds


@settings(max_examples=12)
@given(tiny_links(3, 3), st.sampled_from((1, 1, 2)), st.sampled_from((0, 1)))
def test_alltoall_agrees_with_exhaustive_search(links: Links, chunks: int, more: int) -> None:
    topology = machine(3, links)
    least = synth.step_optimum(topology, "alltoall", chunks=chunks).steps
    if least + more > 2:
        more = 0
    found = synth.step_optimum(topology, "alltoall", chunks=chunks, steps=least + more)
    start, wanted = alltoall_state(3, chunks)
    assert found.status == "optimal"
    assert found.rounds == fewest_rounds(links, start, wanted, found.steps, found.rounds)


@settings(max_examples=8)
@given(tiny_links(4, 5), st.sampled_from(("allgather", "alltoall", "reducescatter", "allreduce", "gather", "scatter")))
def test_symmetry_changes_no_optimum_and_schedules_lower(links: Links, collective: str) -> None:
    topology = machine(4, links)
    found = synth.step_optimum(topology, collective, "1 GB", chunks=2)
    plain = synth.step_optimum(topology, collective, "1 GB", chunks=2, symmetry="off")
    assert (found.steps, found.rounds, found.bound) == (plain.steps, plain.rounds, plain.bound)
    schedule = found.schedule()
    assert schedule.lower("msccl").report.ok
    assert schedule.plan.bound <= schedule.plan.time <= schedule.quantized <= schedule.simulated
    assert schedule.plan.bound <= found.time


@pytest.mark.parametrize("collective", sorted(set(synth.COLLECTIVES) - {"alltoallv"}))
@pytest.mark.parametrize(
    ("name", "ranks"), [("switch:4", None), ("mesh2d:2x3", [0, 2, 4]), ("dgx1-v100", [0, 3, 5, 6])]
)
def test_every_collective_becomes_a_verified_program(collective: str, name: str, ranks: list[int] | None) -> None:
    found = synth.step_optimum(name, collective, chunks=2, ranks=ranks)
    assert step_faults(found) == []
    assert found.schedule().lower("msccl").report.ok


def test_a_relay_passes_several_partial_sums_one_by_one() -> None:
    """A star whose hub takes no part: it can not add, so two sums go through it to the root."""
    hub = machine(4, {pair: 1 for leaf in (1, 2, 3) for pair in ((0, leaf), (leaf, 0))})
    found = synth.step_optimum(hub, "reduce", ranks=[1, 2, 3])
    assert (found.steps, found.rounds, found.status) == (2, 3, "optimal")
    assert found.schedule().lower("msccl").report.ok


def test_uneven_shards_and_matrices() -> None:
    found = synth.step_optimum("ring:3", "allgather", shards=[1e6, 2e6, 3e6], chunks=3)
    assert found.shard_chunks == (1, 2, 3)
    assert (found.steps, found.rounds, found.status) == (1, 3, "optimal")
    assert found.schedule().lower("msccl").report.ok
    matrix = [[0, 4e6, 0], [1e6, 0, 0], [0, 2e6, 0]]
    sent = synth.step_optimum("ring:3", "alltoallv", matrix=matrix, chunks=4)
    assert sent.shard_chunks == (4, 1, 2)
    assert (sent.steps, sent.rounds) == (1, 4)
    assert sent.schedule().lower("msccl").report.ok


def test_links_of_different_width_and_pools() -> None:
    """A link of 1.5 times the unit sends 3 chunks in 2 rounds; a pool that both directions share halves them."""
    nodes = (Node("a", "gpu"), Node("b", "gpu"))
    links = (Link("x", "a", "b", 1.5e9), Link("y", "b", "a", 1e9))
    found = synth.step_optimum(Topology("uneven", nodes, links), "broadcast", chunks=3)
    assert (found.unit, found.rounds) == (1e9, 2)
    pool = Resource("dram", 1e9, (("x", 1.0), ("y", 1.0)))
    shared = synth.step_optimum(Topology("pool", nodes, links, (pool,)), "allgather", chunks=3)
    assert (shared.rounds, shared.status) == (6, "optimal")
    coarse = synth.step_optimum("dgx1-v100", "allgather", chunks=6, steps=3, round_bandwidth=GBPS / 2)
    assert coarse.rounds == 4  # a link sends two chunks per round: 7 / 2, rounded up


def test_least_steps_for_given_rounds() -> None:
    found = synth.step_optimum("dgx1-v100", "allgather", chunks=3, rounds=4)
    assert (found.steps, found.rounds) == (3, 4)  # two steps need five
    with pytest.raises(synth.InfeasibleError, match="any number of steps needs at least 4 rounds, 3 are allowed"):
        synth.step_optimum("dgx1-v100", "allgather", chunks=3, rounds=3)


def test_too_few_steps_name_the_pair() -> None:
    """Oracle T23."""
    with pytest.raises(synth.InfeasibleError, match="rank 0 to rank 3 needs 3 hops"):
        synth.step_optimum("ring:4,both_ways=false", "allgather", steps=2)
    with pytest.raises(synth.InfeasibleError, match="take 4 steps together, 3 are allowed"):
        synth.step_optimum("ring:4", "allreduce", steps=3)


def test_bad_numbers_are_refused_at_once() -> None:
    with pytest.raises(synth.InvalidInputError) as caught:
        synth.step_optimum("ring:4", "allgather", chunks=0, steps=-1, rounds=0)
    assert len(caught.value.faults) == 3
    with pytest.raises(synth.InvalidInputError, match="PuLP finds HiGHS"):
        synth.step_optimum("ring:4", "allgather", engine="no such engine")
    with pytest.raises(synth.InvalidInputError, match="auto or off"):
        synth.step_optimum("ring:4", "allgather", symmetry="maybe")
    with pytest.raises(synth.InvalidInputError, match="must be positive"):
        synth.step_optimum("ring:4", "allgather", round_bandwidth=-1.0)


def test_time_limit_with_nothing_to_show() -> None:
    with pytest.raises(synth.LimitReachedError, match="no schedule found within the time limit"):
        synth.step_optimum("dgx1-v100", "allgather", chunks=2, time_limit=0.0)


def test_allreduce_says_that_its_composition_may_not_be_best() -> None:
    found = synth.step_optimum("dgx1-v100", "allreduce", chunks=2, steps=4)
    assert (found.rounds, found.bound, found.status) == (6, 5, "feasible")
    assert found.gap == pytest.approx(1 / 6)
    with pytest.raises(synth.LimitReachedError, match="whether another all-reduce does is open"):
        synth.step_optimum("dgx1-v100", "allreduce", chunks=2, steps=4, rounds=5)


def test_nothing_to_move() -> None:
    found = synth.step_optimum("ring:4", "allgather", ranks=[2])
    assert (found.steps, found.rounds, found.status) == (0, 0, "optimal")
    assert found.schedule().transfers == ()
    assert "none" in found.summary()


def test_relaxation_is_a_bound_and_symmetric_schedules_are_schedules() -> None:
    topology = synth.resolve("mesh2d:2x3")
    demand = make_demand(topology, "allgather", 1e9)
    network = step_network(topology)
    group = motions(network, demand)
    assert len(group) > 1
    origins = tuple(Origin(r, tuple((q, 2) for q in range(6) if q != r), 2) for r in range(6))
    task = StepTask(network, origins, 3, "multicast")
    sums = []
    stages = ((True, False, group[:1]), (True, False, group), (True, True, group), (False, False, group[:1]))
    for relaxed, flows, elements in (*stages, (False, False, group)):
        model = step_model(task, elements, fewest=3, relaxed=relaxed, flows=flows)
        assert Engine("HiGHS", math.inf).run(model.problem) == "optimal"
        sums.append(sum(model.read_rounds() or ()))
    assert sums[0] == sums[1] <= sums[2] <= sums[3] <= sums[4]


def test_motions_keep_links_and_fix_no_rank() -> None:
    for name, order in (("mesh2d:4x4", 4), ("dgx1-v100", 4), ("mi250-16", 4), ("switch:8", 8), ("mesh2d:3x3", 1)):
        topology = synth.resolve(name)
        network = step_network(topology)
        group = motions(network, make_demand(topology, "allgather", 1e9))
        assert len(group) >= order
        for motion in group[1:]:
            assert all(motion.ranks[r] != r for r in range(len(topology.gpus)))
            for hop, (a, b) in enumerate(network.ends):
                image = motion.hops[hop]
                assert network.ends[image] == (motion.ranks[a], motion.ranks[b])
                widths = [sorted((network.room[row], times) for row, times in network.uses[k]) for k in (hop, image)]
                assert widths[0] == widths[1]


def test_non_relaying_gpus_forward_nothing() -> None:
    nodes = tuple(Node(f"g{r}", "gpu", relay=r != 1) for r in range(4))
    ring = synth.resolve("ring:4")
    topology = Topology("rigid", nodes, tuple(Link(x.id, x.src, x.dst, x.bandwidth) for x in ring.links))
    for collective in ("allgather", "reducescatter", "alltoall"):
        found = synth.step_optimum(topology, collective, steps=2)
        assert found.status == "optimal"
        assert found.schedule().lower("msccl").report.ok
    # Two links into rank 3 carry three chunks for it and both that ranks 0 and 2 exchange: 5 / 2, rounded up.
    assert found.rounds == 3


def test_the_same_bytes_every_time() -> None:
    one, two = (synth.step_optimum("dgx1-v100", "allgather", chunks=6, steps=3) for _ in range(2))
    assert one.sends == two.sends
