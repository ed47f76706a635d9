"""A plan as tables and text: splits, loads, and why it cannot be faster."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from synth.formulation.network import Hop
from synth.units import format_size, format_time

if TYPE_CHECKING:
    from synth.solver.plan import Plan


def splits_table(plan: Plan) -> pd.DataFrame:
    """One row per route, in plan order.

    Columns: shard (commodity number), root and dest (ranks; dest is -1 for trees), share, bytes, depth, path (GPU ids
    and link ids as text).
    """
    rows = []
    for route in plan.routes:
        item = plan.demand.commodities[route.commodity]
        rows.append(
            {
                "shard": route.commodity,
                "root": route.root,
                "dest": -1 if item.dest is None else item.dest,
                "share": route.share,
                "bytes": route.share * item.size,
                "depth": route.depth,
                "path": _path_text(plan, route.hops),
            }
        )
    return pd.DataFrame(rows, columns=["shard", "root", "dest", "share", "bytes", "depth", "path"])


def _path_text(plan: Plan, hops: tuple[Hop, ...]) -> str:
    nodes, links = plan.topology.nodes, plan.topology.links
    return "; ".join(
        f"{nodes[hop.src].id} -> {nodes[hop.dst].id} [{' '.join(links[k].id for k in hop.links)}]" for hop in hops
    )


def loads_table(plan: Plan) -> pd.DataFrame:
    """One row per resource.

    Columns: resource, kind (link kind or ``pool``), capacity_GBps, bytes, utilisation (of capacity x T), weight (its
    part of the proof: capacity x price, summing to 1).
    """
    topology, network = plan.topology, plan.network
    kinds = [link.kind for link in topology.links] + ["pool"] * len(topology.resources)
    full = network.capacity * plan.time
    used = np.divide(plan.row_bytes, full, out=np.zeros_like(full), where=full > 0)
    return pd.DataFrame(
        {
            "resource": network.row_ids,
            "kind": kinds,
            "capacity_GBps": network.capacity / 1e9,
            "bytes": plan.row_bytes,
            "utilisation": used,
            "weight": np.array(plan.prices) * network.capacity,
        }
    )


def bottlenecks_table(plan: Plan) -> pd.DataFrame:
    """The rows of :func:`loads_table` that bind and carry a price, dearest first."""
    table = loads_table(plan).set_index("resource", drop=False)
    return table.loc[list(plan.bottleneck)].reset_index(drop=True)


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
        ("routes", f"{len(plan.routes)} ({plan.method})"),
    ]
    for method, span in plan.alternatives.items():
        out.append((f"as {method}", format_time(span)))
    if plan.bottleneck:
        out.append(("cannot be faster", _why(plan)))
    return out


def _why(plan: Plan) -> str:
    names = list(plan.bottleneck)
    more = f" and {len(names) - 6} more" if len(names) > 6 else ""
    weight = sum(plan.bottlenecks["weight"])
    return f"{', '.join(names[:6])}{more} are full and carry {100 * weight:.0f} % of the proof"


def plan_summary(plan: Plan) -> str:
    """A few aligned lines for a person."""
    rows = facts(plan)
    width = max(len(label) for label, _ in rows)
    return "\n".join(f"{label:<{width}}  {text}" for label, text in rows)


def plan_html(plan: Plan) -> str:
    """The summary as an HTML table, for notebooks."""
    cells = "".join(
        f"<tr><th style='text-align:left'>{html.escape(label)}</th><td>{html.escape(text)}</td></tr>"
        for label, text in facts(plan)
    )
    return f"<table>{cells}</table>"
