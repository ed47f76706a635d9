"""Adaptive splitting of one transfer over several paths while capacities change, against fixed and re-solved splits.

An offline study: synth plans, it does not run anything. The two windows follow what MPCCS (EuroSys'26) says of its
runtime in public: a primary window that never starves, and a secondary one that is filled opportunistically, with the
split following the paths' bandwidth. The estimates and rules here are our own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from synth.errors import InvalidInputError
from synth.formulation.network import Floats
from synth.solver.summary import aligned, html_table
from synth.study.adaptive_engine import Policy, Run, simulate
from synth.study.adaptive_policies import Adaptive, FixedSplit, ResolvedSplit
from synth.study.capacity import Change, Trace, make_trace
from synth.study.paths import PathSet
from synth.study.sharing import best_rates
from synth.units import format_size, format_time

if TYPE_CHECKING:
    import pandas as pd

FORMAT = "synth-adaptive/1"
ALONE, EQUAL, STATIC, RESOLVED, ADAPTIVE = "scale-up only", "equal striping", "static LP", "re-solved LP", "adaptive"
#: Chunks of one transfer; more would take minutes.
MOST_CHUNKS = 100_000


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
        """Bytes lost to a wrong split: what the best split could have sent until the run's last byte left, minus size."""
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
            shares = dict(zip(self.paths.labels, map(float, run.path_bytes / max(self.size, 1)), strict=True))
            over = run.finish / self.bound - 1 if self.bound > 0 else 0.0
            rows.append(
                {
                    "policy": run.policy,
                    "finish_us": run.finish * 1e6,
                    "over_bound": over,
                    "lost_bytes": self.lost(run),
                    **shares,
                }
            )
        return pd.DataFrame(rows).set_index("policy")

    def facts(self) -> list[tuple[str, str]]:
        """What a summary says, as (label, text)."""
        machine = self.paths.topology
        ends = f"{machine.gpu_name(self.paths.src)} to {machine.gpu_name(self.paths.dst)}"
        out = [
            (
                "transfer",
                f"{format_size(self.size)} from {ends} of {machine.name}, chunks of {format_size(self.chunk)}",
            ),
            (
                "paths",
                ", ".join(f"{n}{'*' if p else ''}" for n, p in zip(self.paths.labels, self.primary, strict=True)),
            ),
            ("fluid bound", format_time(self.bound)),
        ]
        for run in self.runs:
            parts = (f"{n} {100 * b / max(self.size, 1):.1f} %" for n, b in zip(self.paths.labels, run.path_bytes))
            over = 100 * (run.finish / self.bound - 1) if self.bound > 0 else 0.0
            out.append(
                (
                    run.policy,
                    f"{format_time(run.finish)}, {over:.2f} % over the bound, {format_size(self.lost(run))} lost; "
                    + ", ".join(parts),
                )
            )
        lag = f"at most {format_size(self.primary_lag)} behind" if self.primary_lag > 1 else "never behind"
        out.append(("primary window (*)", f"{lag} the scale-up-only run"))
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


def fluid_time(starts: Floats, rates: Floats, size: float) -> float:
    """Seconds until the integral of a step function reaches ``size``; ``rates[k]`` holds from ``starts[k]`` on."""
    moved = np.concatenate([[0.0], np.cumsum(np.diff(starts) * rates[:-1])])
    step = int(np.searchsorted(moved, size, side="right")) - 1
    return float(starts[step] + (size - moved[step]) / rates[step]) if size > 0 else 0.0


def compare_splits(
    paths: PathSet,
    size: int,
    *,
    chunk: int = 2**20,
    changes: Sequence[Change] = (),
    primary: Sequence[str] | None = None,
    primary_window: int | None = None,
    secondary_window: int | None = None,
) -> Comparison:
    """Simulate one transfer under all policies.

    Parameters
    ----------
    paths
        See :func:`synth.study.find_paths`.
    size, chunk
        Bytes of the transfer and of one chunk.
    changes
        Capacities that change during the run (see :class:`Change` and :func:`drift`).
    primary
        Kinds of the primary window's paths; default: the scale-up kinds, or without any the kind of the widest path.
    primary_window, secondary_window
        Bytes that a path may have outstanding; default: two chunks and what is under way for one latency.

    Returns
    -------
    Comparison

    Raises
    ------
    InvalidInputError
        Sizes below 1, too many chunks, no primary path, unknown resources in ``changes``.
    """
    first = _primary(paths, primary)
    if size < 1 or chunk < 1 or size / chunk > MOST_CHUNKS:
        raise InvalidInputError(
            f"size {size} and chunk {chunk} must be 1 byte or more, with {MOST_CHUNKS} chunks at most"
        )
    if any(window is not None and window < 1 for window in (primary_window, secondary_window)):
        raise InvalidInputError("a window must be 1 byte or more; one chunk may always be under way")
    trace = make_trace(paths.network, changes)
    asked = [primary_window if is_first else secondary_window for is_first in first]
    windows = tuple(
        2 * chunk + int(np.ceil(path.bandwidth * path.latency)) if given is None else given
        for path, given in zip(paths.paths, asked, strict=True)
    )
    static = best_rates(paths.uses, paths.network.capacity)
    policies: list[Policy] = [
        Adaptive(ALONE, paths, first, size, chunk, secondary=False),
        FixedSplit(EQUAL, np.ones(len(first)), size, chunk),
        FixedSplit(STATIC, static, size, chunk),
        ResolvedSplit(RESOLVED, paths, size, chunk),
        Adaptive(ADAPTIVE, paths, first, size, chunk),
    ]
    runs = tuple(simulate(paths, trace, windows, policy) for policy in policies)
    return Comparison(paths, tuple(map(bool, first)), size, chunk, trace, runs)


def _primary(paths: PathSet, kinds: Sequence[str] | None) -> npt.NDArray[np.bool_]:
    """Which paths belong to the primary window."""
    if kinds is None:
        widest = max(paths.paths, key=lambda path: path.bandwidth)
        kinds = [path.kind for path in paths.paths if path.scale_up] or [widest.kind]
    found = np.array([path.kind in kinds for path in paths.paths])
    if not found.any():
        here = ", ".join(dict.fromkeys(path.kind for path in paths.paths))
        raise InvalidInputError(f"no path of the primary kinds {', '.join(kinds)}; there are {here}")
    return found
