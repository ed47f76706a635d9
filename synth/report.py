"""What a result says to a person."""

from __future__ import annotations

from typing import TYPE_CHECKING

from synth.program.selection import count_rule
from synth.solver.summary import facts
from synth.units import format_size, format_time

if TYPE_CHECKING:
    from synth.api import Result


def result_facts(result: Result) -> list[tuple[str, str]]:
    """The plan's facts, then schedule and program, as (label, text)."""
    schedule, program = result.schedule, result.program
    draft, report = program.draft, program.report
    rule = count_rule(draft.semantics)
    older = "" if rule.older == rule.multiple else f" (older runtimes: {rule.older})"
    whole = "" if schedule.proven else " (not proven the best split)"
    return [
        *facts(result.plan),
        ("quantised", f"{format_time(schedule.quantized)}, {100 * schedule.loss:.2f} % over the plan{whole}"),
        ("simulated", f"{format_time(schedule.simulated)} with latency"),
        ("chunks", f"{schedule.chunks_per_shard} per shard of {format_size(schedule.chunk_bytes)}"),
        ("program", f"{report.blocks} thread blocks, {report.steps} steps, {draft.nchannels} channels, verified"),
        (
            "runs when",
            f"{draft.min_bytes} <= bytes < {draft.max_bytes}, element count a multiple of {rule.multiple}{older}",
        ),
    ]
