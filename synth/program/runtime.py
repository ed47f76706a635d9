"""Targets as the whole line sees them: drafts that fit, verified programs, and the file that each runtime loads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

from synth.errors import InvalidInputError, NotExpressibleError
from synth.program.channel_paths import ChannelPaths, mscclpp_paths, xml_paths
from synth.program.fit import fit
from synth.program.meaning.lowering_options import DEFAULT, Lowering
from synth.program.meaning.report import Report
from synth.program.meaning.semantics import Semantics, is_standard
from synth.program.msccl import TARGETS, Draft, Program, Target, make_draft, target_named
from synth.program.msccl.limits.check import limit_faults
from synth.program.msccl.selection import Served, count_rule, selection_of
from synth.program.msccl.verifying.deadlocks import safe_max_bytes
from synth.program.msccl.xml.writer import checked_xml
from synth.program.mscclpp.files import checked_json
from synth.program.mscclpp.lowering.lower import make_mscclpp_draft
from synth.program.mscclpp.model import MscclppDraft, MscclppLimits
from synth.program.mscclpp.program import MscclppProgram
from synth.schedule import Schedule
from synth.solver.flow import Plan

MSCCLPP: Final = "mscclpp"
AnyDraft = Draft | MscclppDraft
AnyProgram = Program | MscclppProgram


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


class Runtime(Protocol):
    """One target with the options of its lowering."""

    @property
    def name(self) -> str:
        """Name of the target."""

    @property
    def options(self) -> Lowering:
        """How programs are made."""

    def with_options(self, options: Lowering) -> Runtime:
        """The same target with other options."""

    def draft(self, schedule: Schedule) -> AnyDraft:
        """Draft of a schedule as it is; NotExpressibleError when it does not fit into the runtime's limits."""

    def program(self, draft: Any) -> AnyProgram:
        """The verified program of a draft of this runtime."""

    def paths(self, schedule: Schedule) -> ChannelPaths:
        """Which path each channel of the schedule's program stands for."""

    def facts(self, program: Any) -> Facts:
        """Facts of a verified program of this runtime."""

    def served(self, program: Any, size_bytes: int) -> Served:
        """Whether the runtime gives a call of this size to a verified program of this runtime."""

    def file(self, program: Any) -> tuple[str, str]:
        """Name and text of the file that the runtime loads, read back and compared with the program."""


@dataclass(frozen=True)
class XmlRuntime:
    """A runtime that loads MSCCL XML."""

    target: Target
    options: Lowering = DEFAULT

    @property
    def name(self) -> str:
        """Name of the target."""
        return self.target.name

    def with_options(self, options: Lowering) -> XmlRuntime:
        """See :class:`Runtime`."""
        return replace(self, options=options)

    def draft(self, schedule: Schedule) -> Draft:
        """See :class:`Runtime`."""
        draft = make_draft(schedule, self.target, self.options)
        faults = limit_faults(draft, self.target)
        if faults:
            raise NotExpressibleError(faults)
        # Larger messages are cut into more pieces, which is where a program can start to hang.
        safe = safe_max_bytes(draft, self.target, draft.max_bytes)
        return draft if safe is None or safe >= draft.max_bytes else replace(draft, max_bytes=safe)

    def program(self, draft: Draft) -> Program:
        """See :class:`Runtime`."""
        return Program(draft, self.target)

    def paths(self, schedule: Schedule) -> ChannelPaths:
        """See :class:`Runtime`."""
        return xml_paths(schedule, self.target, self.options)

    def facts(self, program: Program) -> Facts:
        """See :class:`Runtime`."""
        draft, report = program.draft, program.report
        size = f"{report.blocks} thread blocks, {report.steps} steps, {draft.nchannels} channels"
        return Facts(self.name, report, draft.min_bytes, draft.max_bytes, size, _counts(draft.semantics))

    def served(self, program: Program, size_bytes: int) -> Served:
        """See :class:`Runtime`; elements of 4 bytes. Of an uneven collective only the range is judged."""
        rules = selection_of(program.draft, self.target)
        return rules.at(size_bytes) if is_standard(program.draft.semantics) else rules.in_range(size_bytes)

    def file(self, program: Program) -> tuple[str, str]:
        """See :class:`Runtime`."""
        return "msccl.xml", checked_xml(program)


@dataclass(frozen=True)
class MscclppRuntime:
    """The MSCCL++ executor, which loads JSON plans."""

    options: Lowering = DEFAULT
    name: str = MSCCLPP

    @property
    def limits(self) -> MscclppLimits:
        """Limits of the executor on the GPU that is asked."""
        return MscclppLimits() if self.options.sms is None else MscclppLimits(max_blocks=self.options.sms)

    def with_options(self, options: Lowering) -> MscclppRuntime:
        """See :class:`Runtime`."""
        return replace(self, options=options)

    def draft(self, schedule: Schedule) -> MscclppDraft:
        """See :class:`Runtime`; channels and protocols other than Simple are not mscclpp's."""
        asked = self.options
        if asked.max_channels is not None:
            raise InvalidInputError("mscclpp has no channels to limit: leave --max-channels out")
        if asked.pipelined:
            raise InvalidInputError("mscclpp has no loop iterations to overlap: leave pipelined out")
        if asked.protocol != "Simple":
            raise InvalidInputError(f"protocol {asked.protocol!r}: mscclpp plans are written for Simple")
        return make_mscclpp_draft(
            schedule,
            inplace=asked.inplace,
            name=asked.name,
            max_bytes=asked.max_bytes,
            instances=asked.instances,
            limits=self.limits,
        )

    def program(self, draft: MscclppDraft) -> MscclppProgram:
        """See :class:`Runtime`."""
        return MscclppProgram(draft, self.limits)

    def paths(self, schedule: Schedule) -> ChannelPaths:
        """See :class:`Runtime`."""
        return mscclpp_paths(schedule)

    def facts(self, program: MscclppProgram) -> Facts:
        """See :class:`Runtime`."""
        draft, report = program.draft, program.report
        size = f"{report.blocks} thread blocks, {report.steps} operations"
        counts = f"buffers cut into {max(gpu.output_chunks for gpu in draft.gpus)} chunks of whole 16-byte units"
        return Facts(self.name, report, draft.min_message_size, draft.max_message_size, size, counts)

    def served(self, program: MscclppProgram, size_bytes: int) -> Served:
        """See :class:`Runtime`; the executor asks for the range of sizes only."""
        low, high = program.draft.min_message_size, program.draft.max_message_size
        outside = (
            () if low <= size_bytes <= high else (f"{size_bytes} B is outside the range of the plan, {low}..{high} B",)
        )
        return Served(size_bytes, outside, outside)

    def file(self, program: MscclppProgram) -> tuple[str, str]:
        """See :class:`Runtime`."""
        return "mscclpp.json", checked_json(program)


def target_names() -> tuple[str, ...]:
    """Names of all targets."""
    return (*(target.name for target in TARGETS), MSCCLPP)


def runtime_named(name: str, options: Lowering | Mapping[str, Any] | None = None) -> Runtime:
    """Return the runtime of a target.

    Parameters
    ----------
    name
        One of :func:`target_names`.
    options
        A :class:`Lowering`, or its fields by name.

    Raises
    ------
    InvalidInputError
        On an unknown target or a misspelt option.
    """
    asked = Lowering.of(options)
    if name == MSCCLPP:
        return MscclppRuntime(asked)
    if name not in target_names():
        raise InvalidInputError(f"unknown target {name!r}: use one of {', '.join(target_names())}")
    target = target_named(name)
    return XmlRuntime(target if asked.sms is None else target.on_gpu(asked.sms), asked)


def fitted(
    runtime: Runtime, plan: Plan, chunks: int | None, max_loss: float, max_steps: int | None
) -> tuple[Schedule, AnyDraft]:
    """Schedule and draft of a plan within the runtime's limits (see :func:`synth.program.fit.fit`)."""
    return fit(plan, runtime.draft, chunks=chunks, max_loss=max_loss, max_steps=max_steps)


def _counts(claim: Semantics) -> str:
    rule = count_rule(claim)
    older = "" if rule.older == rule.multiple else f" (older runtimes: {rule.older})"
    return f"element count a multiple of {rule.multiple}{older}"
