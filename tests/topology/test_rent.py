"""Rented subsets: what idle neighbours may do."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import synth
from synth.errors import InfeasibleError, InvalidInputError
from synth.topology import Topology, rented, resolve
from tests.reference_lp import duplex, machine
from tests.strategies import topologies


def test_a_line_needs_its_middle() -> None:
    line = machine(3, duplex([(0, 1, 10), (1, 2, 10)]))
    assert synth.solve(line, "allgather", 2e9, ranks=[0, 2]).time == pytest.approx(0.1)
    with pytest.raises(InfeasibleError, match="no path"):
        synth.solve(line, "allgather", 2e9, ranks=[0, 2], relay=False)


@pytest.mark.parametrize(
    ("ranks", "relay", "rate"),
    [([0, 1], False, 64), ([0, 1], True, 7 * 64), ([0, 1, 2, 3], False, 3 * 64), ([0, 1, 2, 3], True, 7 * 64)],
)
def test_part_of_a_mesh(ranks: list[int], relay: bool, rate: float) -> None:
    """MI300X: what comes into a GPU is limited by its links to members, or by all of them if the others relay."""
    size = len(ranks) * 1e9
    plan = synth.solve("mi300x-8", "allgather", size, ranks=ranks, relay=relay)
    assert plan.time == pytest.approx((len(ranks) - 1) / rate, rel=1e-6)


def test_nics_of_idle_neighbours_are_not_ours() -> None:
    whole = resolve("mi300x-box")
    alone = rented(whole, [0, 3], relay=False)
    assert {node.id for node in alone.nodes if node.kind == "nic"} == {"nic0.tx", "nic0.rx", "nic3.tx", "nic3.rx"}
    assert [node.id for node in alone.nodes if node.kind == "gpu" and node.relay] == ["g0", "g3"]
    assert not any("nic1" in link.id for link in alone.links)
    assert {link.id for link in alone.links if link.kind == "xgmi"} == {k.id for k in whole.links if k.kind == "xgmi"}
    assert rented(whole, [0, 3]) is whole
    assert rented(whole, range(8), relay=False) is whole
    with pytest.raises(InvalidInputError, match="ranks 0 to 7"):
        rented(whole, [8], relay=False)


def test_a_shared_nic_is_everybodys() -> None:
    """NIC 0 of a DGX-1 hangs below the switch of GPUs 0 and 1; renting one of them brings it along."""
    alone = rented(resolve("dgx1-v100-box"), [1, 2], relay=False)
    assert {node.id for node in alone.nodes if node.kind == "nic"} == {"nic0.tx", "nic0.rx", "nic1.tx", "nic1.rx"}
    # Four NICs on one CPU, without switches: all are next to all of its GPUs.
    alone = rented(resolve("l40s-4-box"), [0, 1], relay=False)
    assert {node.id for node in alone.nodes if node.kind == "nic"} == {"nic0.tx", "nic0.rx", "nic1.tx", "nic1.rx"}


def test_a_clusters_nics() -> None:
    """In a cluster of scale-up boxes a NIC is next to the GPUs that it serves."""
    cluster = resolve("cluster:box=switch:4,hosts=2,gpus_per_nic=2")
    alone = rented(cluster, [0, 4], relay=False)
    assert {node.id for node in alone.nodes if node.kind == "nic"} == {"h0.nic0", "h1.nic0"}


@settings(max_examples=25, deadline=None)
@given(topologies(min_gpus=3, max_gpus=5), st.data())
def test_idle_neighbours_never_slow_down(topology: Topology, data: st.DataObject) -> None:
    ranks = data.draw(st.lists(st.integers(0, len(topology.gpus) - 1), min_size=2, max_size=3, unique=True))
    helped = synth.solve(topology, "alltoall", 1e9, ranks=ranks)
    try:
        alone = synth.solve(topology, "alltoall", 1e9, ranks=ranks, relay=False)
    except InfeasibleError:
        return
    assert helped.bound <= alone.time * (1 + 1e-9)
    gpus = {topology.gpus[rank] for rank in ranks}
    for route in alone.routes:
        assert {hop.src for hop in route.hops} | {hop.dst for hop in route.hops} <= gpus
