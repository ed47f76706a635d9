"""What a result says to a person."""

from __future__ import annotations

from typing import TYPE_CHECKING

from synth.ground.units import format_size, format_time
from synth.program.runtime import facts_of
from synth.solver.flow.summary import facts as plan_facts

if TYPE_CHECKING:
    from synth.line.api import Result


def result_facts(result: Result) -> list[tuple[str, str]]:
    """The plan's facts, then schedule and program, as (label, text)."""
    schedule, facts = result.schedule, facts_of(result.program)
    whole = "" if schedule.proven else " (not proven the best split)"
    return [
        *plan_facts(result.plan),
        ("quantised", f"{format_time(schedule.quantized)}, {100 * schedule.loss:.2f} % over the plan{whole}"),
        ("simulated", f"{format_time(schedule.simulated)} with latency"),
        ("chunks", f"{schedule.chunks_per_shard} per shard of {format_size(schedule.chunk_bytes)}"),
        ("program", f"for {facts.target}: {facts.size}, verified"),
        ("runs when", f"message of {facts.low} to {facts.high} bytes, {facts.counts}"),
    ]
