"""A result as text and HTML."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

from synth.solver.tables import facts
from synth.units import format_size, format_time

if TYPE_CHECKING:
    from synth.api import Result


def result_facts(result: Result) -> list[tuple[str, str]]:
    """The plan's facts, then schedule and program, as (label, text)."""
    schedule, program = result.schedule, result.program
    draft, report = program.draft, program.report
    needs = draft.semantics.nchunks
    whole = "" if schedule.proven else " (not proven the best split)"
    return [
        *facts(result.plan),
        ("quantised", f"{format_time(schedule.quantized)}, {100 * schedule.loss:.2f} % over the plan{whole}"),
        ("simulated", f"{format_time(schedule.simulated)} with latency"),
        ("chunks", f"{schedule.chunks_per_shard} per shard of {format_size(schedule.chunk_bytes)}"),
        ("program", f"{report.blocks} thread blocks, {report.steps} steps, {draft.nchannels} channels, verified"),
        ("runs when", f"{draft.min_bytes} <= bytes < {draft.max_bytes}, elements a multiple of {needs}"),
    ]


def result_summary(result: Result) -> str:
    """Aligned lines for a person."""
    rows = result_facts(result)
    width = max(len(label) for label, _ in rows)
    return "\n".join(f"{label:<{width}}  {text}" for label, text in rows)


def result_html(result: Result) -> str:
    """The same as an HTML table, for notebooks."""
    cells = "".join(
        f"<tr><th style='text-align:left'>{html.escape(label)}</th><td>{html.escape(text)}</td></tr>"
        for label, text in result_facts(result)
    )
    return f"<table>{cells}</table>"
