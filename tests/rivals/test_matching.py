"""Matching: hand-derived times, an independent replay, exhaustive search on three GPUs, and programs that verify."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import synth
from synth.demand import make_demand
from synth.errors import NotExpressibleError
from synth.rivals.matching.arcs import Arc, arcs_of
from synth.rivals.matching.greedy import RULES, least_time, match
from synth.rivals.matching.matched import Matcher
from synth.schedule import Schedule, TimeModel, simulate_schedule
from synth.schedule.simulate.bounds import plan_bound
from synth.topology import Link, Node, Topology, resolve
from tests.schedule.test_schedule import check_schedule
from tests.strategies import topologies

RING = "ring:4,bandwidth=25 GB/s,latency=0.7 us"
MODES = ("pipelined", "blocking")
KINDS = ("allgather", "reducescatter", "allreduce", "broadcast", "reduce")


def matched(
    topology: Topology, collective: str, chunks: int, seed: int, model: TimeModel, size: float = 1e6
) -> Schedule | None:
    demand = make_demand(topology, collective, size)
    return Matcher.make(topology, demand, chunks, model).schedule(seed)


@pytest.mark.parametrize("seed", range(len(RULES)))
@pytest.mark.parametrize(
    ("collective", "chunks", "rounds"),
    # 6 chunks enter each GPU over two links, 3 one after the other; a shard whole has 3 for 2 links: 2 rounds.
    [("allgather", 2, 3), ("reducescatter", 2, 3), ("allreduce", 2, 6), ("allgather", 1, 2)],
)
def test_ring_of_four_by_hand(collective: str, chunks: int, rounds: int, seed: int) -> None:
    model = TimeModel("blocking")
    schedule = matched(resolve(RING), collective, chunks, seed, model)
    assert schedule is not None
    want = rounds * (0.7e-6 + 1e6 / 4 / chunks / 25e9)
    assert simulate_schedule(schedule, None, model).end == pytest.approx(want)
    assert schedule.lower().report.ok


def test_scarcest_first_needs_no_round_too_many_on_the_3x3_mesh() -> None:
    """A corner has two links for 8 shards: 4 rounds of 1/9 MB at 50 GiB/s with 0.5 us each are 10.278 us (TACOS)."""
    model = TimeModel("blocking")
    schedule = matched(resolve("mesh2d:3x3,bandwidth=50 GiB/s,latency=0.5 us"), "allgather", 1, 0, model)
    assert schedule is not None
    time = simulate_schedule(schedule, None, model).end
    assert time == pytest.approx(4 * (0.5e-6 + 1e6 / 9 / (50 * 2**30)))
    assert round(time * 1e6, 3) <= 10.278


def replay(arcs: tuple[Arc, ...], roots: list[int], members: int, seed: int) -> float:
    """End of a matching, and that it keeps the rules: written without looking at how it is made."""
    sends = match(arcs, roots, members, seed=seed)
    assert sends is not None
    arrival = {(root, chunk): 0.0 for chunk, root in enumerate(roots)}
    busy: dict[int, list[tuple[float, float]]] = {}
    for send in sends:
        arc = arcs[send.arc]
        assert arrival[arc.src, send.chunk] <= send.start + 1e-12 * max(1, send.start)
        assert (arc.dst, send.chunk) not in arrival, "a chunk came twice"
        arrival[arc.dst, send.chunk] = send.start + arc.seconds
        for row, lead, until in arc.uses:
            busy.setdefault(row, []).append((send.start + lead, send.start + until))
    assert len(arrival) == members * len(roots), "somebody lacks a chunk"
    shortest = min(arc.seconds for arc in arcs)
    for spans in busy.values():
        spans.sort()
        assert all(end <= begin + 1e-6 * shortest for (_, end), (begin, _) in itertools.pairwise(spans))
    return max(arrival.values())


@given(
    topologies(min_gpus=2, max_gpus=5),
    st.integers(1, 3),
    st.integers(0, 2 * len(RULES)),
    st.sampled_from(MODES),
)
@settings(max_examples=60, deadline=None, derandomize=True)
def test_matching_is_an_allgather_in_which_no_link_serves_two(
    topology: Topology, chunks: int, seed: int, mode: str
) -> None:
    model, demand = TimeModel(mode), make_demand(topology, "allgather", 1e6)  # type: ignore[arg-type]
    arcs = arcs_of(topology, demand, 1e6 / len(demand.ranks) / chunks, model)
    members = len(demand.ranks)
    roots = [k for k in range(members) for _ in range(chunks)]
    end = replay(arcs, roots, members, seed)
    assert least_time(arcs, roots, members) <= end * (1 + 1e-9)


def test_the_replay_notices_a_chunk_before_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    topology = resolve(RING)
    arcs = arcs_of(topology, make_demand(topology, "allgather", 1e6), 250e3, TimeModel())
    good = match(arcs, [0, 1, 2, 3], 4)
    assert good is not None
    monkeypatch.setitem(globals(), "match", lambda *_, **__: [replace(send, start=0.0) for send in good])
    with pytest.raises(AssertionError):
        replay(arcs, [0, 1, 2, 3], 4, 0)
    monkeypatch.setitem(globals(), "match", lambda *_, **__: good[:-1])
    with pytest.raises(AssertionError, match="lacks"):
        replay(arcs, [0, 1, 2, 3], 4, 0)


@given(
    topologies(min_gpus=2, max_gpus=5),
    st.sampled_from(KINDS),
    st.integers(1, 3),
    st.integers(0, 3),
    st.sampled_from(MODES),
)
@settings(max_examples=60, deadline=None, derandomize=True)
def test_schedules_are_complete_above_the_bound_and_verify(
    topology: Topology, collective: str, chunks: int, seed: int, mode: str
) -> None:
    model = TimeModel(mode)  # type: ignore[arg-type]
    demand = make_demand(topology, collective, 1e6)
    plan = synth.solve(topology, demand)
    schedule = Matcher.make(topology, demand, chunks, model, plan).schedule(seed)
    assert schedule is not None
    check_schedule(schedule)
    bound = plan_bound(plan, None, model).seconds
    assert bound <= simulate_schedule(schedule, None, model).end * (1 + 1e-9)
    assert schedule.lower().report.ok


@given(topologies(min_gpus=3, max_gpus=5, relays=False), st.integers(0, 3))
@settings(max_examples=20, deadline=None, derandomize=True)
def test_who_may_not_relay_sends_only_what_is_his(topology: Topology, seed: int) -> None:
    schedule = matched(topology, "allgather", 2, seed, TimeModel())
    if schedule is None:
        return
    for t in schedule.transfers:
        node = topology.nodes[t.src]
        assert node.relay or topology.rank_of[t.src] == schedule.plan.demand.commodities[t.shard].root


def best_of_three(arcs: tuple[Arc, ...], above: float) -> float:
    """Least time of an all-gather with whole shards on three GPUs, by trying every order of sends on every connection.

    Branches that cannot end below ``above`` are cut.
    """
    best = above

    def extend(have: dict[tuple[int, int], float], free: dict[int, float]) -> None:
        nonlocal best
        if len(have) == 9:
            best = min(best, max(have.values()))
            return
        for arc in arcs:
            for root in range(3):
                if (arc.src, root) not in have or (arc.dst, root) in have:
                    continue
                start = max(have[arc.src, root], *(free.get(row, 0.0) - lead for row, lead, _ in arc.uses))
                if start + arc.seconds < best:
                    taken = {row: start + until for row, _, until in arc.uses}
                    extend({**have, (arc.dst, root): start + arc.seconds}, {**free, **taken})

    extend({(root, root): 0.0 for root in range(3)}, {})
    return best


def triangle(speeds: list[float], latencies: list[float]) -> Topology:
    nodes = tuple(Node(str(k), "gpu") for k in range(3))
    pairs = list(itertools.permutations(range(3), 2))
    links = tuple(
        Link(f"l{k}", str(a), str(b), speeds[k] * 1e9, latencies[k] * 1e-6)
        for k, (a, b) in enumerate(pairs)
        if speeds[k]
    )
    return Topology("triangle", nodes, links)


@given(
    st.lists(st.sampled_from((10.0, 20.0, 25.0, 50.0)), min_size=6, max_size=6),
    st.lists(st.sampled_from((0.0, 0.5, 2.0)), min_size=6, max_size=6),
    st.sampled_from(MODES),
)
@settings(max_examples=10, deadline=None, derandomize=True)
def test_three_gpus_against_every_schedule(speeds: list[float], latencies: list[float], mode: str) -> None:
    """No matching beats the exhaustive optimum; the best of a few seeds is at most a message over it."""
    topology, model = triangle(speeds, latencies), TimeModel(mode)  # type: ignore[arg-type]
    arcs = arcs_of(topology, make_demand(topology, "allgather", 3e5), 1e5, model)
    ends = [replay(arcs, [0, 1, 2], 3, seed) for seed in range(8)]
    optimum = best_of_three(arcs, 2 * min(ends))
    assert optimum * (1 - 1e-9) <= min(ends) <= optimum + max(arc.seconds for arc in arcs)


def test_alltoall_has_no_matching() -> None:
    topology = resolve(RING)
    with pytest.raises(NotExpressibleError, match="copy or add"):
        Matcher.make(topology, make_demand(topology, "alltoall", 1e6), 1, TimeModel())


def test_the_same_seed_gives_the_same_schedule() -> None:
    topology, model = resolve("dgx1-v100"), TimeModel()
    assert matched(topology, "allgather", 3, 5, model) == matched(topology, "allgather", 3, 5, model)


def test_two_members_relay_through_the_others() -> None:
    ring = resolve("ring:n=4,both_ways=false")
    demand = make_demand(ring, "allgather", 2.0, ranks=[0, 2])
    schedule = Matcher.make(ring, demand, 2, TimeModel()).schedule(0)
    assert schedule is not None
    assert {(t.src, t.dst) for t in schedule.transfers} == {(0, 1), (1, 2), (2, 3), (3, 0)}
    check_schedule(schedule)
