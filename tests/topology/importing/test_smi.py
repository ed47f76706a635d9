"""nvidia-smi topo -m, rocm-smi --showtopo and hwloc XML."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from synth.errors import InvalidInputError
from synth.topology import Topology, builtin, import_topology
from tests.topology.importing.samples import SAMPLES, SHARED, needs_shared
from tests.topology.importing.test_nccl import everyone, isomorphic, rates


def ids(topology: Topology, kind: str) -> list[str]:
    return [node.id for node in topology.nodes if node.kind == kind]


def test_new_headings() -> None:
    """Underlined heading, GPU NUMA ID column, NIC legend; a PXB switch over a PIX one, and a lone NIC."""
    topology = import_topology(SAMPLES / "smi_new.txt", gpu="a100", assume="gen4")
    assert rates(topology)["nvlink", 25e9] == 8  # NV4, both ways
    ends = {(link.src, link.dst) for link in topology.links}
    assert {("g0", "pix0"), ("pix0", "pxb0"), ("g1", "pxb0"), ("pxb0", "cpu0"), ("g2", "cpu1")} <= ends
    assert ("pix0", "nic0.tx") in ends
    assert ("cpu2", "nic1.tx") in ends  # SYS to everything
    assert any("mlx5_bond_0" in note for note in topology.notes)
    everyone(topology)


def test_old_headings_and_a_switch_told_from_the_counts() -> None:
    """NV12 between any two of four GPUs is more than 12 or 18 links could give: a switch."""
    topology = import_topology(SAMPLES / "smi_old.txt", gpu="a100", assume="gen4")
    assert "nvsw" in ids(topology, "switch")
    assert rates(topology)["nvlink", 300e9] == 8
    assert [node.host for node in topology.nodes if node.kind == "cpu"] == ["h0"] * 4
    numa = {link.src: link.dst for link in topology.links if link.dst.startswith("cpu") and link.src.startswith("g")}
    assert numa == {"g0": "cpu0", "g1": "cpu0", "g2": "cpu1", "g3": "cpu1"}


def test_counts_that_a_gpu_can_share_out_are_cables(tmp_path: Path) -> None:
    """NV4 between any two of four: 3 x 4 = 12 links per GPU, wired one to another (A100 boards of four)."""
    path = tmp_path / "smi.txt"
    path.write_text((SAMPLES / "smi_old.txt").read_text().replace("NV12", "NV4 "))
    topology = import_topology(path, gpu="a100", paths=["nvlink"])
    assert ids(topology, "switch") == []
    assert rates(topology)["nvlink", 25e9] == 6 * 4 * 2


def test_six_links_to_each_of_three_are_cables(tmp_path: Path) -> None:
    """NV6 between any two of four H100: 3 x 6 = 18 links, all that the GPU has."""
    path = tmp_path / "smi.txt"
    path.write_text((SAMPLES / "smi_old.txt").read_text().replace("NV12", "NV6 "))
    topology = import_topology(path, gpu="h100", paths=["nvlink"])
    assert ids(topology, "switch") == []
    assert rates(topology)["nvlink", 25e9] == 6 * 6 * 2


def test_without_the_gpus_name_nvlink_has_no_speed() -> None:
    with pytest.raises(InvalidInputError, match="speed of one nvlink link of 'GPU0-GPU1' is not known; give --gpu"):
        import_topology(SAMPLES / "smi_new.txt", paths=["nvlink"])


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("NV12     X      NV12", "NV12     NV12   NV12", "GPU1 to GPU1 is NV12; X stands on the diagonal"),
        ("PHB     0-23", "", "row GPU0: 4 cells, the heading has 5 devices"),
        ("GPU3    NV12 ", "GPU9    NV12 ", "the heading has GPU3, but there is no such row"),
        ("GPU1    NV12 ", "GPU1    NV11 ", "they must agree"),
        ("NODE    0-23", "NEAR    0-23", "NEAR is no connection"),
    ],
)
def test_broken_matrices(tmp_path: Path, old: str, new: str, message: str) -> None:
    path = tmp_path / "smi.txt"
    text = (SAMPLES / "smi_old.txt").read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    with pytest.raises(InvalidInputError, match=re.escape(message)):
        import_topology(path, gpu="a100", assume="gen4")


@needs_shared
@pytest.mark.parametrize("number", range(1, 6))
def test_shared_v100_matrices_are_hybrid_cube_meshes(number: int) -> None:
    """8 V100 with 6 links each, two numberings of one graph: DGX-1's."""
    path = SHARED / f"topo/nvidia_smi/Oneflow-Inc_DLPerf_{number:02d}.txt"
    topology = import_topology(path, gpu="v100", assume="gen3")
    assert rates(topology)["nvlink", 25e9] == 8 * 6
    assert isomorphic(topology, builtin("dgx1-v100"))
    everyone(topology)


@needs_shared
def test_shared_nvswitch_matrices() -> None:
    for name, gpu, rate in (
        ("stas00_ml-engineering_08", "a100", 300e9),
        ("ArthurChiao_arthurchiao.github.io_00", "h100", 450e9),
    ):
        topology = import_topology(SHARED / f"topo/nvidia_smi/{name}.txt", gpu=gpu, paths=["nvlink"])
        assert rates(topology) == Counter({("nvlink", rate): 16})


def test_rocm_smi() -> None:
    """XGMI at one hop is a link; PCIE pairs go over PCIe and between NUMA nodes."""
    topology = import_topology(SAMPLES / "rocm.txt", gpu="mi210", assume="gen4")
    assert [(link.src, link.dst) for link in topology.links if link.kind == "xgmi"] == [("g0", "g1"), ("g1", "g0")]
    assert rates(topology)["xgmi", 50e9] == 2
    assert any("number of xGMI links per pair is not in the file" in note for note in topology.notes)
    everyone(topology)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("Link Type between two GPUs", "Kind of link", "'Link Type between two GPUs' is missing"),
        ("GPU2   PCIE         PCIE         0", "GPU2   PCIE         XGMI         0", "GPU2 to GPU1 is XGMI"),
        ("GPU2   PCIE         PCIE         0", "GPU2   PCIE         XXXX         0", "'XXXX' is not understood"),
        ("GPU2   PCIE         PCIE         0", "", "the heading has GPU2, but there is no such row"),
    ],
)
def test_broken_rocm_output(tmp_path: Path, old: str, new: str, message: str) -> None:
    path = tmp_path / "rocm.txt"
    text = (SAMPLES / "rocm.txt").read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    with pytest.raises(InvalidInputError, match=re.escape(message)):
        import_topology(path, gpu="mi210", assume="gen4")


def test_hwloc() -> None:
    topology = import_topology(SAMPLES / "hwloc.xml", assume="gen3")
    assert len(topology.gpus) == 3
    # 25 GB/s between two GPUs, 50 GB/s from each to the NVSwitch, nothing for the third; the VGA is no GPU.
    assert Counter((link.kind, link.bandwidth) for link in topology.links if link.kind == "nvlink") == Counter(
        {("nvlink", 25e9): 2, ("nvlink", 50e9): 4}
    )
    ends = {(link.src, link.dst): link.bandwidth for link in topology.links}
    assert ends["g0", "pcie0"] == ends["pcie0", "cpu0"] == 15.753846e9
    assert ends["cpu0", "cpu1"] == 10e9  # Skylake, NCCL
    assert ends["cpu1", "nic0.tx"] == 12.5e9  # gen3 servers: 100 Gb/s
    everyone(topology)


def test_hwloc_rows_are_sources(tmp_path: Path) -> None:
    path = tmp_path / "box.xml"
    path.write_text((SAMPLES / "hwloc.xml").read_text().replace("0 25000 1000000", "0 40000 1000000"))
    topology = import_topology(path, paths=["nvlink"])
    direct = {(k.src, k.dst): k.bandwidth for k in topology.links if k.src[0] == k.dst[0] == "g"}
    assert direct == {("g0", "g1"): 25e9, ("g1", "g0"): 40e9}


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("1000000 25000 50000 0 25000", "1000000 25000 50000 25000", "4 objects need 16 whole numbers"),
        ("15.753846", "fast", "pci_link_speed='fast' is not a number"),
        ('pci_type="0302', 'pci_type="0106', "GPU"),
        ("</topology>", "", "not well-formed"),
    ],
)
def test_broken_hwloc(tmp_path: Path, old: str, new: str, message: str) -> None:
    path = tmp_path / "box.xml"
    text = (SAMPLES / "hwloc.xml").read_text()
    if message == "GPU":
        text = text.replace('pci_type="0300 [10de', 'pci_type="0106 [10de')
    assert old in text
    path.write_text(text.replace(old, new))
    with pytest.raises(InvalidInputError, match=message):
        import_topology(path, assume="gen3")


@needs_shared
def test_shared_hwloc_dgx2() -> None:
    topology = import_topology(SHARED / "topo/hwloc/nvidiaDGX2.xml")
    assert isomorphic(topology, builtin("dgx2"))
    everyone(topology)
