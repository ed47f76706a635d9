"""Networks, shortest hops, bundles of parallel links, routes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synth.demand import make_demand
from synth.formulation.flow.network import Hop, HopGraph, Network, split_path
from synth.formulation.flow.parallel import bundle
from synth.formulation.flow.routes import Route, join_halves, link_bytes
from synth.topology import Link, Node, Resource, Topology, resolve


def machine() -> Topology:
    """Two GPUs joined directly and over a switch, a third one behind the second."""
    nodes = (Node("a", "gpu"), Node("b", "gpu"), Node("c", "gpu", relay=False), Node("s", "switch"))
    links = (
        Link("ab0", "a", "b", 2.0),
        Link("ab1", "a", "b", 4.0),
        Link("as", "a", "s", 8.0),
        Link("sb", "s", "b", 8.0),
        Link("bc", "b", "c", 1.0),
        Link("ca", "c", "a", 1.0),
    )
    return Topology("m", nodes, links, (Resource("pool", 3.0, (("as", 1.0), ("sb", 2.0))),))


def test_rows_and_uses() -> None:
    network = Network(machine())
    assert network.row_ids == ("ab0", "ab1", "as", "sb", "bc", "ca", "pool")
    assert network.capacity.tolist() == [2, 4, 8, 8, 1, 1, 3]
    assert network.row_bytes(np.ones(6)).tolist() == [1, 1, 1, 1, 1, 1, 3]
    assert network.link_prices(np.arange(1.0, 8.0)).tolist() == [1, 2, 10, 18, 5, 6]


def test_hops_pass_switches_but_not_split_gpus() -> None:
    network = Network(machine())
    prices = np.array([5.0, 3.0, 1.0, 1.0, 1.0, 1.0])
    everyone = HopGraph(network, frozenset({0, 1, 2})).search(prices, [0, 1, 2])
    assert everyone.cost[0, 1] == 2
    assert everyone.path(0, 1) == (2, 3)
    assert np.isinf(everyone.cost[0, 2])  # b is a member: the hop would end there
    through = HopGraph(network, frozenset({2})).search(prices, [0, 1])
    assert through.path(0, 2) == (2, 3, 4)
    assert np.isinf(through.cost[1, 0])  # only c leads back, and c may not relay
    expensive = HopGraph(network, frozenset({2})).search(np.array([5.0, 3.0, 9.0, 9.0, 1.0, 1.0]), [0])
    assert expensive.path(0, 1) == (1,)  # the cheaper of the parallel links


def test_split_path_cuts_at_gpus() -> None:
    hops = split_path(machine(), (2, 3, 4))
    assert hops == (Hop(0, 1, (2, 3)), Hop(1, 2, (4,)))


def test_bundles_keep_pooled_links_apart() -> None:
    topology = machine()
    bundles = bundle(topology)
    assert bundles.strands == ((0, 1), (2,), (3,), (4,), (5,))
    assert [link.capacity for link in bundles.bundled.links] == [6, 8, 8, 1, 1]
    prices = bundles.prices(np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]))
    assert prices.tolist() == [1, 1, 2, 3, 4, 5, 6]


@given(st.lists(st.integers(0, 10), min_size=1, max_size=6), st.lists(st.integers(1, 5), min_size=1, max_size=4))
@settings(max_examples=100, deadline=None, derandomize=True)
def test_split_loads_strands_by_capacity(parts: list[int], capacities: list[int]) -> None:
    nodes = (Node("a", "gpu"), Node("b", "gpu"))
    strands = [Link(f"l{k}", "a", "b", float(c)) for k, c in enumerate(capacities)]
    links = (*strands, Link("r", "b", "a", 1.0))
    topology = Topology("p", nodes, links)
    demand = make_demand(topology, "broadcast", 12.0)
    total = sum(parts)
    shares = [part / total if total else 0.0 for part in parts]
    bundles = bundle(topology)
    routes = [Route(0, 0, share, (), (Hop(0, 1, (0,)),)) for share in shares]
    pieces = bundles.split(demand, routes)
    network = Network(topology)
    load = link_bytes(network, demand, pieces)[: len(capacities)]
    assert load == pytest.approx(12.0 * bool(total) * np.array(capacities) / sum(capacities), abs=1e-6)
    assert len([p for p in pieces if p.share]) <= len([s for s in shares if s]) + len(capacities) - 1


def test_join_halves_pairs_every_share() -> None:
    up, down = (Hop(1, 0, (5,)),), (Hop(0, 1, (0,)),)
    halves = [
        Route(0, 0, 0.7, up),
        Route(0, 0, 0.3, (Hop(1, 0, (9,)),)),
        Route(0, 0, 0.4, (), down),
        Route(0, 0, 0.6, (), (Hop(0, 1, (1,)),)),
    ]
    joined = join_halves(halves)
    assert [round(r.share, 9) for r in joined] == [0.4, 0.3, 0.3]
    assert all(r.reduce_hops and r.copy_hops for r in joined)


def test_depth_counts_both_halves() -> None:
    up = (Hop(2, 1, (0,)), Hop(1, 0, (1,)))
    down = (Hop(0, 1, (2,)), Hop(0, 2, (3,)))
    assert Route(0, 0, 1.0, up, down).depth == 3
    assert Route(0, 0, 1.0, (), down).depth == 1


def test_every_rank_of_a_builtin_has_a_link_out() -> None:
    network = Network(resolve("dgx1-v100"))
    assert np.bincount(network.src, minlength=8).tolist() == [6] * 8
