"""MSCCL: thread blocks for the XML runtimes, and the verifier without which no program exists."""

from synth.program.meaning.report import Report
from synth.program.meaning.semantics import Semantics
from synth.program.msccl.lowering.lower import lower, make_draft
from synth.program.msccl.model import Draft, GpuProgram, Step, ThreadBlock
from synth.program.msccl.program import Program
from synth.program.msccl.targets import MSCCL, MSCCL_EXECUTOR, RCCL, TARGETS, Target, describe_targets, target_named
from synth.program.msccl.verifying.verify import verify

__all__ = [
    "MSCCL",
    "MSCCL_EXECUTOR",
    "RCCL",
    "TARGETS",
    "Draft",
    "GpuProgram",
    "Program",
    "Report",
    "Semantics",
    "Step",
    "Target",
    "ThreadBlock",
    "describe_targets",
    "lower",
    "make_draft",
    "target_named",
    "verify",
]
