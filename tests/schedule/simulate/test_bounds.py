"""Lower bounds with latency: hand-derived values, and no simulation below them."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import synth
from synth.demand import make_demand
from synth.schedule import TimeModel, make_schedule, simulate_schedule
from synth.schedule.simulate.bounds import latency_bound, plan_bound
from synth.topology import resolve
from tests.schedule.simulate.test_time_model import COLLECTIVES, models
from tests.strategies import topologies


def test_hand_derived_bounds() -> None:
    """One-way ring 0->1->2->3->0, 1 B/s, 1 s per link, all-gather of 4 bytes.

    Distance 3 s. Into a GPU: shards at distances 1, 2, 3: max(3 + 1, 2 + 2, 1 + 3) = 4 s. With the certificate
    (3 s) every link loses its own latency: 4 s.
    """
    ring = resolve("ring:n=4,both_ways=false,bandwidth=1 B/s,latency=1 s")
    got = plan_bound(synth.solve(ring, "allgather", 4.0))
    assert (got.distance, got.gpu_cut, got.priced_cut) == pytest.approx((3.0, 4.0, 4.0))
    slow = plan_bound(synth.solve(ring, "allgather", 4.0), 40.0, TimeModel(start=5.0, hop_latency=1.0, overhead=1.0))
    assert (slow.distance, slow.gpu_cut, slow.priced_cut) == pytest.approx((5 + 9.0, 5 + 33.0, 5 + 33.0))


def test_broadcast_pays_the_way_to_the_slow_cut() -> None:
    """0 -> 1 -> 2 with 10 and 1 B/s, 1 s each: 10 bytes reach the slow link after 1 s and need 1 + 10 s there."""
    nodes = tuple(synth.topology.Node(str(k), "gpu") for k in range(3))
    links = (synth.Link("a", "0", "1", 10.0, 1.0), synth.Link("b", "1", "2", 1.0, 1.0))
    got = plan_bound(synth.solve(synth.Topology("line", nodes, links), "broadcast", 10.0))
    assert got.priced_cut == pytest.approx(12.0)
    assert got.reason == "priced_cut" or got.gpu_cut == pytest.approx(12.0)


def test_a_switch_counts_on_both_sides() -> None:
    """GPU - switch - GPU, 2 us each link: what passes the port has 4 us of latency in all."""
    star = resolve("switch:n=4,latency=2 us")
    plan = synth.solve(star, "allgather", 1e6)
    assert plan_bound(plan).seconds == pytest.approx(plan.bound + 4e-6)
    assert simulate_schedule(make_schedule(plan, chunks=1)).end >= plan.bound + 4e-6


def test_a_priced_link_may_have_no_window_at_all() -> None:
    """Two links 0 -> 1 of 1 B/s, latency 0 and 100 s: 2 bytes take 2 s over the first alone, not (2 + 100) / 2."""
    nodes = (synth.Node("0", "gpu"), synth.Node("1", "gpu"))
    links = (synth.Link("a", "0", "1", 1.0), synth.Link("b", "0", "1", 1.0, 100.0))
    plan = synth.solve(synth.Topology("two", nodes, links), "broadcast", 2.0)
    assert plan.bound == pytest.approx(1.0)
    assert plan_bound(plan).priced_cut == pytest.approx(2.0)
    assert plan_bound(plan, 1000.0).priced_cut == pytest.approx(550.0)


def test_nothing_to_do() -> None:
    one = resolve("switch:2")
    assert latency_bound(one, make_demand(one, "allgather", 1e6, ranks=[0])).seconds == 0.0


@given(
    topologies(min_gpus=2, max_gpus=5, relays=False),
    st.sampled_from((*COLLECTIVES, "gather", "scatter", "sendrecv")),
    st.floats(1.0, 1e9) | st.floats(1.0, 1e3),
    models(),
)
@settings(max_examples=40, deadline=None, derandomize=True)
def test_no_simulation_is_below_the_bound(
    topology: synth.Topology, collective: str, size: float, model: TimeModel
) -> None:
    plan = synth.solve(topology, collective, 1e6)
    got = plan_bound(plan, size, model)
    assert math.isfinite(got.seconds)
    for schedule in (plan.schedule(1), plan.schedule(3)):
        assert got.seconds <= simulate_schedule(schedule, size, model).end * (1 + 1e-9)
    free = replace(model, start=0.0, hop_latency=0.0, overhead=0.0)
    assert plan.bound * size / 1e6 <= plan_bound(plan, size, free).seconds * (1 + 1e-9)
