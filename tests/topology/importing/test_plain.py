"""Other tools' topology files; oracle T31."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from synth.errors import InvalidInputError
from synth.topology import check_reachable, import_plain_instance, import_simai_text
from tests import places

SHARED = places.SHARED
needs_shared = pytest.mark.skipif(not SHARED.exists(), reason="the shared samples are not here")

#: Two servers of two GPUs, an NVSwitch each, one network switch.
SIMAI = """7 2 2 1 {links} H100 2
4 5
6
0 4 2880Gbps 0.000025ms 0
1 4 2880Gbps 0.000025ms 0
2 5 2880Gbps 0.000025ms 0
3 5 2880Gbps 0.000025ms 0
0 6 400Gbps 0.0005ms 0
1 6 400Gbps 0.0005ms 0
2 6 400Gbps 0.0005ms 0
3 6 400Gbps 0.0005ms 0
"""


def simai(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "topo.txt"
    path.write_text(text, encoding="utf-8")
    return path


def test_simai_by_hand(tmp_path: Path) -> None:
    topology = import_simai_text(simai(tmp_path, SIMAI.format(links=8)))
    assert [node.host for node in topology.nodes] == ["h0", "h0", "h1", "h1", "h0", "h1", "fabric"]
    assert [node.kind for node in topology.nodes] == ["gpu"] * 4 + ["switch"] * 3
    assert len(topology.links) == 16
    first = topology.links[0]
    assert (first.id, first.kind, first.bandwidth, first.latency) == ("0-4:fwd", "nvlink", 360e9, 25e-9)
    last = topology.links[-1]
    assert (last.id, last.src, last.dst, last.kind, last.bandwidth) == ("3-6:rev", "6", "3", "nic", 50e9)
    check_reachable(topology, [(a, b) for a in range(4) for b in range(4)])


def test_switch_ids_in_one_line_read_the_same(tmp_path: Path) -> None:
    text = SIMAI.format(links=8)
    two = import_simai_text(simai(tmp_path, text))
    assert import_simai_text(simai(tmp_path, text.replace("4 5\n6\n", "4 5 6\n"))) == two
    assert import_simai_text(simai(tmp_path, text.replace("H100 2", "H100"))) == two


def test_t31_header_and_body_disagree(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="the header says 20 links, the body has 8"):
        import_simai_text(simai(tmp_path, SIMAI.format(links=20)))


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("7 2 2 1 8 H100 2", "7 2 2", ":1: '7 2 2' is not a header"),
        ("7 2 2 1 8 H100 2", "3 2 2 1 8 H100 2", ":1: 3 nodes with 2 NVSwitches and 1 switches"),
        ("7 2 2 1 8 H100 2", "7 2 2 2 8 H100 2", "says 4 NVSwitches and switches, 3 ids follow"),
        ("4 5\n", "4 9\n", ":2: switch node 9 is not declared"),
        ("4 5\n", "4 4\n", ":2: switch 4 is listed 2 times"),
        ("0 4 2880Gbps", "0 17 2880Gbps", ":4: node 17 is not declared; nodes are 0 to 6"),
        ("0 4 2880Gbps", "0 0 2880Gbps", ":4: joins node 0 to itself"),
        ("0 4 2880Gbps", "0 4 2880", ":4: '2880' has no unit"),
        ("0 4 2880Gbps 0.000025ms 0", "0 4 2880Gbps 0.000025ms", ":4: '0 4 2880Gbps 0.000025ms' has 4 fields"),
        ("0 4 2880Gbps 0.000025ms 0", "0 4 2880Gbps 0.000025ms x", ":4: 'x' is not an error rate"),
        ("0 4 2880Gbps 0.000025ms 0", "0 4 2880Gbps 0.000025ms 2", "above 1"),
    ],
)
def test_simai_faults_have_their_line(tmp_path: Path, old: str, new: str, reason: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        import_simai_text(simai(tmp_path, SIMAI.format(links=8).replace(old, new)))
    assert any(reason in fault for fault in caught.value.faults)


def test_losses_and_dead_links_are_noted(tmp_path: Path) -> None:
    text = SIMAI.format(links=8).replace("0 6 400Gbps 0.0005ms 0", "0 6 0Gbps 0.0005ms 0.01")
    topology = import_simai_text(simai(tmp_path, text))
    assert len(topology.links) == 14
    assert len(topology.notes) == 3


def test_an_empty_file_is_no_topology(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="not a header"):
        import_simai_text(simai(tmp_path, ""))


def plain(tmp_path: Path, **changes: object) -> Path:
    document = {
        "name": "pair",
        "num_nodes": 3,
        "switches": [2],
        "links": [[0, 1, 25, 0.7], [0, 1, 50, 0], [1, 0, 25, 0.7], [0, 2, 0, 0]],
        "note": "two in parallel",
        "units": "GB/s (1e9), microseconds",
    }
    path = tmp_path / "plain.json"
    path.write_text(json.dumps({**document, **changes}), encoding="utf-8")
    return path


def test_plain_by_hand(tmp_path: Path) -> None:
    topology = import_plain_instance(plain(tmp_path))
    assert [(link.id, link.bandwidth, link.latency) for link in topology.links] == [
        ("0-1", 25e9, 7e-7), ("0-1.1", 50e9, 0.0), ("1-0", 25e9, 7e-7),
    ]  # fmt: skip
    assert [node.kind for node in topology.nodes] == ["gpu", "gpu", "switch"]
    assert topology.notes == ("link '0-2' has bandwidth 0 and is left out",)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"links": [[0, 1, 25]]}, "links[0]"),
        ({"links": [[0, 3, 25, 0]]}, "links[0]: node 3 is not declared; nodes are 0 to 2"),
        ({"links": [[0, 0.5, 25, 0]]}, "links[0]: node 0.5 is not declared"),
        ({"links": [[1, 1, 25, 0]]}, "links[0]: joins node 1 to itself"),
        ({"links": [[0, 1, -1, 0]]}, "links[0][2]"),
        ({"links": [[0, 1, True, 0]]}, "links[0][2]"),
        ({"links": [[0, 1, float("inf"), 0]]}, "unbounded"),
        ({"links": [[0, 1, "25", 0]]}, "links[0][2]"),
        ({"switches": [7]}, "switches[0]: node 7 is not declared"),
        ({"switches": [0, 1, 2]}, "no node of kind gpu"),
        ({"units": "GiB/s"}, "units"),
        ({"nodes": 3}, "nodes: is an unknown key"),
        ({"num_nodes": True}, "num_nodes"),
    ],
)
def test_plain_faults_have_their_place(tmp_path: Path, changes: dict[str, object], reason: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        import_plain_instance(plain(tmp_path, **changes))
    assert any(reason in fault for fault in caught.value.faults)


@needs_shared
def test_every_shared_sample_is_read() -> None:
    for path in sorted((SHARED / "instances").glob("*.json")):
        declared = json.loads(path.read_text(encoding="utf-8"))
        assert len(import_plain_instance(path).links) == len(declared["links"])
    for path in sorted((SHARED / "exchange" / "ns3").iterdir()):
        topology = import_simai_text(path)
        header = path.read_text(encoding="utf-8").split()[:5]
        assert len(topology.links) == 2 * int(header[4])
        assert len(topology.gpus) == int(header[0]) - int(header[2]) - int(header[3])
