"""Targets as the whole line sees them: drafts that fit, verified programs, and the file that each runtime loads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from synth.errors import InvalidInputError, NotExpressibleError
from synth.program.channel_paths import ChannelPaths, mscclpp_paths, xml_paths
from synth.program.fit import fit
from synth.program.msccl import TARGETS, Draft, Program, Report, Target, make_draft, target_named
from synth.program.msccl.limits.check import limit_faults
from synth.program.msccl.model import Semantics
from synth.program.msccl.selection import count_rule
from synth.program.msccl.verifying.deadlocks import safe_max_bytes
from synth.program.mscclpp.lowering.lower import make_mscclpp_draft
from synth.program.mscclpp.model import MscclppDraft, MscclppLimits
from synth.program.mscclpp.program import MscclppProgram
from synth.schedule import Schedule
from synth.solver.flow import Plan

MSCCLPP = "mscclpp"
AnyDraft = Draft | MscclppDraft
AnyProgram = Program | MscclppProgram


def target_names() -> tuple[str, ...]:
    """Names of all targets."""
    return (*(target.name for target in TARGETS), MSCCLPP)


@dataclass(frozen=True)
class Runtime:
    """One target with the options of its lowering.

    Attributes
    ----------
    name
        One of :func:`target_names`.
    options
        See :func:`synth.program.make_draft`, and ``sms``, the blocks that the GPU can hold at once; ``mscclpp`` knows
        inplace, name, max_bytes, instances and sms.
    """

    name: str
    options: Mapping[str, Any]

    @property
    def target(self) -> Target:
        """Limits of an XML runtime, on the GPU that is asked."""
        target, sms = target_named(self.name), self.options.get("sms")
        return target if sms is None else target.on_gpu(sms)

    def fitted(
        self, plan: Plan, chunks: int | None, max_loss: float, max_steps: int | None
    ) -> tuple[Schedule, AnyDraft]:
        """Schedule and draft within the runtime's limits (see :func:`synth.program.fit`)."""
        return fit(plan, self._draft_of(), chunks=chunks, max_loss=max_loss, max_steps=max_steps)

    def draft(self, schedule: Schedule) -> AnyDraft:
        """Draft of a schedule as it is; NotExpressibleError when it does not fit into the runtime's limits."""
        return self._draft_of()(schedule)

    def _draft_of(self) -> Callable[[Schedule], AnyDraft]:
        if self.name == MSCCLPP:
            return self._mscclpp_draft
        return self._xml_draft

    def _xml_draft(self, schedule: Schedule) -> Draft:
        options = {key: value for key, value in self.options.items() if key != "sms"}
        draft = make_draft(schedule, self.target, **options)
        faults = limit_faults(draft, self.target)
        if faults:
            raise NotExpressibleError(faults)
        # Larger messages are cut into more pieces, which is where a program can start to hang.
        safe = safe_max_bytes(draft, self.target, draft.max_bytes)
        return draft if safe is None or safe >= draft.max_bytes else replace(draft, max_bytes=safe)

    def _mscclpp_draft(self, schedule: Schedule) -> MscclppDraft:
        options = {k: v for k, v in self.options.items() if k not in ("protocol", "min_bytes", "sms")}
        options["limits"] = self._mscclpp_limits
        if options.pop("max_channels", None) is not None:
            raise InvalidInputError("mscclpp has no channels to limit: leave --max-channels out")
        if self.options.get("protocol", "Simple") != "Simple":
            raise InvalidInputError(f"protocol {self.options['protocol']!r}: mscclpp plans are written for Simple")
        return make_mscclpp_draft(schedule, **options)

    @property
    def _mscclpp_limits(self) -> MscclppLimits:
        sms = self.options.get("sms")
        return MscclppLimits() if sms is None else MscclppLimits(max_blocks=sms)

    def lowered(self, schedule: Schedule) -> AnyProgram:
        """The verified program of a schedule as it is; NotExpressibleError when it breaks a limit."""
        return self.program(self._draft_of()(schedule))

    def paths(self, schedule: Schedule) -> ChannelPaths:
        """Which path each channel of the schedule's program stands for."""
        if self.name == MSCCLPP:
            return mscclpp_paths(schedule)
        return xml_paths(schedule, self.target, self.options.get("instances", 1))

    def program(self, draft: AnyDraft) -> AnyProgram:
        """The verified program of a draft."""
        if isinstance(draft, MscclppDraft):
            return MscclppProgram(draft, self._mscclpp_limits)
        return Program(draft, self.target)


@dataclass(frozen=True)
class Facts:
    """What a result says of its program, whatever the runtime.

    Attributes
    ----------
    target
        Name of the runtime.
    report
        Outcome of the verification.
    low, high
        Message sizes in bytes between which the runtime takes the file.
    size
        Blocks, steps or operations, channels, in words.
    counts
        Which element counts are served, in words.
    """

    target: str
    report: Report
    low: int
    high: int
    size: str
    counts: str


def facts_of(program: AnyProgram) -> Facts:
    """Facts of a verified program."""
    report = program.report
    if isinstance(program, MscclppProgram):
        draft = program.draft
        size = f"{report.blocks} thread blocks, {report.steps} operations"
        counts = f"buffers cut into {max(gpu.output_chunks for gpu in draft.gpus)} chunks of whole 16-byte units"
        return Facts(MSCCLPP, report, draft.min_message_size, draft.max_message_size, size, counts)
    xml = program.draft
    size = f"{report.blocks} thread blocks, {report.steps} steps, {xml.nchannels} channels"
    return Facts(program.target.name, report, xml.min_bytes, xml.max_bytes, size, _counts(xml.semantics))


def _counts(claim: Semantics) -> str:
    rule = count_rule(claim)
    older = "" if rule.older == rule.multiple else f" (older runtimes: {rule.older})"
    return f"element count a multiple of {rule.multiple}{older}"


def file_of(program: AnyProgram) -> tuple[str, str]:
    """Name and text of the file that the runtime loads, read back and compared with the program."""
    if isinstance(program, MscclppProgram):
        from synth.program.mscclpp.files import checked_json

        return "mscclpp.json", checked_json(program)
    from synth.program.msccl.xml.writer import checked_xml

    return "msccl.xml", checked_xml(program)
