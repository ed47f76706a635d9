"""Targets as data, and what a program may and may not do on each of them."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synth.errors import InvalidInputError, NotExpressibleError
from synth.program.meaning.semantics import Semantics
from synth.program.msccl.limits import check as limits
from synth.program.msccl.limits.check import launch_faults, limit_faults, limit_items
from synth.program.msccl.model import Buffer, Draft
from synth.program.msccl.program import Program
from synth.program.msccl.targets import MSCCL, MSCCL_EXECUTOR, RCCL, TARGETS, Target, describe_targets, target_named
from synth.program.msccl.verifying.deadlocks import UNLIMITED, hang_at, safe_max_bytes
from synth.program.msccl.verifying.verify import verify
from tests.program.msccl.builders import (
    block,
    direct_alltoall,
    draft,
    gpu,
    ring_allgather,
    ring_allreduce,
    scratch_allreduce,
    step,
)
from tests.program.msccl.large import allpairs_allreduce, ring_gather
from tests.program.msccl.test_ordering import mutant

every_target = pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.name)


def test_names() -> None:
    assert [target_named(t.name) for t in TARGETS] == [MSCCL, MSCCL_EXECUTOR, RCCL]
    with pytest.raises(InvalidInputError, match="known ones are msccl, msccl-executor, rccl"):
        target_named("nccl")
    with pytest.raises(FrozenInstanceError):
        MSCCL.max_channels = 64  # type: ignore[misc]


def test_table_has_a_row_per_target() -> None:
    table = describe_targets()
    assert [row[0] for row in table] == ["target", "msccl", "msccl-executor", "rccl"]
    assert {len(row) for row in table} == {9}


def test_numbers_of_formats_1_1() -> None:
    assert [t.max_steps_per_block for t in TARGETS] == [256, 64, 64]
    assert [t.max_blocks_per_gpu for t in TARGETS] == [216, 1024, 64]
    assert [t.max_channels for t in TARGETS] == [32, 32, 128]
    assert [t.max_algorithms for t in TARGETS] == [4, 1024, 1024]
    assert [t.coll_name("reducescatter") for t in TARGETS] == ["reduce_scatter", "reducescatter", "reducescatter"]
    assert [t.custom for t in TARGETS] == ["custom", None, None]
    payloads = {t.name: [(p.name, p.payload_bytes, p.depth) for p in t.protocols] for t in TARGETS}
    assert payloads["msccl"] == payloads["msccl-executor"]
    assert payloads["msccl"] == [("Simple", 2 << 20, 2), ("LL", 32 << 10, 8), ("LL128", 576_000, 8)]
    assert payloads["rccl"] == [("Simple", 2 << 20, 2), ("LL", 16 << 10, 8), ("LL128", 50_176, 8)]
    assert RCCL.step_types == {"s", "r", "cpy", "re", "nop"}


def test_size_ranges() -> None:
    assert [t.serves(8, 64, 64) for t in TARGETS] == [False, True, True]
    assert [t.serves(8, 64, 8) for t in TARGETS] == [True, True, True]
    assert [t.serves(8, 0, 1 << 40) for t in TARGETS] == [False, True, True]
    assert not any(t.serves(8, 64, 65) or t.serves(8, 0, 4) for t in TARGETS)


def test_other_gpus() -> None:
    assert MSCCL.on_gpu(132).resident_blocks == 132
    with pytest.raises(InvalidInputError, match="at least 1"):
        MSCCL.on_gpu(0)


def test_more_blocks_than_fit_on_the_gpu() -> None:
    claim = Semantics("allreduce", 2, 1)
    blocks = [block(b, -1, -1, [step("cpy", ("i", 0), ("o", 0))]) for b in range(109)]
    program = draft(claim, [gpu(claim, 0, blocks), gpu(claim, 1, [])])
    assert any("109 thread blocks hang on a GPU with 108 SMs" in text for text in limit_faults(program, MSCCL))
    assert not any("SMs" in text for text in limit_faults(program, MSCCL.on_gpu(132)))
    assert verify(program).accepted, "the runtime does not notice"


@every_target
def test_unlimited_range(target: Target) -> None:
    program = replace(ring_gather(3, 1), max_bytes=0)
    assert (limit_faults(program, target) == []) == target.zero_max_is_unlimited
    report = verify(program, target)
    assert report.deadlock_free_max_bytes == (UNLIMITED if target.zero_max_is_unlimited else 0)


@every_target
def test_programs_run_where_their_steps_do(target: Target) -> None:
    assert Program(scratch_allreduce(4), target).report.accepted
    assert Program(direct_alltoall(4), target).report.ok
    assert Program(replace(ring_gather(4, 2), max_bytes=1 << 30), target).report.ok
    if target is RCCL:
        with pytest.raises(NotExpressibleError, match=r"refuses rrcs steps at launch \(4 of them\)"):
            Program(ring_allreduce(4), target)
    else:
        assert Program(ring_allreduce(4), target).report.launch_reasons == ()


def test_launch_refusals_are_no_rejections() -> None:
    report = verify(ring_allreduce(3), RCCL)
    assert report.accepted
    assert not report.ok
    assert [text.split(" (")[0] for text in report.launch_reasons] == [
        "g0.tb0.step3: rccl refuses rcs steps at launch",
        "g0.tb0.step2: rccl refuses rrcs steps at launch",
        "g0.tb0.step1: rccl refuses rrs steps at launch",
    ]
    assert launch_faults(ring_allreduce(3), MSCCL) == []


def both_modes() -> Draft:
    """All-reduce of two chunks between two ranks that leaves the input alone until it is sent: right in both modes."""
    claim = Semantics("allreduce", 2, 2)
    gpus = []
    for r in range(2):
        own, other = r, 1 - r
        copies = [step("cpy", ("i", own), ("o", own), hasdep=True)]
        ring = [
            step("s", ("i", other), ("i", other)),
            step("rrc", ("i", own), ("o", own), dep=(1, 0)),
            step("s", ("o", own), ("o", own)),
            step("r", ("o", other), ("o", other)),
        ]
        gpus.append(gpu(claim, r, [block(0, other, other, ring), block(1, -1, -1, copies)]))
    return replace(draft(claim, gpus), inplace=True, outofplace=True)


def test_both_modes_are_both_checked() -> None:
    program = Program(both_modes(), MSCCL_EXECUTOR)
    assert program.report.modes == ("in place", "out of place")
    only_in_place = replace(scratch_allreduce(2), outofplace=True)
    report = verify(only_in_place, MSCCL_EXECUTOR)
    assert all(fault.startswith("out of place") for fault in report.data)
    assert report.data
    assert any("does not read outofplace" in text for text in verify(both_modes(), MSCCL).warnings)


def test_the_runtimes_check_different_things() -> None:
    base = ring_allgather(3)
    far = replace(
        base, gpus=(replace(base.gpus[0], blocks=(replace(base.gpus[0].blocks[0], send=9), *base.gpus[0].blocks[1:])),)
    )
    refused = {t.name: any("peer 9" in text for bad, text in limit_items(far, t) if bad) for t in TARGETS}
    assert refused == {"msccl": True, "msccl-executor": False, "rccl": False}
    swapped = replace(base, min_bytes=8, max_bytes=4)
    refused = {t.name: any("greater" in text for bad, text in limit_items(swapped, t) if bad) for t in TARGETS}
    assert refused == {"msccl": True, "msccl-executor": False, "rccl": False}


def test_a_full_table_of_senders_must_stand_last() -> None:
    claim = Semantics("custom", 34, 34)
    sends = [block(b, b + 1, -1, [step("s", ("i", 0))]) for b in range(32)]
    others = [gpu(claim, r, []) for r in range(1, 34)]
    full = draft(claim, [gpu(claim, 0, sends), *others])
    assert not any("overruns" in text for text in limit_faults(full, MSCCL))
    after = [*sends, block(32, -1, 33, [step("r", dst=("o", 0))])]
    late = draft(claim, [gpu(claim, 0, after), *others])
    assert any("g0.tb32: stands after 32 sending blocks" in text for text in limit_faults(late, MSCCL))
    assert not any("overruns" in text for bad, text in limit_items(late, MSCCL) if bad)


def test_simple_broadcasts_are_risky_between_hosts_on_the_executor() -> None:
    claim = Semantics("broadcast", 2, 1, root=0)
    at: tuple[Buffer, int] = ("i", 0)
    gpus = [
        gpu(claim, 0, [block(0, 1, -1, [step("s", at, at)])]),
        gpu(claim, 1, [block(0, -1, 0, [step("r", at, at)])]),
    ]
    program = draft(claim, gpus, inplace=True)
    assert any("may hang in a broadcast" in text for text in verify(program, MSCCL_EXECUTOR).warnings)
    assert verify(replace(program, proto="LL"), MSCCL_EXECUTOR).warnings == ()
    assert verify(program, RCCL).warnings == ()


def test_sizes_at_which_programs_hang() -> None:
    """Eight chunks per step: up to 1 MiB per chunk two fit into a message, and a step is at most four messages."""
    send, receive = step("s", ("i", 0), ("i", 0), 8), step("r", ("o", 0), ("o", 0), 8)
    claim = Semantics("custom", 2, 16)
    program = draft(claim, [gpu(claim, r, [block(0, 1 - r, 1 - r, [send, receive])]) for r in range(2)])
    limit = safe_max_bytes(program, MSCCL, 1 << 40)
    assert limit == 8 << 20
    assert hang_at(program, MSCCL, 8 << 20) == ""
    assert "send <-" in hang_at(program, MSCCL, (8 << 20) + 16)
    assert safe_max_bytes(program, MSCCL, 1 << 20) == 1 << 20
    assert safe_max_bytes(replace(program, proto="LL"), MSCCL, 1 << 40) == 1 << 40
    assert verify(replace(program, max_bytes=1 << 30)).deadlock_free_max_bytes == 8 << 20


@settings(deadline=None, max_examples=150)
@given(data=st.data(), target=st.sampled_from(TARGETS))
def test_the_fast_screen_misses_no_limit(data: st.DataObject, target: Target) -> None:
    program = mutant(data)
    fast = limit_items(program, target)
    everything = set(range(sum(len(g.blocks) for g in program.gpus)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "suspicious_blocks", lambda *args: everything)
        assert limit_items(program, target) == fast


def test_all_pairs_is_fine_everywhere() -> None:
    for target in TARGETS:
        assert Program(allpairs_allreduce(4, 2), target).report.ok
