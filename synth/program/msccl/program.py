"""The verified program: it cannot exist unverified."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NoReturn

from synth.errors import NotExpressibleError, VerificationError
from synth.program.meaning.report import Report
from synth.program.meaning.semantics import ROOTED, semantics_faults
from synth.program.msccl.limits.check import limit_faults
from synth.program.msccl.model import Draft
from synth.program.msccl.targets import MSCCL, Target
from synth.program.msccl.verifying.structure import type_faults
from synth.program.msccl.verifying.verify import verify


@dataclass(frozen=True)
class Program:
    """A draft that passed every check of ``verify`` for a target.

    Copies and ``dataclasses.replace`` go through the constructor, and unpickling verifies again.

    Parameters
    ----------
    draft
        What to run. It must claim a meaning: ``custom`` is refused, and broadcast and reduce must name their root.
    target
        The runtime that will run it.

    Raises
    ------
    NotExpressibleError
        When a limit of the target is broken.
    VerificationError
        When the program could hang, race, or does not compute what it claims.
    """

    draft: Draft
    target: Target = MSCCL
    report: Report = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        faults = type_faults(self.draft)
        if type(self.target) is not Target:
            faults.append("target must be a Target")
        faults = faults or [*semantics_faults(self.draft.semantics), *_claim_faults(self.draft)]
        if faults:
            raise VerificationError(faults)
        limits = limit_faults(self.draft, self.target)
        if limits:
            raise NotExpressibleError(limits)
        report = verify(self.draft, self.target)
        # What is written here has no excuse: races on dead data are refused, too.
        if not report.strict_ok:
            raise VerificationError(report.strict_faults)
        object.__setattr__(self, "report", report)

    def __init_subclass__(cls, **kwargs: Any) -> NoReturn:
        raise TypeError("Program cannot be subclassed: a subclass could skip the verification")

    def __reduce__(self) -> tuple[type[Program], tuple[Draft, Target]]:
        return Program, (self.draft, self.target)

    def __setstate__(self, state: object) -> NoReturn:
        raise TypeError("a Program is only made by its constructor")


def _claim_faults(draft: Draft) -> list[str]:
    claim = draft.semantics
    if claim.collective == "custom":
        return ["collective custom claims nothing, so there is nothing to verify"]
    if claim.collective in ROOTED and claim.root is None:
        return [f"{claim.collective} must name its root"]
    return []
