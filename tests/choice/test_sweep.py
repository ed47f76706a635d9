"""Sweeps over message sizes: crossovers by hand, ranges without gap or overlap, files that verify where they serve."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.figure import Figure

import synth
from synth.choice.sweep.judge import sweep_sizes
from synth.choice.sweep.plots import plot_bandwidths, plot_front
from synth.choice.sweep.sweep import Sweep
from synth.errors import InfeasibleError, InvalidInputError, NotExpressibleError, SynthError
from synth.program.msccl import Program
from synth.program.msccl.verifying.deadlocks import UNLIMITED, hang_at
from synth.program.msccl.xml import accepts, read_xml, verify_file
from synth.rivals.at_sizes import Anchored, Maker, family_of, plan_at, rivals
from synth.rivals.baselines.build import build
from synth.rivals.baselines.textbook import baseline
from synth.rivals.shallow import shallow_recipe
from synth.schedule import BlockCosts, Schedule, TimeModel, make_schedule
from synth.schedule.simulate.bounds import plan_bound
from synth.schedule.simulate.time_model import AlphaMode
from synth.topology import Topology, resolve
from tests.cli.test_solve import run
from tests.schedule.test_schedule import check_schedule
from tests.strategies import topologies

RING = "ring:4,bandwidth=25 GB/s,latency=1 us"


SIZES = [1 << k for k in range(10, 33, 2)]


def only(*kinds: tuple[str, int]) -> tuple[Maker, ...]:
    """Makers of single baselines at a chunk count; nothing where there is no such baseline."""

    def maker(name: str, chunks: int) -> Maker:
        def make(instance: Anchored) -> dict[str, Schedule]:
            plan = instance.plan
            try:
                return {f"{name}-k{chunks}": baseline(name, plan.topology, plan.demand, chunks=chunks, reference=plan)}
            except SynthError:
                return {}

        return make

    return tuple(maker(*kind) for kind in kinds)


def few(instance: Anchored) -> dict[str, Schedule]:
    """Some of the real rivals: the plan at two chunk counts, shallow trees."""
    plan = instance.plan
    out = {f"plan-k{k}": make_schedule(plan, chunks=k) for k in (2, 16)}
    recipe = shallow_recipe(plan.topology, plan.demand, 2)
    return out if recipe is None else {**out, "shallow-k8": build(plan.topology, plan.demand, recipe, 8, plan)}


def check_partition(found: Sweep) -> None:
    """Every size from 0 to the last end lies in exactly one file, which the runtime itself would select."""
    target = found.judge.target
    assert found.ranges[0].first == 0
    for a, b in pairwise(found.ranges):
        assert a.last + 1 == b.first
    assert [r.swept[0] for r in found.ranges] == [0, *(r.swept[1] for r in found.ranges[:-1])]
    assert found.ranges[-1].swept[1] == len(found.sizes)
    edges = {
        size for r in found.ranges for size in (r.first, r.first + 1, r.last - 1, r.last) if r.first <= size <= r.last
    }
    for size in edges.union(found.sizes):
        serving = [
            k
            for k, r in enumerate(found.ranges)
            if target.serves(r.program.draft.min_bytes, r.program.draft.max_bytes, size)
        ]
        assert serving == [k for k, r in enumerate(found.ranges) if r.first <= size <= r.last]
        assert len(serving) == 1
    for size, number in zip(found.table["size_bytes"], found.table["file"], strict=True):
        assert found.ranges[number - 1].first <= size <= found.ranges[number - 1].last


def check_files(found: Sweep, folder: Path) -> None:
    """What lies in the folder loads, verifies, and ends at both ends of its range."""
    target = found.judge.target
    index = json.loads((folder / "index.json").read_text())
    assert [entry["file"] for entry in index["files"]] == sorted(
        str(path.relative_to(folder)) for path in (folder / "algorithms").iterdir()
    )
    for entry, span in zip(index["files"], found.ranges, strict=True):
        path = folder / entry["file"]
        assert accepts(path.read_text(), target).accepted
        assert verify_file(path, target).ok
        draft = read_xml(path, target)
        assert (draft.min_bytes, draft.max_bytes) == (entry["min_bytes"], entry["max_bytes"])
        assert (entry["first_bytes"], entry["last_bytes"]) == (span.first, span.last)
        for size in (span.first, span.last):
            assert target.serves(draft.min_bytes, draft.max_bytes, size)
            assert not hang_at(draft, target, size)


@pytest.mark.parametrize("target", ["msccl", "msccl-executor", "rccl"])
def test_the_crossover_on_a_ring_of_4_is_where_alpha_and_beta_put_it(target: str) -> None:
    """All-gather of n bytes, a = 1 us, c = 25 GB/s per link, shards of n / 4.

    Direct: the far rank's copy goes through a neighbour, and each link carries two shards: 2 a + n / 2c. Two rings,
    half of a shard each way: three hops of half a shard: 3 a + 3 n / 8c. Equal at n = 8 a c = 200000 bytes.
    """
    makers = only(("direct", 1), ("rings", 2))
    found = synth.sweep(RING, "allgather", SIZES, target=target, makers=makers, tolerance=0.0)
    n = np.array(found.sizes)
    assert found.times == pytest.approx(np.array([2e-6 + n / 2 / 25e9, 3e-6 + 3 * n / 8 / 25e9]))
    first, second = (r.program.draft for r in found.ranges)
    assert [r.rival for r in found.ranges] == ["direct-k1", "rings-k2"]
    assert first.min_bytes == 0
    assert second.min_bytes == pytest.approx(200_000, abs=1)
    exclusive = target == "msccl"
    assert first.max_bytes == second.min_bytes - (not exclusive)
    assert second.max_bytes == UNLIMITED - (not exclusive)
    assert found.ranges[0].last + 1 == found.ranges[1].first
    check_partition(found)
    # The distance is 2 a; three shards enter each GPU over two links, the last of them from 2 hops away or 1.
    assert found.bounds[0] >= 2e-6
    assert all(b <= t * (1 + 1e-9) for b, t in zip(found.bounds, found.times.min(axis=0), strict=True))
    # One ring has 3 a + 3 n / 4c: at 4 GiB, twice what two rings need.
    assert found.table["library"].tolist() == ["rings-k2"] * len(SIZES)
    assert found.table["speedup"].iloc[0] == pytest.approx((3 + 3 / 8 * 1.024 / 25) / (2 + 0.5 * 1.024 / 25))


def test_merging_costs_what_was_allowed() -> None:
    """One file: the rings take 3 a instead of 2 a at 1 KiB (1.49 times), direct 1.33 times at 4 GiB: direct it is."""
    makers = only(("direct", 1), ("rings", 2))
    loose = synth.sweep(RING, "allgather", SIZES, makers=makers, tolerance=0.4)
    assert [r.rival for r in loose.ranges] == ["direct-k1"]
    assert loose.worst_excess == pytest.approx(1 / 3, rel=1e-3)
    assert "merging" not in loose.summary()
    single = synth.sweep(RING, "allgather", SIZES, makers=makers, tolerance=0.02, most_files=1)
    assert single.worst_excess == loose.worst_excess
    assert "merging" in single.summary()
    check_partition(loose)


def test_partition_checks_notice_what_is_wrong() -> None:
    found = synth.sweep(RING, "allgather", SIZES, makers=only(("direct", 1), ("rings", 2)), tolerance=0.0)
    a, b = found.ranges
    for first, second in (
        (replace(a, last=a.last - 1), b),
        (a, replace(b, first=b.first + 1)),
        (replace(a, program=Program(replace(a.program.draft, max_bytes=a.last), a.program.target)), b),
        (a, replace(b, swept=(b.swept[0] + 1, b.swept[1]))),
    ):
        with pytest.raises(AssertionError):
            check_partition(replace(found, ranges=(first, second)))


@settings(max_examples=12, deadline=None)
@given(
    topologies(max_gpus=4),
    st.sampled_from(["allgather", "allreduce", "alltoall", "broadcast"]),
    st.sampled_from([("msccl", "pipelined"), ("rccl", "blocking")]),
    st.sampled_from([0.0, 0.05]),
    st.integers(1, 4),
)
def test_any_machine(
    topology: Topology, collective: str, how: tuple[str, AlphaMode], tolerance: float, most: int
) -> None:
    """Ranges partition the sizes, nothing is below the bound, and merging costs at most what was allowed."""
    makers = only(("direct", 1), ("direct", 4), ("ring", 1), ("bruck", 1))
    target, alpha_mode = how
    try:
        found = synth.sweep(
            topology,
            collective,
            [1 << 10, 1 << 16, 1 << 22, 1 << 30],
            target=target,
            most_files=most,
            tolerance=tolerance,
            model=TimeModel(alpha_mode=alpha_mode),
            root=0 if collective == "broadcast" else None,
            makers=(*makers, few),
            element_bytes=0,
        )
    except (InfeasibleError, NotExpressibleError):
        return
    check_partition(found)
    assert (np.array(found.bounds) <= found.times.min(axis=0) * (1 + 1e-6)).all()
    assert len(found.ranges) <= most
    assert found.worst_excess <= tolerance + 1e-9 or len(found.ranges) <= most
    if most == 4:  # a file for each of the four sizes
        assert found.worst_excess <= tolerance + 1e-9
    for row in found.rows:
        assert row["time_us"] <= row["best_us"] * (1 + found.worst_excess) * (1 + 1e-9)


@pytest.mark.parametrize(
    ("machine", "collective", "target", "makers"),
    [
        ("dgx1-v100", "allgather", "msccl", (few, *only(("direct", 1), ("rings", 8)))),
        ("mi300x-8", "allreduce", "rccl", (few, *only(("direct", 2), ("rings", 24), ("double-binary-tree", 8)))),
    ],
)
def test_every_file_serves_verifies_and_ends_at_both_ends_of_its_range(
    machine: str, collective: str, target: str, makers: tuple[Maker, ...], tmp_path: Path
) -> None:
    found = synth.sweep(machine, collective, target=target, makers=makers)
    assert len(found.sizes) == 23
    check_partition(found)
    assert (np.array(found.bounds) <= found.times.min(axis=0) * (1 + 1e-9)).all()
    assert found.worst_excess <= 0.02
    written = found.write(tmp_path)
    assert {Path(p).name for p in written.files.values()} >= {"index.json", "sweep.csv", "bandwidth.png", "pareto.png"}
    check_files(found, tmp_path)
    # All chunks divide the element counts of the sizes that are swept, so that the runtime gives them to the file.
    for span in found.ranges:
        for size in found.sizes[slice(*span.swept)]:
            assert found.candidates[span.name].served(size, 4)


def test_a_file_that_the_runtime_would_load_too_is_not_tolerated(tmp_path: Path) -> None:
    found = synth.sweep(RING, "allgather", SIZES, makers=only(("direct", 1)))
    found.write(tmp_path)
    found.write(tmp_path)  # the same files again
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    (tmp_path / "algorithms" / "old.xml").write_text("")
    with pytest.raises(InvalidInputError, match=r"old\.xml"):
        synth.sweep(RING, "allgather", SIZES, makers=only(("rings", 2))).write(tmp_path)
    assert all(path.read_bytes() == data for path, data in before.items())


def test_chunks_that_do_not_divide_the_elements_serve_nothing() -> None:
    """Direct in 3 chunks: 2^k elements do not divide; as any size that is not looked at, they may."""
    makers = only(("direct", 3))
    with pytest.raises(NotExpressibleError, match="1 KiB"):
        synth.sweep(RING, "allgather", SIZES, makers=makers)
    assert synth.sweep(RING, "allgather", SIZES, makers=makers, element_bytes=0).ranges[0].chunks_per_shard == 3
    assert synth.sweep(RING, "allgather", [48 << 10], makers=makers).ranges[0].chunks_per_shard == 3


def test_what_does_not_fit_the_runtime_is_left_out() -> None:
    """16384 chunks are more steps than rccl's thread blocks hold."""
    makers = only(("direct", 1), ("rings", 16384))
    found = synth.sweep(RING, "allgather", SIZES, target="rccl", makers=makers, element_bytes=0, tolerance=0.0)
    assert "rings-k16384" not in {r.rival for r in found.ranges}
    assert not found.candidates["rings-k16384"].fits
    assert np.isinf(found.usable[list(found.candidates).index("rings-k16384")]).all()


def test_programs_and_protocols_are_judged_with_constants() -> None:
    """LL starts faster and sends twice the bytes, so it serves small sizes and Simple large ones."""
    costs = {"Simple": BlockCosts(start=10e-6), "LL": BlockCosts(start=2e-6)}
    found = synth.sweep(RING, "allgather", SIZES, costs=costs, makers=only(("direct", 1), ("rings", 2)))
    assert found.ranges[0].program.draft.proto == "LL"
    assert found.ranges[-1].program.draft.proto == "Simple"
    assert (np.array(found.bounds) <= found.times.min(axis=0) * (1 + 1e-9)).all()
    assert found.to_dict()["judged_by"] == "program"
    check_partition(found)
    times = synth.simulate_program(found.ranges[0].program, RING, found.sizes[:2], costs=costs["LL"])
    row = list(found.candidates).index(found.ranges[0].name)
    assert [t.seconds for t in times] == pytest.approx(found.times[row, :2].tolist())


def test_only_promising_schedules_are_timed_as_programs() -> None:
    """Of the ring in 1 chunk (never among the three fastest, and not the fastest ring) no program is made."""
    makers = only(("direct", 1), ("rings", 2), ("rings", 4), ("rings", 8), ("ring", 1), ("rings", 1))
    costs = {"Simple": BlockCosts(start=10e-6, latency=1e-6)}
    found = synth.sweep(RING, "allgather", SIZES, costs=costs, makers=makers)
    assert "rings-k1" not in found.candidates
    assert {"direct-k1", "rings-k8", "ring-k1"} <= set(found.candidates)


def test_shallow_trees_are_as_deep_as_they_must_be() -> None:
    """On a ring of 6 the farthest rank is 3 hops away; on a mesh everybody is next to everybody."""
    topology = resolve("ring:6")
    demand = synth.make_demand(topology, "allgather", 6e6)
    plan = synth.solve(topology, demand)
    for slack in (0, 1):
        recipe = shallow_recipe(topology, demand, 2, slack)
        assert recipe is not None
        for tree in recipe.trees:
            for root in range(6):
                depth = {root: 0}
                for a, b, step in tree(root):
                    assert depth[a] == step
                    depth[b] = step + 1
                assert all(min(k, 6 - k) <= depth[(root + k) % 6] <= min(k, 6 - k) + slack for k in range(6))
        schedule = build(topology, demand, recipe, 2, plan)
        check_schedule(schedule)
        assert schedule.lower().report.ok
        # Five shards of n / 6 enter each GPU over two links; a fifth more where the far rank's halves meet.
        assert plan.time * (1 - 1e-9) <= schedule.quantized <= 1.2 * plan.time * (1 + 1e-9)
    for other in ("fullmesh:4", "switch:4"):
        machine = resolve(other)
        assert shallow_recipe(machine, synth.make_demand(machine, "allgather", 1e6), 1) is None
    assert shallow_recipe(topology, synth.make_demand(topology, "alltoall", 1e6), 1) is None


def test_rivals_are_named_apart_and_complete_schedules() -> None:
    plan = synth.solve("ring:4", "reducescatter", "1 MB")
    made = rivals(Anchored(plan, (1e4, 1e8)))
    assert {"plan", "shallow0-2", "ring", "rings", "direct", "bruck", "recursive-doubling"} <= {
        family_of(name) for name in made
    }
    for schedule in list(made.values())[::9]:
        check_schedule(schedule)
    with pytest.raises(InvalidInputError, match="two makers"):
        rivals(Anchored(plan, (1e4,)), (few, few))
    empty = synth.solve("ring:4", "alltoallv", matrix=np.zeros((4, 4)))
    with pytest.raises(InvalidInputError, match="nothing has to move"):
        rivals(Anchored(empty, (1e4,)))


def test_a_plan_at_another_size_is_the_plan_solved_there() -> None:
    for collective in ("allgather", "allreduce", "alltoall"):
        plan = synth.solve("mesh2d:2x3", collective, "1 GB")
        moved = plan_at(plan, 3e6)
        assert moved.demand == synth.make_demand(plan.topology, collective, 3e6)
        assert moved.time == pytest.approx(synth.solve("mesh2d:2x3", collective, 3e6).time)
        assert plan_bound(moved).seconds == pytest.approx(plan_bound(plan, 3e6).seconds)


def test_sizes() -> None:
    assert sweep_sizes("1KiB:8KiB", 1, 32) == (1024, 2048, 4096, 8192)
    # 1024 x 2^(1/2) = 1448 and 2048 x 2^(1/2) = 2896, to four binary digits.
    assert sweep_sizes("1KiB:4KiB", 2, 32) == (1024, 1408, 2048, 2816, 4096)
    assert sweep_sizes("1000,5", 1, 32) == (32, 992)
    assert sweep_sizes([96, 64, 64], 3, 32) == (64, 96)
    for bad in ("8KiB:1KiB", [], [0], "0"):
        with pytest.raises(InvalidInputError):
            sweep_sizes(bad, 1, 32)
    with pytest.raises(InvalidInputError):
        sweep_sizes("1KiB:2KiB", 0, 32)


def test_bad_options_are_refused() -> None:
    bad: tuple[dict[str, Any], ...] = (
        {"most_files": 0},
        {"tolerance": -1.0},
        {"target": "mscclpp"},
        {"protocol": "LL256"},
        {"costs": {"XX": BlockCosts()}},
    )
    for options in bad:
        with pytest.raises(InvalidInputError):
            synth.sweep(RING, "allgather", SIZES, **options)


def test_plots_take_and_return_axes() -> None:
    found = synth.sweep(RING, "allgather", SIZES, makers=only(("direct", 1), ("rings", 2), ("ring", 1)))
    for draw in (plot_bandwidths, plot_front):
        ax = Figure().subplots()
        assert draw(found, ax) is ax
    ax = plot_bandwidths(found, Figure().subplots())
    lines = {str(line.get_label()): line for line in ax.lines}
    bound = np.asarray(lines["bound"].get_ydata())
    assert bound == pytest.approx(np.array(found.sizes) / np.array(found.bounds) / 1e9)
    assert any(name.startswith("file 2") for name in lines)
    assert [list(found.candidates)[k] for k in found.front] == ["direct-k1", "rings-k2"]


def test_on_the_command_line(tmp_path: Path) -> None:
    command = ("sweep", "fullmesh:3,bandwidth=25 GB/s,latency=1 us", "allgather", "--sizes", "3KiB:3MiB")
    got = run(*command, "--json", "--out", str(tmp_path / "out"), "--csv", str(tmp_path / "t.csv"))
    assert got.returncode == 0, got.stderr
    result = json.loads(got.stdout)
    assert result["format"] == "synth-sweep/1"
    # All pairs at once: 1 us + n / 3 / 25 GB/s, which is the bound.
    for row in result["sizes"]:
        assert row["time_us"] == pytest.approx(1 + row["size_bytes"] / 3 / 25e3)
        assert row["bound_us"] == pytest.approx(row["time_us"])
    index = json.loads((tmp_path / "out" / "index.json").read_text())
    assert index == {key: value for key, value in result.items() if key != "written"}
    assert (tmp_path / "t.csv").read_bytes() == (tmp_path / "out" / "sweep.csv").read_bytes()
    text = run(*command, "--alpha-mode", "blocking", "--target", "rccl")
    assert "over bound" in text.stdout
    assert run("sweep", "ring:4", "allgather", "--sizes", "4MiB:1KiB").returncode == 2
