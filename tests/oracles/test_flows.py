"""Oracles T01 to T14, T28, T30 and T32 of reference/oracles.md: fluid times with the right answer derived by hand.

T03, T12 and T14 are also asked of reachability alone in tests/topology. Each value is checked against the second
method of ``tests/reference_lp.py`` too, and each plan's routes are priced link by link.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

import synth
from synth.demand import Demand
from synth.topology import Link, Node, Topology, load_topology
from tests.reference_lp import Cable, duplex, machine, reference_time, scaled, time_of_routes

GB = 1e9
ONE_WAY = [(0, 1, 1.0), (1, 2, 1.0), (2, 3, 1.0), (3, 0, 1.0)]


def assert_time(topology: Topology | str, collective: str | Demand, seconds: float, **options: Any) -> synth.Plan:
    """Certified, and right to 1e-6; the unit of sizes is 1 GB per shard unless a size is given."""
    machine = synth.resolve(topology) if isinstance(topology, str) else topology
    if isinstance(collective, str) and not {"size", "matrix", "shards"} & options.keys():
        many = len(options.get("ranks", machine.gpus)) if collective not in ("broadcast", "reduce") else 1
        options["size"] = many * GB
    plan = synth.solve(machine, collective, **options)
    assert plan.time == pytest.approx(seconds, rel=1e-6)
    assert plan.status == "optimal"
    assert plan.gap <= 1e-6
    assert plan.recheck() == pytest.approx(plan.bound, rel=1e-9)
    assert plan.bound <= plan.time
    assert time_of_routes(plan) == pytest.approx(plan.time, rel=1e-9)
    if len(plan.demand.ranks) <= (8 if plan.demand.pattern == "unicast" else 4):
        assert reference_time(machine, plan.demand) == pytest.approx(seconds, rel=1e-6)
    return plan


def ring(n: int) -> Topology:
    return machine(n, duplex((i, (i + 1) % n, 1.0) for i in range(n)))


def without(topology: Topology, *pairs: tuple[int, int]) -> Topology:
    ends = zip(topology.links, topology.ends, strict=True)
    return replace(topology, links=tuple(link for link, pair in ends if pair not in pairs))


def exchange(topology: Topology, size: float, *pairs: tuple[int, int]) -> Demand:
    """``size`` bytes both ways between each pair."""
    n = len(topology.gpus)
    matrix = [[size if (i, j) in pairs or (j, i) in pairs else 0.0 for j in range(n)] for i in range(n)]
    return synth.make_demand(topology, "alltoallv", matrix=matrix)


def test_t01_one_way_ring() -> None:
    topology = machine(4, ONE_WAY)
    assert_time(topology, "alltoall", 6.0)
    plan = assert_time(topology, "allgather", 3.0)
    schedule = synth.make_schedule(plan, chunks=1)
    assert schedule.quantized == pytest.approx(3.0, rel=1e-6)
    assert schedule.steps == 3
    built_in = "ring:4,bandwidth=1 GB/s,both_ways=false"
    assert_time(built_in, "alltoall", 6.0)
    assert_time(built_in, "allgather", 3.0)


def test_t01_both_ways() -> None:
    topology = machine(4, duplex(ONE_WAY))
    assert_time(topology, "alltoall", 2.0)
    plan = assert_time(topology, "allgather", 1.5)
    assert synth.make_schedule(plan, chunks=1).quantized == pytest.approx(2.0, rel=1e-6)
    halves = synth.make_schedule(plan, chunks=2)
    assert halves.quantized == pytest.approx(1.5, rel=1e-6)
    # Fails at 45907b0: the plan's trees do not fit into 3 rounds, though others of the same time do.
    assert halves.steps == 3


@pytest.mark.parametrize(("n", "alltoall", "allgather"), [(3, 1.0, 1.0), (5, 3.0, 2.0), (6, 4.5, 2.5), (7, 6.0, 3.0)])
def test_t02_counts_that_are_not_powers_of_two(n: int, alltoall: float, allgather: float) -> None:
    assert_time(ring(n), "alltoall", alltoall)
    assert_time(ring(n), "allgather", allgather)
    assert_time(f"ring:{n},bandwidth=1 GB/s", "alltoall", alltoall)
    assert_time(f"ring:{n},bandwidth=1 GB/s", "allgather", allgather)


@pytest.mark.parametrize("collective", ["alltoall", "allgather", "reducescatter", "allreduce"])
def test_t03_isolated_gpu(collective: str) -> None:
    topology = machine(4, duplex([(0, 1, 10.0), (1, 2, 10.0), (0, 2, 10.0)]))
    with pytest.raises(synth.InfeasibleError) as caught:
        synth.solve(topology, collective, 4 * GB, progress=lambda _: pytest.fail("a solver ran"))
    message = caught.value.faults[0]
    assert "6 ordered pairs" in message
    for i in range(3):
        assert f"'g{i}' to 'g3'" in message
        assert f"'g3' to 'g{i}'" in message
    assert message.count(" to ") == 6
    assert_time(topology, collective, 0.2 if collective == "allreduce" else 0.1, size=3 * GB, ranks=[0, 1, 2])


def test_t04_one_way_reachability() -> None:
    topology = machine(3, [(0, 1, 1.0), (1, 2, 1.0), (2, 1, 1.0)])
    assert_time(topology, "broadcast", 1.0)  # by unicast it would be 2
    assert_time(topology, "scatter", 2.0, size=3 * GB)
    for collective in ("allgather", "reduce", "allreduce", "reducescatter", "gather"):
        with pytest.raises(synth.InfeasibleError, match="no other GPU has a path into 'g0'"):
            synth.solve(topology, collective, GB)


@pytest.mark.parametrize("factor", [1.0, 1e-9, 1e9])
def test_t05_asymmetric_pair(factor: float) -> None:
    topology = scaled(machine(2, [(0, 1, 10.0), (1, 0, 5.0)]), factor)
    assert_time(topology, "alltoall", 2.0, size=20 * GB * factor)


@pytest.mark.parametrize(("second", "seconds"), [(25.0, 2.0), (50.0, 4 / 3)])
def test_t06_parallel_links(second: float, seconds: float) -> None:
    nodes = (Node("g0", "gpu"), Node("g1", "gpu"))
    links = (Link("p0", "g0", "g1", 25 * GB), Link("p1", "g0", "g1", second * GB))
    plan = assert_time(Topology("pair", nodes, links), "sendrecv", seconds, size=100 * GB, root=0)
    assert set(plan.bottleneck) == {"p0", "p1"}
    with pytest.raises(synth.InvalidInputError, match="p0"):
        Topology("twice", nodes, (links[0], replace(links[1], id="p0")))


def pair_file(folder: Path, bandwidth: str) -> Topology:
    document = {
        "format": "synth-topology/1",
        "name": "pair",
        "nodes": [{"id": "g0", "kind": "gpu"}, {"id": "g1", "kind": "gpu"}],
        "links": [{"id": "a", "src": "g0", "dst": "g1", "bandwidth": bandwidth}],
    }
    path = folder / "pair.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    return load_topology(path)


def test_t07_units(tmp_path: Path) -> None:
    topology = pair_file(tmp_path, "200 Gb/s")
    assert_time(topology, "sendrecv", 0.04294967296, size="1 GiB", root=0)
    assert_time(topology, "sendrecv", 0.04, size="1 GB", root=0)
    assert_time(pair_file(tmp_path, "200 GB/s"), "sendrecv", 0.00536870912, size="1 GiB", root=0)
    assert_time(pair_file(tmp_path, "25 GiB/s"), "sendrecv", 0.04, size="1 GiB", root=0)


def test_t08_duplex_number() -> None:
    assert_time("switch:8,bandwidth=300 GB/s", "alltoall", 7 / 300)
    assert_time("dgx-a100", "alltoall", 7 / 300)
    assert_time("dgx-a100:achievable=true", "alltoall", 7 / 240)


def test_t09_switch_is_not_a_mesh() -> None:
    topology = machine(4, duplex((i, 4, 10.0) for i in range(4)), switches=1)
    for star in (topology, "switch:4,bandwidth=10 GB/s"):
        assert_time(star, "alltoall", 0.3)
        assert_time(star, "allgather", 0.3)
        assert_time(star, "broadcast", 0.1)


def test_t10_shared_nic() -> None:
    names = ["a0", "a1", "b0", "b1"]
    nodes = (*(Node(name, "gpu", name[0]) for name in names), Node("nA", "nic", "a"), Node("nB", "nic", "b"))
    ends = [("a0", "nA"), ("a1", "nA"), ("a0", "a1"), ("b0", "nB"), ("b1", "nB"), ("b0", "b1"), ("nA", "nB")]
    rates = [100.0] * 6 + [10.0]
    links = [
        Link(f"{a}-{b}", a, b, rate * GB) for (x, y), rate in zip(ends, rates, strict=True) for a, b in ((x, y), (y, x))
    ]
    topology = Topology("nics", nodes, tuple(links))
    plan = assert_time(topology, "alltoall", 0.4)
    assert set(plan.bottleneck) <= {"nA-nB", "nB-nA"}
    plan = assert_time(topology, "allgather", 0.2)
    assert set(plan.bottleneck) <= {"nA-nB", "nB-nA"}


def test_t12_broken_ring() -> None:
    whole = ring(4)
    assert_time(whole, "alltoall", 2.0)
    assert_time(whole, "allgather", 1.5)
    line = without(whole, (0, 1), (1, 0))
    assert_time(line, "alltoall", 4.0)
    assert_time(line, "allgather", 3.0)
    one_way = without(whole, (0, 1))
    assert_time(one_way, "alltoall", 4.0)
    assert_time(one_way, "allgather", 3.0)


def rails(*, relay: bool) -> Topology:
    names = ["a0", "a1", "b0", "b1"]
    nodes = tuple(Node(name, "gpu", name[0], relay) for name in names)
    cables = [("a0", "a1", 100.0), ("b0", "b1", 100.0), ("a0", "b0", 25.0), ("a1", "b1", 25.0)]
    both = [(x, y, rate) for a, b, rate in cables for x, y in ((a, b), (b, a))]
    return Topology("rails", nodes, tuple(Link(f"{a}-{b}", a, b, rate * GB) for a, b, rate in both))


def test_t14_rail_only_without_relay() -> None:
    assert_time(rails(relay=True), "alltoall", 4 / 50)
    for collective in ("alltoall", "allgather"):
        with pytest.raises(synth.InfeasibleError) as caught:
            synth.solve(rails(relay=False), collective, 4 * GB)
        message = caught.value.faults[0]
        assert "4 ordered pairs" in message
        for one, other in (("a0", "b1"), ("a1", "b0")):
            assert f"{one!r} to {other!r}" in message
            assert f"{other!r} to {one!r}" in message


def test_t28_shared_uplink() -> None:
    gpus = tuple(Node(f"g{i}", "gpu") for i in (0, 1, 4, 5))
    through = (Node("x-up", "switch"), Node("x-down", "switch"), Node("y-up", "switch"), Node("y-down", "switch"))
    cables = [("g0", "x-up"), ("g1", "x-up"), ("g4", "y-up"), ("g5", "y-up")]
    cables += [("x-down", "g0"), ("x-down", "g1"), ("y-down", "g4"), ("y-down", "g5")]
    cables += [("x-up", "cpu"), ("cpu", "x-down"), ("y-up", "cpu"), ("cpu", "y-down")]
    links = tuple(Link(f"{a}>{b}", a, b, 12 * GB) for a, b in cables)
    topology = Topology("no peer-to-peer", (*gpus, *through, Node("cpu", "cpu")), links)
    assert_time(topology, exchange(topology, 12 * GB, (0, 1)), 2.0)
    assert_time(topology, exchange(topology, 12 * GB, (0, 2)), 1.0)


NAMES = ["a-b", "a_b", "a b", "10", "2", "it's"]


@pytest.mark.parametrize("collective", ["allgather", "alltoall", "allreduce", "broadcast"])
def test_t30_names(collective: str) -> None:
    """Awkward ids keep their places, and nothing in the result depends on them."""
    cables: Sequence[Cable] = [(i, j, 1.0 + (i + 2 * j) % 4) for i, j in permutations(range(6), 2) if (i + j) % 3]

    def build(names: Sequence[str]) -> Topology:
        nodes = tuple(Node(name, "gpu") for name in names)
        links = (Link(f"l{k}", names[i], names[j], rate * GB) for k, (i, j, rate) in enumerate(cables))
        return Topology("same", nodes, tuple(links))

    odd, plain = build(NAMES), build([str(i) for i in range(6)])
    assert [odd.gpu_name(rank) for rank in range(6)] == NAMES
    one, two = (synth.synthesize(topology, collective, 6 * GB, chunks=2) for topology in (odd, plain))
    assert one.plan.time == two.plan.time
    assert one.plan.routes == two.plan.routes
    assert one.xml == two.xml


def test_t32_path_explosion() -> None:
    plan = assert_time("fullmesh:16,bandwidth=1 GB/s", "alltoall", 1.0)
    assert len(plan.routes) == 16 * 15
