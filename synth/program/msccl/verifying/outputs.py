"""Whether every rank ends with what the collective promises."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce

import numpy as np

from synth.program.meaning.semantics import Semantics, Tokens, expected_output, member_ranks
from synth.program.msccl.verifying.contents import UNDEFINED, Contents, describe_difference
from synth.program.msccl.verifying.image import Image


class _Expected:
    """What each rank must hold; a sum that all ranks share is made once."""

    def __init__(self, contents: Contents, claim: Semantics) -> None:
        self.contents, self.claim = contents, claim
        self.shared: Tokens | None = None

    def at(self, rank: int) -> Tokens | None:
        """Contents of the output buffer from offset 0, or None when they do not matter."""
        if self.claim.collective == "allreduce":
            if rank not in member_ranks(self.claim):
                return None
            if self.shared is None:
                self.shared = self.sum(expected_output(self.claim, rank))
            return self.shared
        terms = expected_output(self.claim, rank)
        return self.sum(terms) if terms else None

    def sum(self, terms: tuple[Tokens, ...]) -> Tokens:
        return reduce(self.contents.sets.add, terms)


def data_faults(image: Image, claim: Semantics, contents: Contents) -> tuple[int, list[str]]:
    """Count of wrong output chunks, and the first ones of each rank in words."""
    wrong, faults = 0, []
    expected = _Expected(contents, claim)
    for rank in range(len(image.layouts)):
        want = expected.at(rank)
        if want is None:
            continue
        have = _output(image, contents, rank, len(want))
        bad = np.flatnonzero(want != have)
        wrong += bad.size
        for k in bad[:2].tolist():
            text = describe_difference(contents.sets, int(want[k]), int(have[k]), claim.nchunks)
            more = f" (and {bad.size - 2} more chunks of this rank)" if k == bad[:2][-1] and bad.size > 2 else ""
            faults.append(f"output chunk {k} of rank {rank} is wrong: {text}{more}")
    return int(wrong), faults


def infer_root(image: Image, claim: Semantics, contents: Contents) -> int:
    """Root whose outputs agree best with what the program computes from everyone's inputs."""
    scores = []
    for root in range(claim.ngpus):
        candidate = replace(claim, root=root)
        expected = _Expected(contents, candidate)
        score = 0
        for rank in range(len(image.layouts)):
            want = expected.at(rank)
            if want is not None:
                have = _output(image, contents, rank, len(want))
                score += int(np.count_nonzero((want == have) & (have != UNDEFINED)))
        scores.append(score)
    return scores.index(max(scores))


def _output(image: Image, contents: Contents, rank: int, length: int) -> Tokens:
    at = image.layouts[rank].o
    return np.array(contents.memory[rank][at : at + length], dtype=np.int64)
