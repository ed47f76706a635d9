"""Element counts of oracle T33."""

from __future__ import annotations

from synth.program.meaning.semantics import Semantics
from synth.program.msccl.selection import count_rule


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
