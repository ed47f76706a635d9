"""Speeds that cannot be, rates that are achieved, and the names of GPUs that supply them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from synth.errors import InvalidInputError
from synth.topology import import_topology
from synth.topology.box.gpus import find_gpu
from tests.topology.importing.samples import (
    SAMPLES,
    attempt,
    given_file,
    matrix,
    noted,
)

# Speeds that cannot be, and rates that are achieved


def _bridged(uplink: str) -> str:
    gpu = '<gpu dev="{0}" sm="89" rank="{0}" gdr="1"/>'
    devices = "".join(
        f'<pci busid="0000:1{i}:00.0" class="0x030200" link_speed="32.0 GT/s PCIe" link_width="16">'
        f"{gpu.format(i)}</pci>"
        for i in range(2)
    )
    cpu = '<cpu numaid="0" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="143">'
    return (
        f'<system version="1">{cpu}<pci busid="0000:01:00.0" class="0x060400" {uplink}>{devices}</pci></cpu></system>'
    )


def test_a_bridge_that_cannot_be_is_named_and_can_be_overridden(tmp_path: Path) -> None:
    path = given_file(tmp_path, _bridged('link_speed="2.5 GT/s PCIe" link_width="1"'), "vm.xml")
    topology = import_topology(path, assume="gen5")
    assert noted(topology, "implausible: a PCIe bridge of 250 MB/s above a device of 63.02 GB/s", "0000:01:00.0")
    speed = {r.id: r.bandwidth for r in topology.resources}
    assert speed["pcie0:up"] == pytest.approx(63.015e9, rel=1e-4)
    table = {"format": "synth-speeds/1", "memory": "200 GB/s", "elements": {"0000:01:00.0": "1 GB/s"}}
    slow = import_topology(path, assume=given_file(tmp_path, json.dumps(table), "speeds.json"))
    assert {r.id: r.bandwidth for r in slow.resources}["pcie0:up"] == 1e9


def test_a_narrow_bridge_that_can_be_is_believed(tmp_path: Path) -> None:
    path = given_file(tmp_path, _bridged('link_speed="16.0 GT/s PCIe" link_width="8"'), "vm.xml")
    topology = import_topology(path, assume="gen5")
    assert not any("implausible" in note for note in topology.notes)
    assert {r.id: r.bandwidth for r in topology.resources}["pcie0:up"] == pytest.approx(15.754e9, rel=1e-4)


def test_rates_of_nccls_tables_are_tagged_achievable() -> None:
    topology = import_topology(SAMPLES / "rings.xml")
    assert noted(topology, "xgmi speed 24 GB/s is an achievable rate (NCCL's or RCCL's), no nominal one is known")


def test_numa_nodes_of_nccl_files_share_their_sockets_link(tmp_path: Path) -> None:
    """Eight NUMA nodes on two sockets: sixteen pairs cross, over one wire of NCCL's 16 GB/s each way."""
    gpu = '<pci busid="0000:{0:02x}:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16"><gpu dev="{0}" '
    cpus = "".join(
        f'<cpu numaid="{k}" arch="x86_64" vendor="AuthenticAMD" familyid="143" modelid="49">'
        f'{gpu.format(k)}sm="80" rank="{k}" gdr="1"/></pci></cpu>'
        for k in range(8)
    )
    path = given_file(tmp_path, f'<system version="1">{cpus}</system>', "eight.xml")
    topology = import_topology(path, assume="gen4")
    wires = {r.id: (r.bandwidth, sum(k.startswith("cpu") for k, _ in r.uses)) for r in topology.resources}
    assert wires["socket0-socket1.socket"] == wires["socket1-socket0.socket"] == (16e9, 16)
    assert "cpu0-cpu4.socket" not in wires
    assert noted(topology, "cpu0, cpu1, cpu2, cpu3 | cpu4, cpu5, cpu6, cpu7")


@pytest.mark.parametrize(
    ("name", "gpu", "message"),
    [
        ("pasted/amd_smi.txt", "mi210", "GPU 0000:c1:00.0 has 5 scale-up links in the file, the mi210 has 3; is --gpu"),
        ("pasted/amd_smi.txt", "a100", "the file has xgmi, the a100 has nvlink; is --gpu right?"),
        ("nvswitch.xml", "a100", "has 18 scale-up links in the file, the a100 has 12"),
        ("hwloc.xml", "t4", "scale-up links in the file, the t4 has none"),
        ("pasted/nccl.log", "p100", "scale-up links in the file, the p100 has 4"),
    ],
)
def test_a_gpu_that_cannot_have_the_files_links_is_refused(name: str, gpu: str, message: str) -> None:
    topology, faults = attempt(SAMPLES / name, gpu=gpu, assume="gen5")
    assert topology is None
    assert any(message in fault for fault in faults), faults


# Names of GPUs


@pytest.mark.parametrize(
    ("printed", "name"),
    [
        ("NVIDIA H100 80GB HBM3", "h100"),
        ("NVIDIA H100 PCIe", "h100-pcie"),
        ("NVIDIA H100 NVL", "h100-nvl"),
        ("NVIDIA A100-SXM4-40GB", "a100"),
        ("NVIDIA A100 80GB PCIe", "a100-pcie"),
        ("A100-PCIE-40GB", "a100-pcie"),
        ("Tesla V100-SXM2-32GB", "v100"),
        ("Tesla V100-PCIE-16GB", "v100-pcie"),
        ("Tesla T4", "t4"),
        ("NVIDIA L4", "l4"),
        ("NVIDIA L40S", "l40s"),
        ("NVIDIA A10", "a10"),
        ("NVIDIA A10G", "a10g"),
        ("NVIDIA A30", "a30"),
        ("NVIDIA RTX A6000", "a6000"),
        ("NVIDIA GeForce RTX 3090", "rtx3090"),
        ("NVIDIA GeForce RTX 5090", "rtx5090"),
        ("NVIDIA GH200 480GB", "gh200"),
        ("NVIDIA GB200", "gb200"),
        ("NVIDIA B300 SXM6 AC", "b300"),
        ("AMD Instinct MI300X", "mi300x"),
        ("AMD Instinct MI325X", "mi325x"),
        ("AMD Instinct MI355X", "mi355x"),
        ("AMD Instinct MI250X / MI250", "mi250"),
        ("H800", "h800"),
    ],
)
def test_names_that_machines_print(printed: str, name: str) -> None:
    model = find_gpu(printed)
    assert model is not None
    assert model.name == name


@pytest.mark.parametrize("text", ["NVIDIA H200 NVL", "A800 80GB PCIe", "RTX 4090 Ti", "H100 MIG", "", "GPU", "NVIDIA"])
def test_names_of_other_cards_are_not_taken_for_known_ones(text: str) -> None:
    assert find_gpu(text) is None


def test_an_unknown_name_says_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="gpu 'NVIDIA H101 80GB' is not known; perhaps 'h100' is meant"):
        import_topology(given_file(tmp_path, matrix("NV4", 2)), gpu="NVIDIA H101 80GB")
