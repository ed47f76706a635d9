"""Time of plans, schedules and programs on machines that other synthesizers are measured on.

    uv run python benchmarks/plans.py [INSTANCE ...] [--collectives allgather,alltoall] [--symmetry off] [--csv FILE]

Prints one line per instance and collective: GPUs, links, plan time and certified gap, seconds per stage, routes,
chunks, loss of whole chunks, simulated over plan time. Nothing here is asserted by a test.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path
from typing import Literal

import synth

INSTANCES = (
    "dgx1-v100",
    "dgx2",
    "mi250-16",
    "mesh2d:4x4",
    "torus2d:4x4",
    "torus3d:3x3x3",
    "cluster:box=dgx-a100,hosts=2",
    "cluster:box=dgx-a100,hosts=4",
)
FIELDS = (
    *("instance", "collective", "gpus", "links", "plan_us", "gap", "solve_s", "schedule_s", "verify_s", "total_s"),
    *("columns", "routes", "chunks", "loss_%", "simulated/plan"),
)


def measure(name: str, collective: str, symmetry: Literal["auto", "off"]) -> dict[str, object]:
    result = synth.synthesize(name, collective, 1e9, time_limit=600.0, symmetry=symmetry)
    plan, schedule, seconds = result.plan, result.schedule, result.timings
    return {
        "instance": name,
        "collective": collective,
        "gpus": len(plan.topology.gpus),
        "links": len(plan.topology.links),
        "plan_us": f"{plan.time * 1e6:.2f}",
        "gap": f"{plan.gap:.0e}",
        "solve_s": f"{seconds['solve']:.2f}",
        "schedule_s": f"{seconds['schedule']:.2f}",
        "verify_s": f"{seconds['verify']:.2f}",
        "total_s": f"{seconds['total']:.2f}",
        "columns": plan.solver.columns,
        "routes": len(plan.routes),
        "chunks": schedule.chunks_per_shard,
        "loss_%": f"{100 * schedule.loss:.2f}",
        "simulated/plan": f"{schedule.simulated / plan.time:.2f}",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("instances", nargs="*", default=INSTANCES)
    parser.add_argument("--collectives", default="allgather,alltoall,allreduce")
    parser.add_argument("--symmetry", choices=("auto", "off"), default="auto")
    parser.add_argument("--csv", type=Path)
    options = parser.parse_args()
    rows = []
    for name in options.instances:
        for collective in options.collectives.split(","):
            rows.append(measure(name, collective, options.symmetry))
            print("  ".join(f"{key}={value}" for key, value in rows[-1].items()), flush=True)
    if options.csv is not None:
        with options.csv.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, FIELDS)
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    main()
