"""Element counts of oracle T33."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from synth.program.meaning.semantics import Semantics
from synth.program.msccl.judging import judged
from synth.program.msccl.selection import UNLIMITED, count_rule, selection_of
from synth.program.msccl.targets import MSCCL, MSCCL_EXECUTOR, RCCL, TARGETS, Target
from synth.program.msccl.verifying.verify import verify
from tests.program.msccl.builders import ring_allgather, ring_allreduce


def test_t33_counts() -> None:
    """All-gather, 8 ranks, 48 chunks: 6 elements per rank make 48 in all; 1000 make 8000 = 166 x 48 + 32."""
    rule = count_rule(Semantics("allgather", 8, 48))
    assert (rule.multiple, rule.older) == (6, 48)
    assert rule.serves(6)
    assert not rule.serves_older(6)
    assert not rule.serves(1000)
    assert not rule.serves_older(1000)
    assert rule.serves_older(96)


def test_buffer_counts_are_not_multiplied() -> None:
    assert count_rule(Semantics("allreduce", 8, 48)).multiple == 48
    assert not count_rule(Semantics("allreduce", 8, 48)).serves(0)


def test_ranges_by_hand() -> None:
    """The legacy runtime stops before maxBytes and takes 0 literally; the others include it, and 0 is no limit."""
    made = replace(ring_allgather(4), min_bytes=64, max_bytes=1024)
    assert selection_of(made, MSCCL).size_range == (64, 1023)
    assert selection_of(made, RCCL).size_range == (64, 1024)
    assert [selection_of(made, MSCCL).at(k).ok for k in (48, 64, 1008, 1024)] == [False, True, True, False]
    assert selection_of(made, RCCL).at(1024).ok
    open_end = replace(made, max_bytes=0)
    assert selection_of(open_end, RCCL).size_range == (64, UNLIMITED)
    assert selection_of(open_end, MSCCL).size_range is None
    assert not selection_of(open_end, MSCCL).at(64).ok


@given(
    target=st.sampled_from(TARGETS),
    name=st.sampled_from(["allgather", "reducescatter", "alltoall", "allreduce"]),
    ranks=st.integers(1, 6),
    shard=st.integers(1, 6),
    low=st.integers(0, 300),
    high=st.integers(0, 300),
    size=st.integers(0, 400),
    element=st.sampled_from([1, 2, 4, 8]),
)
def test_served_as_the_runtimes_decide(
    target: Target, name: str, ranks: int, shard: int, low: int, high: int, size: int, element: int
) -> None:
    """Second method: for every element count the runtimes' own condition, (count x multiplier) % chunks == 0."""
    chunks = ranks * shard if name != "allreduce" else shard
    made = replace(ring_allreduce(2), semantics=Semantics(name, ranks, chunks), min_bytes=low, max_bytes=high)
    multiplier = 1 if name == "allreduce" else ranks
    counts = [c for c in range(1, 401) if c * multiplier * element == size]
    wanted = any(target.serves(low, high, size) and c * multiplier % chunks == 0 for c in counts)
    rules = selection_of(made, target)
    assert rules.at(size, element).ok == wanted, rules.at(size, element)
    assert rules.at(size, element, inplace=not made.inplace).ok is False
    assert (rules.size_range is None) == (not any(target.serves(low, high, k) for k in range(1, 1000)))


def test_never_selected_is_no_deadlock() -> None:
    """A ring whose steps of 8 chunks hang when each chunk is a message: at large sizes, of which msccl selects none."""
    made = replace(ring_allgather(4, 8), max_bytes=0)
    report = verify(made, MSCCL)
    assert report.deadlocks == ()
    assert report.served_bytes is None
    assert any("so the file is never selected" in fault for fault in report.faults)
    assert not report.ok
    assert verify(made, MSCCL_EXECUTOR).deadlocks
    hopeless = ring_allreduce(2)
    swapped = replace(hopeless.gpus[0].blocks[0], steps=tuple(reversed(hopeless.gpus[0].blocks[0].steps)))
    other = replace(hopeless.gpus[1].blocks[0], steps=tuple(reversed(hopeless.gpus[1].blocks[0].steps)))
    gpus = tuple(replace(g, blocks=(b,)) for g, b in zip(hopeless.gpus, (swapped, other), strict=True))
    assert verify(replace(hopeless, gpus=gpus, max_bytes=0), MSCCL).deadlocks, "one that hangs at every size still does"


def test_refusals_come_with_the_rules() -> None:
    """RCCL does not launch fused steps; every size is unserved, for one reason."""
    rules = judged(ring_allreduce(3), RCCL)
    assert len(rules.refused) > 0
    assert "refuses" in rules.at(12).reasons[0]
    assert judged(ring_allreduce(3), MSCCL).at(12).ok
    assert "for 3 ranks, the job has 4" in judged(ring_allreduce(3), MSCCL, ranks=4).at(12).reasons[0]


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_the_report_says_what_is_served(target: Target) -> None:
    report = verify(ring_allgather(4), target)
    assert report.served_bytes == selection_of(ring_allgather(4), target).size_range
    assert report.count_multiple == 1
    assert f"selected for messages of 1..{report.served_bytes[1] if report.served_bytes else 0} B" in report.summary()
