"""Minimum arborescences against networkx and against enumeration."""

from __future__ import annotations

import itertools
from unittest.mock import patch

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synth.formulation.flow import arborescence
from synth.formulation.flow.arborescence import min_arborescence


@st.composite
def costs(draw: st.DrawFn, most: int) -> np.ndarray:
    n = draw(st.integers(2, most))
    numbers = st.one_of(st.integers(0, 4).map(float), st.floats(0, 10), st.just(np.inf))
    flat = draw(st.lists(numbers, min_size=n * n, max_size=n * n))
    return np.array(flat).reshape(n, n)


def cost_of(cost: np.ndarray, parent: np.ndarray, root: int) -> float:
    return float(sum(cost[parent[v], v] for v in range(len(parent)) if v != root))


def is_tree(parent: np.ndarray, root: int) -> bool:
    for v in range(len(parent)):
        seen = set()
        while v != root:
            if v in seen or v < 0:
                return False
            seen.add(v)
            v = int(parent[v])
    return True


@pytest.mark.parametrize("wide", [0, 200])
@given(costs(4), st.integers(0, 3))
@settings(max_examples=150, deadline=None, derandomize=True)
def test_equals_enumeration(wide: int, cost: np.ndarray, root: int) -> None:
    n = len(cost)
    root %= n
    others = [v for v in range(n) if v != root]
    best = np.inf
    for choice in itertools.product(range(n), repeat=n - 1):
        parent = np.full(n, -1)
        parent[others] = choice
        if all(parent[v] != v for v in others) and is_tree(parent, root):
            best = min(best, cost_of(cost, parent, root))
    if np.isinf(best):
        with pytest.raises(ValueError, match="reached"):
            min_arborescence(cost, root)
        return
    with patch.object(arborescence, "WIDE", wide):  # 0: every round contracts whole sets of cheapest edges
        parent = min_arborescence(cost, root)
    assert parent[root] == -1
    assert is_tree(parent, root)
    assert cost_of(cost, parent, root) == pytest.approx(best, abs=1e-12)


@given(st.integers(0, 10**6), st.integers(5, 14))
@settings(max_examples=40, deadline=None, derandomize=True)
def test_equals_networkx(seed: int, n: int) -> None:
    cost = np.random.default_rng(seed).integers(1, 20, (n, n)).astype(float)
    graph: nx.DiGraph[int] = nx.DiGraph()
    graph.add_weighted_edges_from((i, j, cost[i, j]) for i in range(n) for j in range(1, n) if i != j)
    best = nx.minimum_spanning_arborescence(graph)
    parent = min_arborescence(cost, 0)
    assert is_tree(parent, 0)
    assert cost_of(cost, parent, 0) == pytest.approx(sum(cost[i, j] for i, j in best.edges))


def test_nested_cycles() -> None:
    """Two cheap two-cycles that are joined into one by the next cheapest edges; by hand: 10 + 1 + 2 + 1 = 14."""
    cost = np.full((5, 5), 100.0)
    cost[1, 2] = cost[2, 1] = 1.0
    cost[3, 4] = cost[4, 3] = 1.0
    cost[2, 3] = cost[4, 1] = 2.0
    cost[0, 1] = 10.0
    parent = min_arborescence(cost, 0)
    assert parent.tolist() == [-1, 0, 1, 2, 3]
    assert cost_of(cost, parent, 0) == 14
