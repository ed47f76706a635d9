"""A run of the line that stops at the plan: what it says, and its files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from synth.solver.flow.plan import Plan
from synth.solver.flow.plan_file import dump_plan
from synth.solver.flow.summary import aligned, facts

FORMAT = "synth-result/1"


@dataclass(frozen=True)
class Planned:
    """A plan as the result of a command; large clusters have no schedule that one file could hold.

    Attributes
    ----------
    plan
        The plan.
    timings
        Seconds: formulate, solve, total.
    files
        Written files by kind (see :meth:`write`).
    """

    plan: Plan
    timings: Mapping[str, float] = field(default_factory=dict, compare=False)
    files: Mapping[str, str] = field(default_factory=dict, compare=False)

    def to_dict(self) -> dict[str, Any]:
        """The ``synth-result/1`` object of ``synth solve --plan-only --json``: null where there is no schedule."""
        after = dict.fromkeys(("chunks_per_shard", "quantized_us", "simulated_us", "target", "active_bytes"))
        return result_dict(self.plan, after, self.timings, self.files)

    def summary(self) -> str:
        """A few aligned lines for a person."""
        return aligned(facts(self.plan))

    def write(self, folder: str | Path) -> Planned:
        """Write plan.json, summary.txt and the plan's plots; returns a result with ``files``."""
        from synth.export.plots.figures import plan_files
        from synth.files.writing import write_files

        contents: dict[str, tuple[str, bytes]] = {
            "plan": ("plan.json", dump_plan(self.plan).encode()),
            "summary": ("summary.txt", (self.summary() + "\n").encode()),
        }
        for name, data in plan_files(self.plan).items():
            contents[Path(name).stem] = (name, data)
        write_files(Path(folder), dict(contents.values()))
        return replace(self, files={kind: str(Path(folder) / name) for kind, (name, _) in contents.items()})


def result_dict(
    plan: Plan, after: Mapping[str, Any], timings: Mapping[str, float], files: Mapping[str, str]
) -> dict[str, Any]:
    """The ``synth-result/1`` object; ``after`` holds what comes after the plan."""
    return {
        "format": FORMAT,
        "topology": plan.topology.name,
        "collective": plan.demand.collective,
        "ranks": list(plan.demand.ranks),
        "size_bytes": plan.demand.size_bytes,
        "status": plan.status,
        "bound_us": plan.bound * 1e6,
        "plan_us": plan.time * 1e6,
        "gap": plan.gap,
        "method": plan.method,
        "alternatives_us": {name: span * 1e6 for name, span in plan.alternatives.items()},
        "bottleneck": list(plan.bottleneck),
        "routes": len(plan.routes),
        "depth": plan.depth,
        "chunks_per_shard": after["chunks_per_shard"],
        "quantized_us": after["quantized_us"],
        "simulated_us": after["simulated_us"],
        "algbw_GBps": plan.algbw / 1e9,
        "busbw_GBps": None if plan.busbw is None else plan.busbw / 1e9,
        "target": after["target"],
        "active_bytes": after["active_bytes"],
        "timings_s": dict(timings),
        "solver": {
            "engine": plan.solver.engine,
            "version": plan.solver.version,
            "iterations": plan.solver.iterations,
            "columns": plan.solver.columns,
        },
        "files": dict(files),
    }
