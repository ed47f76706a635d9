"""rocm-smi and amd-smi: weights before hops, sockets that NUMA nodes share, counts and rates of links."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from synth.topology import import_topology
from tests.topology.importing.samples import (
    PASTED,
    attempt,
    between,
    given_file,
    noted,
)

# AMD: weights, NUMA nodes, amd-smi


def test_weights_outrank_hops() -> None:
    """Hops are 1 for all six pairs; the weight of two, 30, says that they are not wired."""
    topology = import_topology(PASTED / "mi250.txt", gpu="mi250", assume="gen4")
    assert between(topology) == dict.fromkeys([(0, 1), (0, 3), (1, 2), (2, 3)], 1)


def test_missing_weights_are_said(tmp_path: Path) -> None:
    lines = (PASTED / "mi250.txt").read_text().split("\n")
    at = next(k for k, line in enumerate(lines) if "Weight" in line)
    path = given_file(tmp_path, "\n".join(lines[:at] + lines[at + 6 :]))
    topology = import_topology(path, gpu="mi250", assume="gen4")
    assert len(between(topology)) == 6
    assert noted(topology, "weights are not in the file")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("GPU0   0            15           30", "GPU0   0            15           22", "weight: GPU2 to GPU0 is 30"),
        ("30", "22", "weight 22 of an XGMI pair; expected 15 a hop"),
        ("=============== End of ROCm SMI Log", "", "'End of ROCm SMI Log' is missing: the output is cut"),
        ("GPU[3]\t\t: (Topology) Numa Node: 3\n", "", "no NUMA node of GPU3"),
    ],
)
def test_broken_weights_and_cut_output(tmp_path: Path, old: str, new: str, message: str) -> None:
    text = (PASTED / "mi250.txt").read_text()
    assert old in text
    _, faults = attempt(given_file(tmp_path, text.replace(old, new)), gpu="mi250", assume="gen4")
    assert any(message in fault for fault in faults), faults


def test_numa_nodes_of_a_socket_share_its_link() -> None:
    """Nodes 0, 1 have affinity 0 and 2, 3 affinity 1: four pairs cross, over one wire each way."""
    topology = import_topology(PASTED / "mi250.txt", gpu="mi250", assume="gen4")
    wires = {r.id: [link for link, _ in r.uses if link.startswith("cpu")] for r in topology.resources}
    assert sorted(wires["socket0-socket1.socket"]) == ["cpu0-cpu2", "cpu0-cpu3", "cpu1-cpu2", "cpu1-cpu3"]
    assert {r.bandwidth for r in topology.resources if r.id.startswith("socket")} == {16e9}


def test_amd_smi_has_counts_and_rates() -> None:
    """50000-200000 MB/s are four links of 50 GB/s; 0-0 with weight 30 is a pair that is not wired."""
    wired = {(0, 1): 4, (0, 2): 1, (1, 3): 2, (2, 3): 4}
    for gpu in (None, "mi250"):
        topology = import_topology(PASTED / "amd_smi.txt", assume="gen4", gpu=gpu)
        assert between(topology) == wired
        assert {link.bandwidth for link in topology.links if link.kind == "xgmi"} == {50e9}


def test_the_forms_of_amd_smi_agree(tmp_path: Path) -> None:
    """Text, a list of links per GPU, and the older JSON with an object per table."""
    items = json.loads((PASTED / "amd_smi.json").read_text())
    keys = {"weight": "weight", "hops": "num_hops", "link_type": "link_type", "numa_bandwidth": "bandwidth"}
    older = [
        {"gpu": item["gpu"]}
        | {new: {f"gpu_{link['gpu']}": link[key] for link in item["links"]} for new, key in keys.items()}
        for item in items
    ]
    paths = (PASTED / "amd_smi.txt", PASTED / "amd_smi.json", given_file(tmp_path, json.dumps(older), "old.json"))
    made = [import_topology(path, gpu="mi250", assume="gen4") for path in paths]
    assert len({(topology.nodes, topology.links, topology.resources) for topology in made}) == 1


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("LINK TYPE TABLE", "OTHER TABLE", "the LINK TYPE table is missing"),
        ("NUMA BW TABLE", "OTHER TABLE", "the NUMA BW table is missing"),
        ("50000-100000", "50000-70000", "bandwidth 50000-70000: expected one link's and a multiple of it"),
        ("0000:ce:00.0 30           15           15           0", "", "WEIGHT table: no cell: 0000:ce:00.0"),
        ("0000:ce:00.0 XGMI", "0000:ce:00.0 PCIE", "link type: 0000:ce:00.0 to 0000:c1:00.0 is PCIE"),
        ("50000-50000  0-0", "0-0          0-0", "the weight 15 is that of a direct xGMI link, and its bandwidth is 0"),
    ],
)
def test_broken_amd_smi(tmp_path: Path, old: str, new: str, message: str) -> None:
    text = (PASTED / "amd_smi.txt").read_text()
    assert old in text
    text = text.replace(old, new)
    if new.startswith("0-0"):
        text = text.replace("0000:c9:00.0 50000-50000", "0000:c9:00.0 0-0        ")
    _, faults = attempt(given_file(tmp_path, text), assume="gen4")
    assert any(message in fault for fault in faults), faults
