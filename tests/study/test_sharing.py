"""Max-min fairness by hand, by its characterisation, and beside the LP."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from synth.study.sharing import best_rates, shared_rates
from tests.study.stepper import crumbs


def test_the_textbook_line() -> None:
    """Capacities 1 and 2 in a row: one flow over both, one over each: 0.5, 0.5 and 1.5."""
    uses = np.array([[1.0, 1.0, 0.0], [1.0, 0.0, 1.0]])
    rates = shared_rates(uses, np.array([1.0, 2.0]), np.ones(3))
    assert rates == pytest.approx([0.5, 0.5, 1.5])
    assert shared_rates(uses, np.array([1.0, 2.0]), np.array([3.0, 1.0, 1.0])) == pytest.approx([0.75, 0.25, 1.25])


def test_the_best_split_leaves_out_who_hurts_two() -> None:
    uses = np.array([[1.0, 0.0, 1.0], [0.0, 1.0, 1.0]])
    assert best_rates(uses, np.ones(2)) == pytest.approx([1, 1, 0])
    assert shared_rates(uses, np.ones(2), np.ones(3)) == pytest.approx([0.5, 0.5, 0.5])


@st.composite
def shares(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rows, cols = draw(st.integers(1, 5)), draw(st.integers(1, 4))
    use = st.sampled_from((0.0, 0.0, 1.0, 1.2, 2.0))
    uses = np.array([[draw(use) for _ in range(cols)] for _ in range(rows)])
    own = np.eye(cols)  # every path has a link of its own
    capacity = np.array([float(draw(st.integers(1, 40))) for _ in range(rows + cols)])
    weights = np.array([draw(st.sampled_from((0.0, 0.5, 1.0, 3.0))) for _ in range(cols)])
    return np.vstack([uses, own]), capacity, weights


@given(shares())
def test_every_path_has_a_full_row_on_which_nobody_has_more(case: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
    """That is what max-min fair means (Bertsekas and Gallager 6.5.2, proposition 6.1), with rates over weights."""
    uses, capacity, weights = case
    rates = shared_rates(uses, capacity, weights)
    load = uses @ rates
    assert (load <= capacity * (1 + 1e-9)).all()
    assert (rates[weights == 0] == 0).all()
    level = np.divide(rates, weights, out=np.zeros_like(rates), where=weights > 0)
    for k in np.flatnonzero(weights):
        full = (load >= capacity * (1 - 1e-9)) & (uses[:, k] > 0)
        assert any((level[uses[row] > 0] <= level[k] * (1 + 1e-9)).all() for row in np.flatnonzero(full))
    assert rates.sum() <= best_rates(uses, capacity).sum() * (1 + 1e-6)


@given(shares())
def test_crumb_by_crumb_gives_the_same(case: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
    uses, capacity, weights = case
    busy = weights > 0
    slow = crumbs(uses.tolist(), capacity.tolist(), busy.tolist())
    fast = shared_rates(uses, capacity, busy.astype(float))
    assert slow == pytest.approx(fast, abs=0.02 * capacity.max())


@given(shares(), st.integers(0, 3))
def test_primary_paths_do_not_notice_the_others(case: tuple[np.ndarray, np.ndarray, np.ndarray], which: int) -> None:
    uses, capacity, weights = case
    primary = np.arange(len(weights)) <= which
    alone = shared_rates(uses, capacity, np.where(primary, weights, 0.0))
    both = shared_rates(uses, capacity, weights, primary)
    assert (uses @ both <= capacity * (1 + 1e-9)).all()
    assert (both[primary] == alone[primary]).all()
