"""Tables of nvidia-smi as people paste them, by small samples of our own."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from synth.errors import InvalidInputError
from synth.topology import import_topology
from synth.topology.importing.dumps.nvidia.matrix import read_nvidia_smi
from synth.topology.importing.pasted import clean
from tests.topology.importing.samples import (
    PASTED,
    attempt,
    between,
    count,
    given_file,
    matrix,
    no_scale_up,
    noted,
    to_switch,
)

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


@pytest.mark.parametrize(
    ("old", "message"),
    [
        ("0000-000000000002)\n\t Link 0: 25 GB/s\n", "2 NVLinks are listed of GPU 2, 3 of others; is it cut?"),
        ("GPU 0: NVIDIA A100-SXM4-80GB (UUID: GPU-00000000-0000-0000-0000-000000000000)\n", "stands below no GPU"),
    ],
)
def test_cut_nvlink_status_is_refused(tmp_path: Path, old: str, message: str) -> None:
    text = (PASTED / "smi_nvlink.txt").read_text()
    assert old in text
    kept = old.split("\n")[0] + "\n" if "Link" in old else ""
    topology, faults = attempt(given_file(tmp_path, text.replace(old, kept)), gpu="a100", assume="gen4")
    assert topology is None
    assert any(message in fault for fault in faults), faults


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


@pytest.mark.parametrize("heading", ["", "CPU", "CPU Affin"])
def test_a_table_without_its_last_columns_is_cut(tmp_path: Path, heading: str) -> None:
    """Without affinity NV# would hide on which NUMA node a GPU is."""
    text = f"\tGPU0\tGPU1\t{heading}\nGPU0\t X \tNV4\nGPU1\tNV4\t X \n"
    topology, faults = attempt(given_file(tmp_path, text), gpu="a100", assume="gen4")
    assert topology is None
    assert any("is it cut?" in fault for fault in faults), faults


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
        ("0-31\t\t\tN/A", "0-3\t\t\tN/A", "CPUs 0-31 of GPU0 and 0-3 of GPU1 overlap and differ"),
        ("0-31\t0\t\tN/A", "16-3\t1\t\tN/A", "16-3 is no list of CPUs"),
        ("0-31\t0\t\tN/A", "0-31\t1\t\tN/A", "on NUMA node 1; is the table cut"),
    ],
)
def test_places_that_contradict_are_refused(first: str, second: str, message: str) -> None:
    text = matrix("SYS", 2, first)
    head, _, last = text.rstrip("\n").rpartition(first)
    with pytest.raises(InvalidInputError, match=message):
        read_nvidia_smi(clean(head + second + last + "\n", Path("smi.txt")), None)
