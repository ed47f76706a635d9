"""Deadlocks (oracle T18), connections, bounds, waits."""

from __future__ import annotations

from dataclasses import replace

import pytest

from synth.program.meaning.semantics import Semantics
from synth.program.msccl.model import Draft, Step
from synth.program.msccl.targets import MSCCL
from synth.program.msccl.verifying.verify import chunks_per_message, deadlock_free_max_bytes, verify
from tests.program.msccl.builders import (
    MIB,
    block,
    direct_alltoall,
    draft,
    edit_block,
    edit_step,
    gpu,
    pair,
    ring_allgather,
    ring_allreduce,
    scratch_allreduce,
    step,
    without_step,
)

SEND, RECV = step("s", ("i", 0)), step("r", dst=("o", 0))


@pytest.mark.parametrize("depth", [1, 2, 8])
def test_t18_receive_before_send_on_both(depth: int) -> None:
    report = verify(pair([RECV, SEND], [RECV, SEND]), depth=depth)
    assert len(report.deadlocks) == 1
    assert "g0.tb0.step0 recv <- g1.tb0.step0 recv <- g0.tb0.step0 recv" in report.deadlocks[0]
    assert "at any FIFO depth" in report.deadlocks[0]


@pytest.mark.parametrize("depth", [1, 2, 8])
def test_t18_send_before_receive_on_both(depth: int) -> None:
    assert verify(pair([SEND, RECV], [SEND, RECV]), depth=depth).deadlocks == ()


def test_t18_ten_sends_before_the_first_receive() -> None:
    ten = pair([SEND] * 10 + [RECV] * 10, [SEND] * 10 + [RECV] * 10)
    report = verify(ten, depth=2)
    assert "depth-dependent" in report.deadlocks[0]
    assert "g0.tb0.step2 send <- g1.tb0.step2 send <- g0.tb0.step2 send" in report.deadlocks[0]
    assert verify(ten, depth=9).deadlocks
    assert verify(ten, depth=10).deadlocks == ()


@pytest.mark.parametrize("depth", [1, 2, 8])
def test_t18_send_receive_against_receive_send(depth: int) -> None:
    assert verify(pair([SEND, RECV], [RECV, SEND]), depth=depth).deadlocks == ()


@pytest.mark.parametrize("iterations", [1, 2, 5])
@pytest.mark.parametrize("program", [direct_alltoall(4), scratch_allreduce(4)])
def test_direct_programs_pass_at_depth_one(program: Draft, iterations: int) -> None:
    report = verify(program, depth=1, iterations=iterations)
    assert report.ok, report.summary()


@pytest.mark.parametrize("iterations", [1, 2, 5])
@pytest.mark.parametrize("program", [ring_allgather(5), ring_allreduce(4)])
def test_rings_of_fused_steps_need_depth_two(program: Draft, iterations: int) -> None:
    """A step that receives and sends keeps its message until there is a slot: at depth 1 all slots are taken."""
    assert verify(program, depth=2, iterations=iterations).ok
    assert "depth-dependent" in verify(program, depth=1, iterations=iterations).deadlocks[0]


def test_large_messages_split_steps() -> None:
    """Simple, 8 chunks of 1 MiB: 2 chunks per message, a step of 8 is 4 messages, more than the FIFO's 2."""
    send, receive = step("s", ("i", 0), cnt=8), step("r", dst=("o", 0), cnt=8)
    program = replace(pair([send, receive], [send, receive]), max_bytes=16 * MIB)
    assert chunks_per_message(program, MSCCL) == 2
    assert "depth-dependent" in verify(program).deadlocks[0]
    largest = deadlock_free_max_bytes(program, MSCCL, 1 << 40)
    assert largest == 8 * MIB
    assert verify(replace(program, max_bytes=largest)).deadlocks == ()
    assert verify(replace(program, max_bytes=largest + 16)).deadlocks


def test_largest_size_without_and_with_no_limit() -> None:
    assert deadlock_free_max_bytes(ring_allreduce(4), MSCCL, 1 << 40) == 1 << 40
    assert deadlock_free_max_bytes(pair([RECV, SEND], [RECV, SEND]), MSCCL, 1 << 40) is None


def test_dependency_cycle_is_reported() -> None:
    claim = Semantics("custom", 1, 2)
    blocks = [
        block(0, -1, -1, [step("cpy", ("i", 0), ("o", 0), dep=(1, 0), hasdep=True)]),
        block(1, -1, -1, [step("cpy", ("i", 1), ("o", 1), dep=(0, 0), hasdep=True)]),
    ]
    report = verify(draft(claim, [gpu(claim, 0, blocks)]))
    assert "g0.tb0.step0 dep <- g0.tb1.step0 dep <- g0.tb0.step0 dep" in report.deadlocks[0]


def test_waiting_for_oneself() -> None:
    claim = Semantics("custom", 1, 2)
    copy = step("cpy", ("i", 0), ("o", 0), hasdep=True)
    past = [block(0, -1, -1, [copy, replace(copy, depid=0, deps=0)])]
    future = [block(0, -1, -1, [replace(copy, depid=0, deps=1), copy])]
    assert verify(draft(claim, [gpu(claim, 0, past)])).deadlocks == ()
    assert "g0.tb0.step0 dep <- g0.tb0.step0" in verify(draft(claim, [gpu(claim, 0, future)])).deadlocks[0]


def test_wait_is_served_by_a_later_signal() -> None:
    """Deps names step 0, which does not signal; step 1 does, so the wait ends after step 1."""
    claim = Semantics("custom", 1, 4)
    copy = step("cpy", ("i", 0), ("o", 0))
    blocks = [
        block(0, -1, -1, [copy, replace(copy, srcoff=1, dstoff=1, hasdep=True)]),
        block(1, -1, -1, [step("cpy", ("o", 1), ("o", 2), dep=(0, 0))]),
    ]
    program = draft(claim, [gpu(claim, 0, blocks)])
    assert verify(program).faults == ()
    dropped = edit_step(program, 0, 0, 1, lambda s: replace(s, hasdep=False))
    assert any("hangs" in fault for fault in verify(dropped).structure)


def test_nop_without_dependency_shifts_the_numbers() -> None:
    """The runtime signals 0 after step 1, so a wait for 1 never ends."""
    claim = Semantics("custom", 1, 4)
    blocks = [
        block(0, -1, -1, [step("nop"), step("cpy", ("i", 0), ("o", 0), hasdep=True)]),
        block(1, -1, -1, [step("cpy", ("o", 0), ("o", 2), dep=(0, 1))]),
    ]
    report = verify(draft(claim, [gpu(claim, 0, blocks)]))
    assert any("hangs" in fault for fault in report.structure)


BASE = ring_allgather(3)


@pytest.mark.parametrize(
    ("program", "words"),
    [
        (edit_block(BASE, 0, 0, lambda b: replace(b, send=2)), "never connects"),
        (edit_block(BASE, 0, 0, lambda b: replace(b, chan=1)), "channel 1"),
        (edit_block(BASE, 0, 1, lambda b: replace(b, send=1)), "share one end: g0.tb0, g0.tb1"),
        (edit_block(BASE, 0, 1, lambda b: replace(b, recv=2)), "share one end: g0.tb0, g0.tb1"),
        (without_step(BASE, 0, 0, 2), "2 sends but 1 receives per iteration; messages are left over"),
        (without_step(BASE, 0, 0, 0), "1 sends but 2 receives per iteration; the receiver hangs"),
        (edit_step(BASE, 0, 0, 2, lambda s: replace(s, cnt=2)), "number 1 differ: g2.tb0.step1 cnt=1 and g0.tb0.step2"),
        (edit_step(BASE, 0, 0, 1, lambda s: replace(s, dstoff=-1)), "g0.tb0.step1: o[-1..-1] is outside buffer o of 3"),
        (
            edit_step(BASE, 0, 0, 2, lambda s: replace(s, dstoff=2, cnt=2)),
            "g0.tb0.step2: o[2..3] is outside buffer o of 3",
        ),
        (edit_step(BASE, 0, 0, 1, lambda s: replace(s, depid=7, deps=0)), "g0.tb0.step1: hangs, it waits for tb7"),
        (edit_step(BASE, 0, 0, 1, lambda s: replace(s, depid=1, deps=0)), "hangs, it waits for tb1.step0"),
        (edit_step(BASE, 0, 0, 1, lambda s: replace(s, depid=1, deps=-1)), "deps=-1 is not a step"),
        (replace(BASE, gpus=BASE.gpus[:2]), "must hold ranks 0..2"),
    ],
)
def test_structure(program: Draft, words: str) -> None:
    report = verify(program)
    assert any(words in fault for fault in report.structure), report.summary()
    assert report.modes == ()


def test_bad_arguments() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        verify(BASE, depth=0)
    with pytest.raises(ValueError, match="at least 1"):
        verify(BASE, iterations=0)


def test_steps_see_messages_in_order() -> None:
    """Two receives in the other order give swapped data, not a hang."""
    first: list[Step] = [step("s", ("i", 0)), step("s", ("i", 1)), step("r", dst=("o", 0)), step("r", dst=("o", 1))]
    claim = Semantics("alltoallv", 2, 2, counts=(0, 2, 2, 0))
    good = pair(first, first, claim)
    assert verify(good).ok, verify(good).summary()
    swapped = [first[0], first[1], replace(first[2], dstoff=1), replace(first[3], dstoff=0)]
    assert verify(pair(first, swapped, claim)).wrong_chunks == 2
