"""Every message size: the best schedule per size among rivals, merged into a few files with size ranges."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from synth.api import as_topology, solve
from synth.demand import make_demand
from synth.errors import InvalidInputError, NotExpressibleError
from synth.formulation.network import Floats
from synth.program import Program, target_named
from synth.program.deadlocks import UNLIMITED
from synth.schedule import BlockCosts, TimeModel
from synth.schedule.baseline_kinds import PAIRS
from synth.schedule.ranges import Segment, choose, crossover
from synth.schedule.rivals import RIVALS, Instance, Maker, family_of, rivals
from synth.solver import Plan
from synth.solver.summary import aligned
from synth.sweep_judge import Candidate, Judge, sweep_sizes, times_of
from synth.topology import Topology
from synth.units import format_size

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
        from synth.export.sweep_folder import write_sweep

        return write_sweep(self, Path(folder))


def _upper(size: int) -> str:
    return "any" if size >= UNLIMITED - 1 else format_size(size)


def sweep(
    topology: Topology | str,
    collective: str,
    sizes: str | Iterable[int] = "1KiB:4GiB",
    *,
    target: str = "msccl",
    points_per_octave: int = 1,
    most_files: int = 4,
    tolerance: float = 0.02,
    model: TimeModel | None = None,
    costs: Mapping[str, BlockCosts] | None = None,
    protocol: str = "Simple",
    inplace: bool = False,
    element_bytes: int = 4,
    ranks: Sequence[int] | None = None,
    root: int | None = None,
    makers: Sequence[Maker] = RIVALS,
    progress: Callable[[str], None] | None = None,
    **options: Any,
) -> Sweep:
    """Best schedule per message size, merged into few files with size ranges.

    Parameters
    ----------
    topology, collective, ranks, root
        Instance, as for :func:`synth.solve`, which also takes ``options``.
    sizes, points_per_octave
        ``"1KiB:4GiB"``, a list, or numbers of bytes (see :func:`synth.sweep_judge.sweep_sizes`).
    target, inplace
        Runtime (msccl, msccl-executor or rccl) and kind of call.
    most_files
        Most files; never more than the runtime loads.
    tolerance
        What a file may cost over the fastest rival at any swept size (0.02 is 2 %). Where so few files cannot keep
        it, the largest cost is made as small as it can be.
    model
        Time model; default: the topology's numbers.
    costs
        Costs of thread blocks per protocol (``synth calibrate``): programs are timed instead of schedules (of those
        that promise most as schedules), and the protocol is chosen per size too.
    protocol
        Without ``costs``: protocol of the files.
    element_bytes
        Runtimes give a call to a file only when its element count divides into the file's chunks; 0 leaves that out.
    makers
        Who makes the schedules.

    Returns
    -------
    Sweep

    Raises
    ------
    NotExpressibleError
        When the runtime can load no rival for some size.

    Examples
    --------
    >>> import synth
    >>> found = synth.sweep("ring:4", "allgather", "1KiB:1GiB")
    >>> found.ranges[0].first, len(found.table)
    (0, 21)
    """
    machine, runtime = as_topology(topology), target_named(target)
    known = {protocol: None} if costs is None else {n: c for n, c in costs.items() if runtime.protocol(n)}
    judge = Judge(runtime, inplace, model or TimeModel(), known)
    if most_files < 1 or not 0 <= tolerance < np.inf or element_bytes < 0:
        raise InvalidInputError(
            f"files {most_files!r}, tolerance {tolerance!r} and element bytes {element_bytes!r}: at least 1, 0 and 0"
        )
    members = len(machine.gpus) if ranks is None else len(ranks)
    points = sweep_sizes(sizes, points_per_octave, max(1, element_bytes) * members)
    report = progress or (lambda text: None)
    report("solving the linear program")
    plan = solve(machine, make_demand(machine, collective, points[-1], ranks=ranks, root=root), **options)
    report("making rivals")
    # In between, where latency and bandwidth both count, and at the end, where bandwidth alone does.
    anchors = (float(np.sqrt(float(points[0]) * points[-1])), float(points[-1]))
    made = rivals(Instance(plan, tuple(dict.fromkeys(anchors))), makers)
    candidates = judge.candidates(judge.promising(made, points))
    times = times_of(candidates.values(), points, report)
    report("lowering and verifying")
    segments, usable = _fitting(
        list(candidates.values()), times, points, tolerance, min(most_files, runtime.max_algorithms), element_bytes
    )
    bounds = tuple(judge.bound(plan, size) for size in points)
    ranges = tuple(_ranges(candidates, segments, points))
    return Sweep(plan, judge, candidates, points, times, usable, bounds, tolerance, ranges)


def _fitting(
    candidates: Sequence[Candidate],
    times: Floats,
    sizes: Sequence[int],
    tolerance: float,
    most: int,
    element_bytes: int,
) -> tuple[list[Segment], Floats]:
    """Segments of candidates that fit the runtime; only those that are fastest or chosen are looked at."""
    usable = times.copy()
    for k, candidate in enumerate(candidates):
        usable[k, [not candidate.served(size, element_bytes) for size in sizes]] = np.inf
    while True:
        lost = [size for k, size in enumerate(sizes) if not np.isfinite(usable[:, k]).any()]
        if lost:
            raise NotExpressibleError(
                f"{candidates[0].target.name} takes no schedule at {format_size(lost[0])}: a program's chunks must "
                f"divide the element count (of {element_bytes} bytes each), and fit its limits"
            )
        segments = choose(usable, tolerance, most)
        looked = {*np.argmin(usable, axis=0).tolist(), *(s.candidate for s in segments)}
        unfit = [k for k in looked if not candidates[k].fits]
        if not unfit:
            return segments, usable
        usable[unfit] = np.inf


def _ranges(candidates: Mapping[str, Candidate], segments: Sequence[Segment], sizes: Sequence[int]) -> list[SizeRange]:
    """Programs of the segments; each begins where it becomes as fast as the one before."""
    names = list(candidates)
    chosen = [candidates[names[s.candidate]] for s in segments]
    cuts = [0]
    for (a, first), (b, second) in pairwise(zip(segments, chosen, strict=True)):
        cuts.append(crossover(first.seconds, second.seconds, sizes[a.end - 1], sizes[b.begin]))
    target = chosen[0].target
    cuts.append(_end(chosen[-1], sizes[-1]))
    out = []
    for segment, candidate, (low, high) in zip(segments, chosen, pairwise(cuts), strict=True):
        top = high - 1 if target.max_is_inclusive else high
        draft = replace(candidate.draft, min_bytes=low, max_bytes=top)
        out.append(
            SizeRange(
                names[segment.candidate],
                candidate.rival,
                candidate.schedule.chunks_per_shard,
                Program(draft, target),
                low,
                high - 1,
                (segment.begin, segment.end),
                segment.excess,
            )
        )
    return out


def _end(candidate: Candidate, largest: int) -> int:
    """Where the last file ends (exclusive): at the runtime's largest size, if nothing is set aside for that.

    The legacy runtime allocates scratch for maxBytes when it loads a file (formats.md 1.7), so a file with scratch
    ends at the power of two above the sweep.
    """
    scratch = any(gpu.s_chunks for gpu in candidate.draft.gpus)
    if scratch and not candidate.target.max_is_inclusive:
        return 1 << largest.bit_length()
    return UNLIMITED
