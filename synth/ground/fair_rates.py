"""Max-min fair sharing of rows (links, pools) by flows: the one progressive filling that every simulation takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from synth.ground.arrays import Floats, Ints

# Rows that would be full within this part of the level at which the first one is are full with it: rounding.
_NOTHING = 1e-12


def fair_rates(
    flows: Sequence[Mapping[int, float]], capacity: Floats | None = None, weights: Floats | None = None
) -> Floats:
    """Weighted max-min fair rates by progressive filling.

    All rates grow in proportion to their weights; when a row is full, the flows on it stop. PCIe switches, NICs and
    DMA engines arbitrate round-robin between packets thousands of times within one chunk, hence fair sharing and not
    first-come-first-served of whole chunks.

    Parameters
    ----------
    flows
        Per flow, row -> what a unit of rate takes of that row (a use count, or seconds per byte), above 0. A limit of
        one flow alone is a row of its own.
    capacity
        Of each row, 0 or more, in the unit of rate times that of the uses; default: 1 for every row, as when uses are
        seconds per byte (a row serves one second per second).
    weights
        Per flow, 0 or more; 0 means that the flow is idle and gets nothing. Default: 1 for every flow.

    Returns
    -------
    ndarray
        Rate per flow; infinite for a flow of some weight that takes nothing of any row.

    Notes
    -----
    Bertsekas and Gallager, Data Networks, 2nd ed., section 6.5.2 (max-min flow control). The number of rounds is at
    most the number of rows.
    """
    share = np.ones(len(flows)) if weights is None else weights
    growing = share > 0
    rates = np.where(growing, np.inf, 0.0)
    number: dict[int, int] = {}
    rows: Ints = np.array([number.setdefault(row, len(number)) for flow in flows for row in flow], dtype=np.int64)
    owner: Ints = np.repeat(np.arange(len(flows)), [len(flow) for flow in flows])
    uses = np.array([use for flow in flows for use in flow.values()]) * share[owner]
    room = np.ones(len(number)) if capacity is None else capacity[list(number)].astype(float)
    while (live := growing[owner]).any():
        demand = np.bincount(rows[live], uses[live], len(number))
        used = demand > 0
        level = np.full(len(number), np.inf)
        level[used] = np.maximum(room[used], 0.0) / demand[used]
        lowest = level.min()
        full = level <= lowest * (1 + _NOTHING)
        fixed = np.unique(owner[live & full[rows]])
        rates[fixed] = share[fixed] * lowest
        growing[fixed] = False
        stopped = live & ~growing[owner]
        room -= np.bincount(rows[stopped], uses[stopped], len(number)) * lowest
    return rates
