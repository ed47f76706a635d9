"""Clusters of growing size and the picture of how long their plans take."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

ALL = ("allgather", "reducescatter", "allreduce", "alltoall")
#: GPUs to the collectives that are solved.
SCALED = {
    64: ALL,
    128: ALL,
    256: ALL,
    512: ALL,
    1024: ALL,
    2048: ("allgather", "alltoall"),
    4096: ("allgather", "alltoall"),
}


def scaled_name(gpus: int) -> str:
    """A cluster of A100 boxes with one NIC per GPU and a switch per rail."""
    return f"cluster:box=dgx-a100,hosts={gpus // 8},fabric=rail"


def plot_scaling(rows: Sequence[dict[str, object]], path: Path) -> None:
    """Seconds per plan against GPUs, both on logarithmic axes, one line per collective."""
    figure = Figure(figsize=(7, 4), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    for collective, marker in zip(ALL, "os^D", strict=True):
        chosen = [row for row in rows if row["collective"] == collective]
        seconds = [float(str(row["formulate_s"])) + float(str(row["solve_s"])) for row in chosen]
        axes.loglog([int(str(row["gpus"])) for row in chosen], seconds, marker=marker, label=collective)
    ticks = sorted({int(str(row["gpus"])) for row in rows})
    axes.set_xticks(ticks, [f"{tick:,}" for tick in ticks], minor=False)
    axes.set_xticks([], minor=True)
    axes.set_xlabel("GPUs (boxes of 8 A100, one NIC per GPU, a switch per rail)")
    axes.set_ylabel("seconds to a certified plan (gap ≤ 1e-6)")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    figure.savefig(path, metadata={"Software": None})
