"""The fast race check against the plain one: the same verdict on every program, whichever of its ways it takes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synth.program.meaning.semantics import input_tokens
from synth.program.msccl.columns import Flags
from synth.program.msccl.model import Draft, Step
from synth.program.msccl.verifying.image import build_image
from synth.program.msccl.verifying.races import clocks, ordering
from synth.program.msccl.verifying.races.check import races
from synth.program.msccl.verifying.replay import replay
from synth.program.msccl.verifying.structure import structure_faults
from tests.program.msccl.builders import direct_alltoall, edit_step, ring_allgather, ring_allreduce, scratch_allreduce
from tests.program.msccl.large import allpairs_allreduce, ring_gather, rings_allreduce
from tests.program.msccl.reference_races import reference_races


def widened(draft: Draft, width: int) -> Draft:
    """Every chunk becomes ``width`` chunks, moved together."""

    def wide(s: Step) -> Step:
        return replace(s, srcoff=max(-1, s.srcoff * width), dstoff=max(-1, s.dstoff * width), cnt=s.cnt * width)

    gpus = tuple(
        replace(
            g,
            i_chunks=g.i_chunks * width,
            o_chunks=g.o_chunks * width,
            s_chunks=g.s_chunks * width,
            blocks=tuple(replace(b, steps=tuple(map(wide, b.steps))) for b in g.blocks),
        )
        for g in draft.gpus
    )
    claim = replace(draft.semantics, nchunks=draft.semantics.nchunks * width)
    return replace(draft, semantics=claim, gpus=gpus)


BASES = {
    "ring allgather": ring_allgather(4, 2),
    "ring allreduce": ring_allreduce(4, 2),
    "alltoall": direct_alltoall(3, 3, piece=2),
    "scratch": scratch_allreduce(4),
    "split rings": rings_allreduce(4, 2),
    "wide split rings": widened(rings_allreduce(3, 1), 3),
    "gather rings": ring_gather(5, 2, 2),
    "all pairs": allpairs_allreduce(4, 2),
    "wide all pairs": widened(allpairs_allreduce(3, 1), 2),
}


def defined_of(draft: Draft, totals: list[int], starts: list[int]) -> list[Flags]:
    flags = [np.zeros(total, dtype=np.bool_) for total in totals]
    for rank, start in enumerate(starts):
        flags[rank][start : start + len(input_tokens(draft.semantics, rank))] = True
    return flags


def both(draft: Draft) -> tuple[set[str], set[str]] | None:
    """Races by the fast and by the plain check; None when the program cannot be run."""
    if structure_faults(draft):
        return None
    image = build_image(draft, draft.inplace)
    run = replay(image, 8, 71, 1)
    if run.cycle:
        return None
    defined = defined_of(draft, [at.total for at in image.layouts], [at.i for at in image.layouts])
    return set(races(image, run.order, defined)), set(reference_races(image, run.order, defined))


EDITS: dict[str, Callable[[st.DataObject, Step], Step]] = {
    "no wait": lambda data, s: replace(s, depid=-1, deps=-1),
    "other wait": lambda data, s: replace(s, depid=data.draw(st.integers(-1, 5)), deps=data.draw(st.integers(0, 5))),
    "signal": lambda data, s: replace(s, hasdep=not s.hasdep),
    "source": lambda data, s: replace(s, srcoff=data.draw(st.integers(0, 9))),
    "target": lambda data, s: replace(s, dstoff=data.draw(st.integers(0, 9))),
    "count": lambda data, s: replace(s, cnt=data.draw(st.integers(1, 3))) if s.type in ("cpy", "re") else s,
}


def mutant(data: st.DataObject) -> Draft:
    draft = BASES[data.draw(st.sampled_from(sorted(BASES)))]
    for _ in range(data.draw(st.integers(0, 4))):
        g = data.draw(st.integers(0, len(draft.gpus) - 1))
        b = data.draw(st.integers(0, len(draft.gpus[g].blocks) - 1))
        index = data.draw(st.integers(0, len(draft.gpus[g].blocks[b].steps) - 1))
        edit = EDITS[data.draw(st.sampled_from(sorted(EDITS)))]
        draft = edit_step(draft, g, b, index, lambda s, edit=edit: edit(data, s))  # type: ignore[misc]
    return draft


@pytest.mark.parametrize("name", sorted(BASES))
def test_good_programs(name: str) -> None:
    assert both(BASES[name]) == (set(), set())


@settings(deadline=None, max_examples=300)
@given(data=st.data())
def test_verdicts_agree(data: st.DataObject) -> None:
    found = both(mutant(data))
    if found is not None:
        fast, plain = found
        assert bool(fast) == bool(plain), (fast, plain)
        # The plain check forgets a read that another block's read follows in order; the fast one reports both.
        if len(plain) < 11 and len(fast) < 11:
            assert plain <= fast


@settings(deadline=None, max_examples=150)
@given(data=st.data())
def test_verdicts_agree_when_only_searching_or_only_sweeping(data: st.DataObject) -> None:
    """Free searches, and sweeps of one block at a time."""
    draft = mutant(data)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clocks, "_MAX_CELLS", 1)
        patch.setattr(ordering, "_SWEEP_OP", data.draw(st.sampled_from([0, 10**9])))
        patch.setattr(ordering, "_TRIAL", 1)
        found = both(draft)
    if found is not None:
        assert bool(found[0]) == bool(found[1]), found
