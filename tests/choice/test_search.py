"""The search by program time: what it writes, against hand-derived values, the plan and the baselines."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import synth
from synth.choice.contest import Contest
from synth.choice.judge import Judge
from synth.choice.search import serves, serving_counts
from synth.cli.app import main
from synth.emulate import run_program
from synth.errors import InvalidInputError
from synth.program.meaning.lowering_options import Lowering
from synth.program.msccl import Program
from synth.program.runtime import runtime_named
from synth.schedule import BlockCosts, make_schedule
from synth.schedule.chunks.cut import cut, fewest_on_a_path
from synth.topology import Topology
from tests.strategies import topologies


def test_a_ring_by_hand() -> None:
    """1 GB to four GPUs on a ring of 25 GB/s: 750 MB enter each GPU over two links, 15 ms, and nothing is lost."""
    result = synth.synthesize("ring:4", "allgather", 1e9, search=True)
    assert result.plan.time == pytest.approx(15e-3)
    assert 15e-3 <= result.simulated <= 15e-3 * 1.02
    assert result.judgement is not None
    assert sum(result.judgement.lost.values()) == pytest.approx(result.simulated - result.plan.time, abs=1e-9)


@pytest.mark.parametrize("collective", ["allgather", "allreduce"])
def test_programs_are_as_fast_as_the_plan_and_no_slower_than_baselines(collective: str) -> None:
    """The default schedule of an all-reduce takes 1.12 (dgx1) to 1.77 times (mi250) the plan as a program."""
    result = synth.synthesize("dgx1-v100", collective, 1e9, search=True)
    verdict = result.judgement
    assert verdict is not None
    assert result.simulated <= 1.05 * result.plan.time
    assert verdict.baseline_seconds is not None
    assert result.simulated <= verdict.baseline_seconds * (1 + 1e-9)
    assert verdict.runs
    assert result.served.ok
    assert isinstance(result.program, Program)
    assert result.program.report.ok


def test_chosen_chunks_serve_the_size_unless_nobody_asks() -> None:
    plan = synth.solve("dgx1-v100", "allgather", 2.0**30)
    assert serving_counts(plan, 2.0**30, 4) == (1, 2, 4, 8, 16, 32, 64)
    assert {3, 5, 12} <= set(serving_counts(plan, 2.0**30, 0))
    # 2^30 bytes are 2^25 floats per rank: six chunks do not divide them.
    assert not serves(plan, 6, 2.0**30, 4)
    forced = synth.synthesize("dgx1-v100", "allgather", 2.0**30, chunks=6, search=True)
    assert forced.schedule.chunks_per_shard == 6
    assert forced.judgement is not None
    assert not forced.judgement.runs
    assert "will not run" in forced.summary()


@given(topologies(min_gpus=2, max_gpus=3), st.sampled_from(["allgather", "allreduce", "alltoall"]), st.integers(1, 4))
@settings(max_examples=12, deadline=None, derandomize=True)
def test_a_cut_schedule_is_the_same_collective(topology: Topology, collective: str, pieces: int) -> None:
    schedule = make_schedule(synth.solve(topology, collective, 1e6), chunks=2)
    finer = cut(schedule, pieces)
    assert finer.chunks_per_shard == 2 * pieces
    assert fewest_on_a_path(finer) == pieces * fewest_on_a_path(schedule)
    assert finer.lower().report.ok


def test_costs_of_blocks_ask_for_instances() -> None:
    """One block moves 5 GB/s of a link's 25: several a link take less than half of what one takes."""
    costs = {"Simple": BlockCosts(copy_rate=5e9)}
    single = Contest(Judge(runtime_named("msccl"), costs), 64e6, 0.0)
    single.take("plan-k2", make_schedule(synth.solve("ring:4", "allgather", 64e6), chunks=2))
    result = synth.synthesize("ring:4", "allgather", 64e6, search=True, constants=costs)
    assert result.simulated <= single.best / 2
    assert result.judgement is not None
    assert result.judgement.options["blocks"] > single.winner().entry.blocks
    few = synth.synthesize("ring:4", "allgather", 64e6, search=True, constants=costs, blocks=8)
    assert few.judgement is not None
    assert few.judgement.options["blocks"] <= 8
    assert few.simulated >= result.simulated
    with pytest.raises(InvalidInputError, match="nothing is said about Simple"):
        synth.synthesize("ring:4", "allgather", 64e6, search=True, constants={"LL": BlockCosts()})


def test_sums_and_copies_apart_compute_the_right_numbers() -> None:
    schedule = make_schedule(synth.solve("ring:4", "allreduce", 1e6), chunks=2)
    runtime = runtime_named("msccl", Lowering(pipelined=True, instances=2))
    draft = runtime.draft(schedule)
    plain = runtime_named("msccl").draft(schedule)
    assert max(len(gpu.blocks) for gpu in draft.gpus) > max(len(gpu.blocks) for gpu in plain.gpus)
    program = runtime.program(draft)
    assert isinstance(program, Program)
    assert run_program(program.draft, 4 * 8 * 64).ok
    with pytest.raises(InvalidInputError, match="pipelined"):
        runtime_named("mscclpp", {"pipelined": True}).draft(schedule)


def test_a_contest_prefers_what_fits_and_serves() -> None:
    plan = synth.solve("ring:4", "allgather", 1e6)
    contest = Contest(Judge(runtime_named("msccl"), blocks=1), 1e6, 0.0)
    contest.take("plan-k2", make_schedule(plan, chunks=2))
    assert not contest.winner().fits
    assert contest.best == float("inf")


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with contextlib.suppress(SystemExit):
        main(["solve", "ring:4", "allreduce", "--size", "1MB", "--search", "--json", "--out", str(tmp_path / "out")])
    said = json.loads(capsys.readouterr().out)
    assert said["bound_us"] <= said["plan_us"] <= said["quantized_us"] <= said["simulated_us"]
    assert said["program"]["runs_at_size"]
    assert (tmp_path / "out" / "msccl.xml").is_file()
