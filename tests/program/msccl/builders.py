"""Small good programs, written by hand, and ways to spoil them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from synth.program.meaning.semantics import Semantics, buffer_chunks
from synth.program.msccl.model import Buffer, Draft, GpuProgram, Step, StepType, ThreadBlock
from tests import places

DATA = places.SHARED
MIB = 1 << 20
_RRS: tuple[StepType, ...] = ("rrs",)
_RCS: tuple[StepType, ...] = ("rcs",)


def step(
    kind: StepType,
    src: tuple[Buffer, int] = ("i", -1),
    dst: tuple[Buffer, int] = ("o", -1),
    cnt: int = 1,
    dep: tuple[int, int] = (-1, -1),
    hasdep: bool = False,
) -> Step:
    return Step(kind, src[0], src[1], dst[0], dst[1], cnt, dep[0], dep[1], hasdep)


def block(index: int, send: int, recv: int, steps: Sequence[Step], chan: int = 0) -> ThreadBlock:
    return ThreadBlock(index, send, recv, chan, tuple(steps))


def gpu(claim: Semantics, rank: int, blocks: Sequence[ThreadBlock], scratch: int = 0) -> GpuProgram:
    return GpuProgram(rank, *buffer_chunks(claim, rank), scratch, tuple(blocks))


def draft(
    claim: Semantics,
    gpus: Sequence[GpuProgram],
    *,
    inplace: bool = False,
    nchannels: int = 1,
    proto: str = "Simple",
    max_bytes: int = MIB,
) -> Draft:
    return Draft("test", claim, nchannels, proto, inplace, not inplace, 0, max_bytes, tuple(gpus))


def ring_allgather(n: int, shard: int = 1, *, inplace: bool = False) -> Draft:
    """One block per rank around the ring; out of place another block copies the own shard, and signals."""
    claim = Semantics("allgather", n, n * shard)
    gpus = []
    for r in range(n):
        own: tuple[Buffer, int] = ("o", r * shard) if inplace else ("i", 0)
        steps = [step("s", own, ("o", r * shard), shard)]
        for hop in range(1, n - 1):
            at: tuple[Buffer, int] = ("o", (r - hop) % n * shard)
            steps.append(step("rcs", at, at, shard))
        last: tuple[Buffer, int] = ("o", (r + 1) % n * shard)
        steps.append(step("r", last, last, shard))
        blocks = [block(0, (r + 1) % n, (r - 1) % n, steps)]
        if not inplace:
            blocks.append(block(1, -1, -1, [step("cpy", ("i", 0), ("o", r * shard), shard)]))
        gpus.append(gpu(claim, r, blocks))
    return draft(claim, gpus, inplace=inplace)


def ring_allreduce(n: int, shard: int = 1) -> Draft:
    """In place in ``i``; fused steps only."""
    claim = Semantics("allreduce", n, n * shard)
    gpus = []
    for r in range(n):
        kinds: list[StepType] = ["s", *(_RRS * (n - 2)), "rrcs", *(_RCS * (n - 2)), "r"]
        steps = []
        for hop, kind in enumerate(kinds):
            at: tuple[Buffer, int] = ("i", (r - hop) % n * shard)
            steps.append(step(kind, at, at, shard))
        gpus.append(gpu(claim, r, [block(0, (r + 1) % n, (r - 1) % n, steps)]))
    return draft(claim, gpus, inplace=True)


def scratch_allreduce(n: int) -> Draft:
    """One chunk, in place: everyone sends to everyone into scratch; block 0 waits for all receivers and adds.

    Block ``1 + j`` serves peer j (in rank order without the own rank): it sends the input and receives into scratch.
    Block 0 must not add into ``i`` before all sends have read it, so each such block signals after both.
    """
    claim = Semantics("allreduce", n, 1)
    gpus = []
    for r in range(n):
        peers = [p for p in range(n) if p != r]
        adds = [step("nop", dep=(1 + j, 1)) for j in range(len(peers) - 1)]
        for j in range(len(peers)):
            dep = (len(peers), 1) if j == 0 else (-1, -1)
            adds.append(step("re", ("s", j), ("i", 0), dep=dep))
        blocks = [block(0, -1, -1, adds)]
        for j, p in enumerate(peers):
            steps = [step("s", ("i", 0), ("s", 0)), step("r", ("s", j), ("s", j), hasdep=True)]
            blocks.append(block(1 + j, p, p, steps))
        gpus.append(gpu(claim, r, blocks, scratch=len(peers)))
    return draft(claim, gpus, inplace=True)


def direct_alltoall(n: int, k: int = 1, piece: int = 71) -> Draft:
    """One sending and one receiving block per peer, and a block that copies the diagonal."""
    claim = Semantics("alltoall", n, n * k)
    cuts = [(at, min(piece, k - at)) for at in range(0, k, piece)]
    gpus = []
    for r in range(n):
        blocks = [block(0, -1, -1, [step("cpy", ("i", r * k + a), ("o", r * k + a), c) for a, c in cuts])]
        for p in (p for p in range(n) if p != r):
            sends = [step("s", ("i", p * k + a), ("o", r * k + a), c) for a, c in cuts]
            receives = [step("r", ("o", p * k + a), ("o", p * k + a), c) for a, c in cuts]
            blocks.append(block(len(blocks), p, -1, sends))
            blocks.append(block(len(blocks), -1, p, receives))
        gpus.append(gpu(claim, r, blocks))
    return draft(claim, gpus)


def pair(first: Sequence[Step], second: Sequence[Step], claim: Semantics | None = None) -> Draft:
    """Two GPUs, one block each, peers of each other."""
    claim = claim or Semantics("custom", 2, 16)
    gpus = [
        GpuProgram(rank, claim.nchunks, claim.nchunks, 16, (block(0, 1 - rank, 1 - rank, steps),))
        for rank, steps in enumerate((first, second))
    ]
    return draft(claim, gpus)


def edit_block(program: Draft, rank: int, tb: int, change: Callable[[ThreadBlock], ThreadBlock]) -> Draft:
    """Replace one thread block; positions, not ids."""
    gpus = list(program.gpus)
    blocks = list(gpus[rank].blocks)
    blocks[tb] = change(blocks[tb])
    gpus[rank] = replace(gpus[rank], blocks=tuple(blocks))
    return replace(program, gpus=tuple(gpus))


def edit_step(program: Draft, rank: int, tb: int, index: int, change: Callable[[Step], Step]) -> Draft:
    """Replace one step."""

    def changed(b: ThreadBlock) -> ThreadBlock:
        steps = list(b.steps)
        steps[index] = change(steps[index])
        return replace(b, steps=tuple(steps))

    return edit_block(program, rank, tb, changed)


def without_step(program: Draft, rank: int, tb: int, index: int) -> Draft:
    return edit_block(program, rank, tb, lambda b: replace(b, steps=b.steps[:index] + b.steps[index + 1 :]))
