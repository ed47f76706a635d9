"""Large programs verify; how fast is a matter for the benchmarks (``benchmarks/verify.py``)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from synth.program.msccl.model import Draft
from synth.program.msccl.program import Program
from synth.program.msccl.targets import MSCCL
from synth.program.msccl.verifying.verify import verify
from tests.program.msccl.builders import direct_alltoall, edit_step
from tests.program.msccl.large import allpairs_allreduce, parallel_rings, ring_gather, rings_allreduce


def without_wait(program: Draft, rank: int, tb: int, index: int) -> Draft:
    assert program.gpus[rank].blocks[tb].steps[index].depid >= 0
    return edit_step(program, rank, tb, index, lambda s: replace(s, depid=-1, deps=-1))


def test_16_ranks_with_512_blocks_and_15_thousand_steps() -> None:
    program = parallel_rings(16, 16)
    report = verify(program)
    assert report.ok, report.summary()
    assert report.blocks == 512
    assert report.steps == 15_360
    for spoil in (17, 200, 255):
        rank, rest = spoil % 16, spoil // 16
        assert verify(without_wait(program, rank, 2 * rest + 1, 5)).races


def test_8_ranks_with_32768_chunks() -> None:
    assert Program(direct_alltoall(8, 4096)).report.ok


@pytest.mark.parametrize(
    ("program", "spot"),
    [
        (ring_gather(48, 8, 40), (47, 15, 71)),
        (rings_allreduce(40, 4), (3, 7, 60)),
        (allpairs_allreduce(40, 2), (20, 60, 2)),
    ],
    ids=["gather", "rings", "pairs"],
)
def test_tens_of_thousands_of_steps(program: Draft, spot: tuple[int, int, int]) -> None:
    """Order through waits, all the way round rings, and over the peers: each missing wait is noticed."""
    target = replace(MSCCL, max_steps_per_block=512)
    report = verify(program, target)
    assert report.ok, report.summary()
    assert report.steps > 15_000
    assert verify(without_wait(program, *spot), target).races
