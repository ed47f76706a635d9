"""Whole chunks, order and simulation."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import synth
from synth.demand import make_demand
from synth.errors import InvalidInputError, LimitReachedError
from synth.schedule import Schedule, Transfer, make_schedule, simulate
from synth.schedule.chunks.quantise import hamilton, quantise
from synth.schedule.chunks.reroute import Rerouter
from synth.topology import Link, Node, Resource, Topology, resolve
from tests.strategies import topologies


def detour() -> Topology:
    """Oracle T15: 0 -> 1 with 3 B/s, 0 -> 2 -> 1 with 1 B/s."""
    nodes = tuple(Node(str(k), "gpu") for k in range(3))
    return Topology("detour", nodes, (Link("d", "0", "1", 3.0), Link("x", "0", "2", 1.0), Link("y", "2", "1", 1.0)))


def detour_plan() -> synth.Plan:
    topology = detour()
    return synth.solve(topology, make_demand(topology, "sendrecv", 1.0, ranks=[0, 1], root=0))


@pytest.mark.parametrize(
    ("chunks", "time"), [(1, 1 / 3), (2, 1 / 3), (3, 1 / 3), (4, 0.25), (5, 4 / 15), (8, 0.25), (10, 4 / 15)]
)
def test_best_integer_split_of_t15(chunks: int, time: float) -> None:
    plan = detour_plan()
    assert plan.time == pytest.approx(0.25)
    split = quantise(plan, chunks)
    assert split.time == pytest.approx(time)
    assert sum(split.counts) == chunks
    assert split.proven


def test_search_takes_the_smallest_count_within_the_loss() -> None:
    assert quantise(detour_plan(), max_loss=0.07).chunks == 4
    assert quantise(detour_plan(), max_loss=0.34).chunks == 1


def test_hamilton_loses_no_chunk() -> None:
    assert hamilton(np.array([1.0, 1.0, 1.0]), 4).tolist() == [2, 1, 1]
    assert hamilton(np.array([0.0, 0.0]), 3).sum() == 3


@given(st.lists(st.floats(0, 1), min_size=1, max_size=9), st.integers(0, 50))
@settings(max_examples=200, deadline=None, derandomize=True)
def test_hamilton_gives_every_share_its_floor_or_ceiling(shares: list[float], seats: int) -> None:
    got = hamilton(np.array(shares), seats)
    assert got.sum() == seats
    assert (got >= 0).all()
    if sum(shares) > 1e-6:
        quota = np.array(shares) / sum(shares) * seats
        assert (np.abs(got - quota) < 1 + 1e-6).all()


@pytest.mark.parametrize("bad", [0, -1, 1.5, True])
def test_bad_chunk_counts(bad: int) -> None:
    with pytest.raises(InvalidInputError, match="chunks"):
        make_schedule(detour_plan(), chunks=bad)


def test_bad_loss() -> None:
    with pytest.raises(InvalidInputError, match="loss"):
        make_schedule(detour_plan(), max_loss=-0.1)


def brute_force(plan: synth.Plan, chunks: int) -> float:
    """Best time of all ways to give whole chunks to the plan's columns (one commodity)."""
    rerouter = Rerouter(plan, 1.0 / chunks * plan.demand.commodities[0].size)
    loads = np.array([rerouter.load(replace(column, share=1.0)) for column in plan.columns])
    n = len(plan.columns)
    ways = (c for c in itertools.product(range(chunks + 1), repeat=n) if sum(c) == chunks)
    return min(float((np.array(c) @ loads).max()) for c in ways) * plan.time


@given(topologies(min_gpus=2, max_gpus=4), st.integers(1, 3))
@settings(max_examples=25, deadline=None, derandomize=True)
def test_split_is_at_least_as_good_as_every_split_over_the_columns(topology: Topology, chunks: int) -> None:
    plan = synth.solve(topology, "broadcast", 1e6)
    if len(plan.columns) > 6:
        return
    assert quantise(plan, chunks).time <= max(brute_force(plan, chunks), plan.time) * (1 + 1e-9)


COLLECTIVES = ("allgather", "reducescatter", "allreduce", "alltoall", "broadcast", "reduce", "gather", "sendrecv")


def check_schedule(schedule: Schedule) -> None:
    """What any schedule must be: complete, in order, chunks served once, loads that add up to its quantised time."""
    plan = schedule.plan
    load = np.zeros(len(plan.topology.links))
    for k, t in enumerate(schedule.transfers):
        assert all(d < k and schedule.transfers[d].dst == t.src for d in t.deps)
        assert all(schedule.arrivals[d] <= schedule.starts[k] + 1e-15 for d in t.deps)
        ends = plan.topology.ends
        assert ends[t.links[0]][0] == t.src
        assert ends[t.links[-1]][1] == t.dst
        assert all(ends[a][1] == ends[b][0] for a, b in itertools.pairwise(t.links))
        load[list(t.links)] += t.count * schedule.chunk_bytes
    busiest = float((plan.network.row_bytes(load) / plan.network.capacity).max())
    assert schedule.quantized == pytest.approx(busiest, rel=1e-9)
    assert plan.bound <= plan.time <= schedule.quantized <= schedule.simulated
    assert schedule.simulated == pytest.approx(max(schedule.arrivals), rel=1e-12)
    assert sum(schedule.counts) == sum(schedule.shard_chunks)


@given(topologies(min_gpus=2, max_gpus=5), st.sampled_from(COLLECTIVES), st.one_of(st.none(), st.integers(1, 5)))
@settings(max_examples=40, deadline=None, derandomize=True)
def test_schedules_are_complete_and_in_order(topology: Topology, collective: str, chunks: int | None) -> None:
    check_schedule(synth.solve(topology, collective, 1e6).schedule(chunks))


@pytest.mark.parametrize("name", ["dgx1-v100", "mesh2d:3x3", "switch:5", "cluster:box=ring:4,hosts=2"])
@pytest.mark.parametrize("collective", ["allgather", "allreduce", "alltoall"])
def test_schedules_of_machines(name: str, collective: str) -> None:
    check_schedule(synth.solve(name, collective, 1e9).schedule(chunks=2))


def test_subset_relays_through_the_others() -> None:
    """Ranks 0 and 2 of a one-way ring: data passes ranks 1 and 3, which only relay."""
    ring = resolve("ring:n=4,both_ways=false")
    schedule = synth.solve(ring, "allgather", 2.0, ranks=[0, 2]).schedule(1)
    assert [(t.src, t.dst) for t in schedule.transfers if t.shard == 0] == [(0, 1), (1, 2)]
    assert all(len(t.deps) == 1 for t in schedule.transfers if t.src in (1, 3))


def test_steps_budget() -> None:
    plan = synth.solve("ring:n=4,both_ways=false", "allgather", 4.0)
    assert make_schedule(plan, chunks=1).steps == 3
    with pytest.raises(LimitReachedError, match="takes 3 steps, 2 are allowed"):
        make_schedule(plan, chunks=1, max_steps=2)


def path(latency: float, gpus: int) -> Topology:
    nodes = tuple(Node(str(k), "gpu") for k in range(gpus))
    links = tuple(Link(f"l{k}", str(k), str(k + 1), 25e9, latency) for k in range(gpus - 1))
    return Topology("path", nodes, links)


def test_latency_of_t35() -> None:
    one = Transfer(0, 0, 1, 0, 0, 1, (0,), False, ())
    assert simulate(path(5e-6, 2), [one], 1000.0).end == pytest.approx(5.04e-6)
    chain = [Transfer(0, 0, 1, 0, k, k + 1, (k,), False, (k - 1,) if k else ()) for k in range(3)]
    assert simulate(path(5e-6, 4), chain, 1000.0).end == pytest.approx(15.12e-6)


def test_switch_cuts_through() -> None:
    """GPU -> switch -> GPU: the slower link decides, latencies add up."""
    nodes = (Node("a", "gpu"), Node("b", "gpu"), Node("s", "switch"))
    topology = Topology("s", nodes, (Link("as", "a", "s", 100.0, 1.0), Link("sb", "s", "b", 50.0, 2.0)))
    t = Transfer(0, 0, 1, 0, 0, 1, (0, 1), False, ())
    assert simulate(topology, [t], 100.0).end == pytest.approx(1.0 + 2.0 + 2.0)


def test_pool_serves_one_link_at_a_time() -> None:
    nodes = (Node("a", "gpu"), Node("b", "gpu"))
    links = (Link("f", "a", "b", 10.0), Link("r", "b", "a", 10.0))
    pooled = Topology("p", nodes, links, (Resource("dram", 10.0, (("f", 1.0), ("r", 1.0))),))
    both = [Transfer(0, 0, 1, 0, 0, 1, (0,), False, ()), Transfer(1, 0, 1, 1, 1, 0, (1,), False, ())]
    assert simulate(pooled, both, 10.0).end == pytest.approx(2.0)
    assert simulate(replace(pooled, resources=()), both, 10.0).end == pytest.approx(1.0)


def test_priority_decides_who_goes_first() -> None:
    pair = [Transfer(0, k, 1, 0, 0, 1, (0,), False, ()) for k in range(2)]
    line = simulate(path(0.0, 2), pair, 25e9, [1.0, 0.0])
    assert line.starts.tolist() == [1.0, 0.0]


def test_halving_capacities_doubles_the_bandwidth_part() -> None:
    plan = synth.solve("ring:4,latency=0 us", "allgather", 4e9)
    slow = synth.solve("ring:4,latency=0 us,bandwidth=12.5 GB/s", "allgather", 4e9)
    assert slow.schedule(2).simulated == pytest.approx(2 * plan.schedule(2).simulated, rel=1e-9)
