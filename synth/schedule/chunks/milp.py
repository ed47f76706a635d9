"""Whole chunks exactly: a MILP in PuLP, limited in nodes so that the result does not depend on the machine's speed."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pulp

from synth.engine.highs import clean_stdout
from synth.ground.arrays import Floats

Counts = npt.NDArray[np.int64]
# Branch-and-bound nodes per model.
NODES = 50


def best_counts(
    loads: Floats, part: list[int], needs: dict[tuple[int, ...], int], room: Floats, enough: float
) -> tuple[Counts | None, bool]:
    """Min T with loads of the columns in ``part`` at most T x room, and whole chunks that serve each group."""
    model = pulp.LpProblem("synth_chunks", pulp.LpMinimize)
    span = model.add_variable("T", lowBound=0.0)
    x = {k: model.add_variable(f"n_{k}", lowBound=0, cat="Integer") for k in part}
    model += span
    for number, (group, need) in enumerate(needs.items()):
        model += pulp.lpSum(x[k] for k in group) == need, f"serve_{number}"
    for row in np.flatnonzero(loads[part].max(axis=0)):
        terms = [(x[k], float(loads[k, row])) for k in part if loads[k, row]]
        model += pulp.lpSum(value * n for n, value in terms) - float(room[row]) * span <= 0, f"use_{row}"
    with clean_stdout():
        engine = pulp.HiGHS(msg=False, threads=1, mip_max_nodes=NODES, random_seed=0, objective_target=enough)
        stats = model.solve(engine)
    values = {k: float("nan") if (v := x[k].value()) is None else float(v) for k in part}
    if not _complete(values, needs):
        return None, False
    counts = np.zeros(len(loads), dtype=np.int64)
    counts[part] = [round(values[k]) for k in part]
    return counts, stats.status == pulp.LpSolveStatus.Optimal


def _complete(values: dict[int, float], needs: dict[tuple[int, ...], int]) -> bool:
    """Whether a solver's values are whole and serve every group (a stopped engine may return anything)."""
    if not all(math.isfinite(v) and abs(v - round(v)) <= 1e-4 for v in values.values()):
        return False
    return all(round(sum(values[k] for k in group)) == need for group, need in needs.items())
