"""Programs that hang, or cannot even start: found at once, and said who waits for whom."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from synth.emulate import run_program
from synth.errors import VerificationError
from synth.program.meaning.semantics import Semantics
from synth.program.msccl.model import Draft, Step
from tests.program.msccl.builders import block, draft, edit_block, edit_step, gpu, pair, ring_allgather, step

CLAIM = Semantics("custom", 2, 16)
SEND = step("s", ("i", 0), ("s", 0))
RECEIVE = step("r", ("s", 0), ("s", 0))


def message(program: Draft, size: int = 64, **options: int) -> str:
    began = time.monotonic()
    with pytest.raises(VerificationError) as caught:
        run_program(program, size, timeout=30, **options)  # type: ignore[arg-type]
    assert time.monotonic() - began < 15
    return str(caught.value)


def test_t18_both_receive_first() -> None:
    program = pair([RECEIVE, SEND], [RECEIVE, SEND])
    text = message(program)
    assert text == (
        "deadlock, 2 blocks wait: "
        "g0.tb0.step0 (r, iteration 0) waits for a message on g1->g0 channel 0 <- "
        "g1.tb0.step0 (r, iteration 0) waits for a message on g0->g1 channel 0 <- g0.tb0"
    )
    assert message(program, depth=1000) == text


def test_t18_ten_sends_before_the_first_receive() -> None:
    steps = [SEND] * 10 + [RECEIVE] * 10
    text = message(pair(steps, steps))
    assert "g0.tb0.step2 (s, iteration 0) waits for room for a message (FIFO depth 2) on g0->g1 channel 0" in text
    # Rank 1 may have come less far when rank 0 is stuck, but it ends at the same step.
    assert "g1.tb0.step2 (s" in text
    assert run_program(pair(steps, steps), 64, depth=10).ok
    # Two slots more on the way than there are sends before a receive.
    assert run_program(pair([*steps[8:10], *steps[10:12]], [*steps[8:10], *steps[10:12]]), 64).ok


@pytest.mark.parametrize(("first", "second"), [([SEND, RECEIVE], [SEND, RECEIVE]), ([SEND, RECEIVE], [RECEIVE, SEND])])
def test_t18_what_runs(first: list[Step], second: list[Step]) -> None:
    assert run_program(pair(first, second), 64).ok


def test_large_messages_hang_where_small_ones_do_not() -> None:
    """Steps of three chunks: in one message up to 2 MiB / 3, in three beyond, which two slots do not hold."""
    send, receive = replace(SEND, cnt=3), replace(RECEIVE, cnt=3)
    program = pair([send, receive], [send, receive])
    fits = (2 << 20) // 3
    assert run_program(program, 16 * fits, dtype="int8").chunks_per_message == 3
    assert "room" in message(program, 16 * (2 << 20))


def test_wait_for_nobody() -> None:
    waiting = [replace(SEND, depid=7, deps=0)]
    assert "waits for step 0 of one <- a thread block that does not exist" in message(pair(waiting, [RECEIVE]))


def test_wait_without_signal() -> None:
    """The awaited block ends without a flag, because its step has hasdep=0."""
    program = pair([replace(SEND, depid=1, deps=0)], [RECEIVE])
    copy = block(1, -1, -1, [step("cpy", ("i", 1), ("s", 1))])
    program = replace(program, gpus=(replace(program.gpus[0], blocks=(*program.gpus[0].blocks, copy)), program.gpus[1]))
    assert "waits for step 0 of g0.tb1 <- g0.tb1, which has ended" in message(program)
    signals = edit_step(program, 0, 1, 0, lambda s: replace(s, hasdep=True))
    assert run_program(signals, 64).ok


def test_flags_of_several_iterations() -> None:
    """A later flag of the same block counts; in the last iteration there must be one."""
    late = [step("cpy", ("i", 1), ("s", 1)), step("cpy", ("i", 2), ("s", 2), hasdep=True)]
    program = pair([replace(SEND, depid=1, deps=0)], [RECEIVE])
    first = replace(program.gpus[0], blocks=(*program.gpus[0].blocks, block(1, -1, -1, late)))
    program = replace(program, gpus=(first, program.gpus[1]), proto="LL")
    report = run_program(program, 16 * 100_000)
    assert report.iterations == 4
    assert report.steps == 4 * 4
    swapped = edit_block(program, 0, 1, lambda b: replace(b, steps=b.steps[::-1]))
    waits_for_last = edit_step(swapped, 0, 0, 0, lambda s: replace(s, deps=1))
    text = message(waits_for_last, 16 * 100_000)
    # In the earlier iterations the next one's flag lets it pass.
    assert "g0.tb0.step0 (s, iteration 3)" in text


def test_missing_rank() -> None:
    program = ring_allgather(3)
    assert "there is no block to receive it" not in message(replace(program, gpus=program.gpus[:2]), 12)
    assert "there is no block to send on it" in message(replace(program, gpus=program.gpus[:2]), 12)
    with pytest.raises(VerificationError, match="each once"):
        run_program(replace(program, gpus=program.gpus[:2] + program.gpus[:1]), 12)


def test_messages_of_different_lengths() -> None:
    text = message(pair([replace(SEND, cnt=2)], [RECEIVE]))
    assert "rank 1: step 0 (r) receives 1 elements from g0, but message 0 holds 2" in text


def test_left_over_messages() -> None:
    assert "1 messages are left over on g0->g1 channel 0" in message(pair([SEND, SEND], [RECEIVE]))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"srcoff": 16}, r"i\[16..16\] is outside buffer i of 16 chunks"),
        ({"srcoff": 10, "cnt": 7}, r"i\[10..16\] is outside"),
        ({"srcoff": -1}, "outside"),
        ({"cnt": 0}, "moves nothing"),
        ({"type": "ra"}, "unknown step type"),
        ({"depid": 0, "deps": -1}, "is not a step"),
    ],
)
def test_steps_that_cannot_run(change: dict[str, object], words: str) -> None:
    bad = replace(SEND, **change)  # type: ignore[arg-type]
    with pytest.raises(VerificationError, match=words):
        run_program(pair([bad], [RECEIVE]), 64)


def test_nops() -> None:
    """A chain of nops joins the next real step; one that carries no wait itself would lose theirs."""
    copies = [block(1 + k, -1, -1, [step("cpy", ("i", 1), ("s", 1 + k), hasdep=True)]) for k in range(2)]
    chain = [step("nop", dep=(1, 0)), replace(SEND, depid=2, deps=0)]
    one = gpu(CLAIM, 0, [block(0, 1, -1, chain), *copies], scratch=16)
    two = gpu(CLAIM, 1, [block(0, -1, 0, [RECEIVE])], scratch=16)
    assert run_program(draft(CLAIM, [one, two]), 64).steps == 4
    lost = gpu(CLAIM, 0, [block(0, 1, -1, [chain[0], SEND]), *copies], scratch=16)
    assert "must carry the last one itself" in message(draft(CLAIM, [lost, two]))


def test_connections_that_cannot_be() -> None:
    twice = gpu(CLAIM, 0, [block(0, 1, -1, [SEND]), block(1, 1, -1, [SEND])], scratch=16)
    two = gpu(CLAIM, 1, [block(0, -1, 0, [RECEIVE, RECEIVE])], scratch=16)
    assert "g0.tb0 and g0.tb1 send on it and race on its FIFO" in message(draft(CLAIM, [twice, two]))
    off = gpu(CLAIM, 0, [block(0, 1, -1, [SEND], chan=3)], scratch=16)
    assert "channel 3, but there are 1" in message(draft(CLAIM, [off, two]))
    self_peer = gpu(CLAIM, 0, [block(0, 0, -1, [SEND])], scratch=16)
    assert "peer 0 is not another rank" in message(draft(CLAIM, [self_peer, two]))
    no_peer = gpu(CLAIM, 0, [block(0, -1, -1, [SEND, RECEIVE])], scratch=16)
    text = message(draft(CLAIM, [no_peer, two]))
    assert "no send peer" in text
    assert "no receive peer" in text
