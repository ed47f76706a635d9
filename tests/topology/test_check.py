"""Faults of topologies made in Python."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given

from synth.errors import InvalidInputError
from synth.topology import Link, Node, Resource, Topology, model_faults
from tests.strategies import topologies

G0, G1, SW = Node("g0", "gpu"), Node("g1", "gpu"), Node("sw", "switch")
LINK = Link("a", "g0", "g1", 1e9)


def faults(
    *, nodes: tuple[Node, ...] = (G0, G1), links: tuple[Link, ...] = (LINK,), pools: tuple[Resource, ...] = ()
) -> list[str]:
    with pytest.raises(InvalidInputError) as caught:
        Topology("t", nodes, links, pools)
    assert caught.value.exit_code == 2
    return list(caught.value.faults)


@pytest.mark.parametrize(
    ("link", "reason"),
    [
        (replace(LINK, bandwidth=math.inf), "link 'a', bandwidth: inf is unbounded"),
        (replace(LINK, bandwidth=math.nan), "link 'a', bandwidth: nan must be a positive"),
        (replace(LINK, bandwidth=0.0), "link 'a', bandwidth: 0.0 must be a positive"),
        (replace(LINK, bandwidth=-1.0), "link 'a', bandwidth: -1.0 must be a positive"),
        (replace(LINK, latency=-1e-9), "link 'a', latency: -1e-09 must be zero or more"),
        (replace(LINK, latency=math.inf), "link 'a', latency: inf must be zero or more"),
        (replace(LINK, efficiency=0.0), "link 'a', efficiency: 0.0 must be above 0"),
        (replace(LINK, efficiency=1.01), "link 'a', efficiency: 1.01 must be above 0"),
        (replace(LINK, efficiency=math.nan), "link 'a', efficiency: nan must be above 0"),
        (replace(LINK, bandwidth=5e-324, efficiency=0.1), "link 'a', efficiency: 0.1 leaves a capacity of zero"),
        (replace(LINK, src="zz"), "link 'a', src: 'zz' is not a declared node"),
        (replace(LINK, dst="zz"), "link 'a', dst: 'zz' is not a declared node"),
        (replace(LINK, dst="g0"), "link 'a', dst: 'g0' is also the src"),
        (replace(LINK, kind="wire"), "link 'a', kind: 'wire' is unknown"),  # type: ignore[arg-type]
        (replace(LINK, id=""), "link '', id: is empty"),
        (replace(LINK, id="a\nb"), "cannot be printed"),
    ],
)
def test_faults_of_a_link(link: Link, reason: str) -> None:
    (fault,) = faults(links=(link,))
    assert reason in fault


@pytest.mark.parametrize(
    ("node", "reason"),
    [
        (Node("g0", "gpu"), "node 'g0', id: 'g0' is already taken by node 'g0', id"),
        (Node("x", "tpu"), "node 'x', kind: 'tpu' is unknown; use one of gpu, switch"),  # type: ignore[arg-type]
        (Node("x", "switch", relay=False), "node 'x', relay: false is for nodes of kind gpu only"),
        (Node("", "nic"), "node '', id: is empty"),
        (Node("x", "nic", ""), "node 'x', host: is empty"),
        (Node("\ud800", "nic"), "cannot be printed"),
    ],
)
def test_faults_of_a_node(node: Node, reason: str) -> None:
    (fault,) = faults(nodes=(G0, G1, node))
    assert reason in fault


@pytest.mark.parametrize(
    ("pool", "reason"),
    [
        (Resource("a", 1e9, (("a", 1.0),)), "resource 'a', id: 'a' is already taken by link 'a', id"),
        (Resource("p", 0.0, (("a", 1.0),)), "resource 'p', bandwidth: 0.0 must be a positive"),
        (Resource("p", math.inf, (("a", 1.0),)), "unbounded"),
        (Resource("p", 1e9, (("zz", 1.0),)), "resource 'p', uses['zz']: is not a declared link"),
        (Resource("p", 1e9, (("a", 0.0),)), "resource 'p', uses['a']: 0.0 must be a positive"),
        (Resource("p", 1e9, (("a", math.inf),)), "resource 'p', uses['a']: inf must be a positive"),
        (Resource("p", 1e9, (("a", 1.0), ("a", 1.0))), "resource 'p', uses['a']: is there twice"),
        (Resource("", 1e9, (("a", 1.0),)), "resource '', id: is empty"),
    ],
)
def test_faults_of_a_resource(pool: Resource, reason: str) -> None:
    (fault,) = faults(pools=(pool,))
    assert reason in fault


def test_all_faults_at_once() -> None:
    found = faults(
        nodes=(G0, G0, replace(SW, relay=False)),
        links=(replace(LINK, bandwidth=-1.0), replace(LINK, latency=-1.0)),
        pools=(Resource("p", -1.0, (("zz", -1.0),)),),
    )
    # g0 twice, relay, a twice, two dst that are gone, bandwidth, latency, three in the pool
    assert len(found) == 10


def test_symmetry_hints_are_maps_of_known_nodes() -> None:
    with pytest.raises(InvalidInputError) as caught:
        Topology("t", (G0, G1), (LINK,), symmetry=((("g0", "g1"), ("g0", "g0")), (("g0", "zz"),)))
    assert len(caught.value.faults) == 2


def test_no_gpu_and_texts_that_no_file_holds() -> None:
    with pytest.raises(InvalidInputError, match="no node of kind gpu"):
        Topology("t", (SW,), ())
    with pytest.raises(InvalidInputError, match="lone surrogates"):
        Topology("\ud800", (G0,), ())


def test_an_id_may_be_that_of_a_node_and_of_a_link() -> None:
    assert model_faults(Topology("t", (G0, G1), (replace(LINK, id="g0"),))) == []


@given(topologies(connected=False, relays=False, plain_names=False))
def test_sound_topologies_have_no_faults(topology: Topology) -> None:
    assert model_faults(topology) == []
