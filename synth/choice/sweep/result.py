"""What a sweep over message sizes found: times of all rivals, the table, and the files with their ranges."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from synth.choice.sweep.judge import Candidate, Judge
from synth.ground.arrays import Floats
from synth.ground.text import aligned
from synth.ground.units import format_size
from synth.program.msccl import Program
from synth.program.msccl.verifying.deadlocks import UNLIMITED
from synth.rivals.at_sizes import family_of
from synth.rivals.baselines.kinds import PAIRS
from synth.solver.flow import Plan

if TYPE_CHECKING:
    import pandas as pd

FORMAT = "synth-sweep/1"


@dataclass(frozen=True)
class SizeRange:
    """One file and the sizes that it is for.

    Attributes
    ----------
    name
        Its candidate: a rival, with a protocol when there are several.
    rival, chunks_per_shard
        The schedule.
    program
        Verified for all its sizes; its draft has minBytes and maxBytes.
    first, last
        Smallest and largest size in bytes that the runtime gives to it.
    swept
        Positions of the swept sizes among them: from, to (exclusive).
    excess
        Most that it takes over the fastest rival at a swept size: 0.02 is 2 %.
    """

    name: str
    rival: str
    chunks_per_shard: int
    program: Program
    first: int
    last: int
    swept: tuple[int, int]
    excess: float

    def to_dict(self) -> dict[str, Any]:
        """One entry of ``index.json``."""
        draft = self.program.draft
        return {
            "schedule": self.rival,
            "protocol": draft.proto,
            "chunks_per_shard": self.chunks_per_shard,
            "min_bytes": draft.min_bytes,
            "max_bytes": draft.max_bytes,
            "first_bytes": self.first,
            "last_bytes": self.last,
            "worst_excess": self.excess,
        }


@dataclass(frozen=True)
class Sweep:
    """Times of all rivals at all sizes, and the few files that serve them.

    Attributes
    ----------
    plan
        Certified plan, at the largest size.
    judge
        How was timed.
    candidates
        By name, in the order that decides among equals.
    sizes
        nccl-tests sizes, bytes.
    times
        Seconds, candidates x sizes.
    usable
        The same, infinite where the runtime would not take the candidate.
    bounds
        Seconds per size that nothing can beat in the model.
    tolerance
        What a merge was allowed to cost.
    ranges
        Files in order of size, without gap or overlap.
    files
        Written files by kind (see :meth:`write`).
    """

    plan: Plan
    judge: Judge
    candidates: Mapping[str, Candidate]
    sizes: tuple[int, ...]
    times: Floats = field(compare=False)
    usable: Floats = field(compare=False)
    bounds: tuple[float, ...]
    tolerance: float
    ranges: tuple[SizeRange, ...]
    files: Mapping[str, str] = field(default_factory=dict, compare=False)

    @cached_property
    def table(self) -> pd.DataFrame:
        """One row per size: the best schedule, the file's, the bound, and what a library's algorithm would take."""
        import pandas as pd  # slow to import, and the command line may not need it

        return pd.DataFrame(self.rows)

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        """The table's rows as objects."""
        return [self._row(k) for k in range(len(self.sizes))]

    def _row(self, k: int) -> dict[str, Any]:
        names = list(self.candidates)
        number, chosen = next((i, r) for i, r in enumerate(self.ranges, 1) if r.swept[0] <= k < r.swept[1])
        best, size = int(np.argmin(self.usable[:, k])), self.sizes[k]
        time = float(self.times[names.index(chosen.name), k])
        known = [row for row in self.library_rows if np.isfinite(self.times[row, k])]
        fastest = known[int(np.argmin(self.times[known, k]))] if known else None
        library = None if fastest is None else float(self.times[fastest, k])
        return {
            "size_bytes": size,
            "file": number,
            "schedule": chosen.name,
            "time_us": time * 1e6,
            "bound_us": self.bounds[k] * 1e6,
            "over_bound": time / self.bounds[k],
            "algbw_GBps": size / time / 1e9,
            "busbw_GBps": size / time / 1e9 * self.plan.demand.bus_factor,
            "best": names[best],
            "best_us": float(self.usable[best, k]) * 1e6,
            "excess": time / float(self.usable[best, k]) - 1.0,
            "library": None if fastest is None else names[fastest],
            "library_us": None if library is None else library * 1e6,
            "speedup": None if library is None else library / time,
        }

    @property
    def library_rows(self) -> list[int]:
        """Candidates that stand for what NCCL or RCCL would run: rings and trees, or all pairs at once."""
        wanted = ("direct",) if self.plan.demand.collective in PAIRS else ("ring", "rings", "double-binary-tree")
        return [k for k, c in enumerate(self.candidates.values()) if family_of(c.rival) in wanted]

    @property
    def front(self) -> list[int]:
        """Usable candidates that none beats at the smallest and at the largest size, from low latency to bandwidth."""
        ends = self.times[:, [0, -1]]
        alive = [k for k in range(len(ends)) if np.isfinite(ends[k]).all()]
        best, out = np.inf, []
        for k in sorted(alive, key=lambda k: (ends[k, 0], ends[k, 1], k)):
            if ends[k, 1] < best:
                best = ends[k, 1]
                out.append(k)
        return out

    @property
    def worst_excess(self) -> float:
        """Most that merging cost at a swept size."""
        return max(r.excess for r in self.ranges)

    def to_dict(self) -> dict[str, Any]:
        """The ``synth-sweep/1`` object of ``--json`` and ``index.json``."""
        return {
            "format": FORMAT,
            "topology": self.plan.topology.name,
            "collective": self.plan.demand.collective,
            "target": self.judge.target.name,
            "inplace": self.judge.inplace,
            "alpha_mode": self.judge.model.alpha_mode,
            "judged_by": "schedule" if None in self.judge.protocols.values() else "program",
            "rivals": len(self.candidates),
            "tolerance": self.tolerance,
            "worst_excess": self.worst_excess,
            "files": [{"file": self.file_name(k), **r.to_dict()} for k, r in enumerate(self.ranges)],
            "sizes": self.rows,
        }

    def file_name(self, k: int) -> str:
        """Name of the k-th range's file, within the folder."""
        return f"algorithms/{k + 1}-{self.ranges[k].name.replace(':', '-')}.xml"

    def summary(self) -> str:
        """A few aligned lines for a person: the files and their ranges."""
        demand, target = self.plan.demand, self.judge.target
        facts = [("sweep", f"{demand.collective} on {self.plan.topology.name} for {target.name}")]
        facts += [
            (f"file {k}", f"{r.name}: {format_size(r.first)} to {_upper(r.last)}, {100 * r.excess:.1f} % over the best")
            for k, r in enumerate(self.ranges, 1)
        ]
        if self.worst_excess > self.tolerance + 1e-9:
            text = f"{100 * self.tolerance:.1f} % was asked: more files would be needed than are allowed"
            facts.append(("merging", text))
        return aligned(facts)

    def _repr_html_(self) -> str:
        return str(self.table.to_html(index=False))

    def write(self, folder: str | Path) -> Sweep:
        """Write ``algorithms/*.xml``, ``index.json``, ``sweep.csv`` and the plots; returns a sweep with ``files``.

        Point ``MSCCL_ALGO_DIR`` at the folder ``algorithms``: runtimes load every file that lies there.

        Raises
        ------
        InvalidInputError
            When that folder holds other files, which would be loaded too.
        """
        from synth.choice.sweep.folder import write_sweep

        return write_sweep(self, Path(folder))


def _upper(size: int) -> str:
    return "any" if size >= UNLIMITED - 1 else format_size(size)
