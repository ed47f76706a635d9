"""Oracles T16 and T17, and every other limit of user report 40, each by its number."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import cast

import pytest

from synth.errors import NotExpressibleError, VerificationError
from synth.program.meaning.semantics import Semantics, buffer_chunks
from synth.program.msccl.limits.check import counts_values, limit_faults, parser_faults
from synth.program.msccl.model import Buffer, Draft, GpuProgram, Step, StepType, ThreadBlock
from synth.program.msccl.program import Program
from synth.program.msccl.targets import MSCCL
from tests.program.msccl.builders import (
    block,
    direct_alltoall,
    draft,
    edit_block,
    edit_step,
    gpu,
    ring_allgather,
    ring_allreduce,
    scratch_allreduce,
    step,
)


def one_fault(program: Draft, *words: str) -> str:
    faults = limit_faults(program, MSCCL)
    assert faults, "not refused"
    hits = [fault for fault in faults if all(word in fault for word in words)]
    assert hits, faults
    return hits[0]


def test_t16_4096_chunks_per_pair_fit() -> None:
    program = Program(direct_alltoall(8, 4096))
    assert program.report.ok
    assert program.draft.semantics.nchunks == 32768


def test_t16_4105_chunks_per_pair_do_not_fit() -> None:
    with pytest.raises(NotExpressibleError, match=r"limit 32838.*offset 32767") as caught:
        Program(direct_alltoall(8, 4105))
    assert caught.value.exit_code == 6


def test_t16_between_only_with_merged_last_steps() -> None:
    """k = 4104: the last block starts at 28728; its last start must be at most 32767 = 28728 + 4039."""
    k = 4104
    with pytest.raises(NotExpressibleError, match=r"32767 \(16-bit signed\)"):
        Program(direct_alltoall(8, k, piece=64))
    cuts = [(0, 57), *((a, 71) for a in range(57, k, 71))]
    assert cuts[-1] == (k - 71, 71)
    program = direct_alltoall(8, k)

    def cut(b: ThreadBlock) -> ThreadBlock:
        s = b.steps[0]
        return replace(b, steps=tuple(replace(s, srcoff=s.srcoff + a, dstoff=s.dstoff + a, cnt=c) for a, c in cuts))

    for rank in range(8):
        for tb in range(15):
            program = edit_block(program, rank, tb, cut)
    assert Program(program).report.ok


def test_t16_run_of_72_chunks_is_not_one_step() -> None:
    with pytest.raises(NotExpressibleError, match=r"cnt=72 is outside 1\.\.71"):
        Program(direct_alltoall(2, 72, piece=72))
    assert Program(direct_alltoall(2, 72)).report.ok


def test_t16_257_steps_in_one_block() -> None:
    with pytest.raises(NotExpressibleError, match="257 steps, limit 256"):
        Program(direct_alltoall(2, 257, piece=1))
    assert Program(direct_alltoall(2, 256, piece=1)).report.ok


def test_t16_dependency_on_block_128() -> None:
    program = edit_step(scratch_allreduce(2), 0, 0, 0, lambda s: replace(s, depid=128))
    one_fault(program, "g0.tb0.step0", "block 128", "limit 127")
    assert not any("8-bit" in f for f in limit_faults(scratch_allreduce(2), MSCCL))


@pytest.mark.parametrize(
    ("collective", "sizes"),
    [("allgather", (2, 8)), ("reducescatter", (8, 2)), ("allreduce", (8, 8)), ("alltoall", (8, 8))],
)
def test_t17_chunk_bookkeeping(collective: str, sizes: tuple[int, int]) -> None:
    claim = Semantics(collective, 4, 8)
    assert buffer_chunks(claim, 1) == sizes
    gpus = [GpuProgram(r, *sizes, 0, ()) for r in range(4)]
    good = draft(claim, gpus)
    assert limit_faults(good, MSCCL) == []
    for wrong in ((sizes[0] + 1, sizes[1]), (sizes[0], sizes[1] + 1), (sizes[1] * 2, sizes[0])):
        bad = replace(good, gpus=(*gpus[:3], replace(gpus[3], i_chunks=wrong[0], o_chunks=wrong[1])))
        assert parser_faults(bad, MSCCL), wrong
        one_fault(bad, "g3", "nchunksperloop=8")


BASE = ring_allgather(4)


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda d: replace(d, proto="simple"), ["proto 'simple'", "Simple, LL, LL128"]),
        (lambda d: replace(d, name="x" * 64), ["64 bytes", "limit 63"]),
        (lambda d: replace(d, name="&" * 13), ["65 bytes", "limit 63"]),
        (lambda d: replace(d, name="a\tb"), ["cannot be printed"]),
        (lambda d: replace(d, name="\ud800"), ["cannot be printed"]),
        (lambda d: replace(d, nchannels=33), ["nchannels=33", "1..32"]),
        (lambda d: replace(d, min_bytes=8, max_bytes=4), ["minBytes=8", "maxBytes=4"]),
        (lambda d: replace(d, min_bytes=0, max_bytes=0), ["minBytes=0", "less than maxBytes=0"]),
        (lambda d: replace(d, max_bytes=1 << 63), ["2^63"]),
        (lambda d: replace(d, outofplace=False), ["neither"]),
        (lambda d: replace(d, gpus=d.gpus[:3]), ["missing: [3]"]),
        (lambda d: replace(d, gpus=(*d.gpus[:3], d.gpus[0])), ["each once", "[0]"]),
        (lambda d: edit_block(d, 1, 1, lambda b: replace(b, id=2)), ["g1", "without gaps"]),
        (lambda d: edit_block(d, 1, 1, lambda b: replace(b, id=0)), ["g1", "duplicates"]),
        (lambda d: edit_block(d, 1, 0, lambda b: replace(b, chan=32)), ["g1.tb0", "channel 32", "< 32"]),
        (lambda d: edit_block(d, 1, 0, lambda b: replace(b, chan=-1)), ["g1.tb0", "channel -1"]),
        (lambda d: edit_block(d, 1, 0, lambda b: replace(b, chan=1)), ["g1.tb0", "channel 1", "nchannels=1"]),
        (lambda d: edit_block(d, 1, 0, lambda b: replace(b, send=4)), ["g1.tb0", "send peer 4"]),
        (lambda d: edit_block(d, 1, 0, lambda b: replace(b, recv=1)), ["g1.tb0", "recv peer 1", "itself"]),
        (lambda d: edit_block(d, 1, 0, lambda b: replace(b, send=-1)), ["g1.tb0.step0", "no send peer"]),
        (lambda d: edit_block(d, 1, 0, lambda b: replace(b, recv=-1)), ["g1.tb0.step1", "no recv peer"]),
        (lambda d: edit_step(d, 1, 0, 1, lambda s: replace(s, cnt=0)), ["g1.tb0.step1", "cnt=0", "1..71"]),
        (lambda d: edit_step(d, 1, 0, 1, lambda s: replace(s, dstoff=4)), ["g1.tb0.step1", "dstoff=4", "4 chunks"]),
        (lambda d: edit_step(d, 1, 0, 0, lambda s: replace(s, dstoff=32768)), ["dstoff=32768", "32767"]),
        (lambda d: edit_step(d, 1, 0, 0, lambda s: replace(s, type=cast(StepType, "ra"))), ["'ra'"]),
        (lambda d: edit_step(d, 1, 0, 0, lambda s: replace(s, srcbuf=cast(Buffer, "input"))), ["'input'"]),
        (lambda d: replace(d, gpus=(replace(d.gpus[0], s_chunks=-1), *d.gpus[1:])), ["s_chunks=-1"]),
        (lambda d: replace(d, gpus=(replace(d.gpus[0], s_chunks=1 << 40), *d.gpus[1:])), ["s_chunks", "limit 32838"]),
    ],
)
def test_one_message_per_limit(spoil: Callable[[Draft], Draft], words: list[str]) -> None:
    assert limit_faults(BASE, MSCCL) == []
    one_fault(spoil(BASE), *words)
    with pytest.raises((NotExpressibleError, VerificationError)):
        Program(spoil(BASE))


def test_blocks_per_gpu_and_per_channel() -> None:
    claim = Semantics("allreduce", 2, 1)
    many = [block(b, -1, -1, [step("cpy", ("i", 0), ("o", 0))]) for b in range(217)]
    one_fault(draft(claim, [gpu(claim, 0, many), gpu(claim, 1, [])]), "g0", "217 thread blocks", "limit 216")
    sends = [block(b, 1, -1, [step("s", ("i", 0))]) for b in range(33)]
    one_fault(draft(claim, [gpu(claim, 0, sends), gpu(claim, 1, [])]), "33 sending", "channel 0", "limit 32")


def test_xml_nodes_per_rank() -> None:
    """1 algo + 2 gpus + 16 blocks + 16 * 255 steps = 4099."""
    claim = Semantics("allreduce", 2, 1)
    copies = [step("cpy", ("i", 0), ("o", 0))] * 255
    blocks = [block(b, -1, -1, copies) for b in range(16)]
    one_fault(draft(claim, [gpu(claim, 0, blocks), gpu(claim, 1, [])]), "g0", "4099", "limit 4095")
    assert limit_faults(draft(claim, [gpu(claim, 0, blocks[:15]), gpu(claim, 1, [])]), MSCCL) == []


def test_too_many_gpus() -> None:
    claim = Semantics("allreduce", 1025, 1)
    one_fault(draft(claim, [gpu(claim, r, []) for r in range(1025)]), "1025", "limit 1024")


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        ([step("nop"), step("cpy", ("i", 0), ("o", 0))], ["step0", "nop without a dependency"]),
        ([step("nop", dep=(1, 0)), step("cpy", ("i", 0), ("o", 0))], ["step1", "must itself carry"]),
        ([step("cpy", ("i", 0), ("o", 0)), step("nop", dep=(1, 0))], ["step1", "end of a block"]),
        ([step("nop", dep=(1, 0), hasdep=True), step("cpy", ("i", 0), ("o", 0), dep=(1, 0))], ["step0", "hasdep"]),
        ([step("re", ("s", 0), ("o", 0))] * 17, ["step16", "more than 16 re"]),
        ([step("re", ("s", 0), ("o", 0), 2), step("re", ("s", 2), ("o", 0), 1)], ["step1", "cnt=1 differs"]),
    ],
)
def test_nop_chains_and_fusion(steps: list[Step], words: list[str]) -> None:
    claim = Semantics("allreduce", 2, 4)
    other = block(1, -1, -1, [step("cpy", ("i", 1), ("o", 1), hasdep=True)])
    program = draft(claim, [gpu(claim, 0, [block(0, -1, -1, steps), other], scratch=4), gpu(claim, 1, [])])
    one_fault(program, "g0.tb0", *words)


def test_runs_of_16_and_broken_runs_are_fine() -> None:
    claim = Semantics("allreduce", 2, 4)
    add = step("re", ("s", 0), ("o", 0))
    steps = [add] * 16 + [step("re", ("s", 0), ("o", 0), hasdep=True)] + [add] * 15
    broken = [*[add] * 15, replace(add, hasdep=True), *[add] * 16]
    assert limit_faults(draft(claim, [gpu(claim, 0, [block(0, -1, -1, broken)], 4), gpu(claim, 1, [])]), MSCCL) == []
    assert limit_faults(draft(claim, [gpu(claim, 0, [block(0, -1, -1, steps)], 4), gpu(claim, 1, [])]), MSCCL)


def test_alltoall_in_place_is_refused() -> None:
    program = replace(direct_alltoall(4), inplace=True)
    with pytest.raises(NotExpressibleError, match="alltoall cannot run in place"):
        Program(program)


def test_collectives_that_only_custom_can_carry() -> None:
    no_custom = replace(MSCCL, name="other", custom=None)
    claim = Semantics("allreduce", 3, 2, members=(0, 2))
    program = draft(claim, [gpu(claim, r, []) for r in range(3)])
    assert limit_faults(program, MSCCL) == []
    assert "other cannot run allreduce over 3 ranks" in limit_faults(program, no_custom)[0]


def test_relays_declare_no_buffers() -> None:
    claim = Semantics("allreduce", 3, 2, members=(0, 2))
    program = draft(claim, [gpu(claim, r, []) for r in range(3)])
    assert program.gpus[1].i_chunks == program.gpus[1].o_chunks == 0
    one_fault(replace(program, gpus=(program.gpus[0], replace(program.gpus[1], i_chunks=2), program.gpus[2])), "g1")


def test_counts_are_cut_into_short_values() -> None:
    values = counts_values(tuple([4096] * 64), MSCCL)
    assert all(len(value) < 254 for value in values)
    assert ",".join(values) == ",".join(["4096"] * 64)
    assert counts_values((), MSCCL) == [""]


def test_limits_come_before_verification() -> None:
    program = edit_step(replace(ring_allreduce(3), name="n" * 64), 0, 0, 0, lambda s: replace(s, srcoff=1))
    with pytest.raises(NotExpressibleError):
        Program(program)
