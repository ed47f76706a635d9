"""Baselines: times derived by hand, programs that verify, and what must hold on any machine."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import synth
from synth.errors import InvalidInputError, SynthError
from synth.rivals.baselines.rings import find_rings
from synth.rivals.baselines.textbook import BASELINES, baseline, baselines
from synth.schedule import Schedule, TimeModel, simulate_schedule
from synth.schedule.paths import GpuPaths
from synth.schedule.simulate.bounds import plan_bound
from synth.topology import Topology, resolve
from tests.schedule.test_schedule import check_schedule
from tests.strategies import topologies

SIZE = 1e6
#: (25 GB/s, 0.7 us) as TE-CCL's and TACOS's instances have it.
ALPHA, BETA = 0.7e-6, SIZE / 25e9
COLLECTIVES = ("allgather", "reducescatter", "allreduce", "alltoall", "broadcast", "reduce")


def mesh(n: int) -> Topology:
    return resolve(f"fullmesh:{n},bandwidth=25 GB/s,latency=0.7 us")


def made(
    topology: Topology, collective: str, name: str, chunks: int | None = 1, model: TimeModel | None = None
) -> Schedule:
    return baseline(name, topology, synth.make_demand(topology, collective, SIZE), chunks=chunks, model=model)


@pytest.mark.parametrize(
    ("collective", "name", "steps", "shards"),
    [
        # Full mesh of 8: latencies and shards (1/8 of the size) one after the other on the critical chain.
        ("allgather", "ring", 7, 7),
        ("reducescatter", "ring", 7, 7),
        ("allreduce", "ring", 14, 14),
        ("allgather", "recursive-doubling", 3, 7),
        ("reducescatter", "recursive-doubling", 3, 7),
        ("allreduce", "recursive-doubling", 6, 14),
        ("allgather", "bruck", 3, 7),
        ("alltoall", "bruck", 3, 12),
        ("allgather", "direct", 1, 1),
        ("alltoall", "direct", 1, 1),
        ("allreduce", "direct", 2, 2),
        ("broadcast", "recursive-doubling", 3, 24),
        ("broadcast", "direct", 1, 8),
    ],
)
@pytest.mark.parametrize("alpha", ["pipelined", "blocking"])
def test_times_on_a_full_mesh_are_the_textbooks(
    collective: str, name: str, steps: int, shards: int, alpha: str
) -> None:
    schedule = made(mesh(8), collective, name)
    model = TimeModel(alpha_mode=alpha)  # type: ignore[arg-type]
    want = steps * ALPHA + shards * BETA / 8
    assert simulate_schedule(schedule, None, model).end == pytest.approx(want)


def test_the_mesh_alltoall_by_bruck_moves_each_block_as_often_as_its_distance_has_bits() -> None:
    schedule = made(mesh(8), "alltoall", "bruck")
    assert len(schedule.transfers) == 8 * sum(d.bit_count() for d in range(8))
    assert len(set(schedule.messages)) == 8 * 3


@pytest.mark.parametrize(("size", "best"), [(1e6, 19.2e-6), (1e9, 15004.2e-6)])
def test_rings_are_at_least_as_fast_as_tacos_on_its_ring(size: float, best: float) -> None:
    """4-ring, 25 GB/s, 0.7 us, blocking: two rings, 3 rounds of half a shard: 3 (0.7 + 5) = 17.1 us at 1 MB."""
    topology = resolve("ring:4,bandwidth=25 GB/s,latency=0.7 us")
    demand, model = synth.make_demand(topology, "allgather", size), TimeModel("blocking")
    time = simulate_schedule(baseline("rings", topology, demand, model=model), None, model).end
    assert time == pytest.approx(3 * (0.7e-6 + size / 8 / 25e9))
    assert time <= best
    # Its own best has 4 chunks per rank and 6 rounds; the same schedule gives its very time.
    four = simulate_schedule(baseline("rings", topology, demand, chunks=4), None, model).end
    assert four == pytest.approx(best)


def test_six_rings_of_the_dgx1_reach_its_optimum() -> None:
    topology = resolve("dgx1-v100")
    rings = find_rings(GpuPaths(topology, 1e6, relays=False), range(8))
    assert len(rings) == 6
    used = [link for ring in rings for path in ring.paths for link in path]
    assert len(used) == len(set(used)) == len(topology.links)
    demand = synth.make_demand(topology, "allgather", 1e9)
    best = synth.solve(topology, demand)
    schedule = baseline("rings", topology, demand, reference=best)
    assert schedule.plan.time == pytest.approx(best.time)
    assert schedule.plan.gap < 1e-6


def test_double_binary_trees_share_the_work() -> None:
    """7 ranks: in two trees nobody has children in both but the ranks next to the ends."""
    schedule = made(mesh(7), "allreduce", "double-binary-tree", 2)
    inner = [{hop.src for hop in route.copy_hops} for route in schedule.routes]
    assert len(schedule.routes) == 2
    assert all(len(parents) == 3 for parents in inner)
    assert len(inner[0] & inner[1]) <= 1
    assert simulate_schedule(schedule, 1e-3).end == pytest.approx(4 * ALPHA, rel=1e-3)


def test_hierarchical_crosses_between_hosts_as_little_as_it_can() -> None:
    """2 hosts x 4 GPUs: each shard crosses once per other host in an all-gather."""
    topology = resolve("cluster:box=switch:4,hosts=2")
    schedule = made(topology, "allgather", "hierarchical")
    host = [topology.nodes[g].host for g in range(len(topology.nodes))]
    assert sum(host[t.src] != host[t.dst] for t in schedule.transfers) == 8


MACHINES = (
    "dgx1-v100",
    "switch:5",
    "mesh2d:3x3",
    "cluster:box=switch:4,hosts=2",
    "ring:n=4,both_ways=false",
    "hypercube:3",
)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("collective", COLLECTIVES)
def test_every_baseline_is_a_schedule_whose_program_verifies(machine: str, collective: str) -> None:
    topology = resolve(machine)
    demand = synth.make_demand(topology, collective, SIZE)
    found = baselines(topology, demand, chunks=4)
    assert len(found) >= 2
    for name, schedule in found.items():
        check_schedule(schedule)
        assert schedule.lower().report.ok, name
        for model in (TimeModel(), TimeModel("blocking", overhead=1e-6)):
            assert plan_bound(schedule.plan, None, model).seconds <= simulate_schedule(schedule, None, model).end * (
                1 + 1e-9
            )


@given(topologies(min_gpus=2, max_gpus=5, relays=False), st.sampled_from(COLLECTIVES), st.sampled_from(BASELINES))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_baselines_on_any_machine(topology: Topology, collective: str, name: str) -> None:
    demand = synth.make_demand(topology, collective, SIZE)
    try:
        schedule = baseline(name, topology, demand, chunks=2)
    except InvalidInputError:
        return
    check_schedule(schedule)
    assert schedule.plan.recheck() <= schedule.plan.time * (1 + 1e-9)
    assert math.isclose(schedule.plan.bound, min(schedule.plan.recheck(), schedule.plan.time), rel_tol=1e-9)
    assert schedule.lower().report.ok


def test_some_ranks_only_and_rccl() -> None:
    topology = resolve("ring:6")
    demand = synth.make_demand(topology, "allreduce", SIZE, ranks=[0, 2, 4])
    found = baselines(topology, demand, chunks=2)
    assert {"ring", "direct", "bruck", "double-binary-tree"} <= set(found)
    for schedule in found.values():
        check_schedule(schedule)
        assert schedule.lower().report.ok
    for schedule in baselines(mesh(4), synth.make_demand(mesh(4), "allreduce", SIZE), chunks=2).values():
        assert schedule.lower("rccl").report.ok


@pytest.mark.parametrize(
    ("name", "collective", "text"),
    [
        ("nccl", "allgather", "unknown baseline"),
        ("ring", "alltoall", "ring has no alltoall"),
        ("recursive-doubling", "allgather", "power of two of ranks, there are 5"),
        ("hierarchical", "allgather", "two or more hosts"),
        ("2d", "allgather", "fill a grid"),
        ("rings", "allgather", "no second ring"),
    ],
)
def test_what_has_no_form_says_why(name: str, collective: str, text: str) -> None:
    with pytest.raises(InvalidInputError, match=text):
        made(resolve("switch:5"), collective, name)


def test_bad_chunks_and_nothing_to_do() -> None:
    with pytest.raises(SynthError, match="chunks 0"):
        made(mesh(4), "allgather", "ring", 0)
    with pytest.raises(SynthError, match="nothing has to move"):
        baseline("ring", mesh(4), synth.make_demand(mesh(4), "allgather", SIZE, ranks=[1]))
