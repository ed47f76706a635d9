"""The choice of a few candidates for all sizes: by hand, against all choices, and what always holds."""

from __future__ import annotations

import math
from itertools import combinations, pairwise, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from synth.choice.sweep.ranges import Segment, choose, crossover
from synth.errors import InvalidInputError
from synth.ground.arrays import Floats

SIZES = [1 << k for k in range(10, 21)]


def alpha_beta(*lines: tuple[float, float]) -> Floats:
    return np.array([[a + size * b for size in SIZES] for a, b in lines])


def test_two_lines_cross_where_they_must() -> None:
    """3 us + n / 25 GB/s against 1 us + n / 10 GB/s: equal at n = 2 us / (1/10 - 1/25) ns/B = 33333.3 bytes."""
    times = alpha_beta((3e-6, 1 / 25e9), (1e-6, 1 / 10e9))
    assert choose(times, 0.0, 4) == [Segment(0, 6, 1, 0.0), Segment(6, 11, 0, 0.0)]
    first, second = (lambda n: 1e-6 + n / 10e9), (lambda n: 3e-6 + n / 25e9)
    assert crossover(first, second, 1 << 15, 1 << 16) == 33334
    # Alone, the first takes 3.041 us instead of 1.102 us at 1 KiB, the second 105.86 us instead of 44.94 us at 1 MiB.
    assert choose(times, 0.0, 1) == [Segment(0, 11, 1, choose(times, 0.0, 1)[0].excess)]
    assert choose(times, 0.0, 1)[0].excess == pytest.approx(105.8576 / 44.94304 - 1)
    assert choose(times, 2.0, 4)[0].end == 11


def test_crossover_without_a_change_of_sign() -> None:
    assert crossover(lambda n: 1.0, lambda n: 2.0, 4, 8) == 8
    assert crossover(lambda n: 2.0, lambda n: 1.0, 4, 8) == 5
    assert crossover(lambda n: 1.0, lambda n: 1.0, 4, 8) == 5


def test_what_cannot_be_chosen() -> None:
    with pytest.raises(InvalidInputError, match="no candidate"):
        choose(np.array([[1.0, math.inf]]), 0.1, 2)
    for times, tolerance, most in ((np.ones((0, 3)), 0.1, 2), (np.ones((2, 3)), -1.0, 2), (np.ones((2, 3)), 0.1, 0)):
        with pytest.raises(InvalidInputError):
            choose(times, tolerance, most)


@st.composite
def tables(draw: st.DrawFn) -> Floats:
    rows, columns = draw(st.integers(1, 3)), draw(st.integers(1, 5))
    value = st.one_of(st.integers(1, 12).map(float), st.floats(0.1, 10.0), st.just(math.inf))
    times = np.array([[draw(value) for _ in range(columns)] for _ in range(rows)])
    times[0] = np.where(np.isfinite(times.min(axis=0)), times[0], 5.0)
    return times


def every_choice(times: Floats, most: int) -> list[tuple[int, float, float]]:
    """(segments, largest excess, sum of excesses) of every way to cut and to fill."""
    over = times / times.min(axis=0) - 1
    rows, columns = over.shape
    out: list[tuple[int, float, float]] = []
    for m in range(1, min(most, columns) + 1):
        for cuts in combinations(range(1, columns), m - 1):
            edges = (0, *cuts, columns)
            for who in product(range(rows), repeat=m):
                parts = [over[k, a:b] for k, a, b in zip(who, edges, edges[1:], strict=False)]
                out.append((m, max(float(p.max()) for p in parts), sum(float(p.sum()) for p in parts)))
    return out


@given(tables(), st.sampled_from([0.0, 0.05, 0.5, 2.0]), st.integers(1, 4))
def test_no_choice_is_better(times: Floats, tolerance: float, most: int) -> None:
    segments = choose(times, tolerance, most)
    columns = times.shape[1]
    assert [s.begin for s in segments] == [0, *(s.end for s in segments[:-1])]
    assert segments[-1].end == columns
    assert all(s.begin < s.end for s in segments)
    over = times / times.min(axis=0) - 1
    parts = [over[s.candidate, s.begin : s.end] for s in segments]
    assert [s.excess for s in segments] == [pytest.approx(p.max()) for p in parts]
    choices = every_choice(times, most)
    within = [c for c in choices if c[1] <= tolerance + 1e-9]
    limit = tolerance if within else min(c[1] for c in choices)
    allowed = [c for c in choices if c[1] <= limit + 1e-9]
    fewest = min(c[0] for c in allowed)
    assert len(segments) == fewest
    assert max(s.excess for s in segments) <= limit + 1e-9
    assert sum(p.sum() for p in parts) == pytest.approx(min(c[2] for c in allowed if c[0] == fewest), abs=1e-9)
    # Neighbours differ: else one segment less would do.
    assert all(a.candidate != b.candidate for a, b in pairwise(segments))
