"""Large programs that are right, for benchmarks and for tests of scale."""

from __future__ import annotations

from dataclasses import replace

from synth.program.meaning.semantics import Semantics
from synth.program.msccl.model import Buffer, Draft, Step, ThreadBlock
from tests.program.msccl.builders import block, draft, gpu, step

Where = tuple[Buffer, int]


def ring_gather(n: int, rings: int, nops: int = 0) -> Draft:
    """All-gather in place, one ring per channel, receiving and sending in different blocks.

    Each send waits for the receive before it; ``nops`` more waits per ring, for the receive before that, fill the file.
    """
    claim = Semantics("allgather", n, n * rings)
    gpus = []
    for r in range(n):
        blocks: list[ThreadBlock] = []
        for c in range(rings):
            places: list[Where] = [("o", (r - hop) % n * rings + c) for hop in range(n)]
            receives = [step("r", at, at, hasdep=True) for at in places[1:]]
            sends = [step("s", places[0], places[0])]
            for hop in range(1, n - 1):
                if 1 < hop <= nops + 1:
                    sends.append(step("nop", dep=(2 * c, hop - 2)))
                sends.append(step("s", places[hop], places[hop], dep=(2 * c, hop - 1)))
            blocks.append(block(2 * c, -1, (r - 1) % n, receives, chan=c))
            blocks.append(block(2 * c + 1, (r + 1) % n, -1, sends, chan=c))
        gpus.append(gpu(claim, r, blocks))
    return draft(claim, gpus, inplace=True, nchannels=rings)


def parallel_rings(n: int, rings: int) -> Draft:
    """All-reduce in place, one ring per channel; each rank adds in one block and passes on in another."""
    claim = Semantics("allreduce", n, n * rings)
    gpus = []
    for r in range(n):
        blocks = []
        for c in range(rings):
            places: list[Where] = [("i", ((r - hop) % n) * rings + c) for hop in range(2 * n)]
            receives: list[Step] = []
            for hop in range(1, 2 * n - 1):
                reduces = hop < n
                at = places[hop]
                receives.append(step("rrc" if reduces else "r", at, at, hasdep=True))
            sends = [step("s", places[0])]
            sends += [step("s", places[hop], dep=(2 * c, hop - 1)) for hop in range(1, 2 * n - 2)]
            # The gathered chunk overwrites what was sent n - 1 hops ago: that send must have happened.
            for hop in range(n, 2 * n - 1):
                receives[hop - 1] = replace(receives[hop - 1], depid=2 * c + 1, deps=hop - n)
            sends = [replace(s, hasdep=True) for s in sends]
            blocks.append(block(2 * c, -1, (r - 1) % n, receives, chan=c))
            blocks.append(block(2 * c + 1, (r + 1) % n, -1, sends, chan=c))
        gpus.append(gpu(claim, r, blocks))
    return draft(claim, gpus, inplace=True, nchannels=rings)


def rings_allreduce(n: int, rings: int) -> Draft:
    """All-reduce in place, one ring per channel; that a chunk is sent before it is overwritten is proved round it."""
    claim = Semantics("allreduce", n, n * rings)
    gpus = []
    for r in range(n):
        blocks: list[ThreadBlock] = []
        for c in range(rings):
            places: list[Where] = [("i", (r - hop) % n * rings + c) for hop in range(2 * n)]
            receives = [
                step("rrc" if hop < n else "r", places[hop], places[hop], hasdep=True) for hop in range(1, 2 * n - 1)
            ]
            sends = [step("s", places[0], places[0])]
            sends += [step("s", places[hop], places[hop], dep=(2 * c, hop - 1)) for hop in range(1, 2 * n - 2)]
            blocks.append(block(2 * c, -1, (r - 1) % n, receives, chan=c))
            blocks.append(block(2 * c + 1, (r + 1) % n, -1, sends, chan=c))
        gpus.append(gpu(claim, r, blocks))
    return draft(claim, gpus, inplace=True, nchannels=rings)


def allpairs_allreduce(n: int, k: int) -> Draft:
    """All-reduce in place: everyone sends to everyone, each adds its ``k`` chunks in one block and sends them back.

    Two blocks per peer; that a chunk is sent before its sum overwrites it follows from the way over the peer only.
    """
    claim = Semantics("allreduce", n, n * k)
    channels = max(1, n // 16)
    gpus = []
    for r in range(n):
        peers = [p for p in range(n) if p != r]
        blocks = [block(0, -1, -1, _adds(r, k, len(peers)))]
        own: list[Where] = [("i", r * k + c) for c in range(k)]
        for j, p in enumerate(peers):
            theirs: list[Where] = [("i", p * k + c) for c in range(k)]
            parts: list[Where] = [("s", j * k + c) for c in range(k)]
            receives = [step("r", at, at, hasdep=c == k - 1) for c, at in enumerate(parts)]
            receives += [step("r", at, at) for at in theirs]
            blocks.append(block(len(blocks), -1, p, receives, chan=(r + p) % channels))
        for p in peers:
            theirs = [("i", p * k + c) for c in range(k)]
            sends = [step("s", at, at) for at in theirs]
            sends += [step("s", at, at, dep=(0, len(peers) * k + len(peers) - 2)) for at in own]
            blocks.append(block(len(blocks), p, -1, sends, chan=(r + p) % channels))
        gpus.append(gpu(claim, r, blocks, scratch=len(peers) * k))
    return draft(claim, gpus, inplace=True, nchannels=channels)


def _adds(r: int, k: int, peers: int) -> list[Step]:
    """Waits for all receives, then adds; two chunks in turn so that no long runs of one destination are merged."""
    steps = [step("nop", dep=(1 + j, k - 1)) for j in range(peers - 1)]
    for j in range(peers):
        for c in range(k):
            dep = (peers, k - 1) if not j and not c else (-1, -1)
            last = j == peers - 1 and c == k - 1
            steps.append(step("re", ("s", j * k + c), ("i", r * k + c), dep=dep, hasdep=last))
    return steps
