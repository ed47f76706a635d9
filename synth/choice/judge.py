"""The judge of every contest: what a schedule takes as the program that is written of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from synth.errors import InvalidInputError, NotExpressibleError, VerificationError
from synth.program.meaning.claims import claim_of
from synth.program.meaning.semantics import EVEN, SHARDED
from synth.program.msccl.selection import count_rule
from synth.program.runtime import AnyDraft, Runtime, XmlRuntime
from synth.schedule.chunks.cut import for_instances
from synth.schedule.model import Schedule
from synth.schedule.simulate.run import simulate_schedule
from synth.schedule.simulate.time_model import BlockCosts, TimeModel
from synth.timing.lowered import ProgramTimer, program_timer

#: Bytes of one element where nothing else is said: float32, nccl-tests' default.
ELEMENT_BYTES = 4


@dataclass(frozen=True, eq=False)
class Entry:
    """A schedule as the program of one runtime with one set of options.

    Attributes
    ----------
    name
        Of the schedule.
    schedule, runtime
        What is lowered, and how.
    costs, model
        What blocks and links cost.
    """

    name: str
    schedule: Schedule
    runtime: Runtime | None
    costs: BlockCosts
    model: TimeModel

    @cached_property
    def draft(self) -> AnyDraft | None:
        """Its program; None without a runtime, or when it cannot express it, for the reason in ``refusal``."""
        return self._drafted[0]

    @property
    def refusal(self) -> str:
        """Why the runtime cannot express it; empty when it can."""
        return self._drafted[1]

    @cached_property
    def _drafted(self) -> tuple[AnyDraft | None, str]:
        if self.runtime is None:
            return None, ""
        try:
            return self.runtime.draft(self.schedule), ""
        except NotExpressibleError as error:
            return None, error.faults[0]

    @cached_property
    def blocks(self) -> int:
        """Most thread blocks on one GPU."""
        return 0 if self.draft is None else max((len(gpu.blocks) for gpu in self.draft.gpus), default=0)

    @cached_property
    def _timer(self) -> ProgramTimer:
        if self.draft is None or self.runtime is None:
            raise NotExpressibleError(self.refusal or "a schedule alone is no program")
        return program_timer(self.runtime, self.draft, self.schedule)

    def seconds(self, size: float, costs: BlockCosts | None = None) -> float:
        """Time of the program at a size in bytes; infinite where it hangs or there is none.

        Never below the quantised time: the simulator extrapolates loop iterations.
        """
        if self.runtime is None:
            return simulate_schedule(self.schedule, size, self.model).end
        if self.draft is None:
            return float("inf")
        whole = self.schedule.quantized * size / (self.schedule.plan.demand.size_bytes or 1.0)
        try:
            return max(whole, self._timer(size, self.costs if costs is None else costs, self.model))
        except VerificationError:
            return float("inf")

    def served(self, size: float, element_bytes: int) -> bool:
        """Whether the runtime gives a call of this size to the program: its element count divides into the chunks.

        The count is what nccl-tests makes of the size: as many whole elements per rank as fit.
        """
        claim = claim_of(self.schedule)
        if not element_bytes or claim.collective not in EVEN or not isinstance(self.runtime, XmlRuntime):
            return True
        ranks = claim.ngpus if claim.collective in SHARDED else 1
        return count_rule(claim).serves(int(size) // (element_bytes * ranks))


@dataclass(frozen=True)
class Judge:
    """How entries are timed.

    Attributes
    ----------
    runtime
        Target and the options that the user gave; None to time schedules alone.
    costs
        Protocol -> what its blocks cost; the protocols that may be chosen.
    model
        Time model of links.
    element_bytes
        A file serves only calls whose element count divides into its chunks; 0 leaves that rule out.
    blocks
        Thread blocks per GPU that a program may take where there is a choice; None for the runtime's own limits.
    """

    runtime: Runtime | None
    costs: Mapping[str, BlockCosts] = field(default_factory=lambda: {"Simple": BlockCosts()})
    model: TimeModel = field(default_factory=TimeModel)
    element_bytes: int = ELEMENT_BYTES
    blocks: int | None = None

    def __post_init__(self) -> None:
        if not self.costs:
            raise InvalidInputError("no protocol is left to choose from: give constants of one that the target has")

    def entry(self, name: str, schedule: Schedule, **options: object) -> Entry:
        """A schedule as a program, with options of the lowering other than the user's; cut where instances need it."""
        if self.runtime is None:
            return Entry(name, schedule, None, BlockCosts(), self.model)
        asked = replace(self.runtime.options, **options)  # type: ignore[arg-type]
        if isinstance(self.runtime, XmlRuntime):
            schedule = for_instances(schedule, asked.instances)
        return Entry(name, schedule, self.runtime.with_options(asked), self.costs[asked.protocol], self.model)

    def fits(self, entry: Entry) -> bool:
        """Whether a program exists and takes no more blocks than it may."""
        if self.runtime is None:
            return True
        return entry.draft is not None and (self.blocks is None or entry.blocks <= self.blocks)
