"""Reading and writing topology files; oracles T03 to T07, T25, T30 and T31 where a file is concerned."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from synth.errors import InvalidInputError
from synth.topology import Link, Node, Resource, Topology, dump_topology, load_topology, save_topology
from tests.strategies import topologies

CONTRACT = """
{"format": "synth-topology/1", "name": "pair",
 "nodes": [{"id": "g0", "kind": "gpu", "host": "h0"}, {"id": "g1", "kind": "gpu", "host": "h0"},
           {"id": "sw", "kind": "switch"}],
 "links": [{"id": "a", "src": "g0", "dst": "g1", "bandwidth": "25 GB/s", "latency": "0.7 us", "kind": "nvlink"},
           {"id": "b", "src": "g0", "dst": "sw", "bandwidth": "200 Gb/s", "latency": "1 us", "kind": "nic",
            "both_ways": true}],
 "resources": [{"id": "dram", "bandwidth": "80 GB/s", "uses": {"a": 1, "b:fwd": 2}}]}
"""


#: What is wrong in test_all_faults_at_once_in_file_order.
FAULTY_PLACES = """
format nmae nodes[1].kind nodes[1].id nodes[2].id nodes[2].relay nodes[3] links[0].bandwidth links[0].dst links[1].dst
links[1].latency links[1].speed links[2].dst links[2].efficiency links[2].both_ways resources[0].bandwidth
resources[0].uses.a resources[0].id symmetry[0].g0 symmetry[1]
"""


def load(tmp_path: Path, text: str | bytes) -> Topology:
    path = tmp_path / "machine.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return load_topology(path)


def faults(tmp_path: Path, text: str | bytes) -> list[str]:
    with pytest.raises(InvalidInputError) as caught:
        load(tmp_path, text)
    prefix = f"{tmp_path / 'machine.json'}:"
    assert all(fault.startswith(prefix) for fault in caught.value.faults)
    return [fault.removeprefix(prefix) for fault in caught.value.faults]


def pair(link: str, more: str = "") -> str:
    """File with two GPUs and, in line 3, one link of the given fields."""
    return (
        '{"format": "synth-topology/1", "name": "pair",\n'
        ' "nodes": [{"id": "g0", "kind": "gpu"}, {"id": "g1", "kind": "gpu"}], "links": [\n'
        f'  {{"id": "a", "src": "g0", "dst": "g1", {link}}}]{more}}}'
    )


def test_the_contract_of_the_design_page(tmp_path: Path) -> None:
    assert load(tmp_path, CONTRACT) == Topology(
        "pair",
        (Node("g0", "gpu", "h0"), Node("g1", "gpu", "h0"), Node("sw", "switch", "host0")),
        (
            Link("a", "g0", "g1", 25e9, 7e-7, "nvlink"),
            Link("b:fwd", "g0", "sw", 25e9, 1e-6, "nic"),
            Link("b:rev", "sw", "g0", 25e9, 1e-6, "nic"),
        ),
        (Resource("dram", 80e9, (("a", 1.0), ("b:fwd", 2.0))),),
    )


def test_defaults(tmp_path: Path) -> None:
    text = pair('"bandwidth": "1 GB/s"').replace('"name": "pair",', "")
    topology = load(tmp_path, text)
    assert topology.name == "machine"
    assert topology.links == (Link("a", "g0", "g1", 1e9, 0.0, "net", 1.0),)
    assert topology.nodes[0] == Node("g0", "gpu", "host0", True)


def test_efficiency_and_relay(tmp_path: Path) -> None:
    text = pair('"bandwidth": "25 GB/s", "efficiency": 0.8').replace(
        '"kind": "gpu"}]', '"kind": "gpu", "relay": false}]'
    )
    topology = load(tmp_path, text)
    assert topology.links[0].capacity == 20e9
    assert [node.relay for node in topology.nodes] == [True, False]
    assert load(tmp_path, pair('"bandwidth": "25 GB/s", "efficiency": 1')).links[0].efficiency == 1.0


def test_t06_parallel_links_stay_apart(tmp_path: Path) -> None:
    row = '{{"id": "p{0}", "src": "g0", "dst": "g1", "bandwidth": "{1} GB/s"}}'
    text = (
        pair('"bandwidth": "1 GB/s"').split('  {"id": "a"')[0] + ",".join([row.format(0, 25), row.format(1, 50)]) + "]}"
    )
    assert [link.capacity for link in load(tmp_path, text).links] == [25e9, 50e9]
    assert faults(tmp_path, text.replace("p1", "p0")) == [
        f"3: links[1].id: 'p0' is already taken by {tmp_path / 'machine.json'}:3: links[0].id; ids must differ"
    ]


@pytest.mark.parametrize(
    ("links", "resource", "taken"),
    [
        (["b+", "b"], "r", "links[1].id: 'b'"),
        (["b+", "b:fwd"], "r", "links[1].id: 'b:fwd'"),
        (["b:rev", "b+"], "r", "links[1].id: 'b:rev'"),
        (["b+", "b+"], "r", "links[1].id: 'b'"),
        (["a", "b"], "b", "resources[0].id: 'b'"),
        (["a", "b+"], "b", "resources[0].id: 'b'"),
    ],
)
def test_ids_of_links_and_resources_are_one_set(tmp_path: Path, links: list[str], resource: str, taken: str) -> None:
    entries = [
        {"id": name.rstrip("+"), "src": "x", "dst": "y", "bandwidth": "1 GB/s", "both_ways": name.endswith("+")}
        for name in links
    ]
    document = {
        "format": "synth-topology/1",
        "nodes": [{"id": "x", "kind": "gpu"}, {"id": "y", "kind": "gpu"}],
        "links": entries,
        "resources": [{"id": resource, "bandwidth": "1 GB/s", "uses": {}}],
    }
    (fault,) = faults(tmp_path, json.dumps(document))
    assert taken in fault


def test_t07_units(tmp_path: Path) -> None:
    assert load(tmp_path, pair('"bandwidth": "200 Gb/s"')).links[0].bandwidth == 25e9
    assert load(tmp_path, pair('"bandwidth": "200 GB/s"')).links[0].bandwidth == 200e9


@pytest.mark.parametrize(
    "value",
    ["-1", "NaN", '"25,0"', '""', "true", "1e400", '"25"', "25", "null", '"inf"', "Infinity", "-Infinity", "{}"],
)
def test_t25_bad_bandwidths_name_link_and_line(tmp_path: Path, value: str) -> None:
    (fault,) = faults(tmp_path, pair(f'"bandwidth": {value}'))
    assert fault.startswith("3: links[0].bandwidth (link 'a'): ")


def test_t25_missing_bandwidth(tmp_path: Path) -> None:
    (fault,) = faults(tmp_path, pair('"kind": "nic"'))
    assert fault == "3: links[0].bandwidth (link 'a'): is missing; needed: a bandwidth such as \"25 GB/s\""


@pytest.mark.parametrize("value", ['"inf GB/s"', '"1e400 GB/s"', "1e400", "Infinity"])
def test_t25_infinite_bandwidth_is_unbounded(tmp_path: Path, value: str) -> None:
    (fault,) = faults(tmp_path, pair(f'"bandwidth": {value}'))
    assert "unbounded" in fault


def test_t25_zero_drops_the_link_with_a_note(tmp_path: Path) -> None:
    text = CONTRACT.replace('"25 GB/s"', '"0 GB/s"')
    topology = load(tmp_path, text)
    assert [link.id for link in topology.links] == ["b:fwd", "b:rev"]
    assert topology.notes == ("link 'a' has bandwidth 0 and is left out",)
    assert topology.resources[0].uses == (("b:fwd", 2.0),)


def test_t25_zero_both_ways_drops_both_and_the_unused_pool(tmp_path: Path) -> None:
    more = ', "resources": [{"id": "p", "bandwidth": "1 GB/s", "uses": {"a:fwd": 1, "a:rev": 1}}]'
    topology = load(tmp_path, pair('"bandwidth": "0 b/s", "both_ways": true', more))
    assert topology.links == ()
    assert topology.resources == ()
    assert len(topology.notes) == 3


def test_t30_names_keep_file_order(tmp_path: Path) -> None:
    names = ["a-b", "a_b", "a b", "10", "2", "it's"]
    document = {
        "format": "synth-topology/1",
        "nodes": [{"id": name, "kind": "gpu"} for name in names],
        "links": [
            {"id": f"l{i}", "src": name, "dst": names[(i + 1) % 6], "bandwidth": "1 GB/s"}
            for i, name in enumerate(names)
        ],
    }
    topology = load(tmp_path, json.dumps(document))
    assert [topology.gpu_name(rank) for rank in range(6)] == names
    assert topology.ends == tuple((i, (i + 1) % 6) for i in range(6))


def test_t31_undeclared_nodes_and_links_have_their_place(tmp_path: Path) -> None:
    more = ',\n "resources": [{"id": "p", "bandwidth": "1 GB/s", "uses": {\n"zz": 1}}]'
    found = faults(tmp_path, pair('"bandwidth": "1 GB/s"', more).replace('"dst": "g1"', '"dst": "g7"'))
    assert found == [
        "3: links[0].dst (link 'a'): 'g7' is not a declared node; declare it in nodes or name one that is",
        "5: resources[0].uses.zz (resource 'p'): 'zz' is not a declared link; name one that is",
    ]


def test_uses_must_name_a_direction(tmp_path: Path) -> None:
    (fault,) = faults(tmp_path, CONTRACT.replace('"b:fwd": 2', '"b": 2'))
    assert (
        fault
        == "8: resources[0].uses.b (resource 'dram'): the link 'b' goes both ways; name 'b:fwd' or 'b:rev' or both"
    )


def test_all_faults_at_once_in_file_order(tmp_path: Path) -> None:
    text = """{"format": "synth-topology/2", "nmae": "x",
 "nodes": [{"id": "g0", "kind": "gpu"}, {"id": "g0", "kind": "GPU"},
  {"id": "", "kind": "switch", "relay": false}, 5],
 "links": [
  {"id": "a", "src": "g0", "dst": "zz", "bandwidth": -1},
  {"id": "b", "src": "g0", "dst": "g0", "bandwidth": "1 GB/s", "latency": "-1 us", "speed": 3},
  {"id": "c", "src": "g0", "bandwidth": "1 GB/s", "efficiency": 2, "both_ways": 1, "both_ways": true}],
 "resources": [{"id": "a", "bandwidth": "0 B/s", "uses": {"a": 0}}],
 "symmetry": [{"g0": "g9"}, 4]}"""
    places = [fault.split(": ")[1].split(" ")[0] for fault in faults(tmp_path, text)]
    assert set(places) == set(FAULTY_PLACES.split())
    assert len(places) == len(set(places))
    lines = [int(fault.split(":")[0]) for fault in faults(tmp_path, text)]
    assert lines == sorted(lines)


def test_an_unknown_key_names_the_near_one(tmp_path: Path) -> None:
    (fault,) = faults(tmp_path, pair('"bandwidth": "1 GB/s", "latancy": "1 us"'))
    assert fault.startswith("3: links[0].latancy (link 'a'): is an unknown key; perhaps 'latency' is meant")


def test_repeated_keys_are_refused_with_both_lines(tmp_path: Path) -> None:
    (fault,) = faults(tmp_path, pair('"bandwidth": "1 GB/s",\n "bandwidth": "2 GB/s"'))
    assert fault == "3: links[0].bandwidth (link 'a'): is there twice, in lines 3 and 4; keys of an object must differ"


def test_repeated_sections_are_refused(tmp_path: Path) -> None:
    (fault, *_) = faults(tmp_path, pair('"bandwidth": "1 GB/s"', ', "nodes": []'))
    assert "nodes: is there twice, in lines 2 and 3" in fault


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b'{"name": "\xff"}', "1: not UTF-8"),
        (b"{\n'a': 1}", "2: not JSON"),
        (b"", "1: not JSON"),
        (b"[1, 2]", "1: file: must be an object"),
        (b'"text"', "1: file: must be an object"),
        (b"[" * 100_000, " not a file of this kind: brackets are nested too deep"),
        (b'{"a": ' + b"1" * 5000 + b"}", " not JSON that can be read"),
        (b"{}", "1: format: is missing"),
    ],
)
def test_what_is_no_topology_file(tmp_path: Path, content: bytes, reason: str) -> None:
    assert faults(tmp_path, content)[0].startswith(reason)


def test_missing_file_and_directory(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="no such file"):
        load_topology(tmp_path / "none.json")
    with pytest.raises(InvalidInputError, match="is a directory"):
        load_topology(tmp_path)
    with pytest.raises(InvalidInputError, match="cannot be read"):
        load_topology(tmp_path / "none\0.json")


def test_a_byte_order_mark_is_no_fault(tmp_path: Path) -> None:
    assert load(tmp_path, b"\xef\xbb\xbf" + CONTRACT.encode()).name == "pair"


def test_a_file_without_gpus(tmp_path: Path) -> None:
    (fault,) = faults(tmp_path, '{"format": "synth-topology/1", "nodes": [], "links": []}')
    assert "no node of kind gpu" in fault


def test_symmetry_hints_are_kept(tmp_path: Path) -> None:
    topology = load(tmp_path, pair('"bandwidth": "1 GB/s"', ', "symmetry": [{"g0": "g1", "g1": "g0"}]'))
    assert topology.symmetry == ((("g0", "g1"), ("g1", "g0")),)
    assert load(tmp_path, dump_topology(topology)) == topology


@pytest.mark.parametrize(
    "ids",
    [
        ("b:fwd", "b:rev", "c"),
        ("b:fwd", "b:rev", "b"),
        ("b:rev", "b:fwd", "c"),
        ("b:fwd", "c", "b:rev"),
        (":fwd", ":rev", "c"),
        ("b:fwd:fwd", "b:fwd:rev", "b:fwd"),
    ],
)
def test_links_that_look_like_two_directions_round_trip(tmp_path: Path, ids: tuple[str, ...]) -> None:
    ends = [("g0", "g1"), ("g1", "g0"), ("g0", "g1")]
    links = tuple(Link(name, src, dst, 1e9) for name, (src, dst) in zip(ids, ends, strict=True))
    topology = Topology("t", (Node("g0", "gpu"), Node("g1", "gpu")), links, (Resource("r", 1.0, ((ids[0], 1.5),)),))
    assert load(tmp_path, dump_topology(topology)) == topology


@given(topologies(plain_names=False, connected=False, relays=False), st.text(), st.text())
@settings(
    max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], deadline=None
)
def test_files_round_trip_to_the_last_bit(tmp_path: Path, topology: Topology, name: str, source: str) -> None:
    topology = Topology(name, topology.nodes, topology.links, topology.resources, source)
    path = tmp_path / "round.json"
    save_topology(topology, path)
    assert load_topology(path) == topology
    assert dump_topology(load_topology(path)) == dump_topology(topology)
    assert [entry.name for entry in tmp_path.iterdir()] == ["round.json"]


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text() | st.integers(),
        lambda x: st.lists(x) | st.dictionaries(st.text(), x),
    )
)
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_any_json_gives_a_message_and_never_a_traceback(tmp_path: Path, value: object) -> None:
    for document in (value, {"format": "synth-topology/1", "nodes": value, "links": value, "resources": value}):
        assert faults(tmp_path, json.dumps(document, ensure_ascii=True))


def test_numbers_beyond_every_float(tmp_path: Path) -> None:
    (fault,) = faults(tmp_path, pair(f'"bandwidth": "1 GB/s", "efficiency": {10**400}'))
    assert fault.startswith("3: links[0].efficiency (link 'a'): ")


def test_saving_into_nowhere_leaves_nothing(tmp_path: Path) -> None:
    topology = Topology("one", (Node("g0", "gpu"),), ())
    with pytest.raises(InvalidInputError, match="cannot be written"):
        save_topology(topology, tmp_path / "no" / "t.json")
    assert list(tmp_path.iterdir()) == []
