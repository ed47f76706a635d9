"""Dead data: what no claimed output depends on is a hazard, everything else stays a fault.

The second method is ``every_order``: it runs tiny programs in all orders of their steps and compares the outputs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

from synth.errors import VerificationError
from synth.program.meaning.report import Report
from synth.program.meaning.semantics import Semantics
from synth.program.msccl.model import Buffer, Draft, Step, StepType, ThreadBlock
from synth.program.msccl.program import Program
from synth.program.msccl.verifying import data as data_check
from synth.program.msccl.verifying.image import build_image
from synth.program.msccl.verifying.liveness import Liveness
from synth.program.msccl.verifying.races import live as live_races
from synth.program.msccl.verifying.replay import replay
from synth.program.msccl.verifying.verify import verify
from tests.program.msccl.builders import block, draft, edit_step, gpu, ring_allreduce, scratch_allreduce, step
from tests.program.msccl.every_order import EveryOrder, garbage_in

MOST_STATES = 3000
UNDEFINED = "before anything was written there"


def with_block(program: Draft, rank: int, *steps: Step, scratch: int = 8) -> Draft:
    """One more thread block of local steps on a rank, and scratch of its own at the end."""
    old = program.gpus[rank]
    new = replace(old, s_chunks=scratch, blocks=(*old.blocks, block(len(old.blocks), -1, -1, steps)))
    return replace(program, gpus=(*program.gpus[:rank], new, *program.gpus[rank + 1 :]))


def test_a_copy_that_nobody_reads_is_dead() -> None:
    """The block copies what another block is just changing into scratch, and from there into more scratch."""
    racy = with_block(ring_allreduce(3), 1, step("cpy", ("i", 0), ("s", 0)), step("cpy", ("s", 0), ("s", 1)))
    report = verify(racy)
    assert report.ok
    assert report.races == ()
    assert not report.strict_ok
    assert all("race (" in text and "g1.tb1.step0 reads" in text for text in report.dead)
    assert all(any(text in hazard for hazard in report.hazards) for text in report.dead)


def test_the_same_copy_is_live_when_it_comes_back() -> None:
    racy = with_block(ring_allreduce(3), 1, step("cpy", ("i", 0), ("s", 0)), step("cpy", ("s", 0), ("i", 0)))
    report = verify(racy)
    assert report.races
    assert not report.ok


def test_what_is_sent_to_scratch_is_dead_and_what_is_sent_to_an_output_is_not() -> None:
    """Rank 0 sends undefined scratch: rank 1 stores it in scratch, or adds it to its result."""
    claim = Semantics("reduce", 2, 1, root=1)
    for kind, goal, live in (("r", ("s", 0), False), ("rrc", ("i", 0), True)):
        into: tuple[Buffer, int] = goal  # type: ignore[assignment]
        zero = [block(0, 1, -1, [step("s", ("i", 0)), step("s", ("s", 0))])]
        at: tuple[Buffer, int] = ("i", 0)
        one = [block(0, -1, 0, [step("rrc", at, at), step(kind, into, into)])]  # type: ignore[arg-type]
        report = verify(draft(claim, [gpu(claim, 0, zero, 1), gpu(claim, 1, one, 1)], inplace=True))
        assert report.ok != live
        assert any(UNDEFINED in text for text in (report.data if live else report.dead))


def test_outputs_about_which_nothing_is_claimed_are_dead() -> None:
    """In a reduce to rank 1 the output of rank 0 does not matter."""
    claim = Semantics("reduce", 2, 1, root=1)
    at: tuple[Buffer, int] = ("i", 0)
    zero = [block(0, 1, -1, [step("s", at)]), block(1, -1, -1, [step("cpy", ("s", 0), ("o", 0))])]
    one = [block(0, -1, 0, [step("rrc", at, ("o", 0))])]
    program = draft(claim, [gpu(claim, 0, zero, 1), gpu(claim, 1, one)])
    assert verify(program).ok
    assert UNDEFINED in verify(program).dead[0]
    assert not verify(replace(program, semantics=replace(claim, root=0))).ok


def test_a_dismissed_race_hides_no_live_one() -> None:
    """Two dead writes race, and the first of them may also come after the live write that stands between two reads.

    Neighbours alone: block 0 writes o[0], block 1 writes it again (dead: block 2 overwrites it, in order after block
    1). Nothing orders block 0 and block 2, which are no neighbours.
    """
    claim = Semantics("allreduce", 1, 1)
    write = step("cpy", ("i", 0), ("o", 0))
    blocks = [
        block(0, -1, -1, [step("cpy", ("s", 0), ("o", 0))]),
        block(1, -1, -1, [replace(step("cpy", ("s", 1), ("o", 0)), hasdep=True)]),
        block(2, -1, -1, [replace(write, depid=1, deps=0)]),
    ]
    report = verify(draft(claim, [gpu(claim, 0, blocks, 2)]))
    assert report.wrong_chunks == 0
    assert any("g0.tb0.step0 and g0.tb2.step0 both write g0.o[0]" in race for race in report.races)
    assert any("g0.tb0.step0 and g0.tb1.step0 both write g0.o[0]" in race for race in report.dead)


def test_chunks_of_one_step_are_told_apart() -> None:
    """A step of two chunks, of which only the second goes on to an output; the race is on the first."""
    claim = Semantics("allreduce", 1, 1)
    blocks = [
        block(0, -1, -1, [step("cpy", ("i", 0), ("s", 1)), step("cpy", ("s", 0), ("s", 2), 2), OUT]),
        block(1, -1, -1, [step("cpy", ("i", 0), ("s", 0))]),
    ]
    report = verify(draft(claim, [gpu(claim, 0, blocks, 4)]))
    assert report.ok, report.summary()
    assert len(report.dead) >= 1
    other = replace(blocks[0], steps=(*blocks[0].steps[:2], replace(OUT, srcoff=2)))
    assert verify(draft(claim, [gpu(claim, 0, [other, blocks[1]], 4)])).races


OUT = step("cpy", ("s", 3), ("o", 0))


def test_programs_are_strict() -> None:
    racy = with_block(ring_allreduce(3), 1, step("cpy", ("i", 0), ("s", 0)))
    assert verify(racy).ok
    with pytest.raises(VerificationError, match="race"):
        Program(racy)


def test_overlaps_are_dead_or_live_as_well() -> None:
    claim = Semantics("allreduce", 1, 2)
    steps = [step("cpy", ("i", 0), ("o", 0), 2), step("cpy", ("i", 0), ("s", 0), 2), step("cpy", ("s", 0), ("s", 1), 2)]
    program = draft(claim, [gpu(claim, 0, [block(0, -1, -1, steps)], 3)])
    assert "overlapping chunks" in verify(program).dead[0]
    live = replace(program, gpus=(gpu(claim, 0, [block(0, -1, -1, [*steps, step("cpy", ("s", 1), ("o", 1))])], 3),))
    assert "overlapping chunks" in verify(live).data[0]


def test_too_many_dead_races_to_examine_stay_faults(monkeypatch: pytest.MonkeyPatch) -> None:
    racy = with_block(ring_allreduce(3), 1, step("cpy", ("i", 0), ("s", 0)))
    for name in ("_MAX_CHUNKS", "_MAX_PAIRS"):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(live_races, name, 0)
            assert verify(racy).races
            assert verify(racy).dead == ()
    assert verify(racy).ok


# Random programs against every order of their steps.

BUFFERS: tuple[Buffer, ...] = ("i", "o", "s")
KINDS: tuple[StepType, ...] = ("cpy", "cpy", "re")


@st.composite
def local_steps(draw: st.DrawFn, most: int) -> list[Step]:
    steps = []
    for _ in range(draw(st.integers(1, most))):
        src, dst = ((draw(st.sampled_from(BUFFERS)), draw(st.integers(0, 1))) for _ in range(2))
        wait = draw(st.sampled_from([(-1, -1), (-1, -1), (0, 0), (1, 0), (0, 1), (1, 1)]))
        steps.append(step(draw(st.sampled_from(KINDS)), src, dst, 1, wait, draw(st.booleans())))
    return steps


@st.composite
def programs(draw: st.DrawFn) -> Draft:
    """One or two ranks with two blocks each; over two ranks, messages of any kind from rank 0 to rank 1 and back."""
    ranks = draw(st.integers(1, 2))
    claim = draw(st.sampled_from([Semantics("allreduce", ranks, 2), Semantics("broadcast", ranks, 2, root=0)]))
    gpus = []
    for rank in range(ranks):
        blocks: list[ThreadBlock] = [block(k, -1, -1, draw(local_steps(2))) for k in range(2)]
        if ranks == 2:
            at: tuple[Buffer, int] = (draw(st.sampled_from(BUFFERS)), draw(st.integers(0, 1)))
            goal: tuple[Buffer, int] = (draw(st.sampled_from(BUFFERS)), draw(st.integers(0, 1)))
            kind = draw(st.sampled_from(("r", "rrc")))
            talk = [step("s", at, hasdep=True), step(kind, goal, goal)]  # type: ignore[arg-type]
            blocks[0] = replace(blocks[0], send=1 - rank, recv=1 - rank, steps=(*talk, *blocks[0].steps[:1]))
        gpus.append(gpu(claim, rank, blocks, 2))
    return draft(claim, gpus, inplace=draw(st.booleans()))


def outcomes(program: Draft) -> set[tuple[tuple[object, ...], ...]] | None:
    orders = EveryOrder(program, program.inplace)
    cells = [orders.world.where(rank, "o", k) for rank in range(program.semantics.ngpus) for k in range(2)]
    return orders.outputs(cells, MOST_STATES)


def runs(program: Draft) -> Report:
    report = verify(program)
    assume(not report.structure and not report.deadlocks)
    return report


@settings(deadline=None, max_examples=150)
@given(programs())
def test_outputs_differ_between_orders_exactly_when_there_are_races_on_live_data(program: Draft) -> None:
    report = runs(program)
    ends = outcomes(program)
    assume(ends is not None)
    assert ends is not None
    event(f"races {bool(report.races)}, dead {bool(report.dead)}")
    assert (len(ends) > 1) == bool(report.races), (report.summary(), ends)
    assert not set(report.races) & set(report.dead)


@settings(deadline=None, max_examples=150)
@given(programs())
def test_garbage_reaches_outputs_exactly_through_live_undefined_reads(program: Draft) -> None:
    report = runs(program)
    ends = outcomes(program)
    assume(ends is not None and not report.races)
    assert ends is not None
    (end,) = ends
    used = any(garbage_in(term) for term in end if term[0] != "garbage")
    assert used == any(UNDEFINED in text for text in report.data), (report.summary(), end)


# Mutations of the check itself: each of these mistakes is noticed by the tests above.


def all_dead(self: Liveness, op: object, chunk: object) -> object:
    return np.zeros(np.shape(np.asarray(op) + np.asarray(chunk)), dtype=np.bool_)


LIVE_RACES: dict[str, Callable[[], Draft]] = {
    "no wait": lambda: edit_step(scratch_allreduce(3), 1, 0, 0, lambda s: replace(s, depid=-1, deps=-1)),
    "returned copy": lambda: with_block(
        ring_allreduce(3), 1, step("cpy", ("i", 0), ("s", 0)), step("cpy", ("s", 0), ("i", 0))
    ),
}


@pytest.mark.parametrize("name", sorted(LIVE_RACES))
def test_live_races_would_be_missed_by_a_liveness_that_finds_nothing(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert verify(LIVE_RACES[name]()).races
    monkeypatch.setattr(Liveness, "read", all_dead)
    monkeypatch.setattr(Liveness, "written", all_dead)
    assert verify(LIVE_RACES[name]()).races == ()


def test_clean_programs_never_ask_for_liveness(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> Liveness:
        raise AssertionError("asked")

    monkeypatch.setattr(data_check, "Liveness", refuse)
    assert verify(scratch_allreduce(3)).ok


@pytest.mark.parametrize("program", [ring_allreduce(4), scratch_allreduce(3)], ids=["ring", "scratch"])
def test_everything_that_a_lean_program_does_is_live(program: Draft) -> None:
    """By hand: no step of these two could be left out."""
    image = build_image(program, program.inplace)
    liveness = Liveness(image, program.semantics, replay(image, 8, 71, 1).order)
    assert all(liveness.reads_any(op) for op in range(image.ops))
