"""Data (oracles T21, T22), wrong job size (T33), modes, roots, hostile headers; speed is in test_scale."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from synth.program.meaning.semantics import Semantics, buffer_chunks
from synth.program.msccl.model import Buffer, Draft, GpuProgram, Step
from synth.program.msccl.verifying.verify import verify
from tests.program.msccl.builders import (
    block,
    direct_alltoall,
    draft,
    edit_step,
    gpu,
    ring_allgather,
    ring_allreduce,
    scratch_allreduce,
    step,
)


@pytest.mark.parametrize("n", [2, 3, 4, 5, 8])
@pytest.mark.parametrize("shard", [1, 3])
def test_good_programs(n: int, shard: int) -> None:
    for program in (
        ring_allgather(n, shard),
        ring_allgather(n, shard, inplace=True),
        ring_allreduce(n, shard),
        direct_alltoall(n, shard),
        scratch_allreduce(n),
    ):
        report = verify(program)
        assert report.ok, report.summary()
        assert report.modes == ("in place" if program.inplace else "out of place",)
        assert report.warnings == ()


def reduce_to_all_through_rank_0(double: bool) -> Draft:
    """3 ranks, 3 chunks: ranks 1 and 2 send to rank 0, which adds and returns; ``double`` adds rank 0 once more."""
    claim = Semantics("allreduce", 3, 3)
    at: tuple[Buffer, int] = ("i", 0)
    hub = [
        block(0, 1, 1, [step("rrc", at, at, 3, hasdep=True), step("s", at, at, 3, dep=(1, 0))]),
        block(1, 2, 2, [step("rrc", at, at, 3, dep=(0, 0), hasdep=True), step("s", at, at, 3)]),
    ]
    leaf = [block(0, 0, 0, [step("s", at, at, 3), step("r", at, at, 3)])]
    gpus = [gpu(claim, 0, hub, scratch=1), gpu(claim, 1, leaf), gpu(claim, 2, leaf)]
    program = draft(claim, gpus, inplace=True)
    if not double:
        return program
    keep = step("cpy", ("i", 0), ("s", 0))
    extra = [keep, step("rrc", at, at, 3), step("re", ("s", 0), at, hasdep=True), step("s", at, at, 3, dep=(1, 0))]
    again = [
        replace(hub[0], steps=tuple(extra)),
        replace(hub[1], steps=(replace(hub[1].steps[0], deps=2), hub[1].steps[1])),
    ]
    return replace(program, gpus=(replace(gpus[0], blocks=tuple(again)), *gpus[1:]))


def test_t21_sum_of_three_ranks() -> None:
    report = verify(reduce_to_all_through_rank_0(double=False))
    assert report.ok, report.summary()


def test_t21_rank_0_added_twice() -> None:
    report = verify(reduce_to_all_through_rank_0(double=True))
    assert report.wrong_chunks == 3
    assert "output chunk 0 of rank 0 is wrong: chunk 0 of rank 0 2 times instead of 1" in report.data[0]
    assert report.deadlocks == report.races == ()


def test_t21_two_swapped_destination_offsets() -> None:
    program = direct_alltoall(3, 2, piece=1)
    swapped = edit_step(program, 1, 2, 0, lambda s: replace(s, dstoff=s.dstoff + 1))
    swapped = edit_step(swapped, 1, 2, 1, lambda s: replace(s, dstoff=s.dstoff - 1))
    assert verify(program).ok
    assert verify(swapped).wrong_chunks == 2


def two_rank_allgather(first: Step, second: Step) -> Draft:
    """In place; rank 1 runs the two given steps, rank 0 sends and receives rightly."""
    claim = Semantics("allgather", 2, 2)
    zero = [step("s", ("o", 0)), step("r", dst=("o", 1))]
    gpus = [gpu(claim, 0, [block(0, 1, 1, zero)]), gpu(claim, 1, [block(0, 0, 0, [first, second])])]
    return draft(claim, gpus, inplace=True)


def test_t22_in_place() -> None:
    send = step("s", ("o", 1))
    assert verify(two_rank_allgather(send, step("r", dst=("o", 0)))).ok
    assert verify(two_rank_allgather(step("r", dst=("o", 0)), send)).ok
    assert verify(two_rank_allgather(step("s", ("i", 0)), step("r", dst=("o", 0)))).ok, "i[0] is o[1]"
    overwritten = verify(two_rank_allgather(step("r", dst=("o", 1)), send))
    assert overwritten.wrong_chunks == 3
    assert not verify(two_rank_allgather(send, step("r", dst=("i", 0)))).ok


def test_t22_in_place_program_is_wrong_out_of_place() -> None:
    both = replace(ring_allgather(3, inplace=True), outofplace=True)
    report = verify(both)
    assert report.modes == ("in place", "out of place")
    assert report.data
    assert all(fault.startswith("out of place:") for fault in report.data)
    assert any("does not read outofplace" in warning for warning in report.warnings)


def test_reduce_scatter_in_place() -> None:
    """Output k of rank r is i[r * C/N + k], whichever name is used."""
    claim = Semantics("reducescatter", 2, 2)
    for name in ("i", "o"):
        gpus = []
        for r in range(2):
            own: tuple[Buffer, int] = ("i", r) if name == "i" else ("o", 0)
            steps = [step("s", ("i", 1 - r)), step("rrc", ("i", r), own)]
            gpus.append(gpu(claim, r, [block(0, 1 - r, 1 - r, steps)]))
        assert verify(draft(claim, gpus, inplace=True)).ok
    assert not verify(replace(draft(claim, gpus, inplace=True), inplace=False, outofplace=True)).data
    swapped = [GpuProgram(r, 2, 1, 0, gpus[1 - r].blocks) for r in range(2)]
    assert verify(draft(claim, swapped, inplace=True)).faults


def test_undefined_reads_without_effect_are_hazards_and_strict_errors() -> None:
    program = scratch_allreduce(2)
    spare = replace(program.gpus[0], s_chunks=3)
    spoiled = replace(program, gpus=(spare, program.gpus[1]))
    idle = block(2, -1, -1, [step("cpy", ("s", 1), ("s", 2))])
    spoiled = replace(spoiled, gpus=(replace(spare, blocks=(*spare.blocks, idle)), program.gpus[1]))
    report = verify(spoiled)
    assert report.wrong_chunks == 0
    text = "g0.tb2.step0: cpy reads g0.s[1] before anything was written there"
    assert text in report.dead[0]
    assert any(text in hazard for hazard in report.hazards)
    assert report.ok
    assert not report.strict_ok


def test_unwritten_output() -> None:
    claim = Semantics("allreduce", 1, 2)
    program = draft(claim, [gpu(claim, 0, [block(0, -1, -1, [step("cpy", ("i", 0), ("o", 0))])])])
    report = verify(program)
    assert report.wrong_chunks == 1
    assert "output chunk 1 of rank 0 is wrong: never written" in report.data[0]


def test_writing_the_input_out_of_place_is_a_warning() -> None:
    claim = Semantics("allreduce", 1, 1)
    steps = [step("cpy", ("i", 0), ("o", 0)), step("cpy", ("o", 0), ("i", 0))]
    report = verify(draft(claim, [gpu(claim, 0, [block(0, -1, -1, steps)])]))
    assert report.ok
    assert "write into an input buffer out of place" in report.warnings[0]


def chain(collective: str, root: int | None) -> Draft:
    """3 ranks: broadcast from 1 to 0 and 2, or reduce to 1."""
    claim = Semantics(collective, 3, 1, root=root)
    at: tuple[Buffer, int] = ("i", 0)
    if collective == "broadcast":
        hub = [block(0, 0, -1, [step("s", at)]), block(1, 2, -1, [step("s", at)])]
        leaf = [block(0, -1, 1, [step("r", dst=at)])]
    else:
        hub = [
            block(0, -1, 0, [step("rrc", at, at, hasdep=True)]),
            block(1, -1, 2, [step("rrc", at, at, dep=(0, 0))]),
        ]
        leaf = [block(0, 1, -1, [step("s", at)])]
    return draft(claim, [gpu(claim, 0, leaf), gpu(claim, 1, hub), gpu(claim, 2, leaf)], inplace=True)


@pytest.mark.parametrize("collective", ["broadcast", "reduce"])
def test_roots(collective: str) -> None:
    assert verify(chain(collective, 1)).ok
    assert verify(chain(collective, 0)).data
    inferred = verify(chain(collective, None))
    assert inferred.ok
    assert inferred.root == 1
    assert inferred.warnings == ("the file names no root; it fits rank 1 only",)


def test_subset_with_a_relay() -> None:
    """Ranks 0 and 2 all-reduce; rank 1 only forwards through scratch."""
    claim = Semantics("allreduce", 3, 1, members=(0, 2))
    at: tuple[Buffer, int] = ("i", 0)
    end = [block(0, 1, 1, [step("s", at), step("rrc", at, at)])]
    relay = [block(0, 2, 0, [step("rcs", dst=("s", 0))]), block(1, 0, 2, [step("rcs", dst=("s", 1))])]
    good = draft(claim, [gpu(claim, 0, end), gpu(claim, 1, relay, scratch=2), gpu(claim, 2, end)], inplace=True)
    assert verify(good).ok, verify(good).summary()
    shared = verify(edit_step(good, 1, 1, 0, lambda s: replace(s, dstoff=0)))
    assert shared.ok  # nobody reads what the two leave behind while they forward
    assert "both write g1.s[0]" in shared.dead[0]


def test_custom_is_not_checked_but_said_so() -> None:
    claim = Semantics("custom", 1, 1)
    report = verify(draft(claim, [gpu(claim, 0, [])]))
    assert report.ok
    assert report.modes == ()
    assert report.warnings == ("coll custom without semantics: data not checked",)


def test_t33_wrong_job_size_comes_first() -> None:
    report = verify(ring_allgather(8), ranks=4)
    assert report.faults == ("the program is for 8 ranks, the job has 4",)
    assert verify(ring_allgather(8), ranks=8).ok


def test_hostile_sizes_are_refused_without_work() -> None:
    claim = Semantics("allreduce", 2, (1 << 31) - 1)
    report = verify(draft(claim, [GpuProgram(r, *buffer_chunks(claim, r), 0, ()) for r in range(2)]))
    assert any("limit 32838" in fault for fault in report.limits)
    assert report.modes == ()
    assert verify(draft(Semantics("allreduce", 1 << 60, 1), [])).structure
    assert verify(draft(Semantics("allreduce", 1 << 16, 1), [])).structure


def test_mutable_parts_are_refused() -> None:
    program = ring_allgather(2)
    listed = replace(program, gpus=list(program.gpus))  # type: ignore[arg-type]
    assert verify(listed).structure == ("gpus must be a tuple of GpuProgram",)
    truthy = edit_step(program, 0, 0, 0, lambda s: replace(s, hasdep=0))  # type: ignore[arg-type]
    assert "hasdep must be bool, is 0" in verify(truthy).structure[0]
    floats = replace(program, semantics=replace(program.semantics, counts=(1.0,)))  # type: ignore[arg-type]
    assert verify(floats).structure == ("semantics: counts must be a tuple of int",)
    with pytest.raises(TypeError):
        verify("program")  # type: ignore[arg-type]


def test_report_for_people_and_programs() -> None:
    report = verify(reduce_to_all_through_rank_0(double=True))
    assert report.summary().startswith("test: allreduce for msccl, 3 ranks, 4 thread blocks, 10 steps: ")
    data = json.loads(json.dumps(report.to_dict()))
    assert data["ok"] is False
    assert data["faults"] == list(report.faults)
    assert data["format"] == "synth-verify/1"
