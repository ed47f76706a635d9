"""The slowest cut against enumeration of all cuts and against the LP."""

from __future__ import annotations

from itertools import chain, combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import synth
from synth.demand import Demand, make_demand
from synth.formulation.flow.symmetry import find_symmetry
from synth.solver.flow import certified_bound
from synth.solver.flow.cuts import tightest_cut
from synth.topology import Topology, resolve
from tests.strategies import topologies

CUT = ("allgather", "reducescatter", "broadcast", "reduce")
few = settings(max_examples=25, deadline=None, derandomize=True)


def enumerated(topology: Topology, demand: Demand) -> float:
    """Largest bytes out of a set over capacity out of it, over all sets of nodes that miss a member."""
    members = {topology.gpus[rank] for rank in demand.ranks}
    nodes = range(len(topology.nodes))
    inward = demand.pattern == "reduction"
    best = 0.0
    for inside in map(set, chain.from_iterable(combinations(nodes, k) for k in nodes)):
        if members <= inside:
            continue
        owed = sum(item.size for item in demand.commodities if topology.gpus[item.root] in inside)
        leaving = [(b, a) if inward else (a, b) for a, b in topology.ends]
        width = sum(
            link.capacity
            for link, (a, b) in zip(topology.links, leaving, strict=True)
            if a in inside and b not in inside
        )
        if owed > 0:
            best = max(best, owed / width)
    return best


@given(topologies(min_gpus=2, max_gpus=5), st.sampled_from(CUT))
@few
def test_equals_enumeration(topology: Topology, collective: str) -> None:
    demand = make_demand(topology, collective, 1e6)
    cut = tightest_cut(topology, demand)
    assert cut is not None
    assert cut.bound == pytest.approx(enumerated(topology, demand), rel=1e-6)
    plan = synth.solve(topology, collective, 1e6)
    assert cut.bound <= plan.time * (1 + 1e-9)
    # The certificate recomputes at least the cut's bound from its prices, by arborescences.
    prices = dict(zip(plan.network.row_ids, cut.prices(plan.network), strict=True))
    assert certified_bound(topology, demand, prices) >= cut.bound * (1 - 1e-9)


@pytest.mark.parametrize(
    "name", ["dgx1-v100", "mi250-16", "torus3d:3x3x3", "cluster:box=dgx-a100,hosts=2", "mesh2d:3x3"]
)
@pytest.mark.parametrize("collective", CUT)
def test_is_the_optimum_where_every_gpu_takes_part(name: str, collective: str) -> None:
    """Edmonds 1973: arborescences pack up to the cuts; a switch of equal ports does not change that here."""
    plan = synth.solve(name, collective, 1e9)
    assert plan.slowest_cut is not None
    assert plan.slowest_cut.bound == pytest.approx(plan.time, rel=1e-6)


def test_by_hand() -> None:
    """A line of 4, 25 GB/s: three shards of 1 GB cross each end link, so 3/25 s; broadcast: 4/25 s."""
    line = resolve("line:4")
    cut = tightest_cut(line, make_demand(line, "allgather", 4e9))
    assert cut is not None
    assert cut.bound == pytest.approx(3 / 25)
    assert [line.ends[k] for k in cut.links] in ([(1, 0)], [(2, 3)])
    broadcast = tightest_cut(line, make_demand(line, "broadcast", 4e9))
    assert broadcast is not None
    assert broadcast.bound == pytest.approx(4 / 25)


def test_orbits_are_enough_and_unicast_has_none() -> None:
    torus = resolve("torus2d:3x4")
    demand = make_demand(torus, "allgather", 1e9)
    one, all_ = tightest_cut(torus, demand, find_symmetry(torus, demand)), tightest_cut(torus, demand)
    assert one is not None
    assert all_ is not None
    assert one.bound == pytest.approx(all_.bound)
    for collective in ("alltoall", "allreduce"):
        assert tightest_cut(torus, make_demand(torus, collective, 1e9)) is None
        assert synth.solve(torus, collective, 1e9).slowest_cut is None
