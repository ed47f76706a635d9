"""NCCL and RCCL topology XML."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from synth.errors import InfeasibleError, InvalidInputError
from synth.topology import Topology, builtin, check_reachable, import_topology, load_topology, save_topology
from tests.topology.importing.samples import SAMPLES, SHARED, attempt, needs_shared, xgmi_xml


def everyone(topology: Topology) -> None:
    ranks = range(len(topology.gpus))
    check_reachable(topology, [(a, b) for a in ranks for b in ranks if a != b])


def rates(topology: Topology) -> Counter[tuple[str, float]]:
    return Counter((link.kind, link.bandwidth) for link in topology.links)


def scale_up_graph(topology: Topology) -> nx.DiGraph[str]:
    """GPUs with, per ordered pair, the sorted capacities of the links between them."""
    graph: nx.DiGraph[str] = nx.DiGraph()
    graph.add_nodes_from(topology.gpu_name(rank) for rank in range(len(topology.gpus)))
    for link in topology.links:
        if link.kind in ("nvlink", "xgmi"):
            there = graph.get_edge_data(link.src, link.dst, {"capacities": ()})["capacities"]
            graph.add_edge(link.src, link.dst, capacities=tuple(sorted((*there, link.capacity))))
    return graph


def isomorphic(a: Topology, b: Topology) -> bool:
    same = nx.algorithms.isomorphism.categorical_edge_match("capacities", ())
    return nx.is_isomorphic(scale_up_graph(a), scale_up_graph(b), edge_match=same)


def cables_of(topology: Topology) -> dict[tuple[int, int], int]:
    pairs = Counter(tuple(sorted(topology.ends[k])) for k in range(len(topology.links)))
    return {(a, b): count // 2 for (a, b), count in pairs.items()}


def test_two_hosts_are_two_boxes() -> None:
    topology = import_topology(SAMPLES / "two_hosts_one_nic.xml")
    assert [topology.nodes[k].host for k in topology.gpus] == ["h0", "h0", "h1", "h1"]
    # Four NVLinks of SM80 per pair stay apart, both ways, on two hosts.
    assert rates(topology)["nvlink", 25e9] == 16
    assert rates(topology)["nic", 10e9] == 4
    everyone(topology)


def test_achievable_rates_are_nccls() -> None:
    topology = import_topology(SAMPLES / "two_hosts_one_nic.xml", capacities="achievable")
    kinds = {link.kind: link.capacity for link in topology.links if link.id != "h0.nic0:send"}
    assert kinds["nvlink"] == pytest.approx(20e9)
    assert max(link.capacity for link in topology.links if link.kind == "pcie") == pytest.approx(24e9)


def test_nvswitches_act_as_one_and_add_up() -> None:
    topology = import_topology(SAMPLES / "nvswitch.xml", paths=["nvlink"])
    assert [node.kind for node in topology.nodes] == ["gpu", "gpu", "switch"]
    # 5 + 4 + 9 links of the first GPU, 18 of the second.
    assert rates(topology) == Counter({("nvlink", 450e9): 4})


def test_the_network_device_of_a_container_is_left_out() -> None:
    topology = import_topology(SAMPLES / "nvswitch.xml", assume="gen5")
    assert any("veth12ab" in note and "left out" in note for note in topology.notes)
    # eth0 has gdr=0: it is reached through host memory only.
    into = [link.src for link in topology.links if link.dst == "nic0.tx"]
    assert into == ["mem0"]


def test_c2c_is_the_way_to_host_memory(tmp_path: Path) -> None:
    table = tmp_path / "speeds.json"
    table.write_text('{"format": "synth-speeds/1", "memory": "380 GB/s"}')
    topology = import_topology(SAMPLES / "grace.xml", assume=table)
    writes = [link for link in topology.links if link.dst.startswith("mem")]
    assert {link.src for link in writes} == {"g0", "g1"}
    # 10 links of 45 GB/s, more than the memory takes; PCIe is x1 there.
    pools = {pool.id: pool.bandwidth for pool in topology.resources}
    assert pools["g0.c2c:down"] == 450e9
    assert all(link.bandwidth == 380e9 for link in writes)


def test_bare_pci_elements_need_speeds_and_say_which() -> None:
    with pytest.raises(InvalidInputError) as caught:
        import_topology(SAMPLES / "provider.xml")
    text = "\n".join(caught.value.faults)
    assert "provider.xml:11: GPU 0001:00:00.0: the PCIe speed of '0001:00:00.0' is not known" in text
    assert "NIC speed of '0103:00:00.0', '0104:00:00.0' is not known" in text


def test_bare_pci_elements_with_the_gpus_name() -> None:
    topology = import_topology(SAMPLES / "provider.xml", gpu="a100", assume="gen4")
    assert rates(topology)["nvlink", 300e9] == 6
    assert any("12 nvlink links per a100" in note for note in topology.notes)
    assert any(note.startswith("PCIe port of the a100") and "0001:00:00.0" in note for note in topology.notes)
    assert all(note in topology.source for note in topology.notes)


def test_without_pcie_paths_pcie_speeds_need_not_be_known() -> None:
    topology = import_topology(SAMPLES / "provider.xml", gpu="a100", paths=["nvlink"])
    assert rates(topology) == Counter({("nvlink", 300e9): 6})


def test_a_link_speed_table_replaces_single_elements(tmp_path: Path) -> None:
    table = tmp_path / "speeds.json"
    table.write_text(
        '{"format": "synth-speeds/1", "pcie": "20 GB/s", "nic": "25 GB/s",'
        ' "elements": {"0003:00:00.0": "5 GB/s", "cpu0-cpu1": "7 GB/s", "cpu0.memory": "99 GB/s"}}'
    )
    topology = import_topology(SAMPLES / "provider.xml", assume=table)
    by_id = {link.id: link.bandwidth for link in topology.links}
    assert by_id["g0-pcie0"] == 5e9  # the element's
    assert by_id["g1-pcie0"] == pytest.approx(31.5e9, rel=1e-3)  # the file's
    assert by_id["g2-cpu1"] == 20e9  # the class's, where the file has none
    assert by_id["cpu0-cpu1"] == 7e9
    assert {pool.id: pool.bandwidth for pool in topology.resources}["cpu0.dram"] == 99e9
    assert sum("speeds.json" in note for note in topology.notes) >= 5


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"format": "synth-speeds/1", "pice": "20 GB/s"}', "perhaps 'pcie' is meant"),
        ('{"format": "synth-speeds/1", "pcie": "20"}', "no unit"),
        ('{"format": "synth-speeds/1", "pcie": "0 GB/s"}', "zero"),
        (
            '{"format": "synth-speeds/1", "nic": "9 GB/s", "pcie": "9 GB/s", "elements": {"0003:00:00.1": "5 GB/s"}}',
            "'0003:00:00.1' is no element of the imported file; perhaps '0003:00:00.0' is meant",
        ),
    ],
)
def test_faulty_link_speed_tables(tmp_path: Path, text: str, message: str) -> None:
    table = tmp_path / "speeds.json"
    table.write_text(text)
    with pytest.raises(InvalidInputError, match=re.escape(message)):
        import_topology(SAMPLES / "provider.xml", assume=table)


def test_peer_traffic_through_an_intel_cpu_counts_more() -> None:
    topology = import_topology(SAMPLES / "rails.xml")
    pools = {pool.id: dict(pool.uses) for pool in topology.resources}
    assert pools["cpu0-cpu1.socket"] == {"cpu0-cpu1": 1.2, "cpu0.rx-cpu1.rx": 1.2}
    assert pools["pcie0:up"] == {"pcie0-cpu0": 1.2, "pcie0.rx-cpu0.rx": 1.2}
    amd = import_topology(SAMPLES / "two_hosts_one_nic.xml")
    assert {times for pool in amd.resources for _, times in pool.uses} == {1.0}


def test_two_rings_need_pcie() -> None:
    with pytest.raises(InfeasibleError, match="8 ordered pairs have no path"):
        everyone(import_topology(SAMPLES / "rings.xml", paths=["nvlink"]))
    everyone(import_topology(SAMPLES / "rings.xml", paths=["nvlink", "pcie"]))


@pytest.mark.parametrize("seed", range(3))
def test_the_imported_mi250_is_the_built_in(tmp_path: Path, seed: int) -> None:
    box = builtin("mi250-16")
    order = [(i * (3, 5, 7)[seed] + seed) % 16 for i in range(16)]
    path = tmp_path / "mi250.xml"
    path.write_text(xgmi_xml(16, cables_of(box), order))
    imported = import_topology(path, paths=["nvlink"])
    assert isomorphic(imported, box)
    # And the test can fail: one link more, or the achievable rates, and it is another machine.
    more = cables_of(box)
    more[0, 1] += 1
    path.write_text(xgmi_xml(16, more, order))
    assert not isomorphic(import_topology(path, paths=["nvlink"]), box)
    path.write_text(xgmi_xml(16, cables_of(box), order))
    assert not isomorphic(import_topology(path, paths=["nvlink"], capacities="achievable"), box)
    assert isomorphic(
        import_topology(path, paths=["nvlink"], capacities="achievable"), builtin("mi250-16", achievable=True)
    )


@needs_shared
def test_the_shared_mi250_is_the_built_in() -> None:
    imported = import_topology(SHARED / "topo/rccl_models/topo_16p1h.xml")
    assert isomorphic(imported, builtin("mi250-16"))
    assert sum(node.kind == "nic" for node in imported.nodes) == 16  # 8 NICs, each sends and receives


@needs_shared
def test_the_shared_mi300x_is_the_built_in() -> None:
    imported = import_topology(SHARED / "topo/rccl_models/topo_8p_940.xml")
    assert isomorphic(imported, builtin("mi300x-8"))
    assert not isomorphic(imported, builtin("mi250-16"))


@needs_shared
def test_the_shared_mi50_rings_need_pcie() -> None:
    path = SHARED / "topo/rccl_models/topo_8p_rome.xml"
    with pytest.raises(InfeasibleError, match="32 ordered pairs"):
        everyone(import_topology(path, paths=["nvlink"]))
    everyone(import_topology(path, paths=["nvlink", "pcie"]))


@given(gone=st.sets(st.integers(0, 7), max_size=6), sparse=st.integers(1, 3))
def test_a_file_with_gpus_removed_still_imports(gone: set[int], sparse: int) -> None:
    """The scale-up part is what is left of the whole file's; links to removed GPUs go with a note."""
    cables = {(a, b): 1 + (a + b) % 3 for a in range(8) for b in range(a + 1, 8) if (a * b) % sparse == 0}
    blocks = re.findall(r"<pci .*?</pci>\n", text := xgmi_xml(8, cables, list(range(8))), re.DOTALL)
    assert len(blocks) == 8
    for k in gone:
        text = text.replace(blocks[k], "")
    whole = _import_text(xgmi_xml(8, cables, list(range(8))))
    part = _import_text(text)
    kept = [k for k in range(8) if k not in gone]
    expected = scale_up_graph(whole).subgraph(f"g{k}" for k in kept)
    renamed = nx.relabel_nodes(expected, {f"g{k}": f"g{i}" for i, k in enumerate(kept)})
    found = scale_up_graph(part)
    assert set(found.nodes) == set(renamed.nodes)
    assert {(a, b): d["capacities"] for a, b, d in found.edges(data=True)} == {
        (a, b): d["capacities"] for a, b, d in renamed.edges(data=True)
    }
    cut = any((a in gone) != (b in gone) for a, b in cables)
    assert cut == any("no such GPU in the file" in note for note in part.notes)


@needs_shared
@pytest.mark.parametrize("gone", [4, 2])
def test_the_shared_mi300x_with_gpus_removed(tmp_path: Path, gone: int) -> None:
    text = (SHARED / "topo/rccl_models/topo_8p_940.xml").read_text()
    for rank in range(gone):
        text = re.sub(rf'<gpu dev="{rank}".*?</gpu>', "", text, count=1, flags=re.DOTALL)
        text = re.sub(r'<pci [^>]*class="0x120000"[^>]*>\s*</pci>', "", text)
    path = tmp_path / "part.xml"
    path.write_text(text)
    topology = import_topology(path)
    n = 8 - gone
    assert len(topology.gpus) == n
    assert rates(topology)["xgmi", 64e9] == n * (n - 1)
    everyone(topology)


def _import_text(text: str) -> Topology:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "box.xml"
        path.write_text(text)
        return import_topology(path)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('busid="0000:11:00.0"', 'busid="0000:12:00.0"', "GPU 0000:12:00.0 is there 2 times on one host"),
        ('link_speed="8.0 GT/s PCIe"', 'link_speed="9.0 GT/s PCIe"', "no PCIe generation"),
        ('link_speed="8.0 GT/s PCIe"', 'link_speed="fast"', "expected such as '16.0 GT/s PCIe' and 16"),
        ('rank="0"', 'rank="zero"', "rank='zero' is not a whole number"),
        ("<system", "<graphs", "not well-formed"),
        ("</system>", "", "not well-formed"),
        ("0x03", "0x01", "imports"),
        ('<cpu numaid="0"', '<cpu numaid="0"><gpu/></cpu><cpu numaid="0"', "second cpu with numaid 0"),
    ],
)
def test_faults_have_their_place(tmp_path: Path, old: str, new: str, message: str) -> None:
    path = tmp_path / "box.xml"
    path.write_text((SAMPLES / "no_peer.xml").read_text().replace(old, new))
    if message == "imports":  # a gpu element says what a device is, whatever its class
        assert len(import_topology(path).gpus) == 4
        return
    with pytest.raises(InvalidInputError, match=re.escape(message)) as caught:
        import_topology(path)
    assert all(str(path) in fault for fault in caught.value.faults)


def test_a_speed_of_kilobits_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "box.xml"
    path.write_text((SAMPLES / "rails.xml").read_text().replace('speed="200000"', 'speed="200000000"'))
    with pytest.raises(InvalidInputError, match="perhaps 200000 is meant"):
        import_topology(path)


def test_a_link_that_one_end_lists_goes_one_way(tmp_path: Path) -> None:
    path = tmp_path / "box.xml"
    path.write_text((SAMPLES / "rings.xml").read_text().replace('02:00.0" count="1"', '02:00.0" count="3"'))
    topology = import_topology(path, paths=["nvlink"])
    pairs = Counter((link.src, link.dst) for link in topology.links)
    assert (pairs["g0", "g1"], pairs["g1", "g0"]) == (3, 1)
    assert any("g0 lists 2 more links to g1" in note for note in topology.notes)


def test_imports_are_the_same_bytes_and_read_back(tmp_path: Path) -> None:
    for name in ("a.json", "b.json"):
        save_topology(import_topology(SAMPLES / "provider.xml", gpu="a100", assume="gen4", hosts=2), tmp_path / name)
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()
    again = import_topology(SAMPLES / "provider.xml", gpu="a100", assume="gen4", hosts=2)
    assert load_topology(tmp_path / "a.json") == again
    assert import_topology(tmp_path / "a.json") == again


@needs_shared
@pytest.mark.parametrize("assume", [None, "gen4"])
@pytest.mark.parametrize("path", sorted((SHARED / "topo").glob("*/*")), ids=lambda path: path.name)
def test_every_shared_file_imports_or_says_why_not(path: Path, assume: str | None) -> None:
    topology, faults = attempt(path, assume=assume, gpu="v100" if "DLPerf" in path.name and assume else None)
    if topology is not None:
        assert topology.gpus
        assert topology.source.startswith(path.name)
        return
    assert not path.is_relative_to(SHARED / "topo/rccl_models") or path.name == "topo_4p_940.xml"
    reasons = (
        "is not known; give",
        "is no topology but",
        "no GPU in this file",
        "cannot be told apart",
        "is not imported",
        "no NIC is that fast",
    )
    assert faults
    for fault in faults:
        assert str(path) in fault
        assert any(reason in fault for reason in reasons)


@needs_shared
def test_what_the_shared_files_are_refused_for() -> None:
    """With ``--assume`` and a GPU's name only files that lack GPUs, or are no topology, are left."""
    refused = set()
    for path in sorted((SHARED / "topo").glob("*/*")):
        gpu = "v100" if "DLPerf" in path.name or "TACCL" in path.name else "mi210" if "EPCC" in path.name else None
        gpu = "h100" if path.parent.name == "nvidia_smi" and gpu is None else gpu
        try:
            import_topology(path, assume="gen4", gpu=gpu if path.parent.name != "nvidia_smi" or _linked(path) else None)
        except InvalidInputError:
            refused.add(path.name)
    assert refused == {
        "g5.48xl-topo.xml",  # neither class nor gpu elements
        "p5.48xl-topo.xml",  # lists NICs only
        "ncv4-graph.xml",  # rings and trees
        "topo_4p_940.xml",  # NIC speed in kb/s
        "96em64t-4n4d3ca2co-pci.xml",  # a console's VGA
        "nvidia-dgx-gb10.xml",  # no I/O devices
        "nvidiagpunumanodes.console",  # console text
        "ROCm_rocm-systems_01.txt",  # no link types
    }


def _linked(path: Path) -> bool:
    return re.search(r"\bNV[0-9]+\b", path.read_text()) is not None


def _peers_xml(counts: Mapping[tuple[int, int], int]) -> str:
    """Four GPUs of SM90 that list links to each other: ``counts`` of ordered pairs."""
    bus = [f"0000:1{i}:00.0" for i in range(4)]
    gpus = "".join(
        f'<pci busid="{bus[i]}" class="0x030200" link_speed="32.0 GT/s PCIe" link_width="16">'
        f'<gpu dev="{i}" sm="90" rank="{i}" gdr="1">'
        + "".join(
            f'<nvlink target="{bus[j]}" count="{n}" tclass="0x030200"/>' for (k, j), n in counts.items() if k == i
        )
        + "</gpu></pci>"
        for i in range(4)
    )
    cpu = '<cpu numaid="0" arch="x86_64" vendor="AuthenticAMD" familyid="143" modelid="49">'
    return f'<system version="1">{cpu}{gpus}</cpu></system>'


@pytest.mark.parametrize(("count", "switch"), [(6, False), (18, True)])
def test_peers_that_no_gpu_has_room_for_are_a_switch(tmp_path: Path, count: int, switch: bool) -> None:
    """Three times 6 are the 18 links of a GPU; three times 18 are one GPU's 18 links to a switch."""
    path = tmp_path / "peers.xml"
    path.write_text(_peers_xml({(i, j): count for i in range(4) for j in range(4) if i != j}))
    found = rates(import_topology(path, paths=["nvlink"]))
    assert found == (Counter({("nvlink", 450e9): 8}) if switch else Counter({("nvlink", 25e9): 12 * 6}))


def test_the_model_may_have_fewer_links_than_its_generation(tmp_path: Path) -> None:
    """Three H800 with 8 links to each other would have 16 of SM90's 18; an H800 has 8, to a switch."""
    path = tmp_path / "peers.xml"
    path.write_text(_peers_xml({(i, j): 8 for i in range(3) for j in range(3) if i != j}))
    assert rates(import_topology(path, paths=["nvlink"], gpu="h800")) == Counter({("nvlink", 200e9): 6})


def test_peers_that_cannot_be_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "peers.xml"
    counts = {(i, j): 18 for i in range(4) for j in range(4) if i != j}
    path.write_text(_peers_xml(counts | {(0, 1): 17}))
    with pytest.raises(InvalidInputError, match=r"lists 17 links to 0000:11:00\.0, which lists 18 to it"):
        import_topology(path, paths=["nvlink"])
    path.write_text(_peers_xml({pair: 12 for pair in counts if set(pair) != {0, 1}}))
    with pytest.raises(InvalidInputError, match="36 links to other GPUs, a GPU of its generation has 18"):
        import_topology(path, paths=["nvlink"])
