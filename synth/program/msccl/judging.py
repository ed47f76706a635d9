"""Which calls a target gives to a draft, with what it refuses about the draft itself (see ``selection``)."""

from __future__ import annotations

from collections.abc import Sequence

from synth.program.msccl.limits.check import launch_faults, parser_faults
from synth.program.msccl.model import Draft
from synth.program.msccl.selection import Selection, selection_of
from synth.program.msccl.targets import Target

# Refusals that are told; the verification of the file tells them all.
_SHOWN = 3


def judged(draft: Draft, target: Target, ranks: int | None = None) -> Selection:
    """Judge a draft that has no structural faults.

    Parameters
    ----------
    draft, target
        What would run where.
    ranks
        Number of ranks of the job; by default that of the draft.
    """
    refused = refusals(target, parser_faults(draft, target), launch_faults(draft, target))
    if ranks not in (None, draft.semantics.ngpus):
        refused += (f"the program is for {draft.semantics.ngpus} ranks, the job has {ranks}",)
    return selection_of(draft, target, refused)


def refusals(target: Target, rejected: Sequence[str], launch: Sequence[str]) -> tuple[str, ...]:
    """What refuses a file when it is loaded, or else launched, in a few messages."""
    texts = [f"{target.name} rejects the file: {text}" for text in rejected] or list(launch)
    hidden = len(texts) - _SHOWN
    return (*texts[:_SHOWN], *([f"and {hidden} more refusals, see synth verify"] if hidden > 0 else []))
