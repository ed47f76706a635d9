"""Large programs verify; how fast is a matter for the benchmarks."""

from __future__ import annotations

from dataclasses import replace

from synth.program.model import Buffer, Draft, Semantics, Step
from synth.program.program import Program
from synth.program.verify import verify
from tests.program.builders import block, direct_alltoall, draft, edit_step, gpu, step


def parallel_rings(n: int, rings: int) -> Draft:
    """All-reduce in place, one ring per channel; each rank adds in one block and passes on in another."""
    claim = Semantics("allreduce", n, n * rings)
    gpus = []
    for r in range(n):
        blocks = []
        for c in range(rings):
            places: list[tuple[Buffer, int]] = [("i", ((r - hop) % n) * rings + c) for hop in range(2 * n)]
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


def test_16_ranks_with_512_blocks_and_15_thousand_steps() -> None:
    program = parallel_rings(16, 16)
    report = verify(program)
    assert report.ok, report.summary()
    assert report.blocks == 512
    assert report.steps == 15_360
    for spoil in (17, 200, 255):
        rank, rest = spoil % 16, spoil // 16
        racy = edit_step(program, rank, 2 * rest + 1, 5, lambda s: replace(s, depid=-1, deps=-1))
        assert verify(racy).races


def test_8_ranks_with_32768_chunks() -> None:
    assert Program(direct_alltoall(8, 4096)).report.ok
