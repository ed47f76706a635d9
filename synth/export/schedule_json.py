"""Schedules as JSON files (``synth-schedule/1``)."""

from __future__ import annotations

import json

from synth.schedule import Schedule


def dump_schedule(schedule: Schedule) -> str:
    """A schedule as JSON text (``synth-schedule/1``): routes with chunks, and every transfer in order."""
    plan = schedule.plan
    topology = plan.topology
    rank, links = topology.rank_of, topology.links
    items = plan.demand.commodities
    out = {
        "format": "synth-schedule/1",
        "topology": topology.name,
        "collective": plan.demand.collective,
        "chunks_per_shard": schedule.chunks_per_shard,
        "chunk_bytes": schedule.chunk_bytes,
        "shards": [
            {"root": c.root, "dest": c.dest, "size_bytes": c.size, "chunks": n}
            for c, n in zip(items, schedule.shard_chunks, strict=False)
        ],
        "quantized_us": schedule.quantized * 1e6,
        "simulated_us": schedule.simulated * 1e6,
        "transfers": [
            {
                "shard": t.shard,
                "chunks": [t.first, t.first + t.count],
                "src": rank[t.src],
                "dst": rank[t.dst],
                "links": [links[k].id for k in t.links],
                "reduce": t.reduce,
                "deps": list(t.deps),
                "start_us": start * 1e6,
                "arrival_us": arrival * 1e6,
            }
            for t, start, arrival in zip(schedule.transfers, schedule.starts, schedule.arrivals, strict=True)
        ],
    }
    return json.dumps(out, ensure_ascii=False) + "\n"
