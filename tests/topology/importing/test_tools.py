"""TE-CCL, TACCL, ASTRA-sim and the rest: topologies as graphs."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import pytest

from synth.errors import InvalidInputError
from synth.topology import Topology, import_topology
from tests.topology.importing.samples import SAMPLES, SHARED, needs_shared


def capacities(topology: Topology) -> dict[tuple[int, int], float]:
    """Capacity per ordered pair of nodes, parallel links added up."""
    out: Counter[tuple[int, int]] = Counter()
    for link, ends in zip(topology.links, topology.ends, strict=True):
        out[ends] += round(link.bandwidth)
    return dict(out)


def teccl(tmp_path: Path, **params: object) -> Path:
    path = tmp_path / "teccl.json"
    path.write_text(json.dumps({"TopologyParams": params, "GurobiParams": {}}))
    return path


@needs_shared
@pytest.mark.parametrize(
    ("name", "chassis", "instance"),
    [
        ("DGX1", 1, "teccl_dgx1_a0.7"),
        ("NDv2", 2, "teccl_ndv2_2ch_fixed"),
        ("AMD", 1, "teccl_amd_1ch"),
        ("DGX2", 2, "teccl_dgx2_2ch"),
    ],
)
def test_teccl_is_the_graph_that_teccl_solves(tmp_path: Path, name: str, chassis: int, instance: str) -> None:
    """The shared instances were written by TE-CCL's own code."""
    imported = import_topology(teccl(tmp_path, name=name, chassis=chassis, chunk_size=0.1))
    theirs = import_topology(SHARED / f"instances/{instance}.json")
    assert len(imported.gpus) == len(theirs.gpus)
    order = {node: k for k, node in enumerate((*imported.gpus, *_switches(imported)))}
    other = {node: k for k, node in enumerate((*theirs.gpus, *_switches(theirs)))}
    assert {(order[a], order[b]): c for (a, b), c in capacities(imported).items()} == {
        (other[a], other[b]): c for (a, b), c in capacities(theirs).items()
    }
    assert {link.latency for link in imported.links} == {link.latency for link in theirs.links}


def _switches(topology: Topology) -> tuple[int, ...]:
    return tuple(k for k, node in enumerate(topology.nodes) if node.kind == "switch")


def test_teccl_mesh_needs_a_rate(tmp_path: Path) -> None:
    path = teccl(tmp_path, name="Mesh", chassis=1, side_length=3, alpha=[1e-6, 0.0])
    with pytest.raises(InvalidInputError, match="rate of a link is not in the file"):
        import_topology(path)
    table = tmp_path / "speeds.json"
    table.write_text('{"format": "synth-speeds/1", "link": "100 GB/s"}')
    topology = import_topology(path, assume=table)
    # A helix of 9: 8 pairs at distance 1, 6 at distance 3.
    assert len(topology.links) == 2 * (8 + 6)
    assert {(link.bandwidth, link.latency) for link in topology.links} == {(100e9, 1e-6)}


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"name": "DGX3"}, "'DGX3' is not one of DGX1, NDv2, DGX2, AMD, Mesh"),
        ({"name": "DGX2", "chassis": 3}, "3 chassis of DGX2: 1 to 2"),
        ({"name": "DGX1", "chassis": "1"}, "'1' chassis of DGX1"),
        ({"name": "Mesh", "side_length": 0}, "must be a number from 2 to 256"),
    ],
)
def test_teccl_faults(tmp_path: Path, params: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidInputError, match=re.escape(message)):
        import_topology(teccl(tmp_path, **params))


def test_taccl_matrices_have_destinations_as_rows() -> None:
    topology = import_topology(SAMPLES / "taccl.json")
    found = {(link.src, link.dst): link.bandwidth for link in topology.links}
    us_per_mb = {pair: 2**20 / rate * 1e6 for pair, rate in found.items()}
    assert us_per_mb == pytest.approx({("g1", "g0"): 20.0, ("g0", "g1"): 20.0, ("g2", "g1"): 40.5, ("g0", "g2"): 10.0})
    assert [link.latency for link in topology.links] == pytest.approx([0.5e-6] * 4)


@needs_shared
@pytest.mark.parametrize(
    ("name", "fast", "slow"), [("ndv2-1KB", 45.7, 22.8), ("ndv2-32KB", 45.6, 22.8), ("ndv2-1MB", 45.6, 22.8)]
)
def test_taccl_profiles_of_one_machine_agree(name: str, fast: float, slow: float) -> None:
    """Whatever the chunk size of the profile: two NVLinks of NDv2 reach 45.6 GB/s, one 22.8, and alpha is 0.3 us."""
    topology = import_topology(SHARED / f"exchange/topo-{name}.json")
    assert Counter(round(link.bandwidth / 1e9, 1) for link in topology.links) == Counter({fast: 16, slow: 16})
    assert {round(link.latency * 1e6, 9) for link in topology.links} == {0.3}


@needs_shared
def test_taccl_dgx2() -> None:
    topology = import_topology(SHARED / "exchange/topo-dgx2-1MB.json")
    assert len(topology.gpus) == 16
    assert {round(link.bandwidth / 1e9, 1) for link in topology.links} == {131.1}
    assert sum(link.latency for link in topology.links[:2]) == pytest.approx(0.3e-6)


def test_taccl_faults(tmp_path: Path) -> None:
    path = tmp_path / "taccl.json"
    profile = json.loads((SAMPLES / "taccl.json").read_text())
    for change, message in (
        ({"name": "mine"}, "does not end in the chunk size"),
        ({"betas": [[1, 2], [3, 4]]}, "3 GPUs need 3 rows of 3 numbers"),
        ({"links": []}, "has no links matrix and is neither NDv2 nor DGX2"),
        ({"alpha": "1"}, "alpha"),
        ({"betas": [[0, 0, 0]] * 3}, "leaves no finite bandwidth"),
    ):
        path.write_text(json.dumps({**profile, **change}))
        with pytest.raises(InvalidInputError, match=re.escape(message)):
            import_topology(path)


def test_astra_dimensions() -> None:
    """4 x 2: two rings of four, and four switches that join the rings."""
    topology = import_topology(SAMPLES / "network.yml")
    assert len(topology.gpus) == 8
    assert len(_switches(topology)) == 4
    assert Counter((link.bandwidth, link.latency) for link in topology.links) == Counter(
        {(50e9, 500e-9): 16, (12.5e9, 936.25e-9): 16}
    )
    ends = {(link.src, link.dst) for link in topology.links}
    assert {("g3", "g0"), ("g4", "g5"), ("g1", "sw1.1"), ("g5", "sw1.1")} <= ends


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[ 4, 2 ]", "[ 4 ]", "the lists have different lengths"),
        ("[ 4, 2 ]", "[ 4, 1.5 ]", "1.5 is not a number of NPUs"),
        ("Switch", "Torus", "'Torus' is no building block"),
        ("12.5", "-1.0", "negative"),
        ("12.5", ".inf", "bandwidth[1]"),
        ("12.5", "0.0", "zero"),
        ("bandwidth:", "bandwith:", "bandwidth: must be a list"),
        ("[ 4, 2 ]", "[ 4, 2 ", "not YAML"),
        ("[ 4, 2 ]", "[ 4000, 4000 ]", "is the most"),
    ],
)
def test_astra_faults(tmp_path: Path, old: str, new: str, message: str) -> None:
    path = tmp_path / "network.yml"
    path.write_text((SAMPLES / "network.yml").read_text().replace(old, new))
    with pytest.raises(InvalidInputError, match=re.escape(message)):
        import_topology(path)


@needs_shared
def test_every_shared_exchange_file_imports_or_says_why_not() -> None:
    refused = {}
    files = [path for path in (SHARED / "exchange").rglob("*") if path.is_file()]
    for path in sorted(files):
        if path.suffix == ".et":  # binary
            continue
        try:
            assert import_topology(path).gpus
        except InvalidInputError as error:
            refused[path.relative_to(SHARED / "exchange").as_posix()] = error.faults[0]
    imported = {path.relative_to(SHARED / "exchange").as_posix() for path in files if path.suffix != ".et"} - set(
        refused
    )
    assert {name.split("/")[0] for name in imported} >= {"ns3", "astra", "teccl"}
    assert {name for name in imported if name.startswith("teccl/")} == {
        "teccl/amd_sample.json",
        "teccl/dgx2_sample.json",
        "teccl/ndv2_input.json",
        "teccl/ndv2_sample.json",
    }
    assert len([name for name in imported if name.startswith("topo-")]) == 5
    assert "TACCL sketch" in refused["taccl_sketch/sk1-dgx2-n1.json"]
    assert "TE-CCL result" in refused["teccl/mesh_4.json"]
    assert "htsim" in refused["astra/network/htsim/8nodes.topo"]
    assert "logical dimensions" in refused["astra/network/ns3/sample_4nodes_1D.json"]


@needs_shared
def test_plain_instances_and_simai_are_found_out() -> None:
    assert len(import_topology(SHARED / "instances/ring4.json").gpus) == 4
    assert len(import_topology(SHARED / "exchange/ns3/star-n3").gpus) == 3


def test_wrong_options_all_at_once() -> None:
    with pytest.raises(InvalidInputError) as caught:
        import_topology(SAMPLES / "rails.xml", gpu="h10", hosts=0, fabric="tree", capacities="real", paths=[])
    assert len(caught.value.faults) == 5
    assert "perhaps 'h100' is meant" in caught.value.faults[0]
    with pytest.raises(InvalidInputError, match="use one of nccl"):
        import_topology(SAMPLES / "rails.xml", "nvml")
    with pytest.raises(InvalidInputError, match="not the parts of one box"):
        import_topology(SAMPLES / "network.yml", hosts=2)
    with pytest.raises(InvalidInputError, match="cannot be joined"):
        import_topology(SAMPLES / "rings.xml", hosts=2)
    with pytest.raises(InvalidInputError, match="no PCIe generation"):
        import_topology(SAMPLES / "rails.xml", assume="gen9")
    with pytest.raises(InvalidInputError, match="does not follow from the name"):
        import_topology(SAMPLES / "provider.xml", gpu="v100", assume="gen3")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "text of no known kind"),
        ("{}", "JSON of no known kind"),
        ("[]", "JSON of no known kind"),
        ("<algo/>", "an MSCCL algorithm"),
        ("<!DOCTYPE a [<!ENTITY b 'c'>]><system>&b;</system>", "declares an entity"),
        ("<system/>", "without cpu elements"),
        ("<system>" + "<a>" * 300 + "</a>" * 300 + "</system>", "nested deeper"),
    ],
)
def test_files_of_no_kind(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "file"
    path.write_text(text)
    with pytest.raises(InvalidInputError, match=re.escape(message)):
        import_topology(path)
