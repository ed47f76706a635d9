"""Adaptive splitting: by hand, against the fluid limit, against a brute-force stepper, and its promises."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synth.errors import InvalidInputError
from synth.study import Change, Comparison, PathSet, Run, compare_splits, drift
from synth.study.adaptive.capacity import make_trace
from synth.study.adaptive.engine import Arrival
from synth.study.adaptive.fluid import fluid_time
from synth.study.adaptive.policies import whole_chunks
from tests.study.machines import h800_paths, parallel, transfers
from tests.study.stepper import step_adaptive

NAMES = ["scale-up only", "equal striping", "static LP", "re-solved LP", "adaptive"]


def faults(compared: Comparison, run: Run, windows: list[int] | None = None) -> list[str]:
    """What is wrong with a run: bytes, overfull links, arrivals too early, overfull windows, faster than possible."""
    out = []
    if sum(item.size for item in run.arrivals) != compared.size:
        out.append("bytes delivered")
    if not np.allclose(run.sent[-1], run.path_bytes, rtol=1e-9, atol=1e-3):
        out.append("bytes on the wire")
    for k in range(len(run.rates)):
        middle = (run.times[k] + run.times[k + 1]) / 2
        now = next(capacity for start, end, capacity in compared.trace.steps() if start <= middle < end)
        if (compared.paths.uses @ run.rates[k] > now * (1 + 1e-9)).any():
            out.append("overfull")
    for item in run.arrivals:
        least = item.size / (1.2 * compared.paths.paths[item.path].bandwidth)
        late = compared.paths.paths[item.path].latency
        if item.sent < (item.handed + least) * (1 - 1e-9) or item.arrived < (item.sent + late) * (1 - 1e-12):
            out.append("too early")
    if run.finish < compared.bound * (1 - 1e-9) or compared.movable(run.sent_end) < compared.size * (1 - 1e-9):
        out.append("faster than the fluid bound")
    for k, window in enumerate(windows or []):
        mine = [item for item in run.arrivals if item.path == k]
        for when in (item.handed for item in mine):
            held = [item.size for item in mine if item.handed <= when < item.arrived]
            if len(held) > 1 and sum(held) > window:
                out.append("window")
    return out


# --- by hand ---------------------------------------------------------------------------------------------------------


def two_paths() -> Comparison:
    """4 GB over 3 and 1 GB/s; the fast path drops to half after 0.5 s."""
    return compare_splits(parallel([3e9, 1e9]), 4 * 10**9, chunk=4 * 10**6, changes=[Change(0.5, "l0", 0.5)])


def test_two_paths_and_a_drop_by_hand() -> None:
    """Static: 3 GB on the fast one, 1.5 by the drop, 1.5 more at 1.5 GB/s. Re-solved: 2 GB by the drop, 2 at 2.5 GB/s.

    Equal: 2 GB at 1 GB/s. Scale-up alone: 1.5 by the drop, 2.5 at 1.5.
    """
    compared = two_paths()
    assert [run.policy for run in compared.runs] == NAMES
    assert compared["static LP"].finish == pytest.approx(1.5, abs=1e-9)
    assert compared["re-solved LP"].finish == pytest.approx(1.3, abs=0.01)
    assert compared["equal striping"].finish == pytest.approx(2.0, abs=1e-9)
    assert compared["scale-up only"].finish == pytest.approx(0.5 + 2.5 / 1.5, abs=1e-9)
    assert compared["adaptive"].finish == pytest.approx(1.3, abs=0.01)
    assert compared.bound == pytest.approx(1.3, abs=1e-12)


def test_bytes_lost_by_hand() -> None:
    """The best split could have sent 0.5 x 4 + 1.0 x 2.5 = 4.5 GB in the 1.5 s of the static one: 0.5 GB lost."""
    compared = two_paths()
    assert compared.lost(compared["static LP"]) == pytest.approx(0.5e9, rel=1e-6)
    assert compared.lost(compared["equal striping"]) == pytest.approx(2e9 + 1.5 * 2.5e9 - 4e9, rel=1e-6)
    assert compared.lost(compared["adaptive"]) < 0.02e9


def test_latency_is_paid_once_at_the_end() -> None:
    compared = compare_splits(parallel([1e9, 1e9], [1e-3, 1e-3]), 10**9, chunk=10**6)
    assert compared.bound == pytest.approx(0.501)
    assert compared["adaptive"].finish == pytest.approx(0.501, abs=2e-3)
    assert compared["scale-up only"].finish == pytest.approx(1.001, abs=1e-9)


def test_a_small_window_limits_the_rate_by_hand() -> None:
    """One chunk of 1 MB outstanding, 1 ms on the wire and 1 ms of latency: one chunk every 2 ms."""
    compared = compare_splits(parallel([1e9], [1e-3]), 100 * 10**6, chunk=10**6, primary_window=1)
    assert compared["adaptive"].finish == pytest.approx(0.2)


def test_a_slow_secondary_path_is_not_given_the_tail() -> None:
    """8 chunks of 1 MB at 1 GB/s, beside 0.1 GB/s: a chunk takes 10 ms there, all of them 8 ms here."""
    compared = compare_splits(parallel([1e9, 1e8]), 8 * 10**6, chunk=10**6)
    assert list(compared["adaptive"].path_bytes) == [8 * 10**6, 0]
    # With 12 chunks the slow one has time for exactly one.
    compared = compare_splits(parallel([1e9, 1e8]), 12 * 10**6, chunk=10**6)
    assert list(compared["adaptive"].path_bytes) == [11 * 10**6, 10**6]
    assert compared["adaptive"].finish == pytest.approx(11e-3)


def test_a_single_chunk_takes_the_primary_path() -> None:
    """Both would be in time, and the others are never first."""
    compared = compare_splits(parallel([1e9, 1e9]), 10**6, chunk=10**6)
    assert list(compared["adaptive"].path_bytes) == [10**6, 0]


def test_a_path_that_turned_slow_is_noticed() -> None:
    """The second path is a hundred times slower than told: its first chunk is done after 100 ms.

    By then the first has sent 100 of its 139 chunks, and 39 ms are left. The mean of 1 and 100 ms is 50.5 ms: no more.
    """
    paths = parallel([1e9, 1e9])
    told = [Change(0.0, "l1", 0.01)]
    compared = compare_splits(paths, 140 * 10**6, chunk=10**6, changes=told, secondary_window=1)
    assert list(compared["adaptive"].path_bytes) == [139 * 10**6, 10**6]
    assert compared["adaptive"].finish == pytest.approx(0.139)


def test_the_re_solved_split_counts_what_windows_hold() -> None:
    """1 + 1 GB/s, 4 GB, 1 GB windows; at 0.5 s one halves: 1 + 1 GB are held, 1 GB waits.

    In 2 s the slow path sends the 1 GB that it holds, the other its own and all that waits: 2.5 s in all.
    """
    gb = 10**9
    paths, halved = parallel([1e9, 1e9]), [Change(0.5, "l0", 0.5)]
    compared = compare_splits(paths, 4 * gb, chunk=10**7, changes=halved, primary_window=gb, secondary_window=gb)
    assert compared["re-solved LP"].finish == pytest.approx(2.5, abs=0.03)


def test_what_windows_cannot_see() -> None:
    """Three equal paths, the third over the pools of both others: fair sharing moves 1.5, the LP 2 of it unused."""
    pools = [(1e9, {0: 1.0, 2: 1.0}), (1e9, {1: 1.0, 2: 1.0})]
    paths = parallel([1e10] * 3, pools=pools)
    every = ["direct", "pcie", "host"]
    compared = compare_splits(paths, 6 * 10**9, chunk=10**7, primary=every)
    assert compared.bound == pytest.approx(3.0)
    assert compared["static LP"].finish == pytest.approx(3.0, rel=1e-2)
    assert compared["adaptive"].finish == pytest.approx(4.0, rel=1e-2)
    # The two windows cure it when the path that hurts is the secondary one.
    cured = compare_splits(paths, 6 * 10**9, chunk=10**7, primary=["direct", "pcie"])
    assert cured["adaptive"].finish == pytest.approx(3.0, rel=1e-2)


def test_rounding_of_oracle_t15() -> None:
    """oracles.md T15: capacities 3 and 1, k equal chunks of 1/k GB."""
    for k, slowest in ((1, 1 / 3), (2, 1 / 3), (3, 1 / 3), (4, 1 / 4), (5, 0.8 / 3), (8, 1 / 4), (10, 0.8 / 3)):
        parts = whole_chunks([3.0, 1.0], k * 60, 60)
        assert sum(parts) == k * 60
        assert max(parts[0] / 3, parts[1]) / (k * 60) == pytest.approx(slowest)
    assert sorted(whole_chunks([1.0, 1.0, 1.0], 4, 1)) == [1, 1, 2]


def test_fluid_time_by_hand() -> None:
    starts, rates = np.array([0.0, 1.0, 2.0, 5.0]), np.array([2.0, 0.0, 1.0, 4.0])
    for size, time in ((0, 0.0), (1, 0.5), (2, 1.0), (3, 3.0), (5, 5.0), (9, 6.0)):
        assert fluid_time(starts, rates, size) == pytest.approx(time)


# --- promises of the issue -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("link", ["nv0:fwd", "port0:fwd", "up0:fwd", "net0:fwd"])
@pytest.mark.parametrize("when", [0.2, 0.5, 0.8])
def test_half_capacity_in_the_middle(link: str, when: float) -> None:
    compared = compare_splits(h800_paths(), 10**9, chunk=2**21, changes=[Change(when * 4.7e-3, link, 0.5)])
    adaptive = compared["adaptive"].finish
    assert adaptive <= 1.05 * compared["re-solved LP"].finish
    assert adaptive < compared["equal striping"].finish
    assert adaptive < compared["scale-up only"].finish
    assert compared.primary_lag <= 1.0
    assert all(not faults(compared, run) for run in compared.runs)


def test_drift_on_every_link() -> None:
    paths = h800_paths()
    used = [link for path in paths.paths for link in path.links]
    for seed in range(3):
        compared = compare_splits(paths, 10**9, chunk=2**21, changes=drift(used, 0.5, 3e-4, 1e-2, seed))
        assert compared["adaptive"].finish <= 1.05 * compared["re-solved LP"].finish
        assert compared["adaptive"].finish < compared["static LP"].finish
        assert compared.primary_lag <= 1.0


# --- properties ------------------------------------------------------------------------------------------------------


@given(case=transfers(), chunks=st.integers(1, 60), odd=st.integers(0, 9_999))
@settings(max_examples=60)
def test_bytes_are_conserved_and_nobody_beats_the_fluid_bound(
    case: tuple[PathSet, list[Change]], chunks: int, odd: int
) -> None:
    paths, changes = case
    chunk = 10**5
    compared = compare_splits(paths, chunks * chunk + odd, chunk=chunk, changes=changes, secondary_window=chunk)
    windows = [
        2 * chunk + int(np.ceil(path.bandwidth * path.latency)) if first else chunk
        for path, first in zip(paths.paths, compared.primary, strict=True)
    ]
    for run in compared.runs:
        assert faults(compared, run, windows) == []
        assert compared.lost(run) >= 0
    assert compared.primary_lag <= 1e-6 * compared.size


@given(case=transfers(latency=False, pools=False))
@settings(max_examples=20)
def test_small_chunks_converge_to_the_fluid(case: tuple[PathSet, list[Change]]) -> None:
    """Without shared links every policy has a closed form; each is met up to a few chunks on the slowest path."""
    paths, changes = case
    trace = make_trace(paths.network, changes)
    size = int(0.15 * sum(path.bandwidth for path in paths.paths))
    rows = [paths.network.row_ids.index(path.links[0]) for path in paths.paths]
    series = np.array([capacity[rows] for capacity in trace.capacities])
    starts, nominal = np.array(trace.starts), np.array([path.bandwidth for path in paths.paths])
    best = fluid_time(starts, series.sum(axis=1), size)
    fixed = [
        max(fluid_time(starts, series[:, k], size * shares[k]) for k in range(len(rows)))
        for shares in (np.full(len(rows), 1 / len(rows)), nominal / nominal.sum())
    ]
    for parts in (40, 400):
        chunk = -(-size // parts)
        compared = compare_splits(paths, size, chunk=chunk, changes=changes)
        slack = chunk / series.min()
        assert compared.bound == pytest.approx(best, rel=1e-6)
        assert compared["equal striping"].finish == pytest.approx(fixed[0], abs=2 * slack)
        assert compared["static LP"].finish == pytest.approx(fixed[1], abs=2 * slack)
        assert compared["re-solved LP"].finish <= best + 4 * slack
        assert compared["adaptive"].finish <= best + 4 * slack


@given(case=transfers(), parts=st.integers(5, 40))
@settings(max_examples=25)
def test_brute_force_stepper_agrees(case: tuple[PathSet, list[Change]], parts: int) -> None:
    paths, changes = case
    chunk = 2 * 10**5
    compared = compare_splits(paths, parts * chunk, chunk=chunk, changes=changes)
    slow = step_adaptive(paths, compared.primary, parts * chunk, chunk, changes, dt=compared.bound / 4000)
    # A tie decided the other way moves one chunk to another path, at the end at worst.
    least = min(path.bandwidth for path in paths.paths) * 0.3
    assert compared["adaptive"].finish == pytest.approx(slow, rel=0.02, abs=chunk / least)


def test_stepper_agrees_closely_where_there_are_no_ties() -> None:
    for rates, late, when in (([3e7, 1.1e7], [0.0, 0.0], 0.05), ([4.7e7, 1.3e7, 0.9e7], [1e-4, 1e-3, 2e-3], 0.03)):
        paths = parallel(rates, late)
        changes = [Change(when, "l0", 0.5)]
        compared = compare_splits(paths, 5 * 10**6, chunk=5 * 10**4, changes=changes)
        slow = step_adaptive(paths, compared.primary, 5 * 10**6, 5 * 10**4, changes, dt=1e-5)
        assert compared["adaptive"].finish == pytest.approx(slow, rel=2e-3)


# --- checkers catch what is broken -----------------------------------------------------------------------------------


def test_the_checker_sees_broken_runs() -> None:
    compared = two_paths()
    good = compared["adaptive"]
    windows = [8 * 10**6, 8 * 10**6]
    assert faults(compared, good, windows) == []
    lost = replace(good, arrivals=good.arrivals[:-1])
    assert "bytes delivered" in faults(compared, lost)
    assert "bytes on the wire" in faults(compared, replace(good, rates=good.rates * 0.9))
    assert "overfull" in faults(compared, replace(good, rates=good.rates * 1.01))
    early = [replace(item, arrived=item.arrived * 0.9, sent=item.sent * 0.9) for item in good.arrivals]
    assert "faster than the fluid bound" in faults(compared, replace(good, arrivals=tuple(early)))
    first = good.arrivals[0]
    greedy = [Arrival(first.path, first.size, 0.0, item.sent, item.arrived) for item in good.arrivals]
    assert "window" in faults(compared, replace(good, arrivals=tuple(greedy)), windows)
    hasty = (replace(first, sent=first.handed), *good.arrivals[1:])
    assert "too early" in faults(compared, replace(good, arrivals=hasty))


def test_a_starving_primary_window_is_noticed() -> None:
    compared = two_paths()
    adaptive = compared["adaptive"]
    starved = replace(adaptive, rates=adaptive.rates * np.array([0.8, 1.0]))
    broken = replace(compared, runs=(*compared.runs[:-1], starved))
    assert compared.primary_lag <= 1.0
    assert broken.primary_lag > 1e8


# --- input and output ------------------------------------------------------------------------------------------------


def test_wrong_input_is_named() -> None:
    paths = parallel([1e9, 1e9])
    with pytest.raises(InvalidInputError) as caught:
        compare_splits(paths, 10**6, changes=[Change(-1, "l0", 0.5), Change(1, "x", 0.5), Change(1, "l1", 0.0)])
    assert len(caught.value.faults) == 3
    with pytest.raises(InvalidInputError, match="chunks at most"):
        compare_splits(paths, 10**9, chunk=1)
    with pytest.raises(InvalidInputError, match="primary kinds nic"):
        compare_splits(paths, 10**6, primary=["nic"])
    with pytest.raises(InvalidInputError, match="window"):
        compare_splits(paths, 10**6, primary_window=0)
    with pytest.raises(InvalidInputError, match="drift"):
        drift(["l0"], 1.5, 1e-3, 1.0)


def test_table_and_json_say_the_same() -> None:
    compared = two_paths()
    table, facts = compared.table, compared.to_dict()
    assert list(table.index) == NAMES
    assert table["finish_us"].tolist() == [row["finish_us"] for row in facts["policies"]]
    assert table[["direct", "pcie"]].sum(axis=1).tolist() == pytest.approx([1.0] * 5)
    assert "never behind" in compared.summary()
    assert compared.to_dict() == two_paths().to_dict()
    assert drift(["a", "b"], 0.5, 1e-3, 5e-3, 7) == drift(["a", "b"], 0.5, 1e-3, 5e-3, 7)
    assert all(0.5 <= change.factor <= 1 for change in drift(["a"], 0.5, 1e-3, 1.0, 3))
