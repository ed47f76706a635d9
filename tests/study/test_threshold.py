"""Thresholds: by hand, against enumeration of all subsets, and what the rule promises."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

import synth
from synth.errors import InvalidInputError
from synth.study import (
    Option,
    Thresholds,
    collective_thresholds,
    find_paths,
    pair_thresholds,
    restrict,
    thresholds,
    topology_for,
)
from synth.study.sharing import best_rates
from synth.study.threshold.collectives import route_latency
from synth.topology import resolve
from tests.study.machines import H800, h800_paths, parallel

FREE = {"pcie": 0.0, "host": 0.0, "nic": 0.0}


def separate(fixed: Sequence[float], rates: Sequence[float]) -> Thresholds:
    """Paths that share nothing."""
    options = [Option(f"p{k}", value) for k, value in enumerate(fixed)]
    return thresholds("test", options, lambda names: sum(rates[int(name[1:])] for name in names))


# --- by hand ---------------------------------------------------------------------------------------------------------


def test_two_paths_by_hand() -> None:
    """100 GB/s at once and 50 GB/s after 10 us: pays from 100 GB/s x 10 us = 1 MB on; 2.5 MB then take 20 us."""
    found = separate([0.0, 10e-6], [100e9, 50e9])
    assert found.starts == {"p0": 0.0, "p1": pytest.approx(1e6)}
    assert found.used(1e6) == ("p0",)
    assert found.used(1.01e6) == ("p0", "p1")
    assert found.time(0.5e6) == pytest.approx(5e-6)
    assert found.time(2.5e6) == pytest.approx(20e-6)
    assert found.time(2.5e6, ["p0"]) == pytest.approx(25e-6)
    assert found.opened_time(0.5e6, ["p0", "p1"]) == pytest.approx(10e-6)


def test_three_paths_by_hand() -> None:
    """S_3 = sum of b_q (f_3 - f_q) = 100 x 30 + 50 x 20 (GB/s x us) = 4 MB."""
    assert separate([0.0, 10e-6, 30e-6], [100e9, 50e9, 10e9]).starts["p2"] == pytest.approx(4e6)


def test_a_path_in_place_of_another_is_not_opened_twice() -> None:
    """Two paths behind one port: the later one adds nothing; at the same cost the first given is taken."""
    port = {frozenset(): 0.0, frozenset("a"): 5.0, frozenset("b"): 5.0, frozenset("ab"): 5.0}
    assert thresholds("t", [Option("a", 1.0), Option("b", 2.0)], port.__getitem__).starts == {"a": 0.0, "b": None}
    assert thresholds("t", [Option("b", 1.0), Option("a", 1.0)], port.__getitem__).starts == {"b": 0.0, "a": None}


def test_paths_that_help_only_together_are_opened_together() -> None:
    """k fills two pools, a and b one each: k alone 1, with a or b still 1, a and b 2."""
    uses = np.array([[1.0, 1.0, 0.0], [1.0, 0.0, 1.0]])
    names = "kab"

    def rate(chosen: frozenset[str]) -> float:
        return float(best_rates(uses[:, sorted(names.index(n) for n in chosen)], np.ones(2)).sum())

    found = thresholds("t", [Option("k", 0.0), Option("a", 2.0), Option("b", 3.0)], rate)
    assert found.starts == {"k": 0.0, "a": pytest.approx(3.0), "b": pytest.approx(3.0)}
    assert found.time(5.0) == pytest.approx(4.0)


def test_the_h800_pair_by_hand() -> None:
    """Switch 0.6 us; host 2.0 + 11.4: 164.8 GB/s x 12.8 us; the NIC is behind the same port, so only without host."""
    found = pair_thresholds(h800_paths())
    assert found.starts == {"switch": 0.0, "host": pytest.approx(164.8e9 * 12.8e-6), "nic": None}
    no_host = pair_thresholds(h800_paths().only(["switch", "nic"]), {"nic": 20e-6})
    assert no_host.starts["nic"] == pytest.approx(164.8e9 * (24.7e-6 - 0.6e-6))
    assert "never" in found.summary()


# --- second method: every subset -------------------------------------------------------------------------------------


def subset_time(fixed: Sequence[float], rates: Sequence[float], chosen: Sequence[int], size: float) -> float:
    """Finish when all of ``chosen`` are opened: level all ends, no sooner than the last one is open."""
    total = sum(rates[k] for k in chosen)
    latest = max(fixed[k] for k in chosen)
    # Bytes of those that would have to send less than nothing go to the others.
    part = list(chosen)
    while True:
        level = (size + sum(rates[k] * fixed[k] for k in part)) / sum(rates[k] for k in part)
        late = [k for k in part if fixed[k] > level]
        if not late:
            break
        part = [k for k in part if k not in late]
    assert total > 0
    return max(level, latest)


def paths_and_costs() -> st.SearchStrategy[tuple[list[float], list[float]]]:
    cost = st.sampled_from((0.0, 1.0, 2.5)) | st.floats(0, 10)
    return st.integers(1, 5).flatmap(
        lambda n: st.tuples(
            st.lists(cost, min_size=n, max_size=n), st.lists(st.floats(0.1, 20), min_size=n, max_size=n)
        )
    )


@given(case=paths_and_costs(), size=st.floats(0.01, 300))
def test_the_rule_is_the_best_subset(case: tuple[list[float], list[float]], size: float) -> None:
    fixed, rates = case
    found = separate(fixed, rates)
    every = [c for k in range(1, len(fixed) + 1) for c in combinations(range(len(fixed)), k)]
    best = min(subset_time(fixed, rates, chosen, size) for chosen in every)
    assert found.time(size) == pytest.approx(best, rel=1e-9)
    mine = [int(name[1:]) for name in found.used(size)]
    assert found.opened_time(size, found.used(size)) == pytest.approx(subset_time(fixed, rates, mine, size), rel=1e-9)
    assert found.opened_time(size, found.used(size)) == pytest.approx(best, rel=1e-9)


@given(case=paths_and_costs(), sizes=st.tuples(st.floats(0, 300), st.floats(0, 300)))
def test_larger_messages_take_longer_and_open_no_less(
    case: tuple[list[float], list[float]], sizes: tuple[float, float]
) -> None:
    found = separate(*case)
    small, large = sorted(sizes)
    assert found.time(small) <= found.time(large) * (1 + 1e-12)
    assert set(found.used(small)) <= set(found.used(large))
    starts = [start for start in found.starts.values() if start is not None]
    assert starts == sorted(starts)


def sliced_time(
    fixed: Sequence[float], uses: np.ndarray, capacity: np.ndarray, chosen: Sequence[int], size: float
) -> float:
    """Least finish with all of ``chosen`` opened, as one LP over the time between fixed costs."""
    edges = sorted({0.0, *(fixed[k] for k in chosen)})
    best = np.inf
    for last in range(len(edges)):  # the finish lies in this slice
        count = len(chosen)
        columns = count * (last + 1) + 1  # bytes per slice and path, then the length of the last slice
        a, b = [], []
        for s in range(last + 1):
            for row in range(len(capacity)):
                line = np.zeros(columns)
                line[s * count : (s + 1) * count] = uses[row, list(chosen)]
                if s == last:
                    line[-1] = -capacity[row]
                a.append(line)
                b.append(0.0 if s == last else capacity[row] * (edges[s + 1] - edges[s]))
        closed = [(0, 0 if fixed[k] > edges[s] else None) for s in range(last + 1) for k in chosen]
        length = (0, edges[last + 1] - edges[last] if last + 1 < len(edges) else None)
        serve = np.append(np.ones(columns - 1), 0.0)[None, :]
        cost = np.append(np.zeros(columns - 1), 1.0)
        done = linprog(cost, A_ub=np.array(a), b_ub=b, A_eq=serve, b_eq=[size], bounds=[*closed, length])
        if done.status == 0:
            assert done.x is not None
            best = min(best, edges[last] + float(done.x[-1]))
    return max(float(best), max(fixed[k] for k in chosen))


@given(data=st.data(), size=st.floats(0.5, 200))
@settings(max_examples=40)
def test_the_rule_is_the_best_subset_with_shared_links(data: st.DataObject, size: float) -> None:
    count = data.draw(st.integers(2, 4))
    fixed = [data.draw(st.sampled_from((0.0, 1.0, 2.0, 5.0))) for _ in range(count)]
    pools = np.array([[data.draw(st.sampled_from((0.0, 1.0, 2.0))) for _ in range(count)] for _ in range(2)])
    uses = np.vstack([np.eye(count), pools])
    capacity = np.array([float(data.draw(st.integers(1, 20))) for _ in range(count + 2)])

    def rate(names: frozenset[str]) -> float:
        return float(best_rates(uses[:, sorted(int(n) for n in names)], capacity).sum())

    found = thresholds("t", [Option(str(k), fixed[k]) for k in range(count)], rate)
    every = [c for k in range(1, count + 1) for c in combinations(range(count), k)]
    best = min(sliced_time(fixed, uses, capacity, chosen, size) for chosen in every)
    assert found.time(size) == pytest.approx(best, rel=1e-5)
    assert found.opened_time(size, found.used(size)) == pytest.approx(best, rel=1e-5)
    for name in found.used(size / 1.01):
        rest = [other for other in found.used(size) if other != name]
        if rest:
            assert found.time(size, rest) > found.time(size) * (1 + 1e-9)


@given(fixed=st.lists(st.floats(0, 5), min_size=3, max_size=3), shift=st.floats(0.1, 3))
def test_a_dearer_path_pays_later(fixed: list[float], shift: float) -> None:
    rates = [5.0, 3.0, 2.0]
    before = separate(fixed, rates).starts["p2"]
    after = separate([*fixed[:2], fixed[2] + shift], rates).starts["p2"]
    assert before is not None
    assert after is not None
    assert after >= before


# --- pairs and collectives -------------------------------------------------------------------------------------------


def test_latency_counts_as_fixed_cost() -> None:
    found = pair_thresholds(parallel([10e9, 5e9], [1e-6, 4e-6]), FREE)
    assert found.starts["pcie"] == pytest.approx(10e9 * 3e-6)
    assert found.time(1.0) == pytest.approx(1e-6, rel=1e-3)


def test_opening_costs_are_checked() -> None:
    with pytest.raises(InvalidInputError) as caught:
        pair_thresholds(h800_paths(), {"warp": 1.0, "nic": -1.0})
    assert len(caught.value.faults) == 2
    with pytest.raises(InvalidInputError, match="nothing can be delivered"):
        pair_thresholds(h800_paths()).time(1e6, [])


def test_all_gather_of_the_h800_pair_by_hand() -> None:
    """Each GPU receives half of the output: 329.6 GB/s over NVLink, so host pays from 329.6 GB/s x 12.8 us on."""
    machine = resolve(str(H800))
    found = collective_thresholds(machine, "allgather")
    assert found.starts["scale-up"] == 0.0
    assert found.starts["host"] == pytest.approx(329.6e9 * 12.8e-6, rel=1e-5)
    assert found.starts["pcie"] is None
    assert found.starts["nic"] is None
    small, large = topology_for(machine, found, 1e6), topology_for(machine, found, 1e9)
    assert {link.kind for link in small.links} == {"nvlink"}
    assert small.resources == ()
    assert synth.solve(large, "allgather", 1e9).time == pytest.approx(1e9 / 425.612e9, rel=1e-4)
    assert all(found.time(size) <= size / 329.6e9 + 0.6e-6 + 1e-12 for size in (1e5, 1e6, 1e7, 1e9))


def test_what_only_all_links_can_do_is_opened_at_any_size() -> None:
    found = collective_thresholds(resolve("cluster:box=ring:2,hosts=2"), "allgather")
    assert found.used(1.0) == ("scale-up", "nic")
    assert found.time(1.0) > 14e-6


def test_restricted_topologies_keep_what_is_allowed() -> None:
    machine = resolve(str(H800))
    assert restrict(machine, ["scale-up", "pcie", "host", "nic"]).links == machine.links
    without = restrict(machine, ["scale-up", "nic"])
    assert not any("up0" in link.id for link in without.links)
    assert find_paths(without, 0, 1).labels == ("switch", "nic")


def test_latency_of_a_route_is_its_longest_chain() -> None:
    plan = synth.solve("line:4,latency=2 us", "broadcast", 1e6, root=0)
    assert max(route_latency(plan.topology, route) for route in plan.routes) == pytest.approx(6e-6)


def test_table_says_never_as_nan() -> None:
    table = pair_thresholds(h800_paths()).table
    assert table["from_bytes"].isna().tolist() == [False, False, True]
    assert table["GBps"].tolist() == pytest.approx([164.8, 212.806, 212.806], rel=1e-6)
