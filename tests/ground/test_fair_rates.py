"""Max-min fairness of flows on rows: by hand and by its characterisation."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synth.ground.fair_rates import fair_rates

FLOWS = st.lists(st.dictionaries(st.integers(0, 5), st.sampled_from((0.5, 1.0, 2.0, 3.7)), min_size=1), max_size=7)


def test_a_line_by_hand() -> None:
    """Capacities 1 and 2 in a row: one flow over both, one over each: 0.5, 0.5 and 1.5; threefold weight 0.75."""
    line = [{7: 1.0, 9: 1.0}, {7: 1.0}, {9: 0.5}]  # uses of 0.5 stand for a row of twice the capacity
    assert fair_rates([{7: 1.0, 9: 0.5}, {7: 1.0}, {9: 0.5}]) == pytest.approx([0.5, 0.5, 1.5])
    capacity = np.zeros(10)
    capacity[[7, 9]] = 1.0, 1.0
    assert fair_rates(line, capacity) == pytest.approx([0.5, 0.5, 1.0])
    assert fair_rates(line, capacity, np.array([3.0, 1.0, 0.0])) == pytest.approx([0.75, 0.25, 0.0])


def test_a_row_of_its_own_caps_a_flow() -> None:
    assert fair_rates([{0: 1.0, 1: 10.0}, {0: 1.0}]) == pytest.approx([0.1, 0.9])


def test_idle_full_and_unbounded_flows() -> None:
    rates = fair_rates([{0: 1.0}, {1: 1.0}, {}, {}], np.array([0.0, 4.0]), np.array([1.0, 0.0, 0.5, 0.0]))
    assert rates.tolist() == [0.0, 0.0, np.inf, 0.0]
    assert fair_rates([]).tolist() == []


@given(FLOWS, st.lists(st.sampled_from((0.0, 0.5, 1.0, 3.0)), min_size=7, max_size=7))
@settings(max_examples=200, deadline=None, derandomize=True)
def test_fair_rates_are_max_min(flows: list[dict[int, float]], some: list[float]) -> None:
    """Feasible, and every flow meets a full row on which no other flow has more for its weight."""
    weights = np.array(some[: len(flows)])
    rates = fair_rates(flows, weights=weights)
    level = np.divide(rates, weights, out=np.zeros_like(rates), where=weights > 0)
    used = {row: sum(r * f.get(row, 0.0) for r, f in zip(rates, flows, strict=True)) for f in flows for row in f}
    assert all(load <= 1 + 1e-9 for load in used.values())
    assert (rates[weights == 0] == 0).all()
    for k in np.flatnonzero(weights):
        peers = {row: max(v for v, f in zip(level, flows, strict=True) if row in f) for row in flows[k]}
        assert any(used[row] >= 1 - 1e-9 and level[k] >= peers[row] * (1 - 1e-9) for row in flows[k])


@given(FLOWS)
@settings(max_examples=50, deadline=None, derandomize=True)
def test_a_weight_stands_for_so_many_flows(flows: list[dict[int, float]]) -> None:
    """A flow of weight two gets what two flows beside each other get."""
    weights = np.ones(len(flows))
    weights[:1] = 2.0
    twice = fair_rates([*flows[:1], *flows])
    rates = fair_rates(flows, weights=weights)
    assert rates[:1] == pytest.approx(twice[:1] * 2)
    assert rates[1:] == pytest.approx(twice[2 if flows else 0 :])
