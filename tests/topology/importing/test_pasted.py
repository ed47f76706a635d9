"""Kinds of pasted tables, by small samples of our own, and matrices that are written from machines and read back."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from synth.errors import InvalidInputError
from synth.topology import import_topology
from synth.topology.box.gpus import find_gpu
from synth.topology.box.parts import Box, Gpu, Nic
from synth.topology.importing.dumps.nvidia.matrix import read_nvidia_smi
from synth.topology.importing.pasted import clean
from tests.topology.importing.samples import SAMPLES, attempt
from tests.topology.importing.test_reports import between, count, no_scale_up, noted, to_switch

PASTED = SAMPLES / "pasted"


def matrix(cells: str, gpus: int, affinity: str = "0-31\t0\t\tN/A", host: str = "") -> str:
    """Matrix of GPUs with one kind of cell between all of them."""
    head = "\t" + "".join(f"GPU{i}\t" for i in range(gpus)) + "CPU Affinity\tNUMA Affinity\tGPU NUMA ID\n"
    rows = (
        f"GPU{i}\t" + "".join(f"{' X ' if i == j else cells}\t" for j in range(gpus)) + f"{affinity}\n"
        for i in range(gpus)
    )
    return host + head + "".join(rows)


def given_file(folder: Path, text: str, name: str = "smi.txt") -> Path:
    path = folder / name
    path.write_text(text)
    return path


# A switch or a mesh: what the model has decides


@pytest.mark.parametrize(
    ("cell", "gpus", "gpu", "links"),
    [("NV6", 4, "v100", 6), ("NV8", 3, "a800", 8), ("NV8", 8, "h800", 8), ("NV12", 3, "a100", 12)],
)
def test_more_links_than_a_gpu_has_are_a_switch(tmp_path: Path, cell: str, gpus: int, gpu: str, links: int) -> None:
    topology = import_topology(given_file(tmp_path, matrix(cell, gpus)), gpu=gpu)
    assert to_switch(topology) == {links * 25.0: gpus}
    assert not between(topology)


def test_fewer_links_than_a_gpu_has_are_said(tmp_path: Path) -> None:
    topology = import_topology(given_file(tmp_path, matrix("NV2", 3)), gpu="a100")
    assert between(topology) == {(0, 1): 2, (0, 2): 2, (1, 2): 2}
    assert noted(topology, "4 of the 12 links that the a100 has are in the file: GPU0, GPU1, GPU2")


@pytest.mark.parametrize(
    ("cell", "gpus", "options", "message"),
    [
        ("NV18", 4, {"gpu": "a100"}, "54 links to other GPUs, the a100 has 12; is --gpu right?"),
        ("NV4", 2, {"gpu": "t4", "assume": "gen3"}, "the matrix has NVLinks, and the t4 has none"),
        ("NV6", 4, {"assume": "gen3"}, "a mesh, or 6 links of each to a switch: give --gpu"),
    ],
)
def test_links_that_cannot_be_are_refused(
    tmp_path: Path, cell: str, gpus: int, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidInputError, match=re.escape(message)):
        import_topology(given_file(tmp_path, matrix(cell, gpus)), **options)


def test_nvlink_status_beside_a_matrix() -> None:
    """The GPU's name is in the file, and two active links per GPU cannot be two to each of two others."""
    topology = import_topology(PASTED / "smi_nvlink.txt")
    assert to_switch(topology) == {50.0: 3}
    assert noted(topology, "taken as --gpu a100", "2 links per GPU", "each GPU, by nvlink -s, has 2")


# Stated is not absent


@pytest.mark.parametrize("cell", ["PIX", "PHB", "SYS"])
@pytest.mark.parametrize("gpu", ["a100", "h100", "v100"])
def test_a_matrix_without_nvlink_has_none(tmp_path: Path, cell: str, gpu: str) -> None:
    topology = import_topology(given_file(tmp_path, matrix(cell, 4)), gpu=gpu, assume="gen4")
    assert no_scale_up(topology)
    assert noted(topology, "none has nvlink")


def test_only_the_command_that_hides_nvlink_leaves_it_to_the_model(tmp_path: Path) -> None:
    table = matrix("PHB", 2)
    hidden = import_topology(given_file(tmp_path, f"$ nvidia-smi topo -mp\n{table}"), gpu="h800")
    assert to_switch(hidden) == {200.0: 2}
    assert no_scale_up(import_topology(given_file(tmp_path, f"$ nvidia-smi topo -m\n{table}"), gpu="h800"))


@pytest.mark.parametrize("gpu", ["mi100", "mi300x", "mi50"])
def test_amd_cards_that_state_pcie_are_served(tmp_path: Path, gpu: str) -> None:
    text = "=== Link Type between two GPUs ===\nGPU0 GPU1\nGPU0 0 PCIE\nGPU1 PCIE 0\n"
    topology = import_topology(given_file(tmp_path, text), gpu=gpu, assume="gen4")
    assert no_scale_up(topology)
    assert noted(topology, "none has xgmi")


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


# Nothing left over


WIDE = (PASTED / "smi_wide.txt").read_text()


@pytest.mark.parametrize("width", [60, 80, 100, 120, 140, 160])
def test_wrapped_tables_are_joined(tmp_path: Path, width: int) -> None:
    """Broken behind cells, a table says what the whole one says."""
    lines = []
    for line in WIDE.split("\n"):
        while len(line) > width:
            at = max(line.rfind(" ", 0, width), 1)
            lines.append(line[:at])
            line = line[at:].lstrip()
        lines.append(line)
    whole = import_topology(given_file(tmp_path, WIDE), gpu="h100", assume="gen5")
    topology = import_topology(given_file(tmp_path, "\n".join(lines)), gpu="h100", assume="gen5")
    assert (topology.nodes, topology.links, topology.resources) == (whole.nodes, whole.links, whole.resources)
    assert (len(whole.gpus), count(whole, "nic"), count(whole, "memory")) == (8, 12, 2)
    assert noted(topology, "wrapped") == (width < 150)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda text: text.replace("GPU4    GPU5    GPU6    GPU7    ", "", 1),
            "row GPU4: the heading .* no such column",
        ),
        (lambda text: re.sub("(?m)^(GPU3 .*)$", "\\1     7", text), "txt:5: row GPU3: .*behind the 14 devices"),
        (lambda text: re.sub("(?m)^(NIC5 .*)$", "\\1     SYS", text), "txt:15: row NIC5: SYS: behind"),
        (lambda text: re.sub("(?m)^(NIC5 .*)$", "\\1\nNIC9    SYS     X", text), "row NIC9: the heading"),
        (lambda text: re.sub("(?m)^(GPU2 .*)$", "\\1\nSYS     SYS", text), "txt:5: SYS SYS: more cells than row GPU2"),
        (lambda text: text[text.index("\n") + 1 :], "known kind|stands under no heading"),
        (lambda text: text + "\n" + text, "another matrix .the first: .*txt:1"),
        (lambda text: text + text[text.index("\n") + 1 :], "row GPU0 is there a second time"),
    ],
)
def test_what_is_left_over_is_refused(tmp_path: Path, change: object, message: str) -> None:
    assert callable(change)
    topology, faults = attempt(given_file(tmp_path, change(WIDE)), gpu="h100", assume="gen5")
    assert topology is None
    assert any(re.search(message, fault) for fault in faults), faults


def test_hosts_that_are_named_are_several_hosts(tmp_path: Path) -> None:
    text = f"node1:\n{WIDE}\nnode2:\n{WIDE}"
    topology = import_topology(given_file(tmp_path, text), gpu="h100", assume="gen5")
    assert len(topology.gpus) == 16
    assert {node.host for node in topology.nodes} == {"h0", "h1", "fabric"}
    assert noted(topology, "node1, node2")


@pytest.mark.parametrize(
    ("rest", "known"),
    [
        ("\t\t\t\tN/A", ("", "")),
        ("0-31\t0\t\tN/A", ("0-31", "0")),
        ("\t1\t\tN/A", ("", "1")),
        ("0-31\t\t\tN/A", ("0-31", "")),
    ],
)
def test_blank_columns_do_not_shift(rest: str, known: tuple[str, str]) -> None:
    """N/A of the GPU NUMA ID is no CPU list; two GPUs without affinity are not on one node for that."""
    described = read_nvidia_smi(clean(matrix("SYS", 2, rest), Path("smi.txt")), None)
    assert len(described.boxes[0].numas) == (1 if any(known) else 2)


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        ("0-31\t0\t\tN/A", "0-3\t0\t\tN/A", "is the table cut"),
        ("0-31\t0\t\tN/A", "0-31", "no NUMA Affinity, other GPUs have one"),
        ("0-31\t0\t\tN/A", "16-3\t1\t\tN/A", "16-3 is no list of CPUs"),
        ("0-31\t0\t\tN/A", "0-31\t1\t\tN/A", "on NUMA node 1; is the table cut"),
    ],
)
def test_places_that_contradict_are_refused(first: str, second: str, message: str) -> None:
    text = matrix("SYS", 2, first)
    head, _, last = text.rstrip("\n").rpartition(first)
    with pytest.raises(InvalidInputError, match=message):
        read_nvidia_smi(clean(head + second + last + "\n", Path("smi.txt")), None)


# Which kind it is


def test_several_kinds_need_a_word(tmp_path: Path) -> None:
    path = given_file(tmp_path, matrix("NV4", 2) + (PASTED / "mi250.txt").read_text())
    with pytest.raises(InvalidInputError, match=r"nvidia-smi \(line 1\), rocm-smi \(line 4\); --kind says which"):
        import_topology(path, gpu="a100", assume="gen4")
    assert between(import_topology(path, "rocm-smi", gpu="mi250", assume="gen4"))


def test_two_topologies_of_one_kind_are_refused(tmp_path: Path) -> None:
    text = (SAMPLES / "nvswitch.xml").read_text()
    with pytest.raises(InvalidInputError, match="a second <system> begins in line"):
        import_topology(given_file(tmp_path, f"rank 0\n{text}rank 1\n{text}"))
    twice = (PASTED / "mi250.txt").read_text() * 2
    with pytest.raises(InvalidInputError, match="a second time"):
        import_topology(given_file(tmp_path, twice), gpu="mi250", assume="gen4")


def test_lines_keep_their_numbers(tmp_path: Path) -> None:
    text = "Hello,\n\n```\n" + (SAMPLES / "rails.xml").read_text().replace('link_width="16"', 'link_width="x"', 1)
    path = given_file(tmp_path, text)
    line = text[: text.index('link_width="x"')].count("\n") + 1
    with pytest.raises(InvalidInputError, match=f"smi.txt:{line}: pci link_width='x'"):
        import_topology(path)


def test_pdsh_output_names_the_hosts(tmp_path: Path) -> None:
    lines = [f"{host}: {line}" for line in WIDE.split("\n") for host in ("node1", "node2")]
    topology = import_topology(given_file(tmp_path, "\n".join(lines)), gpu="h100", assume="gen5")
    assert len(topology.gpus) == 16
    assert noted(topology, "node1, node2")


# NCCL's log


def test_nccl_log() -> None:
    """Twelve links of 20 GB/s are 240; PCIe of 24 is x16 of 16 GT/s."""
    topology = import_topology(PASTED / "nccl.log", gpu="a100")
    assert to_switch(topology) == {300.0: 3}
    ends = {(link.src, link.dst): link.bandwidth for link in topology.links}
    assert ends["pcie0", "nic0.tx"] == 25e9
    assert ends["g2", "cpu1"] == pytest.approx(31.5077e9, rel=1e-5)
    assert ends["cpu0", "cpu1"] == 16e9
    assert noted(topology, "GPUs and NICs of its job only", "are 7000, f000, 47000")


def test_without_the_gpus_name_a_log_has_achievable_rates() -> None:
    topology = import_topology(PASTED / "nccl.log")
    assert to_switch(topology) == {240.0: 3}
    assert noted(topology, "240 GB/s is an achievable rate")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.replace("NCCL INFO ====", "NCCL INFO ...."), "is not understood"),
        (lambda t: t[: t.index("NCCL INFO =====")], "no closing line"),
        (lambda t: re.sub("INFO +", "INFO ", t), "with nothing below it; has the log lost its indentation"),
        (lambda t: t.replace("(2)\n", "(2)\nnode1:9:9 [0] NCCL INFO + PCI[24.0] - GPU/1 (3)\n"), "stands below no"),
        (lambda t: t.replace("NVL[240.0] - NVS/0", "NVL[240.0] - GPU/99", 1), "no such GPU or switch"),
        (lambda t: t + t.replace("4744:4763 [0]", "4745:4764 [1]").replace("GPU/47000", "GPU/48000"), "differs from"),
    ],
)
def test_broken_nccl_logs(tmp_path: Path, change: object, message: str) -> None:
    assert callable(change)
    topology, faults = attempt(given_file(tmp_path, change((PASTED / "nccl.log").read_text()), "nccl.log"))
    assert topology is None
    assert any(message in fault for fault in faults), faults


def test_every_rank_prints_the_same_tree(tmp_path: Path) -> None:
    text = (PASTED / "nccl.log").read_text()
    lines = text.split("\n")
    mixed = "\n".join(f"{line}\n{line.replace('4744:4763 [0]', '4745:4764 [1]')}" for line in lines)
    one, two = (import_topology(given_file(tmp_path, t, "nccl.log"), gpu="a100") for t in (text, mixed))
    assert (one.nodes, one.links, one.resources) == (two.nodes, two.links, two.resources)


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


# A matrix written from a machine is read as that machine


@dataclass(frozen=True)
class Machine:
    """Devices by NUMA node and PCIe switch (-1: none), and NVLinks of pairs of GPUs."""

    gpus: int
    numa: tuple[int, ...]
    switch: tuple[int, ...]
    links: dict[tuple[int, int], int]

    def names(self) -> list[str]:
        nics = range(len(self.numa) - self.gpus)
        return [*(f"GPU{i}" for i in range(self.gpus)), *(f"NIC{i}" for i in nics)]

    def cell(self, a: int, b: int) -> str:
        pair = (min(a, b), max(a, b))
        if a == b:
            return "X"
        if pair in self.links:
            return f"NV{self.links[pair]}"
        if self.numa[a] != self.numa[b]:
            return "SYS"
        return "PIX" if self.switch[a] == self.switch[b] >= 0 else "NODE"


@st.composite
def machines(draw: st.DrawFn) -> Machine:
    gpus, nics = draw(st.integers(1, 8)), draw(st.integers(0, 4))
    # Every NUMA node has a GPU, whose CPU list names it; a NIC has none.
    nodes = draw(st.integers(1, min(gpus, 4)))
    numa = [*range(nodes), *(draw(st.integers(0, nodes - 1)) for _ in range(gpus + nics - nodes))]
    # Switch numbers are those of their node, so that no switch is on two.
    switch = [draw(st.sampled_from((-1, 2 * node, 2 * node + 1))) for node in numa]
    pairs = draw(st.sets(st.sampled_from(list(combinations(range(gpus), 2))))) if gpus > 1 else set()
    return Machine(gpus, tuple(numa), tuple(switch), {pair: draw(st.integers(1, 2)) for pair in sorted(pairs)})


def write(machine: Machine) -> str:
    names = machine.names()
    lines = ["\t" + "\t".join([*names, "CPU Affinity", "NUMA Affinity", "GPU NUMA ID"])]
    for a, name in enumerate(names):
        node = machine.numa[a]
        place = f"{16 * node}-{16 * node + 15}\t{node}\t\tN/A" if a < machine.gpus else "\t\t\t"
        cells = (f"{machine.cell(a, b):^3}" for b in range(len(names)))
        lines.append("\t".join([name, *cells, place]))
    return "\n".join(lines) + "\n"


def homes(box: Box) -> Iterator[tuple[str, str, frozenset[str]]]:
    """Name, NUMA node and switches above of each device."""
    parts: tuple[Gpu | Nic, ...] = (*box.gpus, *box.nics)
    for part in parts:
        yield part.name, box.root_of(part.parent), frozenset(switch.id for switch in box.above(part.parent))


@given(machine=machines())
def test_a_matrix_of_a_machine_is_that_machine(machine: Machine) -> None:
    names = machine.names()
    limit = max((sum(n for pair, n in machine.links.items() if i in pair) for i in range(machine.gpus)), default=0)
    described = read_nvidia_smi(clean(write(machine), Path("smi.txt")), find_gpu("h100"))
    box, found = described.boxes[0], {name: (node, above) for name, node, above in homes(described.boxes[0])}
    assert limit <= 18
    assert list(found) == names
    for a, b in combinations(range(len(names)), 2):
        (node_a, above_a), (node_b, above_b) = found[names[a]], found[names[b]]
        assert (node_a == node_b) == (machine.numa[a] == machine.numa[b])
        shown = machine.cell(a, b) == "PIX"
        joined = nx.has_path(_seen(machine), a, b)
        assert bool(above_a & above_b) == (shown or joined)
    links = {(int(c.src[1:]), int(c.dst[1:])): c.count for c in box.cables}
    assert links == machine.links
    assert not box.ports


def _seen(machine: Machine) -> nx.Graph[int]:
    """Devices that the cells show below one switch; NV# hides it, other devices may still tell."""
    graph: nx.Graph[int] = nx.Graph()
    graph.add_nodes_from(range(len(machine.numa)))
    pairs = combinations(range(len(machine.numa)), 2)
    graph.add_edges_from((a, b) for a, b in pairs if machine.cell(a, b) == "PIX")
    return graph


def test_the_oracle_sees_a_wrong_machine() -> None:
    """A matrix with one cell changed is another machine, or refused."""
    machine = Machine(2, (0, 1), (-1, -1), {})
    text = write(machine)
    box = read_nvidia_smi(clean(text, Path("smi.txt")), None).boxes[0]
    assert len({node for _, node, _ in homes(box)}) == 2
    with pytest.raises(InvalidInputError, match="nearer than SYS"):
        read_nvidia_smi(clean(text.replace("SYS", "PHB"), Path("smi.txt")), None)
