"""Plans kept by representatives say the same as the routes that they stand for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import synth
from synth.errors import InvalidInputError
from synth.export.plots.figures import plan_files
from synth.formulation.flow import orbits
from synth.formulation.flow.orbits import OrbitRoutes
from synth.formulation.flow.routes import link_bytes
from synth.formulation.flow.symmetry import find_symmetry, generated_symmetry
from synth.solver.flow import certified_bound
from synth.topology import Topology, resolve
from tests.reference_lp import time_of_routes

GROUPS = ("allgather", "reducescatter", "allreduce", "alltoall")
RAIL = "cluster:box=dgx-a100,hosts=4,fabric=rail"
LARGE = "cluster:box=dgx-a100,hosts=128,fabric=rail"


def broken(name: str, link: str) -> Topology:
    """A machine with one link at half its capacity."""
    whole = resolve(name)
    links = tuple(replace(k, efficiency=k.efficiency / 2) if k.id == link else k for k in whole.links)
    assert links != whole.links
    return replace(whole, links=links)


def orbit_routes(plan: synth.Plan) -> OrbitRoutes:
    assert isinstance(plan.routes, OrbitRoutes)
    return plan.routes


@pytest.mark.parametrize("collective", GROUPS)
@pytest.mark.parametrize("name", ["dgx1-v100", "mi250-16", "torus2d:4x4", RAIL])
def test_loads_and_counts_are_those_of_all_routes(name: str, collective: str) -> None:
    plan = synth.solve(name, collective, 1e9)
    routes = orbit_routes(plan)
    assert routes.symmetry.order > 1
    every = list(routes)
    assert len(every) == len(routes)
    assert routes[len(every) - 1] == every[-1]
    loads = plan.network.row_bytes(link_bytes(plan.network, plan.demand, every))
    np.testing.assert_allclose(plan.row_bytes, loads, rtol=1e-9, atol=1e-3)
    assert time_of_routes(plan) == pytest.approx(plan.time, rel=1e-9)
    served = np.bincount([r.commodity for r in every], [r.share for r in every])
    np.testing.assert_allclose(served, 1.0, rtol=1e-9)


@pytest.mark.parametrize("collective", GROUPS)
def test_broken_cluster_keeps_the_symmetry_that_is_left(collective: str) -> None:
    """One slow port of one GPU in 4 boxes of 8: 3 other boxes and 7 other rails still rotate, 21 elements."""
    machine = broken(RAIL, "h0.nv3-sw:fwd")
    plan = synth.solve(machine, collective, 1e9)
    routes = orbit_routes(plan)
    assert routes.symmetry.order == 21
    assert time_of_routes(plan) == pytest.approx(plan.time, rel=1e-9)
    assert len(list(routes)) == len(routes)
    off = synth.solve(machine, collective, 1e9, symmetry="off")
    assert plan.time == pytest.approx(off.time, rel=1e-6)
    assert plan.recheck() == pytest.approx(off.recheck(), rel=1e-6)


def test_scrambled_ranks_are_found() -> None:
    """The ranks of a cluster in no order: no digit rotates, the library finds hosts and rails."""
    whole = resolve("cluster:box=dgx-a100,hosts=3,fabric=rail")
    shuffled = tuple(whole.nodes[k] for k in np.random.default_rng(1).permutation(len(whole.nodes)))
    machine = replace(whole, nodes=shuffled)
    demand = synth.make_demand(machine, "allgather", 1e9)
    assert find_symmetry(machine, demand).order == 24
    assert synth.solve(machine, "allgather", 1e9).time == pytest.approx(synth.solve(whole, "allgather", 1e9).time)


@pytest.mark.parametrize("collective", ["allgather", "alltoall"])
def test_a_thousand_gpus_in_a_few_routes(collective: str, tmp_path: Path) -> None:
    plan = synth.solve(LARGE, collective, 1e9)
    routes = orbit_routes(plan)
    assert plan.status == "optimal"
    assert len(routes.representatives) <= 1100
    assert routes.symmetry.order == 1024
    # By hand: 127 of 128 parts cross each GPU's NIC of 25 GB/s (all-gather: once per box, 8 GPUs share that).
    part = 127 / 128 if collective == "alltoall" else 127 / 128 / 8
    assert plan.time == pytest.approx(part / 25, rel=1e-6)
    path = tmp_path / "plan.json"
    plan.save(str(path))
    assert synth.Plan.load(str(path)) == plan
    if collective == "alltoall":
        assert set(plan_files(plan)) == {"topology.png", "splits.png", "utilisation.png"}
    assert str(len(routes)) in plan.summary()


def test_long_sequences_are_walked_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(orbits, "KEPT", 10)
    plan = synth.solve("torus2d:4x4", "alltoall", 1e9)
    routes = orbit_routes(plan)
    every = list(routes)
    assert routes[7] == every[7]
    assert len(every) == len(routes) > 10


def test_certificate_does_not_trust_the_symmetry() -> None:
    """A claimed automorphism that moves prices is not used: the bound stays what the prices prove."""
    line = resolve("line:4")
    plan = synth.solve(line, "allgather", 4e9, symmetry="off")
    prices = dict(zip(plan.network.row_ids, plan.prices, strict=True))
    prices[line.links[0].id] *= 3.0
    honest = certified_bound(line, plan.demand, prices)
    for claim in ((3, 2, 1, 0), (1, 2, 3, 0), (0, 0, 1, 2)):
        assert certified_bound(line, plan.demand, prices, [claim]) == honest
    even = {link.id: 1.0 for link in line.links}
    assert certified_bound(line, plan.demand, even, [(3, 2, 1, 0)]) == pytest.approx(
        certified_bound(line, plan.demand, even)
    )


def test_wrong_symmetry_in_a_file_is_refused(tmp_path: Path) -> None:
    ring = resolve("ring:4")
    demand = synth.make_demand(ring, "allgather", 1e9)
    with pytest.raises(ValueError, match="automorphism"):
        generated_symmetry(ring, demand, [(1, 0, 2, 3)])
    path = tmp_path / "plan.json"
    synth.solve("ring:4", "allgather", 1e9).save(str(path))
    text = path.read_text(encoding="utf-8")
    start = text.index('"symmetry"', text.index('"prices_s_per_byte"'))
    path.write_text(text[:start] + '"symmetry": [[1, 0, 2, 3]],\n' + text[text.index('"columns": [', start) :], "utf-8")
    with pytest.raises(InvalidInputError, match="automorphism"):
        synth.Plan.load(str(path))
