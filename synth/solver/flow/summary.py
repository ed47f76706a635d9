"""A plan in a few lines of text or HTML, and why it cannot be faster."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import TYPE_CHECKING

from synth.ground.units import format_size, format_time

if TYPE_CHECKING:
    from synth.solver.flow.plan import Plan

Facts = Sequence[tuple[str, str]]


def facts(plan: Plan) -> list[tuple[str, str]]:
    """What a summary says, as (label, text)."""
    demand = plan.demand
    busbw = "n/a" if plan.busbw is None else f"{plan.busbw / 1e9:.2f} GB/s"
    out = [
        ("topology", f"{plan.topology.name} ({len(plan.topology.gpus)} GPUs, {len(plan.topology.links)} links)"),
        ("collective", f"{demand.collective}, {len(demand.ranks)} ranks, {format_size(demand.size_bytes)}"),
        ("status", f"{plan.status}, gap {plan.gap:.1e}"),
        ("time", f"{format_time(plan.time)} (bound {format_time(plan.bound)}), bandwidth only"),
        ("bandwidth", f"algorithm {plan.algbw / 1e9:.2f} GB/s, bus {busbw}"),
        ("routes", f"{len(plan.routes)} ({plan.method}), at most {plan.depth} hops deep"),
    ]
    out += [(f"as {method}", format_time(span)) for method, span in plan.alternatives.items()]
    if plan.bottleneck:
        out.append(("cannot be faster", _why(plan)))
    return out


def _why(plan: Plan) -> str:
    names = plan.bottleneck
    more = f" and {len(names) - 6} more" if len(names) > 6 else ""
    index = {row: k for k, row in enumerate(plan.network.row_ids)}
    weight = sum(plan.prices[index[name]] * float(plan.network.capacity[index[name]]) for name in names)
    return f"{', '.join(names[:6])}{more} are full and carry {100 * weight:.0f} % of the proof"


def aligned(rows: Facts) -> str:
    """Facts as aligned lines."""
    width = max(len(label) for label, _ in rows)
    return "\n".join(f"{label:<{width}}  {text}" for label, text in rows)


def html_table(rows: Facts) -> str:
    """Facts as an HTML table, for notebooks."""
    cells = "".join(
        f"<tr><th style='text-align:left'>{html.escape(label)}</th><td>{html.escape(text)}</td></tr>"
        for label, text in rows
    )
    return f"<table>{cells}</table>"
