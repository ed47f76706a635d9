"""Reachability and hop counts; oracles T03, T04, T12, T14 and T23."""

from __future__ import annotations

from itertools import permutations

import networkx as nx
import pytest
from hypothesis import given

from synth.errors import InfeasibleError, InvalidInputError
from synth.topology import Link, Node, Topology, builtin, check_reachable, check_steps, hop_distance, unreachable_pairs
from tests.strategies import topologies


def machine(gpus: int, pairs: list[tuple[int, int]], *, relay: bool = True) -> Topology:
    nodes = tuple(Node(f"g{i}", "gpu", relay=relay) for i in range(gpus))
    return Topology("t", nodes, tuple(Link(f"l{i}", f"g{a}", f"g{b}", 1e9) for i, (a, b) in enumerate(pairs)))


def every_pair(topology: Topology) -> list[tuple[int, int]]:
    return list(permutations(range(len(topology.gpus)), 2))


def test_t03_isolated_gpu() -> None:
    topology = machine(4, [(0, 1), (1, 0), (1, 2), (2, 1), (0, 2), (2, 0)])
    assert unreachable_pairs(topology, every_pair(topology)) == [(0, 3), (1, 3), (2, 3), (3, 0), (3, 1), (3, 2)]
    with pytest.raises(InfeasibleError) as caught:
        check_reachable(topology, every_pair(topology))
    assert caught.value.exit_code == 3
    assert "6 ordered pairs have no path" in caught.value.faults[0]
    assert "'g0' to 'g3'" in caught.value.faults[0]
    assert "no GPU can be reached from 'g3'" in caught.value.faults[1]
    assert "no other GPU has a path into 'g3'" in caught.value.faults[2]


def test_t04_one_way_reachability() -> None:
    topology = machine(3, [(0, 1), (1, 2), (2, 1)])
    check_reachable(topology, [(0, 1), (0, 2)])  # broadcast from 0
    with pytest.raises(InfeasibleError, match="no other GPU has a path into 'g0'") as caught:
        check_reachable(topology, every_pair(topology))
    assert "2 ordered pairs have no path in topology 't': 'g1' to 'g0', 'g2' to 'g0'" in caught.value.faults[0]
    with pytest.raises(InfeasibleError, match="from 'g1' only 'g2' can be reached"):
        check_reachable(topology, [(1, 0), (2, 0)])  # reduce to 0


def test_t12_broken_ring_is_still_whole() -> None:
    topology = machine(4, [(1, 0), (1, 2), (2, 1), (2, 3), (3, 2), (3, 0), (0, 3)])
    assert unreachable_pairs(topology, every_pair(topology)) == []
    assert hop_distance(topology, 0) == [0, 3, 2, 1]


def test_t14_rails_without_relay() -> None:
    pairs = [(0, 1), (2, 3), (0, 2), (1, 3)]
    both = pairs + [(b, a) for a, b in pairs]
    assert unreachable_pairs(machine(4, both), every_pair(machine(4, both))) == []
    shut = machine(4, both, relay=False)
    assert unreachable_pairs(shut, every_pair(shut)) == [(0, 3), (1, 2), (2, 1), (3, 0)]
    with pytest.raises(InfeasibleError, match="do not relay"):
        check_reachable(shut, every_pair(shut))


def test_a_gpu_that_does_not_relay_sends_and_receives() -> None:
    topology = machine(3, [(0, 1), (1, 2)], relay=False)
    assert unreachable_pairs(topology, [(0, 1), (1, 2), (0, 2)]) == [(0, 2)]
    assert hop_distance(topology, 0) == [0, 1, None]


def test_t23_step_budget() -> None:
    ring = builtin("ring", n=4, both_ways=False)
    check_steps(ring, every_pair(ring), 3)
    with pytest.raises(InfeasibleError) as caught:
        check_steps(ring, every_pair(ring), 2)
    assert caught.value.faults[0] == "rank 0 to rank 3 needs 3 hops, 2 steps are allowed"
    assert len(caught.value.faults) == 4
    with pytest.raises(InfeasibleError, match="and 46 more pairs of ranks"):
        check_steps(builtin("line", n=8), every_pair(builtin("line", n=8)), 0)


def test_switches_and_nics_cost_no_hop() -> None:
    cluster = builtin("cluster", box="dgx-a100", hosts=2)
    assert hop_distance(cluster, 0) == [0] + [1] * 15
    rails = builtin("cluster", box="dgx-a100", hosts=2, fabric="rail")
    # Through the fabric and its own rail, or one NVSwitch hop more. Rails have no links between them.
    assert hop_distance(rails, 0) == [0] + [1] * 7 + [1] + [2] * 7
    assert hop_distance(builtin("torus2d", rows=4, cols=4), 0) == [0, 1, 2, 1, 1, 2, 3, 2, 2, 3, 4, 3, 1, 2, 3, 2]


@pytest.mark.parametrize("pair", [(0, 4), (-1, 0), (4, 4)])
def test_ranks_that_do_not_exist(pair: tuple[int, int]) -> None:
    ring = builtin("ring", n=4)
    for ask in (unreachable_pairs, check_reachable):
        with pytest.raises(InvalidInputError, match="ranks 0 to 3"):
            ask(ring, [pair])
    with pytest.raises(InvalidInputError, match="rank 4"):
        hop_distance(ring, 4)


def test_nothing_asked_is_never_unreachable() -> None:
    assert unreachable_pairs(machine(2, []), [(0, 0), (1, 1)]) == []
    assert unreachable_pairs(machine(1, []), []) == []


@given(topologies(connected=False, relays=False))
def test_agrees_with_a_plain_search(topology: Topology) -> None:
    graph: nx.DiGraph[int] = nx.DiGraph()
    graph.add_nodes_from(range(len(topology.nodes)))
    # A hop is the entering of a GPU.
    graph.add_weighted_edges_from((a, b, int(topology.nodes[b].kind == "gpu")) for a, b in topology.ends)
    expected = []
    for src, dst in every_pair(topology):
        start, end = topology.gpus[src], topology.gpus[dst]
        shut = [
            i
            for i, node in enumerate(topology.nodes)
            if node.kind == "gpu" and not node.relay and i not in (start, end)
        ]
        open_graph = graph.subgraph(set(graph) - set(shut))
        hops = None
        if nx.has_path(open_graph, start, end):
            hops = nx.shortest_path_length(open_graph, start, end, weight="weight")
        assert hop_distance(topology, src)[dst] == hops
        if hops is None:
            expected.append((src, dst))
    assert unreachable_pairs(topology, every_pair(topology)) == expected


@given(topologies(relays=False))
def test_connected_machines_reach_everyone(topology: Topology) -> None:
    check_reachable(topology, every_pair(topology))
