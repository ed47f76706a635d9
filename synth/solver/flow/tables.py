"""A plan as tables: splits and loads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from synth.demand.model import Demand
from synth.formulation.flow.network import Hop, Network
from synth.formulation.flow.routes import Route
from synth.ground.arrays import Floats
from synth.topology.model import Topology

if TYPE_CHECKING:
    import pandas as pd


def splits_table(topology: Topology, demand: Demand, routes: Sequence[Route]) -> pd.DataFrame:
    """One row per route, in plan order.

    Columns: shard (commodity number), root and dest (ranks; dest is -1 for trees), share, bytes, depth, path (GPU ids
    and link ids as text).
    """
    import pandas as pd  # slow to import, and most runs make no table

    rows = []
    for route in routes:
        item = demand.commodities[route.commodity]
        rows.append(
            {
                "shard": route.commodity,
                "root": route.root,
                "dest": -1 if item.dest is None else item.dest,
                "share": route.share,
                "bytes": route.share * item.size,
                "depth": route.depth,
                "path": _path_text(topology, route.hops),
            }
        )
    return pd.DataFrame(rows, columns=["shard", "root", "dest", "share", "bytes", "depth", "path"])


def _path_text(topology: Topology, hops: tuple[Hop, ...]) -> str:
    nodes, links = topology.nodes, topology.links
    return "; ".join(
        f"{nodes[hop.src].id} -> {nodes[hop.dst].id} [{' '.join(links[k].id for k in hop.links)}]" for hop in hops
    )


def loads_table(network: Network, time: float, row_bytes: Floats, prices: Sequence[float]) -> pd.DataFrame:
    """One row per resource.

    Columns: resource, kind (link kind or ``pool``), capacity_GBps, bytes, utilisation (of capacity x T), weight (its
    part of the proof: capacity x price, summing to 1).
    """
    import pandas as pd  # slow to import, and most runs make no table

    topology = network.topology
    kinds = [link.kind for link in topology.links] + ["pool"] * len(topology.resources)
    full = network.capacity * time
    used = np.divide(row_bytes, full, out=np.zeros_like(full), where=full > 0)
    return pd.DataFrame(
        {
            "resource": network.row_ids,
            "kind": kinds,
            "capacity_GBps": network.capacity / 1e9,
            "bytes": row_bytes,
            "utilisation": used,
            "weight": np.array(prices) * network.capacity,
        }
    )
