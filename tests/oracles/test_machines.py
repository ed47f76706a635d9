"""The numbers of issue 2, "What it must show", on built-in machines; m = 1 GB per shard.

The optima of reference/peers.md are in tests/solver/flow/test_peers.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import synth
from synth.topology import Topology
from tests.reference_lp import duplex, machine, time_of_routes, transpose

GB = 1e9


def certified(topology: str | Topology, collective: str, size: float, **options: Any) -> synth.Plan:
    plan = synth.solve(topology, collective, size, **options)
    assert plan.status == "optimal"
    assert plan.gap <= 1e-6
    assert plan.bound <= plan.time
    assert plan.recheck() == pytest.approx(plan.bound, rel=1e-9)
    assert time_of_routes(plan) == pytest.approx(plan.time, rel=1e-9)
    return plan


@pytest.mark.parametrize(
    ("name", "collective", "seconds"),
    [
        ("dgx1-v100", "allgather", 7 / 150),
        ("dgx1-v100", "alltoall", 16 / 150),
        ("mi250-16", "allgather", 7 / 150),
        ("cluster:box=dgx-a100,hosts=2", "allgather", 15 / 325),
        ("torus2d:4x4,bandwidth=50 GB/s", "allgather", 0.075),
    ],
)
def test_certified_optimum(name: str, collective: str, seconds: float) -> None:
    gpus = len(synth.resolve(name).gpus)
    assert certified(name, collective, gpus * GB).time == pytest.approx(seconds, rel=1e-6)


@pytest.mark.parametrize("name", ["dgx1-v100", "switch:5", "mesh2d:2x4", "cluster:box=ring:3,hosts=2"])
def test_reduce_scatter_is_all_gather_on_the_transposed_machine(name: str) -> None:
    topology = synth.resolve(name)
    size = len(topology.gpus) * GB
    scattered = certified(topology, "reducescatter", size).time
    assert scattered == pytest.approx(certified(transpose(topology), "allgather", size).time, rel=1e-6)


def star(rates: Sequence[float]) -> Topology:
    """A full-duplex star with a NIC rate in GB/s per GPU."""
    return machine(len(rates), duplex((i, len(rates), rate) for i, rate in enumerate(rates)), switches=1)


@pytest.mark.parametrize(
    "rates",
    [
        (1.0, 1.0, 1.0),
        (1.0, 2.0, 3.0),
        (1.0, 4.0, 4.0),
        (2.0, 2.0, 1.0, 3.0),
        (1.0, 10.0, 10.0, 10.0),
        (4.0, 1.0, 4.0, 4.0),
        (5.0, 4.0, 3.0, 2.0, 1.0),
        (1.0, 1.0, 1.0, 1.0, 1.0),
        (3.0, 5.0, 5.0, 5.0, 4.0),
    ],
)
def test_allreduce_on_a_star(rates: tuple[float, ...]) -> None:
    expected = max(1 / min(rates), 2 * (len(rates) - 1) / sum(rates))
    assert certified(star(rates), "allreduce", GB).time == pytest.approx(expected, rel=1e-6)


@settings(max_examples=8, deadline=None, derandomize=True)
@given(st.lists(st.floats(0.5, 20.0), min_size=3, max_size=5))
def test_allreduce_on_any_star(rates: list[float]) -> None:
    expected = max(1 / min(rates), 2 * (len(rates) - 1) / sum(rates))
    assert certified(star(rates), "allreduce", GB).time == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(
    ("name", "algbw", "ratio"),
    [
        ("mesh2d:3x3,bandwidth=53.687 GB/s", 80.531, 4 / 3),
        ("mesh2d:4x4,bandwidth=53.687 GB/s", 85.899, 1.5),
        ("line:3,bandwidth=1 GB/s", 1.0, 4 / 3),
    ],
)
def test_allreduce_with_a_free_root_beats_reduce_scatter_and_all_gather(name: str, algbw: float, ratio: float) -> None:
    plan = certified(name, "allreduce", GB)
    assert plan.algbw / GB == pytest.approx(algbw, rel=1e-5)
    assert plan.method == "tree"
    assert plan.alternatives["tree"] == pytest.approx(plan.time, rel=1e-9)
    assert plan.alternatives["reducescatter+allgather"] / plan.time == pytest.approx(ratio, rel=1e-6)


@pytest.mark.parametrize("name", ["torus2d:3x3", "ring:5", "dgx1-v100", "dgx-a100"])
def test_allreduce_of_even_machines_needs_no_free_root(name: str) -> None:
    plan = certified(name, "allreduce", GB)
    assert plan.alternatives["tree"] == pytest.approx(plan.alternatives["reducescatter+allgather"], rel=1e-6)
    assert plan.time == pytest.approx(min(plan.alternatives.values()), rel=1e-9)
