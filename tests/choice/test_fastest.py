"""The fastest schedule at a size: rivals, depth prices, orders, the choice and its command."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import synth
from synth.demand import make_demand
from synth.errors import InvalidInputError, LimitReachedError, NotExpressibleError
from synth.program.msccl import Draft
from synth.program.runtime import XmlRuntime, target_names
from synth.rivals.at_size import RIVALS, Candidate, Rival, Search, lp_schedules
from synth.rivals.depth_priced import DepthPricer, latency_of
from synth.schedule import Schedule, TimeModel, make_schedule, simulate_schedule
from synth.schedule.chunks.build import reordered
from synth.schedule.chunks.justify import backwards, justified
from synth.schedule.simulate.bounds import plan_bound
from synth.schedule.simulate.compiled import compile_transfers
from synth.schedule.simulate.events import run_queued
from synth.schedule.simulate.run import with_times
from synth.topology import Link, Node, Topology
from tests.cli.test_solve import run
from tests.schedule.test_schedule import check_schedule
from tests.strategies import topologies

RING = "ring:4,bandwidth=25 GB/s,latency=0.7 us"
COLLECTIVES = ("allgather", "reducescatter", "allreduce", "alltoall", "broadcast", "reduce", "gather", "sendrecv")
MODES = ("pipelined", "blocking")


@pytest.mark.parametrize(
    ("size", "want"),
    # Two chunks per shard, three rounds over two links; more chunks pay the latency more often.
    [(1e6, 3 * (0.7e-6 + 125e3 / 25e9)), (1e9, 3 * (0.7e-6 + 125e6 / 25e9))],
)
def test_ring_of_four_by_hand(size: float, want: float) -> None:
    choice = synth.fastest(RING, "allgather", size, model=TimeModel("blocking"))
    assert choice.seconds == pytest.approx(want)
    assert choice.schedule.chunks_per_shard == 2
    assert choice.program is not None
    assert choice.program.report.ok
    assert choice.bound.seconds <= choice.seconds


def test_small_messages_take_the_fewest_hops() -> None:
    """1 byte to each of 7 others on a full mesh: one hop, 1 us and next to nothing."""
    choice = synth.fastest("fullmesh:8,bandwidth=25 GB/s,latency=1 us", "alltoall", 8.0)
    assert choice.seconds == pytest.approx(1e-6, rel=1e-3)
    assert choice.gap < 1e-6


def searching(topology: Topology, collective: str, size: float, model: TimeModel) -> Search:
    demand = make_demand(topology, collective, size)
    plan = synth.solve(topology, demand)
    bound = plan_bound(plan, None, model).seconds
    return Search(topology, demand, plan, model, 2, bound, time.monotonic() + 60)


@pytest.mark.parametrize("rival", RIVALS)
@given(
    topologies(min_gpus=2, max_gpus=3),
    st.sampled_from(COLLECTIVES),
    st.sampled_from((1e3, 1e6)),
    st.sampled_from(MODES),
)
@settings(max_examples=8, deadline=None, derandomize=True)
def test_what_a_rival_makes_is_complete_above_the_bound_and_verifies(
    rival: Rival, topology: Topology, collective: str, size: float, mode: str
) -> None:
    search = searching(topology, collective, size, TimeModel(mode))  # type: ignore[arg-type]
    for found in islice(rival(search), 2):
        check_schedule(found.schedule)
        assert found.seconds == simulate_schedule(found.schedule, None, search.model).end
        assert search.bound <= found.seconds * (1 + 1e-9)
        assert search.best <= found.seconds
        assert found.schedule.lower().report.ok


def detour(latency: float) -> Topology:
    """0 -> 1 with 3 B/s, 0 -> 2 -> 1 with 1 B/s (oracle T15), and a latency of every link."""
    nodes = tuple(Node(str(k), "gpu") for k in range(3))
    ends = (("d", "0", "1", 3.0), ("x", "0", "2", 1.0), ("y", "2", "1", 1.0))
    return Topology("detour", nodes, tuple(Link(*end, latency) for end in ends))


@pytest.mark.parametrize(
    ("latency", "direct"),
    # The detour saves 1/3 - 1/4 s on the links and costs 1/4 of a link's latency in the mean: worth it below 1/3 s.
    [(0.01, 0.75), (0.3, 0.75), (0.4, 1.0), (1.0, 1.0)],
)
def test_a_detour_is_taken_while_its_latency_pays(latency: float, direct: float) -> None:
    topology = detour(latency)
    plan = synth.solve(topology, make_demand(topology, "sendrecv", 1.0, ranks=[0, 1], root=0))
    priced = DepthPricer(plan, TimeModel()).plan(1e-9, time.monotonic() + 60)
    shares = {len(route.hops): route.share for route in priced.routes}
    assert shares[1] == pytest.approx(direct)
    assert priced.time == pytest.approx(max(direct / 3, 1 - direct))


@pytest.mark.parametrize("collective", ["allgather", "reducescatter", "allreduce"])
def test_depth_priced_trees_are_no_deeper_and_no_slower_than_asked(collective: str) -> None:
    plan = synth.solve("mesh2d:3x3", collective, 1e6)
    priced = DepthPricer(plan, TimeModel()).plan(1.0, time.monotonic() + 60)
    assert plan.bound <= priced.time
    seconds = 0.5e-6

    def mean(routes: Any) -> float:
        return float(sum(route.share * latency_of(route, lambda _: seconds) for route in routes))

    assert mean(priced.routes) <= mean(plan.routes) + 1e-12
    assert make_schedule(priced, chunks=2).lower().report.ok


def test_running_backwards_twice_is_running_forwards() -> None:
    schedule = synth.solve("mesh2d:3x3", "allgather", 1e6).schedule(2)
    compiled = compile_transfers(schedule.plan.topology, schedule.transfers)
    again = backwards(backwards(compiled))
    assert again.links == compiled.links
    assert again.deps == [tuple(sorted(deps)) for deps in compiled.deps]
    mirrored = run_queued(backwards(compiled), schedule.chunk_bytes, TimeModel(), None)
    # What nobody waits for is first, and nothing ends before what it waits for in the mirror.
    assert len(mirrored.arrivals) == len(compiled)
    back = mirrored.starts[::-1]
    for k, deps in enumerate(compiled.deps):
        assert all(back[d] >= mirrored.arrivals[::-1][k] - 1e-15 for d in deps)


@given(topologies(min_gpus=3, max_gpus=5), st.sampled_from(COLLECTIVES), st.integers(0, 9))
@settings(max_examples=25, deadline=None, derandomize=True)
def test_an_improved_order_is_no_slower_and_the_same_transfers(topology: Topology, collective: str, seed: int) -> None:
    schedule = synth.solve(topology, collective, 1e6).schedule(2)
    # A random order that the dependencies allow: a bad start.
    key = np.random.default_rng(seed).random(len(schedule.transfers))
    depth: list[float] = []
    for k, t in enumerate(schedule.transfers):
        depth.append(max([depth[d] for d in t.deps], default=0.0) + key[k])
    order = sorted(range(len(key)), key=lambda k: depth[k])
    poor = with_times(replace(schedule, transfers=reordered(list(schedule.transfers), order)))
    better = justified(poor, TimeModel(), 4)
    check_schedule(better)
    assert simulate_schedule(better).end <= simulate_schedule(poor).end * (1 + 1e-12)
    assert sorted((t.shard, t.first, t.links) for t in better.transfers) == sorted(
        (t.shard, t.first, t.links) for t in schedule.transfers
    )


def test_a_poor_order_is_repaired() -> None:
    """Two links in a row and a message for the end: who goes farthest has to go first."""
    nodes = tuple(Node(str(k), "gpu") for k in range(3))
    line = Topology("line", nodes, (Link("a", "0", "1", 1e9), Link("b", "1", "2", 1e9)))
    schedule = synth.solve(line, make_demand(line, "scatter", 3e6, root=0)).schedule(1)
    far = [k for k, t in enumerate(schedule.transfers) if schedule.plan.demand.commodities[t.shard].dest == 2]
    near = [k for k in range(len(schedule.transfers)) if k not in far]
    poor = with_times(replace(schedule, transfers=reordered(list(schedule.transfers), [*near, *far])))
    assert poor.simulated == pytest.approx(3e-3)
    assert justified(poor, TimeModel(), 4).simulated == pytest.approx(2e-3)


def test_the_winner_is_the_fastest_that_the_target_can_express(monkeypatch: pytest.MonkeyPatch) -> None:
    draft = XmlRuntime.draft
    seen: list[int] = []

    def refusing(self: XmlRuntime, schedule: Schedule) -> Draft:
        seen.append(schedule.chunks_per_shard)
        if len(seen) == 1:
            raise NotExpressibleError("too fine")
        return draft(self, schedule)

    monkeypatch.setattr(XmlRuntime, "draft", refusing)
    choice = synth.fastest("mesh2d:2x2", "allgather", 1e6, model=TimeModel("blocking"))
    assert choice.winner is choice.rivals[1]
    assert choice.seconds >= choice.rivals[0].seconds
    assert choice.refused == (f"{choice.rivals[0].rival} with {seen[0]} chunks per shard: too fine",)


def test_a_choice_is_the_same_in_every_run() -> None:
    first, second = (synth.fastest("ring:3", "allgather", "64 KiB", seeds=3) for _ in range(2))
    assert first.table.equals(second.table)
    assert first.schedule.transfers == second.schedule.transfers
    assert list(first.table["time_us"]) == pytest.approx(sorted(first.table["time_us"]))


def test_rivals_are_an_argument() -> None:
    def mine(search: Search) -> Iterator[Candidate]:
        yield search.judged("mine", make_schedule(search.plan, chunks=1))

    choice = synth.fastest("ring:4", "alltoall", "1 MB", rivals=(mine,), target=None)
    assert [candidate.rival for candidate in choice.rivals] == ["mine"]
    assert choice.program is None
    with pytest.raises(InvalidInputError, match="ask for a target"):
        _ = choice.result
    only_lp = synth.fastest("ring:4", "alltoall", "1 MB", rivals=(lp_schedules,))
    assert {candidate.rival for candidate in only_lp.rivals} == {"lp"}


def test_bad_arguments() -> None:
    for wrong, text in (
        ({"seeds": 0}, "seeds 0"),
        ({"time_limit": float("nan")}, "time limit"),
        ({"target": "x"}, "x"),
    ):
        with pytest.raises(InvalidInputError, match=text):
            synth.fastest("ring:4", "allgather", "1 MB", **wrong)
    with pytest.raises(LimitReachedError):
        synth.fastest("ring:4", "allgather", "1 MB", time_limit=0)


def test_nothing_to_do() -> None:
    choice = synth.fastest("ring:4", "allgather", "1 MB", ranks=[2])
    assert choice.seconds == choice.gap == 0.0


def test_command(tmp_path: Path) -> None:
    common = ["fastest", RING, "allgather", "--size", "1MB", "--alpha-mode", "blocking", "--seeds", "2"]
    got = run(*common, "--out", str(tmp_path / "out"), "--json")
    assert got.returncode == 0, got.stderr
    said = json.loads(got.stdout)
    assert said["format"] == "synth-fastest/1"
    assert said["winner"]["time_us"] == pytest.approx(17.1)
    assert said["bound_us"] <= said["winner"]["time_us"]
    assert (tmp_path / "out" / "msccl.xml").is_file()
    table = run(*common).stdout
    assert "17.100 us" in table
    assert "matching" in table


@pytest.mark.parametrize("target", target_names())
def test_the_result_knows_its_runtime(target: str) -> None:
    """``write`` once took every program for msccl's: channels and NCCL settings in the side-car of another runtime."""
    result = synth.fastest("ring:4", "allgather", 1e6, target=target, seeds=1).result
    assert result.to_dict()["target"] == target
    assert result.paths.target == target
    assert all((path.channel is None) == (target == "mscclpp") for path in result.paths.channels)
