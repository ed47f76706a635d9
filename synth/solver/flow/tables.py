"""A plan as tables: splits, loads, bottlenecks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from synth.formulation.flow.network import Hop

if TYPE_CHECKING:
    from synth.solver.flow.plan import Plan


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
