"""Sweeps over message sizes: crossovers by hand, ranges without gap or overlap, files that verify where they serve."""

from __future__ import annotations

import json
import math
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.figure import Figure

import synth
from synth.errors import InvalidInputError, NotExpressibleError
from synth.export import accepts, read_xml, verify_file
from synth.export.plots_sweep import plot_bandwidths, plot_front
from synth.program import TARGETS, target_named
from synth.program.deadlocks import UNLIMITED, hang_at
from synth.schedule import BlockCosts, Schedule, TimeModel, simulate_schedule
from synth.schedule.baselines import baseline
from synth.schedule.bounds import plan_bound
from synth.schedule.model import Transfer
from synth.schedule.rivals import RIVALS, Instance, family_of, plan_at, rivals
from synth.schedule.shallow import shallow_recipe
from synth.size_sweep import Sweep
from synth.sweep_judge import sweep_sizes
from synth.topology import Topology, resolve
from tests.schedule.test_schedule import check_schedule
from tests.strategies import topologies
from tests.test_cli import run

RING = "ring:4,bandwidth=25 GB/s,latency=1 us"


def only(*names: str) -> tuple[object, ...]:
    """Makers of single baselines, each with one chunk per shard."""

    def maker(name: str) -> object:
        return lambda i: {f"{name}-k1": baseline(name, i.plan.topology, i.plan.demand, chunks=1)}

    return tuple(maker(name) for name in names)


def check_partition(found: Sweep) -> None:
    """Every size from 0 to the last end lies in exactly one file, which the runtime itself would select."""
    target = found.judge.target
    assert found.ranges[0].first == 0
    for a, b in zip(found.ranges, found.ranges[1:], strict=False):
        assert a.last + 1 == b.first
    assert [r.swept[0] for r in found.ranges] == [0, *(r.swept[1] for r in found.ranges[:-1])]
    assert found.ranges[-1].swept[1] == len(found.sizes)
    edges = {size for r in found.ranges for size in (r.first, r.first + 1, r.last - 1, r.last) if r.first <= size <= r.last}
    for size in edges.union(found.sizes):
        serving = [
            k for k, r in enumerate(found.ranges)
            if target.serves(r.program.draft.min_bytes, r.program.draft.max_bytes, size)
        ]
        assert serving == [k for k, r in enumerate(found.ranges) if r.first <= size <= r.last]
        assert len(serving) == 1
    for size, number in zip(found.table["size_bytes"], found.table["file"], strict=True):
        assert found.ranges[number - 1].first <= size <= found.ranges[number - 1].last


def check_files(found: Sweep, folder: Path) -> None:
    """What lies in the folder loads, verifies, and ends at both ends of its range."""
    target = found.judge.target
    index = json.loads((folder / "index.json").read_text())
    assert [entry["file"] for entry in index["files"]] == sorted(
        str(path.relative_to(folder)) for path in (folder / "algorithms").iterdir()
    )
    for entry, span in zip(index["files"], found.ranges, strict=True):
        path = folder / entry["file"]
        assert accepts(path.read_text(), target).accepted
        assert verify_file(path, target).ok
        draft = read_xml(path, target)
        assert (draft.min_bytes, draft.max_bytes) == (entry["min_bytes"], entry["max_bytes"])
        assert (entry["first_bytes"], entry["last_bytes"]) == (span.first, span.last)
        for size in (span.first, span.last):
            assert target.serves(draft.min_bytes, draft.max_bytes, size)
            assert not hang_at(draft, target, size)


def test_the_crossover_of_two_schedules_on_a_ring_is_where_alpha_and_beta_put_it() -> None:
    """All-gather of n bytes on a ring of 4, b = n / 4 / 25 GB/s, a = 1 us.

    Ring, one way: three hops one after the other, 3 a + 3 b. Direct: everybody sends its shard to both neighbours,
    and to the far rank over one of them: that link has b twice. With the far rank's copy sent first it has arrived
    after 2 a + 2 b at the earliest; the simulator says when it has.
    """
    sizes = [1 << k for k in range(10, 24)]
    found = synth.sweep(RING, "allgather", sizes, makers=only("ring", "direct"), tolerance=0.0)  # type: ignore[arg-type]
    beta = [n / 4 / 25e9 for n in sizes]
    assert found.times[0] == pytest.approx([3e-6 + 3 * b for b in beta])
    assert found.times[1] >= pytest.approx([2e-6 + 2 * b for b in beta])


def test_broadcast_crosses_over_by_hand() -> None:
    """Broadcast of n bytes on a full mesh of 4, a = 1 us, 1 / c = 1 / 25 GB/s, one chunk.

    Direct: a + n / c. In two chunks along the ring: 4 slots (3 hops, one more chunk) of a + n / 2c in which latency
    overlaps: 3 a + 2 n / c > direct at every size. Two halves scattered over two trees: never better either. So one
    file does at all sizes.
    """
    found = synth.sweep("fullmesh:4,bandwidth=25 GB/s,latency=1 us", "broadcast", "1KiB:1MiB", root=0)
    k = list(found.candidates).index("direct-k1")
    assert found.times[k] == pytest.approx([1e-6 + n / 25e9 for n in found.sizes])


def test_a_rule_of_two_lines_sets_the_boundary() -> None:
    """Recursive doubling against the ring on a mesh of 4 with a slow start: 2 a + 3 b against 3 a + 3 b, never equal;
    the all-pairs all-gather, a + b, wins everywhere."""
    found = synth.sweep(
        "fullmesh:4,bandwidth=25 GB/s,latency=1 us",
        "allgather",
        "1KiB:1MiB",
        makers=only("ring", "recursive-doubling", "direct"),  # type: ignore[arg-type]
    )
    beta = np.array(found.sizes) / 4 / 25e9
    assert found.times == pytest.approx(np.array([3e-6 + 3 * beta, 2e-6 + 3 * beta, 1e-6 + beta]))
    assert [r.rival for r in found.ranges] == ["direct-k1"]
