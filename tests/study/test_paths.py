"""Paths by kind; what they carry together equals what the planner's LP finds on the whole topology."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings

import synth
from synth.errors import InfeasibleError, InvalidInputError
from synth.study import find_paths, link_classes
from synth.study.sharing import best_rates
from synth.topology import Link, Node, Topology, resolve
from tests.strategies import topologies
from tests.study.machines import h800_paths


def test_every_kind_of_the_h800_pair() -> None:
    paths = h800_paths()
    assert [path.kind for path in paths.paths] == ["switch", "host", "nic"]
    assert [len(path.links) for path in paths.paths] == [2, 4, 6]
    assert [path.bandwidth / 1e9 for path in paths.paths] == pytest.approx([164.8, 48.006, 48.006])
    assert [path.latency * 1e6 for path in paths.paths] == pytest.approx([0.6, 2.0, 4.7])
    assert paths.paths[1].links[0] == paths.paths[2].links[0] == "port0:fwd"


def test_host_memory_counts_both_directions() -> None:
    paths = h800_paths()
    dram = paths.network.row_ids.index("dram-pool")
    assert list(paths.uses[dram]) == [0, 2, 0]


def test_parallel_links_make_parallel_paths_and_relays_are_asked_for() -> None:
    paths = find_paths(resolve("dgx1-v100"), 0, 1)
    assert paths.labels == ("direct 1", "direct 2")
    relays = find_paths(resolve("dgx1-v100"), 0, 5, ["direct", "relay"])
    assert {path.kind for path in relays.paths} == {"relay"}


def test_relays_of_a_large_mesh_go_through_one_gpu_each() -> None:
    paths = find_paths(resolve("fullmesh:24"), 0, 1, ["direct", "relay"])
    assert [len(path.links) for path in paths.paths] == [1] + 22 * [2]
    shy = resolve("fullmesh:4")
    nodes = tuple(replace(node, relay=node.id != "g2") for node in shy.nodes)
    allowed = find_paths(replace(shy, nodes=nodes), 0, 1, ["relay"])
    assert [path.links for path in allowed.paths] == [("g0-g3:fwd", "g1-g3:rev")]


def test_nic_paths_of_a_cluster() -> None:
    box = resolve("cluster:box=dgx-a100,hosts=2")
    paths = find_paths(box, 0, 8)
    assert [path.kind for path in paths.paths] == ["nic"]
    assert set(link_classes(box).values()) == {"scale-up", "nic"}


def test_a_cpu_makes_a_peer_path_and_memory_a_staged_one() -> None:
    nodes = (Node("a", "gpu"), Node("b", "gpu"), Node("root", "cpu"), Node("dram", "memory"))
    ends = (("a", "root"), ("root", "b"), ("a", "dram"), ("dram", "b"))
    links = tuple(Link(f"{x}-{y}", x, y, 1e9, kind="pcie") for x, y in ends)
    assert [path.kind for path in find_paths(Topology("t", nodes, links), 0, 1).paths] == ["pcie", "host"]


def test_bare_net_links_are_scale_up_unless_a_nic_hangs_on_their_switch() -> None:
    nodes = (Node("a", "gpu"), Node("b", "gpu"), Node("n", "nic"), Node("leaf", "switch"), Node("spine", "switch"))
    links = (
        Link("ab", "a", "b", 1e9),
        Link("an", "a", "n", 1e9, kind="pcie"),
        Link("nl", "n", "leaf", 1e9),
        Link("ls", "leaf", "spine", 1e9),
        Link("sb", "spine", "b", 1e9),
    )
    classes = link_classes(Topology("t", nodes, links))
    assert classes == {"ab": "scale-up", "an": "nic", "nl": "nic", "ls": "nic", "sb": "nic"}


def test_errors_name_what_is_wrong() -> None:
    box = resolve("ring:4")
    with pytest.raises(InvalidInputError) as caught:
        find_paths(box, 0, 9, ["warp"])
    assert len(caught.value.faults) == 2
    with pytest.raises(InvalidInputError, match="two ranks"):
        find_paths(box, 1, 1)
    with pytest.raises(InfeasibleError, match="no path of kind nic"):
        find_paths(box, 0, 1, ["nic"])


@given(topology=topologies(max_gpus=2, pools=True))
@settings(max_examples=60)
def test_two_gpus_carry_no_more_than_the_plan_and_all_of_it_over_direct_links(topology: Topology) -> None:
    """The planner's LP sees every path, these are the shortest of each kind: never more, and equal when all direct."""
    paths = find_paths(topology, 0, 1)
    rate = float(best_rates(paths.uses, paths.network.capacity).sum())
    plan = synth.solve(topology, "sendrecv", 1e9, root=0)
    assert rate <= plan.algbw * (1 + 1e-5)
    if all({link.src, link.dst} == {"g0", "g1"} for link in topology.links):
        assert rate == pytest.approx(plan.algbw, rel=1e-5)
