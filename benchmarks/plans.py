"""Time of plans, schedules and programs, rivals in the same run, and how time grows with the machine.

    uv run python benchmarks/plans.py [INSTANCE ...] [--collectives allgather,alltoall] [--symmetry auto|off|both]
                                      [--plan-only] [--compare] [--scale PNG] [--most GPUS] [--csv FILE]

Prints one line per instance, collective and symmetry: GPUs, links, plan time and certified gap, seconds per stage, peak
memory, columns, routes, chunks, loss of whole chunks, simulated over plan time. ``--compare`` adds the plain edge-flow
LP in PuLP and the finished master on every engine that PuLP finds; ``--scale`` solves clusters of 64 GPUs and more and
draws the README's plot. Every case runs in a process of its own, so that its memory is its own. Nothing here is
asserted by a test.
"""

from __future__ import annotations

import argparse
import csv
import multiprocessing
import resource
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import synth
from benchmarks.rivals import edge_flow_seconds, engine_seconds
from benchmarks.scaling import SCALED, plot_scaling, scaled_name

INSTANCES = (
    "dgx1-v100",
    "dgx2",
    "mi250-16",
    "mesh2d:4x4",
    "torus2d:4x4",
    "torus2d:8x8",
    "torus3d:3x3x3",
    "cluster:box=dgx-a100,hosts=2",
    "cluster:box=dgx-a100,hosts=4",
    "cluster:box=dgx2,hosts=2",
    "cluster:box=ndv2,hosts=2",
    "cluster:box=mi250-16,hosts=2",
)
RIVALS = ("dgx1-v100", "torus2d:4x4", "mi250-16", "cluster:box=dgx-a100,hosts=2", "cluster:box=dgx-a100,hosts=4")
Row = dict[str, object]


def measure(name: str, collective: str, symmetry: Any, plan_only: bool, repeat: int) -> Row:
    """One line of the table; seconds are medians."""
    if plan_only:
        plans = [synth.solve(name, collective, 1e9, time_limit=600.0, symmetry=symmetry) for _ in range(repeat)]
        return plan_row(plans, symmetry)
    results = [synth.synthesize(name, collective, 1e9, time_limit=600.0, symmetry=symmetry) for _ in range(repeat)]
    schedule, plan = results[0].schedule, results[0].plan
    stages = ("schedule", "lower", "verify", "total")
    seconds = {f"{key}_s": f"{statistics.median(r.timings[key] for r in results):.2f}" for key in stages}
    realised = {
        "chunks": schedule.chunks_per_shard,
        "loss_%": f"{100 * schedule.loss:.2f}",
        "simulated/plan": f"{schedule.simulated / plan.time:.2f}",
    }
    return plan_row([r.plan for r in results], symmetry) | seconds | realised


def plan_row(plans: list[synth.Plan], symmetry: str) -> Row:
    """What there is to say of one plan, solved once or more."""
    plan = plans[0]
    return {
        "instance": plan.topology.name,
        "collective": plan.demand.collective,
        "symmetry": symmetry,
        "gpus": len(plan.topology.gpus),
        "links": len(plan.topology.links),
        "plan_us": f"{plan.time * 1e6:.2f}",
        "gap": f"{plan.gap:.0e}",
        "formulate_s": f"{statistics.median(p.timings['formulate'] for p in plans):.2f}",
        "solve_s": f"{statistics.median(p.timings['solve'] for p in plans):.2f}",
        "peak_MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "columns": plan.solver.columns,
        "routes": len(plan.routes),
        "depth": plan.depth,
    }


def compare(name: str, collective: str) -> Row:
    """Our loop with and without symmetry, the edge-flow LP, and the finished master on other engines."""
    auto, off = (synth.solve(name, collective, 1e9, time_limit=600.0, symmetry=s) for s in ("auto", "off"))
    row: Row = {"instance": name, "collective": collective}
    row |= {f"{s}_s": f"{sum(p.timings.values()):.2f}" for s, p in (("auto", auto), ("off", off))}
    row["edge_flow_s"] = edge_flow_seconds(off)
    return row | {f"master_{engine}_s": value for engine, value in engine_seconds(off).items()}


def apart(task: Callable[..., Row], *arguments: object) -> Row:
    """Run a task in a new process."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(task, arguments)


def show(row: Row) -> Row:
    print("  ".join(f"{key}={value}" for key, value in row.items()), flush=True)
    return row


def table(options: argparse.Namespace) -> list[Row]:
    ways = ("auto", "off") if options.symmetry == "both" else (options.symmetry,)
    return [
        show(apart(measure, name, collective, way, options.plan_only, options.repeat))
        for name in options.instances
        for collective in options.collectives.split(",")
        for way in ways
    ]


def scale(most: int, picture: Path) -> list[Row]:
    """Plans of clusters of A100 boxes from 64 GPUs on, and their picture."""
    rows = [
        show(apart(measure, scaled_name(gpus), collective, "auto", True, 1))
        for gpus, collectives in SCALED.items()
        if gpus <= most
        for collective in collectives
    ]
    plot_scaling(rows, picture)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("instances", nargs="*", default=INSTANCES)
    parser.add_argument("--collectives", default="allgather,alltoall,allreduce")
    parser.add_argument("--symmetry", choices=("auto", "off", "both"), default="auto")
    parser.add_argument("--plan-only", action="store_true", help="no schedule and no program")
    parser.add_argument("--repeat", type=int, default=1, help="runs per case; seconds are medians")
    parser.add_argument("--compare", action="store_true", help="rivals instead of the table")
    parser.add_argument("--scale", type=Path, metavar="PNG", help="clusters of growing size instead of the table")
    parser.add_argument("--most", type=int, default=4096, help="largest cluster of --scale, GPUs")
    parser.add_argument("--csv", type=Path)
    options = parser.parse_args()
    if options.scale:
        rows = scale(options.most, options.scale)
    elif options.compare:
        rows = [show(apart(compare, name, c)) for name in RIVALS for c in ("allgather", "alltoall")]
    else:
        rows = table(options)
    if options.csv is not None:
        with options.csv.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(dict.fromkeys(key for row in rows for key in row)))
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    main()
