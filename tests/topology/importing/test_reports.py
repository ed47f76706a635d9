"""The shared files of what users pasted: each gives the machine that its README names, or the refusal."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from synth.topology import Topology
from synth.topology.box.gpus import find_gpu
from tests.topology.importing.samples import (
    SHARED,
    attempt,
    between,
    count,
    needs_shared,
    no_scale_up,
    noted,
    to_switch,
)

REPORTS = SHARED / "reports"
Check = Callable[[Topology], bool]


def shared_socket(topology: Topology) -> bool:
    """The sixteen pairs between two sockets use one wire each way, of one socket's rate."""
    wires = {resource.id: resource for resource in topology.resources if resource.id.startswith("socket")}
    return (
        set(wires) == {"socket0-socket1.socket", "socket1-socket0.socket"}
        and all(sum(link.startswith("cpu") for link, _ in wire.uses) == 16 for wire in wires.values())
        and all(wire.bandwidth == 16e9 for wire in wires.values())
    )


def two_hives(topology: Topology) -> bool:
    inside = {(a, b) for h in (0, 4) for a in range(h, h + 4) for b in range(a + 1, h + 4)}
    return between(topology) == dict.fromkeys(inside, 1) and count(topology, "cpu") == 2


def two_a100(topology: Topology) -> bool:
    return len(topology.gpus) == 2 and between(topology) == {(0, 1): 12} and noted(topology, "affinity are not in")


def four_of_ndv4(topology: Topology) -> bool:
    return (len(topology.gpus), count(topology, "nic")) == (4, 8) and to_switch(topology) == {300.0: 4}


def whole_of_the_wrapped(topology: Topology) -> bool:
    """The seven GPUs with NV18 are on a switch, and the third shows NODE to the others, as the table says."""
    return (
        (len(topology.gpus), count(topology, "nic"), count(topology, "memory")) == (8, 24, 2)
        and to_switch(topology) == {450.0: 7}
        and noted(topology, "wrapped")
    )


def two_cards_over_one_cpu(topology: Topology) -> bool:
    return len(topology.gpus) == 2 and no_scale_up(topology) and count(topology, "cpu") == 1 and noted(topology, "-p2p")


GEN4, GEN5 = {"assume": "gen4"}, {"assume": "gen5"}
#: File, options, and what the topology must be; or a pattern of the refusal.
CASES: Mapping[str, list[tuple[dict[str, Any], Check | str]]] = MappingProxyType(
    {
        "5090-tabs-p2p.txt": [
            ({"gpu": "a100", **GEN4}, two_cards_over_one_cpu),
            ({"gpu": "h100", **GEN5}, two_cards_over_one_cpu),
        ],
        "topo-mp.txt": [
            (
                {"gpu": "h800", **GEN5},
                lambda t: to_switch(t) == {200.0: 8} and count(t, "nic") == 28 and noted(t, "-mp"),
            ),
            (GEN5, no_scale_up),
        ],
        "blank-affinity.txt": [({"gpu": "a100", **GEN4}, two_a100)],
        "blank-affinity-sys.txt": [(GEN4, lambda t: len(t.gpus) == 2 and count(t, "cpu") == 2 and no_scale_up(t))],
        "nvswitch-slice-3-a800.txt": [
            ({"gpu": "a800", **GEN4}, lambda t: to_switch(t) == {200.0: 3} and not between(t)),
            ({"gpu": "NVIDIA A800-SXM4-80GB", **GEN4}, lambda t: to_switch(t) == {200.0: 3}),
            (GEN4, r"txt:2: .*a mesh, or 8 links of each to a switch: give --gpu"),
        ],
        "heading-cut.txt": [({"gpu": "h100", **GEN5}, r"txt:6: row GPU4: the heading .*has no such column")],
        "wrapped-120.txt": [({"gpu": "h100", **GEN5}, whole_of_the_wrapped)],
        "columns-run-together.txt": [({"gpu": "a100", **GEN4}, r"txt:2: row GPU0: NODENODE is no connection")],
        "two-hosts.txt": [({"gpu": "h100", **GEN5}, r"without a NIC .*txt:10: node2 GPU0")],
        "k80-soc.txt": [
            ({"assume": "gen3"}, lambda t: (len(t.gpus), count(t, "switch"), count(t, "cpu")) == (6, 3, 2)),
        ],
        "t4.txt": [
            ({"gpu": "t4", "assume": "gen3"}, lambda t: (len(t.gpus), count(t, "cpu")) == (4, 2) and no_scale_up(t)),
        ],
        "details-above.txt": [({"gpu": "a100", **GEN4}, lambda t: two_a100(t) and noted(t, "<details>"))],
        "vllm-env.txt": [({"gpu": "a100", **GEN4}, lambda t: two_a100(t) and noted(t, "lines 1-5 ('ROCM Version"))],
        "p2p-matrix-first.txt": [({"gpu": "a100", **GEN4}, lambda t: between(t) == {(0, 1): 4} and noted(t, "-p2p"))],
        "mi250-weights-4.txt": [
            ({"gpu": "mi250", **GEN4}, lambda t: between(t) == dict.fromkeys([(0, 1), (0, 3), (1, 2), (2, 3)], 1)),
        ],
        "mi210-two-hives.txt": [({"gpu": "mi210", **GEN4}, two_hives)],
        "w7900-pcie.txt": [(GEN4, no_scale_up), ({"gpu": "mi100", **GEN4}, no_scale_up)],
        "mi100-linktype-only.txt": [(GEN4, no_scale_up), ({"gpu": "mi100", **GEN4}, no_scale_up)],
        "numa-four-per-socket.txt": [(GEN4, lambda t: count(t, "cpu") == 8 and shared_socket(t))],
        "rocm-ansi.txt": [({"gpu": "mi210", **GEN4}, two_hives)],
        "rocm-after-prompt.txt": [({"gpu": "mi210", **GEN4}, lambda t: two_hives(t) and noted(t, "[user@host"))],
        "amd-smi.txt": [
            (GEN4, lambda t: len(between(t)) == 6 and {k.bandwidth for k in t.links if k.kind == "xgmi"} == {50e9}),
        ],
        "amdsmi-r9700.txt": [(GEN5, lambda t: len(t.gpus) == 2 and no_scale_up(t))],
        "nccl-after-prompt.txt": [({}, four_of_ndv4)],
        "nccl-in-fence.txt": [({}, four_of_ndv4)],
        "nccl-quoted.txt": [({}, four_of_ndv4)],
        "nccl-log-prefix.txt": [({}, four_of_ndv4)],
        "vm-bridges.xml": [
            ({}, r"0000:a1:00\.0.* is not known; give --assume"),
            ({}, r"implausible: a PCIe bridge of 250 MB/s"),
            (GEN5, lambda t: noted(t, "implausible") and min(k.bandwidth for k in t.links) > 20e9),
        ],
    }
)


@needs_shared
@pytest.mark.parametrize("name", CASES)
def test_reports(name: str) -> None:
    for options, expected in CASES[name]:
        topology, faults = attempt(REPORTS / name, **options)
        if isinstance(expected, str):
            assert topology is None
            assert any(re.search(expected, fault) for fault in faults), faults
        else:
            assert topology is not None, faults
            assert expected(topology), topology.notes


@needs_shared
def test_every_report_has_its_case() -> None:
    assert {path.name for path in REPORTS.iterdir()} == {*CASES, "README.md"}


@needs_shared
def test_text_around_changes_no_machine() -> None:
    """Files that differ in what stands around one table, or one XML, give one machine."""
    groups: tuple[tuple[list[str], dict[str, Any]], ...] = (
        (["blank-affinity.txt", "details-above.txt", "vllm-env.txt"], {"gpu": "a100", **GEN4}),
        (["nccl-after-prompt.txt", "nccl-in-fence.txt", "nccl-quoted.txt", "nccl-log-prefix.txt"], {}),
        (["mi210-two-hives.txt", "rocm-ansi.txt", "rocm-after-prompt.txt"], {"gpu": "mi210", **GEN4}),
    )
    for names, options in groups:
        made = [attempt(REPORTS / name, **options)[0] for name in names]
        parts = {(t.nodes, t.links, t.resources) for t in made if t is not None}
        assert len(made) == len([t for t in made if t is not None])
        assert len(parts) == 1


def _real_files() -> list[Path]:
    return sorted(
        (*REPORTS.glob("*.*"), *(SHARED / "topo/nvidia_smi").glob("*"), *(SHARED / "topo/rocm_smi").glob("*"))
    )


@needs_shared
@pytest.mark.parametrize("gpu", ["v100", "a100", "a800", "h100", "mi210", "mi250"])
def test_no_gpu_has_more_links_than_its_model(gpu: str) -> None:
    """Whatever --gpu is said of whatever file: what leaves a GPU is at most what its model has."""
    model = find_gpu(gpu)
    assert model is not None
    assert model.link is not None
    imported = 0
    for path in _real_files():
        topology, _ = attempt(path, gpu=gpu, assume="gen4", paths=["nvlink"])
        if topology is None:
            continue
        imported += 1
        for rank in range(len(topology.gpus)):
            name = topology.gpu_name(rank)
            out = sum(link.bandwidth for link in topology.links if link.src == name)
            assert out <= model.links * model.link.nominal * (1 + 1e-9), path.name
    assert imported > 5


@needs_shared
@pytest.mark.parametrize("path", _real_files(), ids=lambda path: path.name)
def test_every_device_row_is_used_or_named(path: Path) -> None:
    """Rows that a search of the text finds are nodes of the topology, or stand in its notes."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", path.read_text())
    cells = r"(?:X|NV[0-9]+|PIX|PXB|PHB|NODE|SYS|SOC)\b"
    rows = set(re.findall(rf"^\s*((?:GPU|NIC|mlx5_)[0-9]+)\s+{cells}", text, re.MULTILINE))
    devices = dict(re.findall(r"^\s*(NIC[0-9]+): (\S+)", text, re.MULTILINE))
    for gpu in ("a100", "h100", "a800", "v100", "t4", None):
        topology, _ = attempt(path, gpu=gpu, assume="gen4")
        if topology is None:
            continue
        gpus = {row for row in rows if row.startswith("GPU")}
        assert not gpus or len(topology.gpus) == len(gpus)
        named = " ".join(topology.notes)
        for nic in rows - gpus:
            assert re.search(rf"\b{re.escape(devices.get(nic, nic))}\b", named)
