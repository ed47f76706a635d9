"""The side-car of a program: replayed against the schedule and against the program's own blocks."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import synth
from synth.export.paths_json import dump_paths, paths_name
from synth.export.result import Result
from synth.program.mscclpp.program import MscclppProgram
from synth.program.nccl_settings import merged, settings_for
from synth.topology import Topology, path_kind, resolve
from tests.reference_lp import duplex, machine

Channel = tuple[int, int, int]

CASES: list[tuple[str, str, dict[str, Any]]] = [
    ("a40-box", "allgather", {"ranks": [0, 1], "relay": False}),
    ("mi300x-box", "alltoall", {"ranks": [0, 3], "relay": False}),
    ("mi300x-box", "allgather", {"ranks": [0, 3], "relay": True, "chunks": 8}),
    ("a100-box", "reducescatter", {"chunks": 4, "max_loss": 0.5}),
    ("cluster:box=ring:3,hosts=2", "allreduce", {"chunks": 2, "max_loss": 0.5}),
    ("l40s-4-box", "allgather", {"paths": ["nic"], "chunks": 8, "lowering": {"instances": 3}}),
    ("dgx1-v100", "broadcast", {"root": 3}),
]


def made(name: str, collective: str, options: dict[str, Any]) -> Result:
    return synth.synthesize(name, collective, "64 MB", **options)


def sidecar(result: Result) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(dump_paths(result.paths, "msccl.xml"))
    return found


def sent_in_xml(text: str) -> Counter[Channel]:
    """Chunks that the XML sends per (source, destination, channel)."""
    sent: Counter[Channel] = Counter()
    for gpu in ElementTree.fromstring(text).findall("gpu"):
        for block in gpu.findall("tb"):
            key = (int(gpu.attrib["id"]), int(block.attrib["send"]), int(block.attrib["chan"]))
            for step in block.findall("step"):
                if step.attrib["type"] in ("s", "rcs", "rrs", "rrcs"):
                    sent[key] += int(step.attrib["cnt"])
    return sent


def faults(result: Result, found: dict[str, Any]) -> list[str]:
    """What is wrong with a side-car: links that no transfer takes there, chunks that the XML sends elsewhere, kinds."""
    topology, schedule = result.plan.topology, result.schedule
    out = []
    listed: Counter[Channel] = Counter()
    links_of: dict[tuple[int, int, tuple[str, ...]], float] = {}
    for entry in found["channels"]:
        key = (entry["src"], entry["dst"], entry["channel"])
        if key in listed:
            out.append(f"{key} stands for two paths")
        listed[key] += round(entry["bytes"] / schedule.chunk_bytes)
        place = (entry["src"], entry["dst"], tuple(entry["links"]))
        links_of[place] = links_of.get(place, 0.0) + entry["bytes"] / schedule.chunk_bytes
        kind = path_kind(topology, [topology.link_index[link] for link in entry["links"]])
        if kind != entry["kind"]:
            out.append(f"{key} is {kind}, not {entry['kind']}")
    sent = sent_in_xml(result.xml)
    out += [
        f"{key}: the XML sends {sent[key]} chunks, not {listed[key]}"
        for key in sent | listed
        if sent[key] != listed[key]
    ]
    wanted: dict[tuple[int, int, tuple[str, ...]], float] = {}
    for t in schedule.transfers:
        names = tuple(topology.links[k].id for k in t.links)
        place = (topology.rank_of[t.src], topology.rank_of[t.dst], names)
        wanted[place] = wanted.get(place, 0.0) + t.count
    if wanted.keys() != links_of.keys():
        out.append("links differ from those of the schedule's transfers")
    out += [f"{place}: chunks differ" for place in wanted if wanted[place] != pytest.approx(links_of.get(place, -1))]
    return out


@pytest.mark.parametrize(("name", "collective", "options"), CASES)
def test_every_transfers_links_are_under_its_channel(name: str, collective: str, options: dict[str, Any]) -> None:
    result = made(name, collective, options)
    assert faults(result, sidecar(result)) == []


def test_the_replay_catches_a_wrong_side_car() -> None:
    result = made(*CASES[0])
    good = sidecar(result)
    direct = next(k for k, entry in enumerate(good["channels"]) if entry["kind"] == "direct")
    other = next(k for k, entry in enumerate(good["channels"]) if entry["kind"] in ("pcie", "host"))
    changes: list[tuple[str, Any]] = [
        ("kind", "nic"),
        ("links", good["channels"][other]["links"]),
        ("channel", 31),
        ("bytes", good["channels"][direct]["bytes"] * 2),
    ]
    for key, value in changes:
        bad = json.loads(json.dumps(good))
        bad["channels"][direct][key] = value
        assert faults(result, bad), key
    swapped = json.loads(json.dumps(good))
    one, two = swapped["channels"][direct], swapped["channels"][other]
    one["links"], two["links"] = two["links"], one["links"]
    assert faults(result, swapped)
    assert faults(result, {"channels": good["channels"][1:]})


def test_written_beside_the_program(tmp_path: Path) -> None:
    result = made(*CASES[0]).write(tmp_path)
    path = Path(result.files["paths"])
    assert path.name == "msccl.paths.json" == paths_name("msccl.xml")
    found = json.loads(path.read_text())
    assert found["format"] == "synth-paths/1"
    assert found["program"] == Path(result.files["program"]).name
    assert found["environment"] == dict(result.paths.environment)
    table = result.paths.table
    assert table["kind"].tolist() == [entry["kind"] for entry in found["channels"]]
    assert path.read_bytes() == dump_paths(made(*CASES[0]).paths, "msccl.xml").encode()


def links(topology: Topology, *names: str) -> list[int]:
    return [topology.link_index[name] for name in names]


def test_settings_by_hand() -> None:
    """What NCCL's user guide says of the variables, on paths of known distance."""
    a100, h100, npu = resolve("a100-box"), resolve("h100-box"), resolve("ascend910b-box")
    p2p = {"NCCL_P2P_DISABLE": "0"}

    def wanted(topology: Topology, *names: str, scale_up: bool = False) -> dict[str, str] | None:
        path = links(topology, *names)
        return settings_for(topology, path, path_kind(topology, path), scale_up)

    assert wanted(a100, "nvg0:fwd", "nvg1:rev") == p2p
    assert wanted(a100, "g0-pcie0", "pcie0-g1") == p2p | {"NCCL_P2P_LEVEL": "PIX"}
    assert wanted(a100, "g0-pcie0", "pcie0-g1", scale_up=True) is None
    assert wanted(h100, "g0-pcie0", "pcie0-cpu0", "cpu0-pcie1", "pcie1-g1") == p2p | {"NCCL_P2P_LEVEL": "PHB"}
    far = ("g0-pcie0", "pcie0-cpu0", "cpu0-cpu1", "cpu1-pcie4", "pcie4-g4")
    assert wanted(h100, *far) == p2p | {"NCCL_P2P_LEVEL": "SYS"}
    mi250 = resolve("mi250-16-box")
    deep = ("g4-pcie1", "pcie1-pcie0", "pcie0-pcie2", "pcie2-g6")
    assert wanted(mi250, *deep) == p2p | {"NCCL_P2P_LEVEL": "PXB"}
    assert wanted(a100, "g0-mem0", "mem0-g1") == {"NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "0"}
    off = {"NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1"}
    hairpin = ("g0-pcie0", "pcie0-nic0.tx", "nic0:send", "nic1:recv", "nic1.rx-pcie0.rx", "pcie0.rx-g1")
    assert wanted(a100, *hairpin) == off | {"NCCL_NET_GDR_LEVEL": "PIX"}
    chips = ("g0-nic0", "nic0:send", "nic1:recv", "nic1-g1")
    assert wanted(npu, *chips) == off
    two = resolve("a100-box:hosts=2")
    across = [f"h0.{name}" for name in hairpin[:3]] + [f"h1.{name}" for name in hairpin[3:]]
    assert wanted(two, *across) == {"NCCL_NET_GDR_LEVEL": "PIX"}
    tpu = resolve("tpu-v3-box")
    staged = ("g0-mem0", "mem0-nic0.tx", "nic0:send", "nic0:recv", "nic0.rx-mem0.rx", "mem0.rx-g1")
    assert wanted(tpu, *staged) == off | {"NCCL_NET_GDR_LEVEL": "LOC"}


def test_merged_settings() -> None:
    assert merged([]) == ({}, {})
    assert merged([{"A_LEVEL": "PIX"}, {"A_LEVEL": "SYS"}, {"A_LEVEL": "PHB"}]) == ({"A_LEVEL": "SYS"}, {})
    assert merged([{"A_LEVEL": "LOC"}, {"A_LEVEL": "PIX"}]) == ({}, {"A_LEVEL": ("LOC", "PIX")})
    assert merged([{"A": "1", "B": "0"}, {"A": "0"}]) == ({"B": "0"}, {"A": ("0", "1")})


def test_mixed_paths_are_said_to_be_beyond_nccl() -> None:
    mixed = made(*CASES[0]).paths
    assert mixed.conflicts == {"NCCL_P2P_DISABLE": ("0", "1")} or any(c.environment is None for c in mixed.channels)
    assert mixed.notes
    alone = made("dgx1-v100", "allgather", {}).paths
    assert alone.environment == {"NCCL_P2P_DISABLE": "0"}
    assert not alone.conflicts
    assert not alone.notes
    hairpin = made("l40s-4-box", "allgather", {"paths": ["nic"]}).paths
    assert hairpin.environment["NCCL_SHM_DISABLE"] == "1"
    assert not hairpin.conflicts


@pytest.mark.parametrize(
    ("name", "options", "types"),
    [
        ("a40-box", {"ranks": [0, 1], "relay": False, "paths": ["nvlink", "nic"]}, {"direct": "memory", "nic": "port"}),
        (
            "a40-box",
            {"ranks": [0, 1], "relay": False, "paths": ["nvlink", "host"]},
            {"direct": "memory", "host": "memory"},
        ),
        ("cluster:box=ring:3,hosts=2", {"chunks": 2, "max_loss": 0.5}, {"direct": "memory", "nic": "port"}),
    ],
)
def test_mscclpp_plans_carry_the_type(name: str, options: dict[str, Any], types: dict[str, str]) -> None:
    result = synth.synthesize(name, "allgather", "64 MB", target="mscclpp", **options)
    paths = result.paths
    assert {path.kind: path.type for path in paths.channels} == types
    assert all(path.channel is None and path.environment is None for path in paths.channels)
    assert bool(paths.notes) == ("port" in types.values())
    assert isinstance(result.program, MscclppProgram)
    # In the plan, the peers of a rank per type are those of the side-car, in both directions.
    for gpu in result.program.draft.gpus:
        for how in ("memory", "port"):
            mine = {p.dst for p in paths.channels if p.src == gpu.id and p.type == how}
            mine |= {p.src for p in paths.channels if p.dst == gpu.id and p.type == how}
            assert {peer for c in gpu.channels if c.type == how for peer in c.connected_to} == mine


def test_two_types_between_one_pair() -> None:
    """A pair's NVLink and NIC paths get channels of both types, and the plan still computes what it claims."""
    options: dict[str, Any] = {"ranks": [0, 1], "relay": False, "paths": ["nvlink", "nic"]}
    for collective in ("allreduce", "alltoall"):
        result = synth.synthesize("a40-box", collective, "64 MB", target="mscclpp", **options)
        assert isinstance(result.program, MscclppProgram)
        assert result.program.report.ok
        assert {c.type for c in result.program.draft.gpus[0].channels} == {"memory", "port"}


def test_a_plain_graph_has_a_side_car_too() -> None:
    result = synth.synthesize(machine(3, duplex([(0, 1, 10), (1, 2, 10)])), "alltoall", "3 MB")
    assert faults(result, sidecar(result)) == []
    assert {path.kind for path in result.paths.channels} == {"direct"}


def test_bytes_count_every_chunk_of_a_transfer() -> None:
    """Transfers of two chunks carry twice the bytes of those of one."""
    one = made("dgx1-v100", "broadcast", {"root": 3})
    schedule = one.schedule
    wide = replace(schedule, transfers=tuple(replace(t, count=2 * t.count) for t in schedule.transfers))
    twice = replace(one, schedule=wide).paths
    assert [c.bytes for c in twice.channels] == [2 * c.bytes for c in one.paths.channels]
    assert [c.transfers for c in twice.channels] == [c.transfers for c in one.paths.channels]
