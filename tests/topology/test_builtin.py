"""Built-in machines: counts and capacities derived by hand, and the text form of the command line."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from synth.errors import InvalidInputError
from synth.topology import (
    Topology,
    builtin,
    builtin_names,
    catalogue,
    describe_builtins,
    import_plain_instance,
    load_topology,
    resolve,
    save_topology,
)
from tests import places

INSTANCES = places.SHARED / "instances"
EXAMPLES = (
    "ring:8",
    "ring:5,both_ways=false",
    "line:3",
    "mesh2d:3x4,bandwidth=53.687 GB/s",
    "torus2d:4x4",
    "torus2d:2x5",
    "torus3d:3x3x3,latency=0.5 us",
    "hypercube:4",
    "fullmesh:6",
    "switch:8,bandwidth=300 GB/s",
    "dgx1-v100",
    "dgx2",
    "dgx-a100",
    "hgx-h100:achievable=true",
    "mi250-16",
    "mi300x-8:achievable=true",
    "cluster:box=dgx-a100,hosts=2",
    "cluster:box=mi250-16,hosts=2,fabric=rail,nic_bandwidth=16 GB/s,gpus_per_nic=1",
    "cluster:box=ring:4,hosts=3,nic_bandwidth=10 GB/s",
)


def capacities(topology: Topology) -> Counter[tuple[str, str]]:
    """Bytes/second between each ordered pair of nodes."""
    table: Counter[tuple[str, str]] = Counter()
    for link in topology.links:
        table[link.src, link.dst] += link.capacity  # type: ignore[assignment]
    return table


def out_of(topology: Topology, node: str) -> float:
    return sum(link.capacity for link in topology.links if link.src == node)


def into(topology: Topology, node: str) -> float:
    return sum(link.capacity for link in topology.links if link.dst == node)


@pytest.mark.parametrize("text", EXAMPLES)
def test_the_name_is_a_text_that_gives_the_same_again(text: str, tmp_path: Path) -> None:
    topology = resolve(text)
    assert topology.name == text
    assert resolve(topology.name) == topology
    save_topology(topology, tmp_path / "t.json")
    assert load_topology(tmp_path / "t.json") == topology
    assert resolve(str(tmp_path / "t.json")) == topology


@pytest.mark.parametrize("text", EXAMPLES)
def test_what_goes_out_comes_in(text: str) -> None:
    topology = resolve(text)
    for node in topology.nodes:
        assert out_of(topology, node.id) == into(topology, node.id)


@pytest.mark.parametrize(
    ("text", "gpus", "links"),
    [
        ("ring:1", 1, 0),
        ("ring:2", 2, 2),
        ("ring:3", 3, 6),
        ("ring:8", 8, 16),
        ("ring:2,both_ways=false", 2, 2),
        ("ring:4,both_ways=false", 4, 4),
        ("line:1", 1, 0),
        ("line:4", 4, 6),
        ("mesh2d:3x3", 9, 24),
        ("mesh2d:4x3", 12, 34),
        ("torus2d:3x3", 9, 36),
        ("torus2d:4x4", 16, 64),
        ("torus2d:2x2", 4, 8),  # a dimension of two has one cable per pair
        ("torus2d:2x3", 6, 6 + 12),
        ("torus2d:1x4", 4, 8),
        ("torus3d:3x3x3", 27, 162),
        ("torus3d:2x2x2", 8, 24),
        ("hypercube:3", 8, 24),
        ("hypercube:1", 2, 2),
        ("fullmesh:4", 4, 12),
        ("fullmesh:1", 1, 0),
        ("switch:4", 4, 8),
        ("dgx1-v100", 8, 48),  # 8 GPUs of 6 NVLinks
        ("dgx2", 16, 32),
        ("dgx-a100", 8, 16),
        ("hgx-h100", 8, 16),
        ("mi250-16", 16, 112),  # 16 GCDs of 7 xGMI links
        ("mi300x-8", 8, 56),
        ("cluster:box=dgx-a100,hosts=2", 16, 2 * (16 + 16 + 16)),
        ("cluster:box=dgx-a100,hosts=2,fabric=rail", 16, 2 * (16 + 16 + 16)),
        ("cluster:box=mi250-16,hosts=2", 32, 2 * (112 + 32 + 16)),
    ],
)
def test_counts_by_hand(text: str, gpus: int, links: int) -> None:
    topology = resolve(text)
    assert len(topology.gpus) == gpus
    assert len(topology.links) == links


def test_small_torus_equals_hypercube() -> None:
    assert set(capacities(builtin("torus2d", rows=2, cols=2))) == set(capacities(builtin("hypercube", dim=2)))
    assert set(capacities(builtin("torus3d", x=2, y=2, z=2))) == set(capacities(builtin("hypercube", dim=3)))


def test_mesh_ranks_run_along_rows() -> None:
    table = capacities(builtin("mesh2d", rows=2, cols=3))
    assert table["g2", "g5"] > 0
    assert table["g2", "g3"] == 0


def test_one_way_ring() -> None:
    ring = builtin("ring", n=4, both_ways=False, bandwidth="1 GB/s", latency=0.0)
    assert [(link.src, link.dst, link.bandwidth) for link in ring.links] == [
        ("g0", "g1", 1e9), ("g1", "g2", 1e9), ("g2", "g3", 1e9), ("g3", "g0", 1e9),
    ]  # fmt: skip


def test_dgx1_matrix() -> None:
    machine = builtin("dgx1-v100")
    table = capacities(machine)
    links = [[int(table[f"g{a}", f"g{b}"] / 25e9) for b in range(8)] for a in range(8)]
    assert links[0] == [0, 2, 1, 1, 2, 0, 0, 0]
    assert links[7] == [0, 0, 0, 1, 1, 2, 2, 0]
    assert all(sum(row) == 6 for row in links)
    assert links == [list(column) for column in zip(*links, strict=True)]
    assert {link.id for link in machine.links if link.src == "g0" and link.dst == "g1"} == {
        "nv0-1.0:fwd",
        "nv0-1.1:fwd",
    }


def test_switched_machines() -> None:
    for name, port in {"dgx2": 150e9, "dgx-a100": 300e9, "hgx-h100": 450e9}.items():
        machine = builtin(name)
        assert {out_of(machine, f"g{rank}") for rank in range(len(machine.gpus))} == {port}


def test_mi250_rows() -> None:
    machine = builtin("mi250-16")
    assert {out_of(machine, f"g{rank}") for rank in range(16)} == {350e9}
    assert capacities(machine)["g0", "g1"] == 200e9


def test_achievable_rates() -> None:
    assert out_of(builtin("mi300x-8"), "g0") == 7 * 64e9
    assert out_of(builtin("mi300x-8", achievable=True), "g0") == pytest.approx(7 * 48e9)
    assert out_of(builtin("dgx-a100", achievable=True), "g0") == 240e9
    assert "achievable" in builtin("dgx-a100", achievable=True).source
    assert "capacities are nominal" in builtin("dgx-a100").source


@pytest.mark.skipif(not INSTANCES.exists(), reason="the peers' instances are not here")
@pytest.mark.parametrize(
    ("text", "file"),
    [
        ("mi250-16", "fc_mi250_1x16"),
        ("mi250-16", "teccl_amd_1ch"),
        ("dgx1-v100", "teccl_dgx1"),
        ("ring:8", "ring8"),
        ("hypercube:3,bandwidth=50 GiB/s", "hypercube3d"),
        ("mesh2d:3x4,bandwidth=50 GiB/s", "mesh2d_4x3"),  # theirs is width x height
        ("torus2d:5x5,bandwidth=50 GiB/s", "torus2d_5x5"),
        ("torus3d:3x3x3,bandwidth=50 GiB/s", "torus3d_3x3x3"),
        ("dgx-a100", "fc_a100_1x8"),
    ],
)
def test_same_capacities_as_the_peers_instances(text: str, file: str) -> None:
    ours, theirs = resolve(text), import_plain_instance(INSTANCES / f"{file}.json")
    place = {str(i): node.id for i, node in enumerate(ours.nodes)}
    table = {(place[a], place[b]): value for (a, b), value in capacities(theirs).items()}
    assert capacities(ours) == pytest.approx(table)


def test_two_a100_boxes() -> None:
    cluster = builtin("cluster", box="dgx-a100", hosts=2)
    table = capacities(cluster)
    for host in ("h0", "h1"):
        for gpu in range(8):
            assert table[f"{host}.g{gpu}", f"{host}.sw"] == table[f"{host}.sw", f"{host}.g{gpu}"] == 300e9
            assert table[f"{host}.nic{gpu}", "fabric"] == table["fabric", f"{host}.nic{gpu}"] == 25e9
            assert table[f"{host}.g{gpu}", f"{host}.nic{gpu}"] == 31e9
    assert out_of(cluster, "fabric") == 16 * 25e9
    assert {node.host for node in cluster.nodes} == {"h0", "h1", "fabric"}
    assert [cluster.gpu_name(rank) for rank in (0, 8, 15)] == ["h0.g0", "h1.g0", "h1.g7"]
    kinds = Counter(node.kind for node in cluster.nodes)
    assert kinds == {"gpu": 16, "nic": 16, "switch": 3}


def test_rails_join_equal_places_only() -> None:
    cluster = builtin("cluster", box="hgx-h100", hosts=3, fabric="rail")
    for rail in range(8):
        near = {link.src for link in cluster.links if link.dst == f"rail{rail}"}
        assert near == {f"h{host}.nic{rail}" for host in range(3)}
    assert not [link for link in cluster.links if link.src.startswith("rail") and link.dst.startswith("rail")]
    assert out_of(cluster, "rail0") == 3 * 50e9


def test_nics_that_two_gpus_share() -> None:
    cluster = builtin("cluster", box="mi250-16", hosts=2)
    assert len([node for node in cluster.nodes if node.kind == "nic"]) == 16
    assert {link.src for link in cluster.links if link.dst == "h0.nic0"} == {"h0.g0", "h0.g1", "fabric"}
    alone = builtin("cluster", box="mi250-16", hosts=2, gpus_per_nic=1, nic_bandwidth=16e9, pcie_bandwidth=16e9)
    assert out_of(alone, "fabric") == 32 * 16e9


def test_cluster_of_achievable_rates() -> None:
    cluster = builtin("cluster", box="dgx-a100", hosts=2, achievable=True)
    table = capacities(cluster)
    assert table["h0.g0", "h0.sw"] == 240e9
    assert table["h0.nic0", "fabric"] == pytest.approx(23.5e9)
    assert table["h0.g0", "h0.nic0"] == pytest.approx(24e9)


def test_every_builtin_is_described_and_says_where_its_numbers_come_from() -> None:
    assert len(set(builtin_names())) == len(builtin_names()) == 16 + len(catalogue())
    for entry in describe_builtins():
        assert entry.summary
        assert entry.source
        assert all(parameter.help for parameter in entry.parameters)
    for text in EXAMPLES:
        assert resolve(text).source


def test_what_is_from_memory_is_marked() -> None:
    assert "UNVERIFIED" in builtin("cluster", box="dgx1-v100", hosts=2).source


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("rign:8", "near names: ring"),
        ("dgxa100", "near names: dgx-a100"),
        ("", "synth topology list"),
        ("nothing-like-it", "synth topology list"),
        ("no/such.json", "no/such.json: no such file"),
        ("such.json", "such.json: no such file"),
        ("ring", "ring: n is missing"),
        ("ring:", "ring: n: '' is not allowed"),
        ("ring:0", "use a whole number from 1 to 65536"),
        ("ring:99999999999999999999", "use a whole number from 1 to 65536"),
        ("ring:2.5", "use a whole number"),
        ("ring:-3", "use a whole number"),
        ("ring:8x2", "not of the form ring:N"),
        ("torus2d:4", "not of the form torus2d:ROWSxCOLS"),
        ("torus2d:4x", "use a whole number"),
        ("dgx2:16", "'16' is not key=value"),
        ("ring:8,n=9", "n is given twice"),
        ("ring:8,bandwith=3 GB/s", "perhaps 'bandwidth' is meant"),
        ("ring:8,bandwidth=3", "'3' has no unit"),
        ("ring:8,bandwidth=0 GB/s", "must be positive"),
        ("ring:8,latency=-1 us", "is negative"),
        ("ring:8,both_ways=yes", "use true or false"),
        ("cluster:box=dgx-a10,hosts=2", "near names: dgx-a100"),
        ("cluster:box=cluster,hosts=2", "is not one host"),
        ("cluster:hosts=2", "cluster: box is missing"),
        ("cluster:box=dgx2,hosts=2,fabric=mesh", "use one of switch, rail"),
        ("cluster:box=dgx2,hosts=2,gpus_per_nic=3", "does not divide the 16 GPUs"),
        ("cluster:box=ring:4,hosts=2,achievable=true", "no achievable rates are known"),
    ],
)
def test_wrong_texts(text: str, reason: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        resolve(text)
    assert any(reason in fault for fault in caught.value.faults)


def test_wrong_parameters_all_at_once() -> None:
    with pytest.raises(InvalidInputError) as caught:
        builtin("torus2d", rows=0, cols=True, bandwidth=float("inf"), latency="1", size=3)
    assert len(caught.value.faults) == 5


def test_directories_are_no_topologies(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="is a directory"):
        resolve(str(tmp_path))
