"""How paths share links and pools: the best rates (LP), and those of a fair machine (max-min)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pulp

from synth.engine.highs import clean_stdout
from synth.errors import LimitReachedError
from synth.ground.arrays import Floats
from synth.ground.fair_rates import fair_rates


def split_model(uses: Floats, capacity: Floats, scale: float) -> pulp.LpProblem:
    """Largest total rate of parallel paths as a PuLP model.

    Parameters
    ----------
    uses
        Rows x paths, use counts.
    capacity
        Bytes/second of each row.
    scale
        Bytes/second that one unit of a variable stands for.

    Returns
    -------
    pulp.LpProblem
        Variables ``x_0``, ``x_1``, ...: rate of each path in units of ``scale``.
    """
    model = pulp.LpProblem("synth_split", pulp.LpMaximize)
    rate = [model.add_variable(f"x_{k}", lowBound=0) for k in range(uses.shape[1])]
    model += pulp.lpSum(rate)
    for row in np.flatnonzero(uses.max(axis=1, initial=0.0)):
        terms = [float(uses[row, k]) * rate[k] for k in np.flatnonzero(uses[row])]
        model += pulp.lpSum(terms) <= float(capacity[row]) / scale, f"use_{row}"
    return model


def best_rates(uses: Floats, capacity: Floats) -> Floats:
    """Rates (bytes/second) of parallel paths whose sum is the largest possible: the LP's split of one transfer."""
    count = uses.shape[1]
    if not count:
        return np.zeros(0)
    scale = float(capacity[uses.max(axis=1) > 0].max())
    model = split_model(uses, capacity, scale)
    with clean_stdout():
        stats = model.solve(pulp.HiGHS(msg=False, threads=1))
    if stats.status != pulp.LpSolveStatus.Optimal:
        raise LimitReachedError(f"the split of {count} paths was not solved: {stats.status}")
    values = {v.name: v.value() or 0.0 for v in model.variables()}
    rates = scale * np.maximum([values[f"x_{k}"] for k in range(count)], 0.0)
    # The engine's tolerance must not leave a row overfull: the rates count as a plan.
    over = float((uses @ rates / capacity).max())
    return np.asarray(rates / max(over, 1.0))


def shared_rates(
    uses: Floats, capacity: Floats, weights: Floats, primary: npt.NDArray[np.bool_] | None = None
) -> Floats:
    """Max-min fair rates; with ``primary`` these paths come first and the others share what they leave.

    Parameters
    ----------
    uses
        Rows x paths, use counts; every path uses some row.
    capacity
        Bytes/second of each row, 0 or more.
    weights
        Per path; 0 means that the path is idle and gets nothing.
    primary
        Per path, whether it comes first; without it all are alike.

    Returns
    -------
    ndarray
        Bytes/second per path.
    """
    flows = [{int(row): float(column[row]) for row in np.flatnonzero(column)} for column in uses.T]
    if primary is None or primary.all() or not primary.any():
        return fair_rates(flows, capacity, weights)
    first = fair_rates(flows, capacity, np.where(primary, weights, 0.0))
    # A full row keeps a crumb of rounding, which is not capacity.
    left = capacity - uses @ first
    left = np.where(left > 1e-9 * capacity, left, 0.0)
    return np.asarray(first + fair_rates(flows, left, np.where(primary, 0.0, weights)))
