"""Which calls a runtime gives to a program: the rule on element counts."""

from __future__ import annotations

import math
from dataclasses import dataclass

from synth.program.meaning.semantics import SHARDED, Semantics


@dataclass(frozen=True, slots=True)
class CountRule:
    """Element counts that a program serves; others fall back to the library's own algorithm without a word.

    The count is the one of the API call: per rank for all-gather, reduce-scatter and all-to-all, else of the buffer.

    Attributes
    ----------
    multiple
        The count must be a multiple of this: (count x ranks) % nchunks == 0 for the sharded collectives (executor since
        2024-09, RCCL; ROCm/rccl#1318).
    older
        What runtimes before that fix want: count % nchunks == 0.
    """

    multiple: int
    older: int

    def serves(self, count: int) -> bool:
        """Whether a call with this count is given to the program."""
        return count > 0 and count % self.multiple == 0

    def serves_older(self, count: int) -> bool:
        """The same for runtimes that test the count alone."""
        return count > 0 and count % self.older == 0


def count_rule(claim: Semantics) -> CountRule:
    """Rule for a program of this meaning."""
    ranks = claim.ngpus if claim.collective in SHARDED else 1
    return CountRule(claim.nchunks // math.gcd(claim.nchunks, ranks), claim.nchunks)
