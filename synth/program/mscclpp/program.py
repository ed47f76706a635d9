"""The verified MSCCL++ plan: it cannot exist unverified."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NoReturn

from synth.errors import NotExpressibleError, VerificationError
from synth.program.meaning.report import Report
from synth.program.mscclpp.model import MSCCLPP_LIMITS, MscclppDraft, MscclppLimits
from synth.program.mscclpp.object import plan_object
from synth.program.mscclpp.reader import parse_plan
from synth.program.mscclpp.verifying.loader import draft_faults
from synth.program.mscclpp.verifying.verify import claim_faults, verify_mscclpp


@dataclass(frozen=True)
class MscclppProgram:
    """A plan that passed every check of :func:`~synth.program.mscclpp.verifying.verify.verify_mscclpp`.

    Copies and ``dataclasses.replace`` go through the constructor, and unpickling verifies again.

    Parameters
    ----------
    draft
        What to run. It must say what it computes (``semantics``).
    limits
        Limits of the executor and the GPU that will run it.

    Raises
    ------
    NotExpressibleError
        When the executor would refuse the plan.
    VerificationError
        When the plan could hang, race, or does not compute what it claims.
    """

    draft: MscclppDraft
    limits: MscclppLimits = MSCCLPP_LIMITS
    report: Report = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        faults = _type_faults(self.draft, self.limits)
        if faults:
            raise VerificationError(faults)
        refused = draft_faults(self.draft, self.limits)
        if refused:
            raise NotExpressibleError(refused)
        faults = _claim_faults(self.draft)
        if faults:
            raise VerificationError(faults)
        report = verify_mscclpp(self.draft, limits=self.limits)
        if not report.ok:
            raise VerificationError(report.faults)
        if not report.modes:
            raise VerificationError(report.warnings)
        object.__setattr__(self, "report", report)

    def __init_subclass__(cls, **kwargs: Any) -> NoReturn:
        raise TypeError("MscclppProgram cannot be subclassed: a subclass could skip the verification")

    def __reduce__(self) -> tuple[type[MscclppProgram], tuple[MscclppDraft, MscclppLimits]]:
        return MscclppProgram, (self.draft, self.limits)

    def __setstate__(self, state: object) -> NoReturn:
        raise TypeError("a MscclppProgram is only made by its constructor")


def _type_faults(draft: object, limits: object) -> list[str]:
    """A plan whose JSON object does not read back as itself has fields of wrong types."""
    if type(draft) is not MscclppDraft or type(limits) is not MscclppLimits:
        return ["an MscclppProgram is made of an MscclppDraft and MscclppLimits"]
    try:
        parsed, faults = parse_plan(plan_object(draft))
    except (AttributeError, TypeError, ValueError) as error:
        return [f"the draft has a field of a wrong type: {error}"]
    if parsed != draft and not faults:
        return ["the draft has a field of a wrong type: its JSON object reads back differently"]
    zero = [fault for fault in faults if "division by zero" not in fault]  # refused by the loader check, with its name
    return zero


def _claim_faults(draft: MscclppDraft) -> list[str]:
    if draft.semantics is None:
        return ["the plan does not say what it computes, so there is nothing to verify"]
    return claim_faults(draft, draft.semantics)
