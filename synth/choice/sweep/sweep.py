"""Every message size: the best schedule per size among rivals, merged into a few files with size ranges."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from synth.choice.sweep.judge import Candidate, Judge, sweep_sizes, times_of
from synth.choice.sweep.ranges import Segment, choose, crossover
from synth.choice.sweep.result import SizeRange, Sweep
from synth.demand import make_demand
from synth.demand.instance import as_topology
from synth.errors import InvalidInputError, NotExpressibleError
from synth.ground.arrays import Floats
from synth.ground.units import format_size
from synth.program.msccl import Program, target_named
from synth.program.msccl.verifying.deadlocks import UNLIMITED
from synth.rivals.at_sizes import RIVALS, Anchored, Maker, rivals
from synth.schedule import BlockCosts, TimeModel
from synth.solver.flow import solve
from synth.topology import Topology

__all__ = ["SizeRange", "Sweep", "sweep"]


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
        ``"1KiB:4GiB"``, a list, or numbers of bytes (see :func:`synth.choice.sweep.judge.sweep_sizes`).
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
    made = rivals(Anchored(plan, tuple(dict.fromkeys(anchors))), makers)
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
