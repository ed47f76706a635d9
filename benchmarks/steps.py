"""SCCL's cases with the step MILP: least rounds with proofs, next to the CPU seconds that z3 needs for them.

    uv run python benchmarks/steps.py [--large] [--csv FILE]

Prints one line per case: chunks, steps, rounds, status, what proves the bound, wall-clock seconds (topology read
before, plan bound included), and the CPU seconds of SCCL's own synthesizer with z3 where they are known. ``--large``
adds machines of 16 GPUs. Nothing here is asserted by a test.
"""

from __future__ import annotations

import argparse
import csv
import time
from pathlib import Path

import synth

# (machine, collective, chunks, steps, rounds asked or None, z3 seconds)
CASES: tuple[tuple[str, str, int, int | None, int | None, str], ...] = (
    ("ring:4", "allgather", 2, 2, None, "0.65 with the whole frontier"),
    ("ring:4", "alltoall", 1, 2, None, "0.68 with the whole frontier"),
    ("dgx1-v100", "allgather", 1, 2, None, ""),
    ("dgx1-v100", "allgather", 2, 2, None, ""),
    ("dgx1-v100", "allgather", 2, 2, 2, ""),
    ("dgx1-v100", "allgather", 3, 2, 4, ""),
    ("dgx1-v100", "allgather", 6, 3, None, "106 with the whole frontier"),
    ("dgx1-v100", "allgather", 6, 3, 6, ""),
    ("dgx1-v100", "alltoall", 1, None, None, "23"),
    ("dgx1-v100", "alltoall", 1, 2, 2, ""),
    ("dgx1-v100", "alltoall", 3, 2, None, "248"),
    ("dgx1-v100", "alltoall", 3, 2, 7, ""),
    ("dgx1-v100", "allreduce", 1, 4, None, "1.9"),
    ("dgx1-v100", "allreduce", 6, 6, None, ""),
    ("dgx1-v100", "reducescatter", 6, 3, None, ""),
    ("dgx1-v100", "broadcast", 8, 4, None, "79, stopped without a proof"),
)
LARGE: tuple[tuple[str, str, int, int | None, int | None, str], ...] = (
    ("torus2d:4x4", "allgather", 4, 5, None, ""),
    ("torus2d:4x4", "alltoall", 1, 4, None, ""),
    ("mesh2d:4x4", "allgather", 2, 6, None, ""),
    ("mesh2d:4x4", "alltoall", 1, 6, None, ""),
    ("mi250-16", "allgather", 1, 5, None, ""),
    ("mi250-16", "allgather", 2, 5, None, ""),
    ("mi250-16", "allgather", 2, 6, None, ""),
    ("mi250-16", "allgather", 4, 5, None, ""),
    ("mi250-16", "alltoall", 1, 5, None, ""),
    ("dgx2", "allgather", 1, 1, None, ""),
    ("cluster:box=dgx-a100,hosts=2", "allgather", 2, 2, None, ""),
    ("cluster:box=dgx-a100,hosts=2", "alltoall", 1, 1, None, ""),
)
FIELDS = ("machine", "collective", "chunks", "steps", "rounds", "status", "seconds", "z3_s", "because")


def measure(
    name: str, collective: str, chunks: int, steps: int | None, rounds: int | None, z3: str
) -> dict[str, object]:
    machine = synth.resolve(name)
    began = time.monotonic()
    try:
        found = synth.step_optimum(machine, collective, chunks=chunks, steps=steps, rounds=rounds, time_limit=300.0)
        result: tuple[object, object, str, str] = (found.steps, found.rounds, found.status, found.reason)
    except synth.InfeasibleError as error:
        result = (steps, rounds, "infeasible", error.faults[-1].removeprefix("because "))
    seconds = f"{time.monotonic() - began:.2f}"
    return dict(zip(FIELDS, (name, collective, chunks, *result[:3], seconds, z3, result[3]), strict=True))


def frontier(name: str, collective: str, max_steps: int, max_chunks: int, z3: str) -> dict[str, object]:
    machine = synth.resolve(name)
    began = time.monotonic()
    found = synth.step_frontier(machine, collective, max_steps=max_steps, max_chunks=max_chunks, time_limit=300.0)
    seconds = f"{time.monotonic() - began:.2f}"
    points = " ".join(f"({p.chunks},{p.steps},{p.rounds})" for p in found.points)
    status = "complete" if found.complete else "open"
    return dict(
        zip(
            FIELDS,
            (name, collective, max_chunks, max_steps, "", status, seconds, z3, "frontier " + points),
            strict=True,
        )
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--csv", type=Path)
    options = parser.parse_args()
    synth.step_optimum("ring:3", "allgather")  # imports and the first use of the engine are not measured
    rows = []
    for case in CASES + (LARGE if options.large else ()):
        rows.append(measure(*case))
        print("  ".join(f"{key}={value}" for key, value in rows[-1].items()), flush=True)
    for limits in (("ring:4", "allgather", 3, 4, "0.65"), ("dgx1-v100", "allgather", 3, 6, "106")):
        rows.append(frontier(*limits))
        print("  ".join(f"{key}={value}" for key, value in rows[-1].items()), flush=True)
    if options.csv is not None:
        with options.csv.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, FIELDS)
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    main()
