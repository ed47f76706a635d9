"""The time model on schedules: three ways to share links, two alpha modes, and what must always hold."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import synth
from synth.errors import InvalidInputError
from synth.schedule import Schedule, TimeModel, Transfer, compile_schedule, simulate_schedule
from synth.schedule.simulate.compiled import CompiledTransfers, compile_transfers
from synth.schedule.simulate.run import run
from synth.schedule.simulate.time_model import AlphaMode, Sharing
from synth.topology import Link, Node, Resource, Topology
from tests.strategies import topologies

SHARINGS: tuple[Sharing, ...] = ("order", "fifo", "fair")
ALPHAS: tuple[AlphaMode, ...] = ("pipelined", "blocking")


def line(latency: float, gpus: int, capacity: float = 25e9) -> Topology:
    nodes = tuple(Node(str(k), "gpu") for k in range(gpus))
    return Topology("line", nodes, tuple(Link(f"l{k}", str(k), str(k + 1), capacity, latency) for k in range(gpus - 1)))


def one_hop(count: int = 1, links: tuple[int, ...] = (0,), deps: tuple[int, ...] = (), adds: bool = False) -> Transfer:
    return Transfer(0, 0, count, 0, 0, 1, links, adds, deps)


def end(topology: Topology, transfers: list[Transfer], chunk: float, **model: object) -> float:
    return run(compile_transfers(topology, transfers), chunk, TimeModel(**model)).end  # type: ignore[arg-type]


def star(capacity: float = 10.0) -> Topology:
    """a and b send to c through a switch: links a->s, b->s, s->c."""
    nodes = (*(Node(name, "gpu") for name in "abc"), Node("s", "switch"))
    links = [Link(f"{a}{b}", a, b, capacity) for a, b in (("a", "s"), ("b", "s"), ("s", "c"))]
    return Topology("star", nodes, tuple(links))


@pytest.mark.parametrize("sharing", SHARINGS)
def test_hand_derived_times_on_one_link(sharing: str) -> None:
    """T35; then a second message: pipelined waits for the bytes only, blocking for the latency as well."""
    topology = line(5e-6, 2)
    assert end(topology, [one_hop()], 1000.0, sharing=sharing) == pytest.approx(5.04e-6)
    two = [one_hop(), one_hop()]
    assert end(topology, two, 1000.0, sharing=sharing) == pytest.approx(5.08e-6)
    if sharing != "fair":
        assert end(topology, two, 1000.0, sharing=sharing, alpha_mode="blocking") == pytest.approx(10.08e-6)
    fixed = {"start": 1e-6, "hop_latency": 2e-6, "overhead": 3e-6}
    assert end(topology, [one_hop()], 1000.0, sharing=sharing, **fixed) == pytest.approx(11.04e-6)
    assert end(topology, [one_hop(adds=True)], 1000.0, sharing=sharing, reduce_rate=1e9) == pytest.approx(6.04e-6)


@pytest.mark.parametrize("sharing", SHARINGS)
@pytest.mark.parametrize("alpha", ALPHAS)
def test_three_hops_store_and_forward(sharing: str, alpha: str) -> None:
    chain = [Transfer(0, 0, 1, 0, k, k + 1, (k,), False, (k - 1,) if k else ()) for k in range(3)]
    assert end(line(5e-6, 4), chain, 1000.0, sharing=sharing, alpha_mode=alpha) == pytest.approx(15.12e-6)


def test_sharing_of_a_switch_port() -> None:
    """Messages of 1 and 3 bytes meet at a port of 10 B/s: 0.4 s in all; fair halves it until the first ends."""
    transfers = [replace(one_hop(1), links=(0, 2)), replace(one_hop(3), links=(1, 2))]
    for sharing, first, last in (("order", 0.1, 0.4), ("fifo", 0.1, 0.4), ("fair", 0.2, 0.4)):
        got = run(compile_transfers(star(), transfers), 1.0, TimeModel(sharing=sharing))  # type: ignore[arg-type]
        assert got.arrivals.tolist() == pytest.approx([first, last])


def test_order_waits_where_fifo_does_not() -> None:
    """A message that is not ready keeps its place in the schedule's order, but not in a queue."""
    topology = Topology(
        "t", tuple(Node(n, "gpu") for n in "abc"), (Link("ab", "a", "b", 1.0), Link("bc", "b", "c", 1.0))
    )
    transfers = [one_hop(4), Transfer(0, 0, 1, 0, 1, 2, (1,), False, (0,)), Transfer(1, 0, 2, 1, 1, 2, (1,), False, ())]
    assert end(topology, transfers, 1.0, sharing="order") == 7.0
    assert end(topology, transfers, 1.0, sharing="fifo") == 5.0


def test_pools_are_shared_too() -> None:
    nodes = (Node("a", "gpu"), Node("b", "gpu"))
    links = (Link("f", "a", "b", 10.0), Link("r", "b", "a", 10.0))
    pooled = Topology("p", nodes, links, (Resource("dram", 10.0, (("f", 1.0), ("r", 2.0))),))
    both = [one_hop(), replace(one_hop(), links=(1,), src=1, dst=0)]
    assert [end(pooled, both, 10.0, sharing=sharing) for sharing in SHARINGS] == pytest.approx([3.0] * 3)


def test_messages_go_together() -> None:
    """Two shards in one message: one latency in blocking mode, and none arrives before the other."""
    topology, two = line(1.0, 2, 1.0), [one_hop(), one_hop()]
    apart = run(compile_transfers(topology, two), 1.0, TimeModel("blocking"))
    together = run(compile_transfers(topology, two, (7, 7)), 1.0, TimeModel("blocking"))
    assert apart.arrivals.tolist() == [2.0, 4.0]
    assert together.arrivals.tolist() == [3.0, 3.0]


@pytest.mark.parametrize(
    "bad", [{"alpha_mode": "x"}, {"sharing": "x"}, {"start": -1.0}, {"overhead": math.nan}, {"reduce_rate": 0.0}]
)
def test_bad_models_are_refused(bad: dict[str, object]) -> None:
    with pytest.raises(InvalidInputError, match=next(iter(bad))):
        TimeModel(**bad)  # type: ignore[arg-type]


@st.composite
def models(draw: st.DrawFn, sharing: Sharing | None = None) -> TimeModel:
    seconds = st.sampled_from((0.0, 1e-6, 3e-5))
    return TimeModel(
        alpha_mode=draw(st.sampled_from(ALPHAS)),
        sharing=draw(st.sampled_from(SHARINGS)) if sharing is None else sharing,
        start=draw(seconds),
        hop_latency=draw(seconds),
        overhead=draw(seconds),
        reduce_rate=draw(st.sampled_from((math.inf, 1e9))),
    )


COLLECTIVES = ("allgather", "reducescatter", "allreduce", "alltoall", "broadcast", "reduce")


@st.composite
def schedules(draw: st.DrawFn, max_gpus: int = 5) -> Schedule:
    topology = draw(topologies(min_gpus=2, max_gpus=max_gpus))
    return synth.solve(topology, draw(st.sampled_from(COLLECTIVES)), 1e6).schedule(draw(st.integers(1, 3)))


def by_relaxation(compiled: CompiledTransfers, chunk: float, model: TimeModel) -> list[float]:
    """Arrivals in order mode as the least fixed point of its constraints, relaxed until nothing moves."""
    events = [(k, p) for k, path in enumerate(compiled.links) for p in range(len(path))]
    rows: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for k, p in events:
        link = compiled.links[k][p]
        for row in (link, *(row for row, _ in compiled.pools[link])):
            rows[row].append((k, p))
    begin = dict.fromkeys(events, model.start)
    arrival = [0.0] * len(compiled)

    def alpha(k: int, p: int) -> float:
        path = compiled.links[k]
        return compiled.latency[path[p]] + (model.hop_latency if p + 1 == len(path) else 0.0)

    def passes(k: int, p: int, row: int) -> float:
        link, size = compiled.links[k][p], compiled.count[k] * chunk
        time = size / compiled.capacity[link] if row == link else size * dict(compiled.pools[link])[row]
        return begin[k, p] + (0.0 if p else model.overhead) + time

    for _ in range(10_000):
        before = (dict(begin), list(arrival))
        for k, path in enumerate(compiled.links):
            done = 0.0
            for p, link in enumerate(path):
                used = (link, *(row for row, _ in compiled.pools[link]))
                done = max(done, *(passes(k, p, row) for row in used)) + alpha(k, p)
            size = compiled.count[k] * chunk
            arrival[k] = done + (size / model.reduce_rate if compiled.adds[k] else 0.0)
        for k, p in events:
            if p:
                head = begin[k, p - 1] + (0.0 if p > 1 else model.overhead) + alpha(k, p - 1)
                begin[k, p] = max(begin[k, p], head)
            else:
                begin[k, p] = max([begin[k, p], *(arrival[d] for d in compiled.deps[k])])
        for row, users in rows.items():
            for (k, p), after in itertools.pairwise(users):
                hold = alpha(k, p) if model.alpha_mode == "blocking" else 0.0
                begin[after] = max(begin[after], passes(k, p, row) + hold)
        if before == (begin, arrival):
            return arrival
    raise AssertionError("no fixed point")


@given(schedules(max_gpus=4), models("order"))
@settings(max_examples=30, deadline=None, derandomize=True)
def test_the_pass_in_order_is_the_least_fixed_point_of_its_constraints(schedule: Schedule, model: TimeModel) -> None:
    compiled = compile_schedule(schedule)
    got = simulate_schedule(schedule, 5e5, model).arrivals
    assert by_relaxation(compiled, schedule.chunk_bytes / 2, model) == pytest.approx(got.tolist(), rel=1e-9)


@given(schedules(), models())
@settings(max_examples=30, deadline=None, derandomize=True)
def test_what_any_simulation_must_be(schedule: Schedule, model: TimeModel) -> None:
    """Nothing starts before what it waits for, every hop takes its own time, links move no more than they can."""
    times, links = simulate_schedule(schedule, None, model), schedule.plan.topology.links
    load = np.zeros(len(links))
    for k, t in enumerate(schedule.transfers):
        size = t.count * schedule.chunk_bytes
        assert all(times.arrivals[d] <= times.starts[k] + 1e-15 for d in t.deps)
        least = size / min(links[link].capacity for link in t.links) + sum(links[link].latency for link in t.links)
        least += model.hop_latency + model.overhead + (size / model.reduce_rate if t.reduce else 0.0)
        assert times.arrivals[k] - times.starts[k] >= least * (1 - 1e-9)
        load[list(t.links)] += size
    busiest = (schedule.plan.network.row_bytes(load) / schedule.plan.network.capacity).max()
    assert times.end - model.start >= busiest * (1 - 1e-9)
    assert min(times.starts) == model.start


@given(schedules(), models("order"), st.lists(st.floats(1.0, 1e10), min_size=2, max_size=6))
@settings(max_examples=30, deadline=None, derandomize=True)
def test_in_order_time_is_monotone_and_convex_in_the_size(
    schedule: Schedule, model: TimeModel, sizes: list[float]
) -> None:
    compiled = compile_schedule(schedule)
    sizes.sort()
    ends = [simulate_schedule(schedule, size, model, compiled=compiled).end for size in sizes]
    assert all(a <= b for a, b in itertools.pairwise(ends))
    middle = simulate_schedule(schedule, (sizes[0] + sizes[-1]) / 2, model, compiled=compiled).end
    assert middle <= (ends[0] + ends[-1]) / 2 * (1 + 1e-9)


@given(schedules(), models("order"), st.sampled_from(("start", "hop_latency", "overhead")))
@settings(max_examples=20, deadline=None, derandomize=True)
def test_in_order_time_is_monotone_in_every_constant(schedule: Schedule, model: TimeModel, name: str) -> None:
    slower = replace(model, **{name: getattr(model, name) + 1e-6})
    assert simulate_schedule(schedule, None, slower).end > simulate_schedule(schedule, None, model).end
    blocking = replace(model, alpha_mode="blocking")
    assert simulate_schedule(schedule, None, blocking).end >= simulate_schedule(schedule, None, model).end


def slowed(topology: Topology) -> Topology:
    return replace(
        topology,
        links=tuple(replace(link, bandwidth=link.bandwidth / 2, latency=0.0) for link in topology.links),
        resources=tuple(replace(pool, bandwidth=pool.bandwidth / 2) for pool in topology.resources),
    )


@given(schedules(), st.sampled_from(ALPHAS), st.sampled_from(SHARINGS))
@settings(max_examples=30, deadline=None, derandomize=True)
def test_halving_all_capacities_doubles_the_bandwidth_part_exactly(
    schedule: Schedule, alpha: str, sharing: str
) -> None:
    model = TimeModel(alpha, sharing)  # type: ignore[arg-type]
    free = replace(
        schedule.plan.topology,
        links=tuple(replace(link, latency=0.0) for link in schedule.plan.topology.links),
    )
    whole = run(compile_transfers(free, schedule.transfers), schedule.chunk_bytes, model)
    half = run(compile_transfers(slowed(free), schedule.transfers), schedule.chunk_bytes, model)
    assert half.arrivals.tolist() == (2 * whole.arrivals).tolist()
