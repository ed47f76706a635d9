"""The plan simulator: it passes what is right, and catches every small way to spoil a plan."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from synth.errors import NotExpressibleError, VerificationError
from synth.program.meaning.semantics import Semantics
from synth.program.mscclpp.lowering import blocks as mscclpp_blocks
from synth.program.mscclpp.lowering.lower import make_mscclpp_draft
from synth.program.mscclpp.model import (
    MscclppBlock,
    MscclppChannel,
    MscclppDraft,
    MscclppGpu,
    MscclppLimits,
    MscclppOp,
    MscclppRemoteBuffer,
    Slice,
)
from synth.program.mscclpp.program import MscclppProgram
from synth.program.mscclpp.verifying.verify import guess_semantics, verify_mscclpp
from tests.program.mscclpp.test_lowering import schedule_of

BASES = {
    "ring allgather": make_mscclpp_draft(schedule_of("ring:4", "allgather", 1)),
    "ring allreduce in place": make_mscclpp_draft(schedule_of("ring:3", "allreduce", 2), inplace=True),
    "line reducescatter": make_mscclpp_draft(schedule_of("line:3", "reducescatter", 1)),
    "direct alltoall": make_mscclpp_draft(schedule_of("fullmesh:3", "alltoall", 2)),
    "ports allreduce": make_mscclpp_draft(schedule_of("cluster:box=ring:2,hosts=2", "allreduce", 1)),
    "ports allgather in place": make_mscclpp_draft(
        schedule_of("cluster:box=ring:2,hosts=2", "allgather", 1), inplace=True
    ),
}
bases = pytest.mark.parametrize("base", BASES.values(), ids=BASES.keys())
Place = tuple[int, int, int]


def edit_ops(draft: MscclppDraft, g: int, b: int, change: Callable[[list[MscclppOp]], None]) -> MscclppDraft:
    gpus, blocks = list(draft.gpus), list(draft.gpus[g].blocks)
    ops = list(blocks[b].ops)
    change(ops)
    blocks[b] = replace(blocks[b], ops=tuple(ops))
    gpus[g] = replace(gpus[g], blocks=tuple(blocks))
    return replace(draft, gpus=tuple(gpus))


def without(draft: MscclppDraft, at: Place) -> MscclppDraft:
    return edit_ops(draft, at[0], at[1], lambda ops: ops.__delitem__(at[2]))


def with_op(draft: MscclppDraft, at: Place, **changes: Any) -> MscclppDraft:
    return edit_ops(draft, at[0], at[1], lambda ops: ops.__setitem__(at[2], replace(ops[at[2]], **changes)))


def edit_gpu(draft: MscclppDraft, g: int, **changes: Any) -> MscclppDraft:
    gpus = list(draft.gpus)
    gpus[g] = replace(gpus[g], **changes)
    return replace(draft, gpus=tuple(gpus))


def places(draft: MscclppDraft) -> Iterator[tuple[Place, MscclppOp]]:
    for g, gpu in enumerate(draft.gpus):
        for b, block in enumerate(gpu.blocks):
            for k, op in enumerate(block.ops):
                yield (g, b, k), op


def caught(draft: MscclppDraft) -> bool:
    return not verify_mscclpp(draft).ok


@bases
def test_bases_are_right(base: MscclppDraft) -> None:
    report = verify_mscclpp(base)
    assert report.ok
    assert report.modes
    assert report.steps == sum(1 for _ in places(base))


@bases
def test_dropping_a_signal_a_wait_a_put_or_a_reduction_is_caught(base: MscclppDraft) -> None:
    for at, op in places(base):
        if op.name != "nop":
            assert caught(without(base, at)), (at, op.name)


@bases
def test_dropping_a_nop_between_data_and_a_signal_is_caught(base: MscclppDraft) -> None:
    for (g, b, k), op in places(base):
        around = base.gpus[g].blocks[b].ops[k - 1 : k + 2]
        if op.name == "nop" and around[0].name in ("put", "re", "copy") and around[2].name in ("signal", "put", "re"):
            assert caught(without(base, (g, b, k))), (g, b, k)


@pytest.mark.parametrize("collective", ["allgather", "alltoall", "broadcast"])
def test_without_the_ready_signals_puts_race_with_the_caller(monkeypatch: pytest.MonkeyPatch, collective: str) -> None:
    monkeypatch.setattr(mscclpp_blocks._Lane, "_ready", lambda self, rank, writer: None)
    draft = make_mscclpp_draft(schedule_of("ring:4", collective, 1))
    assert any("not ordered after the caller of rank" in race for race in verify_mscclpp(draft).races)


def test_without_acknowledgements_the_proxy_reads_too_late(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mscclpp_blocks._Lane, "_acknowledge", lambda self: None)
    draft = make_mscclpp_draft(schedule_of("cluster:box=ring:2,hosts=2", "allgather", 1))
    races = verify_mscclpp(draft).races
    assert any("the caller of rank 0 before launch 1 is not ordered after" in race for race in races)


@bases
def test_wrong_offsets_are_caught(base: MscclppDraft) -> None:
    for at, op in places(base):
        if op.name not in ("put", "re", "copy"):
            continue
        for key in ("src", "dst"):
            parts = getattr(op, key)
            known = {part.index for _, o in places(base) for part in (*o.src, *o.dst)}
            for other in sorted(known - {parts[0].index})[:3]:
                moved = (replace(parts[0], index=other), *parts[1:])
                assert caught(with_op(base, at, **{key: moved})), (at, key, other)


@bases
def test_another_peer_is_caught(base: MscclppDraft) -> None:
    n = len(base.gpus)
    for g, gpu in enumerate(base.gpus):
        for k, buffer in enumerate(gpu.remote_buffers):
            for rank in range(n):
                buffers = list(gpu.remote_buffers)
                buffers[k] = replace(buffer, rank=rank)
                assert rank == buffer.rank or caught(edit_gpu(base, g, remote_buffers=tuple(buffers)))
        for k, channel in enumerate(gpu.channels):
            for i, peer in enumerate(channel.connected_to):
                other = next(rank for rank in range(n) if rank not in (g, peer))
                channels = list(gpu.channels)
                peers = (*channel.connected_to[:i], other, *channel.connected_to[i + 1 :])
                channels[k] = replace(channel, connected_to=peers)
                assert caught(edit_gpu(base, g, channels=tuple(channels)))


def test_swapped_operations_deadlock_with_a_reason() -> None:
    base = BASES["line reducescatter"]
    found = []
    for (g, b, k), op in places(base):
        if op.name == "rlxsignal":
            swapped = edit_ops(base, g, b, lambda ops, k=k: ops.append(ops.pop(k)))  # type: ignore[misc]
            found += list(verify_mscclpp(swapped).deadlocks)
    assert found
    assert all("waits for rank" in text for text in found)


def pair_plan(*, barrier: bool = True, counts: tuple[int, int] = (2, 2)) -> MscclppDraft:
    """Two ranks exchange a chunk through scratch; block 1 copies what block 0 has waited for."""
    claim = Semantics("alltoall", 2, 2)
    gpus = []
    for r in range(2):
        ready = [MscclppOp(n, channel_type="memory", channel_ids=(0,)) for n in ("rlxsignal", "rlxwait")]
        put = MscclppOp("put", (Slice(1 - r, 1, type="i"),), (Slice(0, 1, buffer_id=0),), "memory")
        done = [MscclppOp(n, channel_type="memory", channel_ids=(0,)) for n in ("signal", "wait")]
        gate = [[MscclppOp("barrier", barrier_id=3, num_threadblocks=c)] if barrier else [] for c in counts]
        copies = [
            MscclppOp("copy", (Slice(0, 1, type="s"),), (Slice(1 - r, 1, type="o"),)),
            MscclppOp("copy", (Slice(r, 1, type="i"),), (Slice(r, 1, type="o"),)),
        ]
        nop = MscclppOp("nop")
        first = MscclppBlock(0, (("memory", (0,)),), (("memory", (0,)),), (*ready, nop, put, nop, *done, *gate[0]))
        second = MscclppBlock(1, (), (), (*gate[1], *copies))
        channels = (MscclppChannel("memory", (1 - r,)),)
        buffers = (MscclppRemoteBuffer(1 - r, "s", ("memory",)),)
        gpus.append(MscclppGpu(r, 2, 2, 1, channels, buffers, (), (first, second)))
    return MscclppDraft("pair", "alltoall", "Simple", False, tuple(gpus), semantics=claim)


def test_a_barrier_carries_data_between_blocks() -> None:
    assert verify_mscclpp(pair_plan()).ok
    races = verify_mscclpp(pair_plan(barrier=False)).races
    assert any("is not ordered after" in race and "rank 0's s" in race for race in races)


def test_barriers_for_another_number_of_blocks() -> None:
    assert "barrier 3 is for [2, 3] blocks" in verify_mscclpp(pair_plan(counts=(2, 3))).structure[0]
    one = edit_ops(pair_plan(), 0, 1, lambda ops: ops.__delitem__(0))
    assert "but 1 use it" in verify_mscclpp(one).structure[0]


def test_semaphores_carry_data_between_blocks() -> None:
    plan = pair_plan()
    for g in range(2):
        for b, name in enumerate(("sem_release", "sem_acquire")):
            at = len(plan.gpus[g].blocks[b].ops) - 1 if b == 0 else 0
            plan = with_op(plan, (g, b, at), name=name, semaphore_ids=(0,), barrier_id=None, num_threadblocks=None)
        plan = edit_gpu(plan, g, semaphores=(0,))
        plan = edit_ops(plan, g, 0, lambda ops: ops.insert(-1, MscclppOp("nop")))
        plan = edit_ops(plan, g, 1, lambda ops: ops.insert(1, MscclppOp("nop")))
    assert verify_mscclpp(plan).ok
    assert verify_mscclpp(without(plan, (0, 1, 1))).races
    assert "waits for others of its rank, and nobody" in verify_mscclpp(without(plan, (0, 0, 8))).deadlocks[0]


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda d: edit_gpu(d, 0, blocks=()), "empty grid"),
        (lambda d: edit_gpu(d, 0, blocks=d.gpus[0].blocks[::-1]), "block ids must be 0, 1"),
        (lambda d: edit_gpu(d, 0, scratch_chunks=0), "which has 0"),
        (lambda d: edit_gpu(d, 1, remote_buffers=()), "a remote buffer id that the GPU does not have"),
        (lambda d: edit_gpu(d, 1, channels=()), "a memory channel id that the GPU does not have"),
        (lambda d: edit_gpu(d, 1, channels=(MscclppChannel("memory", (7,)),)), "a rank that does not exist"),
        (lambda d: edit_gpu(d, 1, semaphores=(0,) * 17), "17 semaphores, the array holds 16"),
        (lambda d: with_op(d, (0, 0, 0), channel_ids=(0, 0)), "a channel id twice"),
        (lambda d: with_op(d, (0, 0, 0), channel_ids=(1,)), "a channel id that the block does not have"),
        (lambda d: with_op(d, (0, 0, 0), channel_ids=()), "needs channel_ids"),
        (lambda d: with_op(d, (0, 0, 3), dst=(Slice(0, 1, buffer_id=4),)), "buffer_id 4 is not among"),
        (lambda d: with_op(d, (0, 0, 3), dst=d.gpus[0].blocks[0].ops[3].dst * 2), "1 sources for 2 destinations"),
        (lambda d: with_op(d, (0, 1, 1), src=(Slice(0, 2, type="i"),)), "slices of different sizes"),
        (lambda d: with_op(d, (0, 0, 7), barrier_id=16), "barrier 16, the array holds 16"),
        (lambda d: replace(d, num_threads_per_block=2048), "num_threads_per_block 2048"),
        (lambda d: replace(d, min_message_size=1 << 31), "32-bit int"),
        (lambda d: replace(d, max_message_size=1 << 32), "offsets have 32 bits"),
    ],
)
def test_unchecked_hazards_are_named(change: Callable[[MscclppDraft], MscclppDraft], text: str) -> None:
    assert any(text in hazard for hazard in verify_mscclpp(change(pair_plan())).structure)


def test_known_defects_of_the_executor_are_named() -> None:
    port = BASES["ports allgather in place"]
    at, put = next((at, op) for at, op in places(port) if op.name == "put" and op.channel_type == "port")
    assert any("passes a pointer" in text for text in verify_mscclpp(with_op(port, at, name="pwsf")).structure)
    assert any("channel ids for" in text for text in verify_mscclpp(with_op(port, at, channel_ids=())).structure)
    flush = edit_ops(
        port, at[0], at[1], lambda ops: ops.append(MscclppOp("flush", channel_type="port", channel_ids=(0,)))
    )
    assert any("flush" in text for text in verify_mscclpp(flush).warnings)
    plan = pair_plan()
    two = (Slice(0, 1, type="i"), Slice(0, 1, type="o"))
    mixed = with_op(plan, (0, 0, 3), src=two, dst=plan.gpus[0].blocks[0].ops[3].dst * 2)
    assert any("the first one's buffer" in text for text in verify_mscclpp(mixed).structure)
    get = MscclppOp("get", (Slice(0, 1, buffer_id=0),), (Slice(1, 1, type="o"),), "memory")
    swapped = edit_ops(plan, 0, 0, lambda ops: ops.append(get))
    assert any("swaps source and destination" in text for text in verify_mscclpp(swapped).structure)
    assert put.channel_ids


def test_claims_must_fit() -> None:
    plan = pair_plan()
    assert guess_semantics(plan) == plan.semantics
    assert guess_semantics(replace(plan, collective="broadcast")) is None
    assert "must name its root" in verify_mscclpp(plan, Semantics("broadcast", 2, 2)).structure[0]
    assert "wants 4 and 4" in verify_mscclpp(plan, Semantics("alltoall", 2, 4)).structure[0]
    assert "the claim is for 3 ranks" in verify_mscclpp(plan, Semantics("allreduce", 3, 2)).structure[0]
    assert "output chunk 0 of rank 0 is wrong" in verify_mscclpp(plan, Semantics("allreduce", 2, 2)).data[0]
    unknown = verify_mscclpp(replace(plan, semantics=None, collective="mine"))
    assert unknown.ok
    assert "not known" in unknown.warnings[-1]


def test_a_program_cannot_exist_unverified() -> None:
    plan = pair_plan()
    program = MscclppProgram(plan)
    assert pickle.loads(pickle.dumps(program)) == copy.deepcopy(program) == program
    with pytest.raises(VerificationError, match="does not say what it computes"):
        MscclppProgram(replace(plan, semantics=None))
    with pytest.raises(VerificationError, match="not ordered"):
        replace(program, draft=pair_plan(barrier=False))
    with pytest.raises(NotExpressibleError, match="operations, at most 3"):
        MscclppProgram(plan, MscclppLimits(max_ops=3))
    with pytest.raises(VerificationError, match="made of an MscclppDraft"):
        MscclppProgram("plan")  # type: ignore[arg-type]
    with pytest.raises(VerificationError, match=r"plan\.name must be text"):
        MscclppProgram(replace(plan, name=3))  # type: ignore[arg-type]
    with pytest.raises(NotExpressibleError, match="input_chunks is 0"):
        MscclppProgram(edit_gpu(plan, 0, input_chunks=0))
    with pytest.raises(TypeError, match="subclassed"):
        type("Loose", (MscclppProgram,), {})
    with pytest.raises(TypeError, match="only made by its constructor"):
        program.__setstate__({})
