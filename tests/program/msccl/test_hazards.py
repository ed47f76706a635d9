"""Races (oracle T19): reported whether or not a replay happens to give right data."""

from __future__ import annotations

from dataclasses import replace

import pytest

from synth.program.meaning.report import Report
from synth.program.meaning.semantics import Semantics
from synth.program.msccl.model import Draft, Step
from synth.program.msccl.verifying.verify import verify
from tests.program.msccl.builders import block, draft, edit_step, gpu, scratch_allreduce, step


def relay(wait: bool, *, second: bool = False) -> Draft:
    """T19: GPU 0 sends to GPU 2 through scratch 0 of GPU 1, which receives in block 0 and sends in block 1."""
    claim = Semantics("alltoallv", 3, 2, counts=(0, 0, 2, 0, 0, 0, 0, 0, 0))
    chunks = (0, 1) if second else (0,)
    if not second:
        claim = replace(claim, counts=(0, 0, 1, 0, 0, 0, 0, 0, 0))
    source = [block(0, 1, -1, [step("s", ("i", k)) for k in chunks])]
    receives = [step("r", dst=("s", k), hasdep=wait and k == chunks[-1]) for k in chunks]
    dep = (0, chunks[-1]) if wait else (-1, -1)
    sends = [step("s", ("s", k), dep=dep if k == 0 else (-1, -1)) for k in chunks]
    middle = [block(0, -1, 0, receives), block(1, 2, -1, sends)]
    goal = [block(0, -1, 1, [step("r", dst=("o", k)) for k in chunks])]
    gpus = [gpu(claim, 0, source), gpu(claim, 1, middle, scratch=2), gpu(claim, 2, goal)]
    return draft(claim, gpus)


def test_t19_missing_wait() -> None:
    report = verify(relay(wait=False))
    assert any("read-before-write" in race and "g1.tb1.step0 may read g1.s[0]" in race for race in report.races)


def test_t19_with_the_wait() -> None:
    assert verify(relay(wait=True)).ok
    assert verify(relay(wait=True, second=True)).ok


def test_t19_race_is_reported_though_the_data_come_out_right() -> None:
    """Block 1 is slowed by a receive that always comes last in the replay, but nothing makes it come last."""
    claim = Semantics("alltoallv", 2, 2, counts=(0, 2, 0, 0))
    send = [block(0, 1, -1, [step("s", ("i", 0)), step("s", ("i", 1))])]
    receive = [block(0, -1, 0, [step("r", dst=("s", 0)), step("r", dst=("o", 1))])]
    copy = block(1, -1, -1, [step("cpy", ("s", 0), ("o", 0))])
    racy = draft(claim, [gpu(claim, 0, send), gpu(claim, 1, [*receive, copy], scratch=1)])
    assert any("read-before-write" in race for race in verify(racy).races)
    late = replace(racy, gpus=tuple(reversed(racy.gpus)))
    assert verify(late).races == verify(racy).races


def test_two_waits_need_one_nop() -> None:
    good = scratch_allreduce(3)
    assert [s.type for s in good.gpus[0].blocks[0].steps] == ["nop", "re", "re"]
    assert verify(good).ok, verify(good).summary()


@pytest.mark.parametrize("index", [0, 1])
def test_each_of_the_two_waits_is_needed(index: int) -> None:
    program = edit_step(scratch_allreduce(3), 1, 0, index, lambda s: replace(s, depid=-1, deps=-1))
    assert verify(program).races


def all_races(report: Report) -> list[str]:
    """Races on live and on dead data: what the strict verdict refuses."""
    return [text for text in report.strict_faults if "race (" in text]


def local(first: list[Step], second: list[Step]) -> Draft:
    claim = Semantics("custom", 1, 4)
    return draft(claim, [gpu(claim, 0, [block(0, -1, -1, first), block(1, -1, -1, second)], scratch=4)])


def copy(src: int, dst: int, *, wait: int = -1, signal: bool = False, cnt: int = 1) -> Step:
    return step("cpy", ("i", src), ("o", dst), cnt, (wait, 0 if wait >= 0 else -1), signal)


@pytest.mark.parametrize(
    ("kind", "first", "second"),
    [
        ("write-after-write", [copy(0, 0)], [copy(1, 0)]),
        ("write-after-write", [copy(0, 0, cnt=3)], [copy(1, 2)]),
        ("write-after-read", [copy(0, 0)], [step("cpy", ("i", 1), ("i", 0))]),
        ("read-before-write", [copy(0, 0)], [step("cpy", ("o", 0), ("s", 0))]),
        ("read-before-write", [step("cpy", ("o", 0), ("s", 0))], [copy(0, 0)]),
    ],
)
def test_kinds(kind: str, first: list[Step], second: list[Step]) -> None:
    races = all_races(verify(local(first, second)))
    assert len(races) == 1
    assert f"race ({kind})" in races[0]
    # a wait on whichever side cures it
    waits = [replace(second[0], depid=0, deps=0)]
    assert all_races(verify(local([replace(first[0], hasdep=True)], waits))) == []


def test_reading_in_two_blocks_is_no_race_but_each_reader_counts() -> None:
    read = [step("cpy", ("i", 0), ("s", 0))]
    other = [step("cpy", ("i", 0), ("s", 1))]
    assert all_races(verify(local(read, other))) == []
    claim = Semantics("custom", 1, 4)
    blocks = [
        block(0, -1, -1, [replace(read[0], hasdep=True)]),
        block(1, -1, -1, [replace(other[0], hasdep=True)]),
        block(2, -1, -1, [step("nop", dep=(0, 0)), step("cpy", ("i", 1), ("i", 0), dep=(1, 0))]),
    ]
    good = draft(claim, [gpu(claim, 0, blocks, scratch=4)])
    assert all_races(verify(good)) == []
    for index in (0, 1):
        bad = edit_step(good, 0, 2, index, lambda s: replace(s, depid=-1, deps=-1))
        assert len(all_races(verify(bad))) == 1


def test_order_through_another_gpu_counts() -> None:
    """GPU 0 block 0 sends i[0] and GPU 1 returns it to block 1, which overwrites i[0]: ordered by the two messages."""
    assert verify(bounce(1)).races == ()


def test_order_through_another_gpu_is_per_chunk_when_the_relay_forwards_chunk_by_chunk() -> None:
    """The first returned chunk says nothing about the second chunk's read: i[0..1] sent, returned to i[1..2]."""
    races = verify(bounce(2, shift=1)).races
    assert any("write-after-read" in race and "g0.i[1]" in race for race in races)
    assert verify(bounce(2)).races == ()


def bounce(cnt: int, shift: int = 0) -> Draft:
    claim = Semantics("custom", 2, 4)
    zero = [block(0, 1, -1, [step("s", ("i", 0), cnt=cnt)]), block(1, -1, 1, [step("r", dst=("i", shift), cnt=cnt)])]
    one = [block(0, 0, 0, [step("rcs", dst=("s", 0), cnt=cnt)])]
    return draft(claim, [gpu(claim, 0, zero), gpu(claim, 1, one, scratch=4)])


def test_back_pressure_is_not_order() -> None:
    """The third send can only start after the first receive at depth 2, but a deeper FIFO would not wait."""
    claim = Semantics("custom", 2, 4)
    sends = [step("s", ("i", k)) for k in range(4)]
    zero = [block(0, 1, -1, [*sends, step("cpy", ("s", 0), ("s", 1), hasdep=True)])]
    one = [
        block(0, -1, 0, [step("r", dst=("o", k)) for k in range(4)]),
        block(1, -1, -1, [step("cpy", ("o", 0), ("s", 0))]),
    ]
    program = draft(claim, [gpu(claim, 0, zero, 2), gpu(claim, 1, one, 2)])
    assert len(all_races(verify(program, depth=1))) == 1


def test_in_place_aliases_are_seen() -> None:
    """i[0] and o[0] of an all-reduce are one chunk in place and two out of place."""
    claim = Semantics("allreduce", 1, 1)
    blocks = [block(0, -1, -1, [step("cpy", ("i", 0), ("o", 0))]), block(1, -1, -1, [step("cpy", ("i", 0), ("s", 0))])]
    both = replace(draft(claim, [gpu(claim, 0, blocks, scratch=1)]), inplace=True)
    races = all_races(verify(both))
    assert len(races) == 1
    assert races[0].startswith("in place:")


@pytest.mark.parametrize(
    "bad",
    [step("cpy", ("i", 0), ("i", 1), 2), step("re", ("i", 0), ("i", 0)), step("re", ("i", 1), ("i", 0), 3)],
)
def test_one_step_must_not_read_what_it_writes(bad: Step) -> None:
    report = verify(local([bad], [copy(3, 3)]))
    assert any("overlapping chunks" in fault for fault in report.data)
