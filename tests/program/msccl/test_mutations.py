"""Spoil good programs in every small way: each mutant is caught, or an independent interpreter finds nothing wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synth.program.msccl.model import Buffer, Draft, Step, StepType
from synth.program.msccl.opcodes import STEP_TYPES
from synth.program.msccl.verifying.verify import verify
from tests.program.msccl.builders import (
    direct_alltoall,
    edit_block,
    edit_step,
    ring_allgather,
    ring_allreduce,
    scratch_allreduce,
    without_step,
)
from tests.program.msccl.interpreter import run

# At this size every chunk is a message of its own, as in the interpreter.
LARGE = 1 << 30
BASES = {
    "ring allgather": replace(ring_allgather(3), max_bytes=LARGE),
    "ring allgather in place": replace(ring_allgather(4, inplace=True), max_bytes=LARGE),
    "ring allreduce": replace(ring_allreduce(4), max_bytes=LARGE),
    "direct alltoall": replace(direct_alltoall(3, 3, piece=2), max_bytes=LARGE),
    "scratch allreduce": replace(scratch_allreduce(3), max_bytes=LARGE),
}
bases = pytest.mark.parametrize("base", BASES.values(), ids=BASES.keys())


def places(program: Draft) -> Iterator[tuple[int, int, int, Step]]:
    for g, gpu in enumerate(program.gpus):
        for b, block in enumerate(gpu.blocks):
            for index, step in enumerate(block.steps):
                yield g, b, index, step


def caught(mutant: Draft) -> bool:
    return not verify(mutant).ok


def caught_or_harmless(mutant: Draft, seeds: int = 4) -> None:
    if not caught(mutant):
        for seed in range(seeds):
            assert run(mutant, mutant.inplace, seed) == []


@bases
def test_the_interpreter_agrees_on_the_good_programs(base: Draft) -> None:
    assert verify(base).ok
    for seed in range(5):
        assert run(base, base.inplace, seed) == []


@bases
def test_dropping_any_step_is_caught(base: Draft) -> None:
    for g, b, index, _ in places(base):
        assert caught(without_step(base, g, b, index)), (g, b, index)


def test_dropping_any_dependency_is_caught() -> None:
    base = BASES["scratch allreduce"]
    for g, b, index, step in places(base):
        if step.depid >= 0:
            assert caught(edit_step(base, g, b, index, lambda s: replace(s, depid=-1, deps=-1))), (g, b, index)


def test_dropping_any_signal_is_caught() -> None:
    base = BASES["scratch allreduce"]
    signals = [(g, b, index) for g, b, index, step in places(base) if step.hasdep]
    assert signals
    for g, b, index in signals:
        assert caught(edit_step(base, g, b, index, lambda s: replace(s, hasdep=False)))


def test_waiting_for_an_earlier_step_is_caught() -> None:
    """Step 0 of the awaited block signals before the receive."""
    base = BASES["scratch allreduce"]
    for g, b, index, step in places(base):
        if step.depid >= 0:
            early = edit_step(base, g, b, index, lambda s: replace(s, deps=0))
            assert not caught(early), "only the last step signals, so the wait still ends after it"
            position = [block.id for block in base.gpus[g].blocks].index(step.depid)
            assert caught(edit_step(early, g, position, 0, lambda s: replace(s, hasdep=True)))


@bases
def test_swapping_two_offsets_of_different_data_is_caught(base: Draft) -> None:
    for g, b, index, step in places(base):
        steps = base.gpus[g].blocks[b].steps
        for other in range(index + 1, len(steps)):
            if steps[other].type != step.type or step.type in ("nop", "re") or steps[other].dstoff == step.dstoff:
                continue
            mutant = edit_step(base, g, b, index, lambda s, o=steps[other]: replace(s, dstoff=o.dstoff))  # type: ignore[misc]
            mutant = edit_step(mutant, g, b, other, lambda s, o=step: replace(s, dstoff=o.dstoff))  # type: ignore[misc]
            if step.type in ("s", "rrs"):
                assert not caught(mutant), "these ignore their destination"
            else:
                assert caught(mutant), (g, b, index, other)


@bases
def test_swapping_neighbours_is_caught_or_harmless(base: Draft) -> None:
    for g, b, index, _ in list(places(base)):
        steps = list(base.gpus[g].blocks[b].steps)
        if index + 1 < len(steps):
            steps[index], steps[index + 1] = steps[index + 1], steps[index]
            caught_or_harmless(edit_block(base, g, b, lambda blk, new=tuple(steps): replace(blk, steps=new)))  # type: ignore[misc]


@pytest.mark.parametrize("name", ["ring allreduce", "scratch allreduce"])
def test_adding_a_rank_twice_is_caught(name: str) -> None:
    base = BASES[name]
    adds = 0
    for g, b, index, step in places(base):
        if step.type in ("re", "rrc", "rrcs"):
            add = replace(step, type="re", srcbuf="i" if step.type != "re" else "s", depid=-1, deps=-1, hasdep=False)
            if add.srcbuf == "i":
                add = replace(add, srcoff=(step.dstoff + step.cnt) % base.semantics.nchunks)
            steps = base.gpus[g].blocks[b].steps
            new = (*steps[: index + 1], add, *steps[index + 1 :])
            assert caught(edit_block(base, g, b, lambda blk, new=new: replace(blk, steps=new)))  # type: ignore[misc]
            adds += 1
    assert adds


@bases
def test_changing_a_peer_or_a_channel_is_caught(base: Draft) -> None:
    for g, gpu in enumerate(base.gpus):
        for b, block in enumerate(gpu.blocks):
            if block.send < 0 and block.recv < 0:
                continue
            assert caught(edit_block(base, g, b, lambda blk: replace(blk, chan=1)))
            for peer in range(base.semantics.ngpus):
                if block.send not in (-1, peer):
                    assert caught(edit_block(base, g, b, lambda blk, p=peer: replace(blk, send=p)))  # type: ignore[misc]
                if block.recv not in (-1, peer):
                    assert caught(edit_block(base, g, b, lambda blk, p=peer: replace(blk, recv=p)))  # type: ignore[misc]


CHANGES: dict[str, Callable[[st.DataObject, Step], Step]] = {
    "type": lambda data, s: replace(s, type=cast(StepType, data.draw(st.sampled_from(sorted(STEP_TYPES))))),
    "srcbuf": lambda data, s: replace(s, srcbuf=cast(Buffer, data.draw(st.sampled_from("ios")))),
    "dstbuf": lambda data, s: replace(s, dstbuf=cast(Buffer, data.draw(st.sampled_from("ios")))),
    "srcoff": lambda data, s: replace(s, srcoff=data.draw(st.integers(-1, 8))),
    "dstoff": lambda data, s: replace(s, dstoff=data.draw(st.integers(-1, 8))),
    "cnt": lambda data, s: replace(s, cnt=data.draw(st.integers(0, 4))),
    "dep": lambda data, s: replace(s, depid=data.draw(st.integers(-1, 3)), deps=data.draw(st.integers(-1, 4))),
    "hasdep": lambda data, s: replace(s, hasdep=not s.hasdep),
}


@settings(deadline=None, max_examples=150)
@given(data=st.data(), name=st.sampled_from(sorted(BASES)), edits=st.integers(1, 3))
def test_any_edit_is_caught_or_harmless(data: st.DataObject, name: str, edits: int) -> None:
    mutant = BASES[name]
    for _ in range(edits):
        g, b, index, _ = data.draw(st.sampled_from(list(places(mutant))))
        change = CHANGES[data.draw(st.sampled_from(sorted(CHANGES)))]
        mutant = edit_step(mutant, g, b, index, lambda s, change=change: change(data, s))  # type: ignore[misc]
    caught_or_harmless(mutant)


@settings(deadline=None, max_examples=60)
@given(data=st.data(), name=st.sampled_from(sorted(BASES)))
def test_duplicating_or_moving_a_step_is_caught_or_harmless(data: st.DataObject, name: str) -> None:
    base = BASES[name]
    g, b, index, step = data.draw(st.sampled_from(list(places(base))))
    steps = list(base.gpus[g].blocks[b].steps)
    if data.draw(st.booleans()):
        del steps[index]
    steps.insert(data.draw(st.integers(0, len(steps))), step)
    caught_or_harmless(edit_block(base, g, b, lambda blk: replace(blk, steps=tuple(steps))))


@settings(deadline=None, max_examples=60)
@given(data=st.data(), cnt=st.integers(1, 3), lag=st.integers(0, 3))
def test_verdict_on_random_local_blocks_agrees_with_the_interpreter(data: st.DataObject, cnt: int, lag: int) -> None:
    """Whatever is accepted runs the same in every order: two extra blocks copy about in spare scratch."""
    base = BASES["ring allgather in place"]
    spot = st.tuples(st.sampled_from("os"), st.integers(0, 4 - cnt))
    blocks = list(base.gpus[0].blocks)
    for extra in range(2):
        steps = []
        for _ in range(data.draw(st.integers(1, 3))):
            (src, at), (dst, to) = data.draw(spot), data.draw(spot)
            wait = data.draw(st.sampled_from([(-1, -1), (0, 1), (0, 3), (1, 0)]))
            step = Step("cpy", cast(Buffer, src), at, cast(Buffer, dst), to, cnt, *wait, data.draw(st.booleans()))
            steps.append(step)
        blocks.append(replace(blocks[0], id=1 + extra, send=-1, recv=-1, steps=tuple(steps)))
    ring = tuple(replace(s, hasdep=s.hasdep or i >= lag) for i, s in enumerate(blocks[0].steps))
    blocks[0] = replace(blocks[0], steps=ring)
    gpus = (replace(base.gpus[0], s_chunks=8, blocks=tuple(blocks)), *base.gpus[1:])
    caught_or_harmless(replace(base, gpus=gpus), seeds=8)
