"""One transfer under every policy, compared: times, bytes lost to a wrong split, the primary window."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from synth.ground.arrays import Floats
from synth.ground.text import aligned, html_table
from synth.ground.units import format_size, format_time
from synth.study.adaptive.capacity import Trace
from synth.study.adaptive.engine import Run
from synth.study.adaptive.fluid import fluid_time
from synth.study.paths import PathSet
from synth.study.sharing import best_rates

if TYPE_CHECKING:
    import pandas as pd

FORMAT = "synth-adaptive/1"
ALONE, EQUAL, STATIC, RESOLVED, ADAPTIVE = "scale-up only", "equal striping", "static LP", "re-solved LP", "adaptive"


@dataclass(frozen=True)
class Comparison:
    """One transfer under every policy.

    Attributes
    ----------
    paths
        Its paths.
    primary
        Per path, whether it belongs to the primary window.
    size, chunk
        Bytes.
    trace
        Capacities over time.
    runs
        In the order scale-up only, equal striping, static LP, re-solved LP, adaptive.
    """

    paths: PathSet
    primary: tuple[bool, ...]
    size: int
    chunk: int
    trace: Trace
    runs: tuple[Run, ...]

    def __getitem__(self, policy: str) -> Run:
        """The run of a policy by name."""
        for run in self.runs:
            if run.policy == policy:
                return run
        raise KeyError(policy)

    @cached_property
    def best(self) -> tuple[Floats, Floats]:
        """(starts, bytes/second): the LP's largest total rate of all paths from each start on."""
        totals = [float(best_rates(self.paths.uses, capacity).sum()) for capacity in self.trace.capacities]
        return np.array(self.trace.starts), np.array(totals)

    @cached_property
    def bound(self) -> float:
        """Fluid lower bound, seconds: when the integral of the largest total rate reaches the size, plus a latency.

        Bytes of one transfer may take any path at any time, so no policy whatever can move more than that integral.
        """
        return fluid_time(*self.best, self.size) + min(path.latency for path in self.paths.paths)

    def movable(self, until: float) -> float:
        """Bytes that the best split could have sent until then."""
        starts, rates = self.best
        spans = np.clip(until - starts, 0.0, np.append(np.diff(starts), np.inf))
        return float(spans @ rates)

    def lost(self, run: Run) -> float:
        """Bytes lost to a wrong split: what the best one could have sent until the run's last byte left, minus size."""
        return max(self.movable(run.sent_end) - self.size, 0.0)

    @cached_property
    def primary_lag(self) -> float:
        """Most bytes that the adaptive run's primary window was ever behind the scale-up-only run's.

        Looked at until the primary paths have nothing left to send.
        """
        mine, alone = self[ADAPTIVE], self[ALONE]
        window = np.array(self.primary)
        end = max((item.sent for item in mine.arrivals if window[item.path]), default=0.0)
        when = np.union1d(mine.times, alone.times)
        when = when[when <= end]
        gap = (alone.sent_at(when) - mine.sent_at(when))[:, window].sum(axis=1)
        return float(gap.max(initial=0.0))

    @property
    def table(self) -> pd.DataFrame:
        """One row per policy: finish_us, over_bound (relative), lost_bytes, and share of the bytes per path."""
        import pandas as pd

        rows = []
        for run in self.runs:
            shares = dict(zip(self.paths.labels, map(float, run.path_bytes / self.size), strict=True))
            facts = {"finish_us": run.finish * 1e6, "over_bound": run.finish / self.bound - 1}
            rows.append({"policy": run.policy, **facts, "lost_bytes": self.lost(run), **shares})
        return pd.DataFrame(rows).set_index("policy")

    def facts(self) -> list[tuple[str, str]]:
        """What a summary says, as (label, text)."""
        machine, names = self.paths.topology, self.paths.labels
        ends = f"{machine.gpu_name(self.paths.src)} to {machine.gpu_name(self.paths.dst)}"
        marked = (f"{name}{'*' if first else ''}" for name, first in zip(names, self.primary, strict=True))
        out = [
            ("transfer", f"{format_size(self.size)} from {ends} of {machine.name}"),
            ("chunks", format_size(self.chunk)),
            ("paths", f"{', '.join(marked)} (* primary window)"),
            ("fluid bound", format_time(self.bound)),
        ]
        for run in self.runs:
            parts = zip(names, run.path_bytes / self.size, strict=True)
            shares = ", ".join(f"{name} {100 * share:.1f} %" for name, share in parts if share)
            over, lost = run.finish / self.bound - 1, format_size(round(self.lost(run)))
            text = f"{format_time(run.finish)}, {100 * over:.2f} % over the bound, {lost} lost; {shares}"
            out.append((run.policy, text))
        behind = f"up to {format_size(round(self.primary_lag))} behind" if self.primary_lag >= 1 else "never behind"
        out.append(("primary window", f"{behind} the scale-up-only run"))
        return out

    def summary(self) -> str:
        """A few aligned lines for a person."""
        return aligned(self.facts())

    def _repr_html_(self) -> str:
        return html_table(self.facts())

    def to_dict(self) -> dict[str, Any]:
        """The ``synth-adaptive/1`` object of the CLI's ``--json``."""
        return {
            "format": FORMAT,
            "topology": self.paths.topology.name,
            "src": self.paths.src,
            "dst": self.paths.dst,
            "size_bytes": self.size,
            "chunk_bytes": self.chunk,
            "paths": [
                {
                    "name": n,
                    "kind": p.kind,
                    "links": list(p.links),
                    "primary": first,
                    "bandwidth_GBps": p.bandwidth / 1e9,
                }
                for n, p, first in zip(self.paths.labels, self.paths.paths, self.primary, strict=True)
            ],
            "bound_us": self.bound * 1e6,
            "policies": [
                {
                    "policy": run.policy,
                    "finish_us": run.finish * 1e6,
                    "lost_bytes": self.lost(run),
                    "path_bytes": dict(zip(self.paths.labels, map(int, run.path_bytes), strict=True)),
                }
                for run in self.runs
            ],
            "primary_lag_bytes": self.primary_lag,
        }
