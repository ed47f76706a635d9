"""Which few schedules serve all message sizes: an exact choice by dynamic programming, and where one takes over."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from synth.errors import InvalidInputError
from synth.ground.arrays import Floats, Ints

# Rounding in sums of excesses.
_TIE = 1e-12


@dataclass(frozen=True, slots=True)
class Segment:
    """Neighbouring sizes that one candidate serves.

    Attributes
    ----------
    begin, end
        Sizes ``begin .. end - 1`` (positions).
    candidate
        Row of the times.
    excess
        Most that it takes over the fastest candidate at one of them: 0.02 is 2 %.
    """

    begin: int
    end: int
    candidate: int
    excess: float


def choose(times: Floats, tolerance: float, most: int) -> list[Segment]:
    """Cover all sizes by as few segments as the tolerance allows, then at the least sum of excesses.

    Parameters
    ----------
    times
        Seconds, candidates x sizes; infinite where a candidate cannot serve a size.
    tolerance
        Most that a segment's candidate may take over the fastest one at any of its sizes, as a part of that.
    most
        Most segments. When they are too few for the tolerance, the largest excess is as small as it can be.

    Returns
    -------
    list of Segment
        In order, without gap or overlap. Exact: no other choice has fewer segments within the tolerance (or, when
        there is none, a smaller largest excess), nor as few and a smaller sum. Of equals the first candidate's.

    Raises
    ------
    InvalidInputError
        When no candidate serves some size, or a number is out of range.

    Notes
    -----
    Segmentation by dynamic programming over breakpoints (Bellman 1961, CACM 4(6)): first the least largest excess for
    each number of segments, which says how many are needed, then the least sum under that limit.
    """
    if times.ndim != 2 or not times.size or not most >= 1 or not 0 <= tolerance < math.inf:
        raise InvalidInputError(f"times {times.shape}, tolerance {tolerance!r}, most {most!r}: nothing to choose from")
    best = times.min(axis=0)
    if not (np.isfinite(best) & (best > 0)).all():
        raise InvalidInputError("no candidate serves some of the sizes")
    over = times / best - 1.0
    count = over.shape[1]
    most = min(most, count)
    worst, _ = _segments(over, lambda part: part.max(axis=1), most, max)
    limit = max(tolerance, float(worst[most, count])) + _TIE
    used = next(m for m in range(1, most + 1) if worst[m, count] <= limit)
    over = np.where(over <= limit, over, math.inf)
    _, steps = _segments(over, lambda part: part.sum(axis=1), used, lambda a, b: a + b)
    out: list[Segment] = []
    end = count
    for m in range(used, 0, -1):
        begin, candidate = steps[m, end].tolist()
        out.append(Segment(begin, end, candidate, float(over[candidate, begin:end].max())))
        end = begin
    return out[::-1]


def _segments(
    over: Floats, cost: Callable[[Floats], Floats], most: int, join: Callable[[float, float], float]
) -> tuple[Floats, Ints]:
    """Least joined cost of the first ``end`` sizes in ``m`` segments, and each last segment's (begin, candidate)."""
    count = over.shape[1]
    part = np.full((count, count + 1), math.inf)
    who = np.zeros((count, count + 1), dtype=np.int64)
    for begin in range(count):
        for end in range(begin + 1, count + 1):
            each = cost(over[:, begin:end])
            who[begin, end] = int(np.argmax(each <= each.min() + _TIE))
            part[begin, end] = each[who[begin, end]]
    least = np.full((most + 1, count + 1), math.inf)
    least[0, 0] = 0.0
    steps = np.zeros((most + 1, count + 1, 2), dtype=np.int64)
    for m in range(1, most + 1):
        for end in range(m, count + 1):
            for begin in range(m - 1, end):
                value = join(float(least[m - 1, begin]), float(part[begin, end]))
                if value < least[m, end] - _TIE:
                    least[m, end], steps[m, end] = value, (begin, who[begin, end])
    return least, steps


def crossover(first: Callable[[int], float], second: Callable[[int], float], low: int, high: int) -> int:
    """Size from which on the second of two candidates is as fast as the first.

    Parameters
    ----------
    first, second
        Bytes -> seconds.
    low, high
        Neighbouring sizes in bytes: the first candidate serves ``low``, the second ``high``.

    Returns
    -------
    int
        In ``low + 1 .. high``: a size at which the second is not slower while the first is faster one byte before,
        by bisection; ``high`` when the second is slower there, ``low + 1`` when the first is not faster at ``low``.
    """
    if first(high) < second(high):
        return high
    if second(low) <= first(low):
        return low + 1
    while high - low > 1:
        middle = (low + high) // 2
        if second(middle) <= first(middle):
            high = middle
        else:
            low = middle
    return high
