"""The Python API: three lines, plans as tables, saved without loss, PuLP models that agree."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pulp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import synth
from synth.engine.highs import clean_stdout
from synth.errors import InvalidInputError
from synth.topology import Topology
from tests.strategies import topologies

PATTERNS = ("allgather", "reducescatter", "allreduce", "alltoall", "broadcast")


def pulp_time(plan: synth.Plan) -> float:
    model = plan.to_pulp()
    with clean_stdout():
        stats = model.solve(pulp.HiGHS(msg=False))
    assert stats.status == pulp.LpSolveStatus.Optimal
    return float(model.variablesDict()["T"].value() or 0.0) * plan.time


def test_three_lines() -> None:
    result = synth.synthesize("dgx1-v100", "allgather", "8 GB")
    assert result.plan.time == pytest.approx(46.6667e-3, rel=1e-5)
    assert result.xml.startswith("<algo ")
    assert "46.67 ms" in result.summary()
    assert "<table>" in result._repr_html_()


@pytest.mark.parametrize("collective", PATTERNS)
@pytest.mark.parametrize("name", ["dgx1-v100", "mesh2d:3x3", "cluster:box=ring:3,hosts=2"])
def test_pulp_model_agrees(name: str, collective: str) -> None:
    plan = synth.solve(name, collective, 1e9)
    assert pulp_time(plan) == pytest.approx(plan.time, rel=1e-6)


@given(topologies(min_gpus=2, max_gpus=4), st.sampled_from(PATTERNS))
@settings(max_examples=20, deadline=None, derandomize=True)
def test_pulp_model_agrees_on_random_topologies(topology: Topology, collective: str) -> None:
    plan = synth.solve(topology, collective, 1e6)
    assert pulp_time(plan) == pytest.approx(plan.time, rel=1e-6)
    assert plan.gap <= 1e-6
    assert plan.recheck() == pytest.approx(plan.bound, rel=1e-9)


@given(topologies(min_gpus=2, max_gpus=4), st.sampled_from((*PATTERNS, "gather", "sendrecv")))
@settings(max_examples=25, deadline=None, derandomize=True)
def test_plans_are_saved_without_loss(topology: Topology, collective: str) -> None:
    from synth.solver.flow.plan_file import dump_plan

    plan = synth.solve(topology, collective, 1e6)
    text = dump_plan(plan)
    path = Path(f"{abs(hash(text))}.json")
    try:
        plan.save(str(path))
        again = synth.Plan.load(str(path))
    finally:
        path.unlink(missing_ok=True)
    assert again == plan
    assert dump_plan(again) == text
    assert again.schedule(2).transfers == plan.schedule(2).transfers


def test_bad_plan_files(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    for text, words in (("{", "plan.json"), ("[]", "plan.json"), ('{"format": "x"}', "topology")):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(InvalidInputError, match=words):
            synth.Plan.load(str(path))
    synth.solve("ring:3", "allgather", 3e9).save(str(path))
    good = path.read_text(encoding="utf-8")
    path.write_text(good.replace('"src": "g0"', '"src": "g9"'), encoding="utf-8")
    with pytest.raises(InvalidInputError, match="g9"):
        synth.Plan.load(str(path))
    path.write_text(good.replace("synth-plan/1", "synth-plan/7"), encoding="utf-8")
    with pytest.raises(InvalidInputError, match="synth-plan/7"):
        synth.Plan.load(str(path))
    with pytest.raises(InvalidInputError, match="cannot be read"):
        synth.Plan.load(str(tmp_path))


def test_tables_say_why() -> None:
    plan = synth.solve("line:3", "allgather", 3e9)
    splits, loads, bottlenecks = plan.splits, plan.loads, plan.bottlenecks
    assert splits.groupby("shard")["share"].sum().tolist() == pytest.approx([1, 1, 1])
    assert loads["utilisation"].max() == pytest.approx(1)
    assert loads["weight"].sum() == pytest.approx(1)
    assert set(bottlenecks["resource"]) <= set(loads["resource"])
    assert bottlenecks["weight"].is_monotonic_decreasing
    assert all(word in plan.summary() for word in ("optimal", "cannot be faster", "80 ms"))
    assert "<th" in plan._repr_html_()


def test_gap_and_status() -> None:
    plan = synth.solve("ring:4", "allgather", 4e9)
    assert plan.status == "optimal"
    assert 0 <= plan.gap <= 1e-6
    assert plan.busbw == pytest.approx(plan.algbw * 0.75)
    with pytest.raises(InvalidInputError, match="gap"):
        synth.solve("ring:4", "allgather", 4e9, gap=float("nan"))


def test_nothing_to_do_of_t26() -> None:
    result = synth.synthesize("switch:1", "allgather", 1e9)
    assert (result.plan.time, result.plan.bound, result.plan.gap, result.plan.algbw) == (0, 0, 0, 0)
    assert result.plan.busbw is None
    assert "n/a" in result.summary()
    assert result.to_dict()["busbw_GBps"] is None


def test_alternatives_of_an_all_reduce() -> None:
    tree = synth.solve("mesh2d:3x3", "allreduce", 1e9)
    assert tree.method == "tree"
    assert tree.alternatives["reducescatter+allgather"] / tree.time == pytest.approx(4 / 3, rel=1e-6)
    ring = synth.solve("ring:4", "allreduce", 1e9)
    assert ring.method == "reducescatter+allgather"
    assert ring.alternatives["tree"] == pytest.approx(ring.time, rel=1e-6)


def test_progress_is_reported_and_the_limit_kept() -> None:
    seen: list[float] = []
    plan = synth.solve("torus2d:4x4", "allgather", 1e9, progress=lambda now: seen.append(now.plan - now.bound))
    assert len(seen) >= plan.solver.iterations
    assert min(seen) >= -1e-12


def test_feasible_plan_when_time_runs_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock jumps past the limit after the first masters: a plan with an honest gap comes back."""
    monkeypatch.setattr("synth.solver.flow.colgen.packing_seeds", lambda *_: [])  # else the first master is optimal
    calls = 0

    def clock() -> float:
        nonlocal calls
        calls += 1
        return 0.0 if calls < 12 else 1e9

    monkeypatch.setattr(time, "monotonic", clock)
    plan = synth.solve("mesh2d:4x4", "allgather", 1e9, time_limit=1.0, symmetry="off")
    assert plan.status == "feasible"
    assert plan.gap > 1e-6
    assert plan.bound < plan.time
    assert plan.schedule(2).lower().report.ok


def test_load_is_what_the_routes_make() -> None:
    plan = synth.solve("cluster:box=ring:3,hosts=2", "alltoall", 1e9)
    assert float(np.max(plan.row_bytes / plan.network.capacity)) == pytest.approx(plan.time, rel=1e-9)
