"""Symmetry: groups are automorphisms without fixed ranks, and change no optimum."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import synth
from synth.demand import make_demand
from synth.errors import InvalidInputError
from synth.formulation.flow.parallel import bundle
from synth.formulation.flow.symmetry import Symmetry, find_symmetry
from synth.topology import Resource, Topology, resolve
from tests.strategies import topologies

ORDERS = {
    "ring:8": 8,
    "line:4": 2,
    "mesh2d:3x3": 1,
    "torus2d:4x4": 16,
    "torus3d:2x2x3": 12,
    "hypercube:3": 8,
    "fullmesh:6": 6,
    "switch:5": 5,
    "dgx1-v100": 4,
    "dgx2": 16,
    "dgx-a100": 8,
    "hgx-h100": 8,
    "ndv2": 4,
    "mi250-16": 4,
    "mi300x-8": 8,
    "cluster:box=dgx-a100,hosts=2": 16,
    "cluster:box=dgx-a100,hosts=3,fabric=rail": 24,
    "cluster:box=ring:3,hosts=2": 6,
}
COLLECTIVES = ("allgather", "reducescatter", "allreduce", "alltoall")


def group_of(topology: Topology, collective: str = "allgather") -> tuple[Topology, Symmetry]:
    whole = bundle(topology).bundled
    return whole, find_symmetry(whole, make_demand(topology, collective, 1e9))


def check_group(topology: Topology, group: Symmetry, members: list[int]) -> None:
    """Every element keeps links, capacities and resources, and products stay inside."""
    elements = {tuple(map(int, nodes)) for nodes in group.nodes}
    assert len(elements) == group.order <= max(1, len(members))
    capacity = {ends: link.capacity for ends, link in zip(topology.ends, topology.links, strict=True)}
    for nodes in elements:
        assert sorted(nodes) == list(range(len(nodes)))
        assert {nodes[m] for m in members} == set(members)
        assert all(capacity[nodes[a], nodes[b]] == width for (a, b), width in capacity.items())
        assert all(tuple(nodes[x] for x in other) in elements for other in elements)


def fixes_a_rank(topology: Topology, group: Symmetry) -> bool:
    ranks = np.arange(len(topology.gpus))
    return any((moved == ranks).any() for moved in group.ranks[1:])


@pytest.mark.parametrize(("name", "order"), ORDERS.items())
def test_orders_of_machines(name: str, order: int) -> None:
    topology, group = group_of(resolve(name))
    assert group.order == order
    check_group(topology, group, list(topology.gpus))
    assert not fixes_a_rank(topology, group)
    assert group.size.sum() == len(topology.links) + len(topology.resources)


@pytest.mark.parametrize("name", ORDERS)
@pytest.mark.parametrize("collective", COLLECTIVES)
def test_on_and_off_give_the_same_time(name: str, collective: str) -> None:
    on = synth.solve(name, collective, 1e9)
    off = synth.solve(name, collective, 1e9, symmetry="off")
    assert on.time == pytest.approx(off.time, rel=1e-6)
    assert on.gap <= 1e-6
    assert on.recheck() == pytest.approx(on.bound, rel=1e-9)


@given(topologies(min_gpus=2, max_gpus=5), st.sampled_from(COLLECTIVES))
@settings(max_examples=25, deadline=None, derandomize=True)
def test_random_topologies_lose_nothing(topology: Topology, collective: str) -> None:
    whole, group = group_of(topology, collective)
    check_group(whole, group, list(whole.gpus))
    on = synth.solve(topology, collective, 1e6)
    assert on.time == pytest.approx(synth.solve(topology, collective, 1e6, symmetry="off").time, rel=1e-6)


def test_one_slow_link_breaks_it() -> None:
    ring = resolve("ring:6")
    slow = replace(ring, links=(replace(ring.links[0], efficiency=0.5), *ring.links[1:]))
    assert group_of(slow)[1].order == 1
    assert synth.solve(slow, "allgather", 6e9).status == "optimal"


def test_demand_breaks_it() -> None:
    ring = resolve("ring:4")
    assert find_symmetry(ring, make_demand(ring, "broadcast", 1.0)).order == 1
    assert find_symmetry(ring, make_demand(ring, "allgather", 1.0, ranks=[0, 2])).order == 2
    assert find_symmetry(ring, make_demand(ring, "allgather", shards=[1.0, 2.0, 1.0, 2.0])).order == 2
    shift = np.roll(np.eye(4), 1, axis=1)
    assert find_symmetry(ring, make_demand(ring, "alltoallv", matrix=shift)).order == 4
    assert find_symmetry(ring, make_demand(ring, "alltoallv", matrix=np.triu(np.ones((4, 4))))).order == 1


def test_resources_are_kept() -> None:
    ring = resolve("ring:4")
    one = Resource("p", 1e9, ((ring.links[0].id, 1.0), (ring.links[4].id, 1.0)))
    assert group_of(replace(ring, resources=(one,)))[1].order < 4
    ids = [link.id for link in ring.links if link.id.endswith("fwd")]
    each = tuple(Resource(f"p{k}", 1e9, ((link, 2.0),)) for k, link in enumerate(ids))
    topology, group = group_of(replace(ring, resources=each))
    assert group.order == 4
    assert len(group.first) == 3
    off = synth.solve(topology, "allgather", 4e9, symmetry="off")
    assert synth.solve(topology, "allgather", 4e9).time == pytest.approx(off.time, rel=1e-6)


def test_hints_are_used_and_wrong_ones_refused() -> None:
    ring = resolve("ring:4")
    good = tuple((f"g{k}", f"g{(k + 2) % 4}") for k in range(4))
    assert synth.solve(replace(ring, symmetry=(good,)), "allgather", 4e9).status == "optimal"
    bad = (("g0", "g1"), ("g1", "g0"))
    with pytest.raises(InvalidInputError, match=r"symmetry hint 0 is not an automorphism: link 'g"):
        synth.solve(replace(ring, symmetry=(bad,)), "allgather", 4e9)


def test_large_clusters_in_a_few_columns() -> None:
    plan = synth.solve("cluster:box=dgx-a100,hosts=8,fabric=rail", "alltoall", 64e9)
    assert plan.status == "optimal"
    assert plan.solver.columns <= 10
    assert plan.time == pytest.approx(56 * 8 / 8 / 25, rel=1e-6)  # 56 GB leave each GPU's box over its 25 GB/s NIC
