"""Send times: formulas by hand, all trees and orders of three GPUs tried, and a replay that catches what is broken."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import synth
from synth.formulation.send_times.model import AlphaMode
from synth.solver.send_times.solution import SendTimes, send_time_faults
from synth.topology import Link, Node, Resource, Topology

US = 1e-6
Cable = tuple[float, float]  # bytes/second, seconds
Send = tuple[int, int, int]  # chunk's root, src, dst


def machine(cables: Mapping[tuple[int, int], Cable]) -> Topology:
    ranks = 1 + max(max(pair) for pair in cables)
    links = (Link(f"{a}-{b}", f"g{a}", f"g{b}", *cable) for (a, b), cable in cables.items())
    return Topology("uneven", tuple(Node(f"g{r}", "gpu") for r in range(ranks)), tuple(links))


@pytest.mark.parametrize(("mode", "expected"), [("pipelined", 1 + 3 * 40), ("blocking", 3 * (1 + 40))])
def test_three_chunks_over_one_link(mode: AlphaMode, expected: float) -> None:
    pair = machine({(0, 1): (1e9, US), (1, 0): (1e9, US)})
    found = synth.send_time_optimum(pair, "broadcast", 120e3, chunks=3, alpha_mode=mode)
    assert found.status == "optimal"
    assert found.time == pytest.approx(expected * US)
    assert found.schedule().lower("msccl").report.ok


def test_the_slow_link_is_avoided() -> None:
    """0 -> 1 takes 100 us; over 2 it is 10 + 10."""
    triangle = machine({(0, 1): (1e9, 0.0), (0, 2): (10e9, 0.0), (2, 1): (10e9, 0.0), (1, 0): (10e9, 0.0)})
    found = synth.send_time_optimum(triangle, "broadcast", 100e3)
    assert found.time == pytest.approx(20 * US)
    assert {(timed.send.src, timed.send.dst) for timed in found.sends} == {(0, 2), (2, 1)}


@pytest.mark.parametrize(("collective", "time_us"), [("allgather", 31.4), ("reducescatter", 31.4), ("alltoall", 31.4)])
def test_a_switch_port_carries_three_chunks(collective: str, time_us: float) -> None:
    """Three chunks of 10 us through each port, and two latencies of 0.7 us."""
    found = synth.send_time_optimum("switch:4", collective, 1e6)
    assert found.status == "optimal"
    assert found.time == pytest.approx(time_us * US)


def test_shared_pool_is_one_at_a_time() -> None:
    nodes = (Node("a", "gpu"), Node("b", "gpu"))
    links = (Link("x", "a", "b", 10e9), Link("y", "b", "a", 10e9))
    pool = Resource("dram", 1e9, (("x", 1.0), ("y", 1.0)))
    found = synth.send_time_optimum(Topology("pool", nodes, links, (pool,)), "allgather", 2e6)
    assert found.status == "optimal"
    assert found.time == pytest.approx(2e-3)


def trees(root: int, pairs: set[tuple[int, int]]) -> Iterator[tuple[Send, ...]]:
    """All spanning out-trees of three ranks."""
    others = [r for r in range(3) if r != root]
    for parents in itertools.product(range(3), repeat=2):
        edges = list(zip(parents, others, strict=True))
        if all(edge in pairs for edge in edges) and root in parents and len({a for a, _ in edges} - {root}) < 2:
            yield tuple((root, a, b) for a, b in edges)


def shortest_finish(cables: Mapping[tuple[int, int], Cable], size: float, blocking: bool) -> float:
    """All-gather of one chunk per rank: every tree per root, every order per link."""
    best = float("inf")
    for chosen in itertools.product(*(list(trees(root, set(cables))) for root in range(3))):
        sends = [send for tree in chosen for send in tree]
        on = {pair: [s for s in sends if s[1:] == pair] for pair in cables}
        for orders in itertools.product(*(itertools.permutations(queue) for queue in on.values())):
            best = min(best, finish(orders, sends, cables, size, blocking))
    return best


def finish(
    orders: tuple[tuple[Send, ...], ...],
    sends: list[Send],
    cables: Mapping[tuple[int, int], Cable],
    size: float,
    blocking: bool,
) -> float:
    """Time of given orders, by relaxation of their precedences; inf when they wait for each other in a circle."""
    start = dict.fromkeys(sends, 0.0)

    def arrival(send: Send) -> float:
        bandwidth, latency = cables[send[1:]]
        return start[send] + size / bandwidth + latency

    for _ in range(len(sends) + 1):
        before = dict(start)
        for send in sends:
            if send[1] != send[0]:
                feeder = next(s for s in sends if s[0] == send[0] and s[2] == send[1])
                start[send] = max(start[send], arrival(feeder))
        for queue in orders:
            for one, two in itertools.pairwise(queue):
                bandwidth, latency = cables[one[1:]]
                start[two] = max(start[two], start[one] + size / bandwidth + (latency if blocking else 0.0))
        if start == before:
            return max(arrival(send) for send in sends)
    return float("inf")


@settings(max_examples=12)
@given(st.data())
def test_agrees_with_all_trees_and_orders(data: st.DataObject) -> None:
    pairs = list(itertools.permutations(range(3), 2))
    missing = data.draw(st.sampled_from([None, *pairs]))
    bandwidth, latency = st.sampled_from((1e9, 2e9, 5e9)), st.sampled_from((0.0, 1e-6, 30e-6))
    cables = {pair: (data.draw(bandwidth), data.draw(latency)) for pair in pairs if pair != missing}
    blocking = data.draw(st.booleans())
    topology = machine(cables)
    found = synth.send_time_optimum(topology, "allgather", 90e3, alpha_mode="blocking" if blocking else "pipelined")
    assert found.status == "optimal"
    assert found.time == pytest.approx(shortest_finish(cables, 30e3, blocking), rel=1e-5)
    assert found.bound <= found.time
    turned = machine({(b, a): cable for (a, b), cable in cables.items()})
    back = synth.send_time_optimum(turned, "reducescatter", 90e3, alpha_mode=found.alpha_mode)
    assert back.time == pytest.approx(found.time, rel=1e-5)
    assert back.schedule().lower("msccl").report.ok


GOOD = {
    "allgather": synth.send_time_optimum("ring:4", "allgather", 1e6, chunks=2),
    "allreduce": synth.send_time_optimum("ring:3", "allreduce", 1e6),
    "alltoall": synth.send_time_optimum("line:3", "alltoall", 1e6, alpha_mode="blocking"),
}


@given(st.sampled_from(sorted(GOOD)), st.data())
def test_single_mutations_are_caught(name: str, data: st.DataObject) -> None:
    good = GOOD[name]
    assert send_time_faults(good) == []
    number = data.draw(st.integers(0, len(good.sends) - 1))
    timed = good.sends[number]
    kind = data.draw(st.sampled_from(("drop", "short", "early", "overlap")))

    def swapped(*new: object) -> SendTimes:
        return replace(good, sends=(*good.sends[:number], *new, *good.sends[number + 1 :]))  # type: ignore[arg-type]

    span = timed.arrival - timed.start
    if kind == "drop":
        broken = swapped()
    elif kind == "short":
        broken = swapped(replace(timed, arrival=timed.start + 0.9 * span))
    elif kind == "early":
        waiting = [k for k, x in enumerate(good.sends) if x.start > 0]
        later = good.sends[data.draw(st.sampled_from(waiting))]
        shift = later.start / 2
        moved = replace(later, start=later.start - shift, arrival=later.arrival - shift)
        broken = replace(good, sends=tuple(moved if x is later else x for x in good.sends))
    else:
        broken = swapped(timed, replace(timed, start=timed.start + span / 2, arrival=timed.arrival + span / 2))
    assert send_time_faults(broken), kind


def test_time_limit_gives_the_step_schedule_and_its_gap() -> None:
    found = synth.send_time_optimum("mesh2d:2x3", "alltoall", 1e6, time_limit=1.0)
    assert found.bound <= found.time
    assert send_time_faults(found) == []
    with pytest.raises(synth.LimitReachedError):
        synth.send_time_optimum("dgx1-v100", "allgather", 1e6, time_limit=0.0)


def test_bad_input() -> None:
    with pytest.raises(synth.InvalidInputError, match="pipelined or blocking"):
        synth.send_time_optimum("ring:3", "allgather", alpha_mode="other")  # type: ignore[arg-type]
    with pytest.raises(synth.InvalidInputError, match="need all GPUs"):
        synth.send_time_optimum("ring:3", "reduce", ranks=[0, 1])
    assert synth.send_time_optimum("ring:3", "allgather", ranks=[1]).time == 0.0
