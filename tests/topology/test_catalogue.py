"""The machine catalogue: its files, its numbers, and its layouts against the files of real machines."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import igraph
import pytest

from synth.errors import InvalidInputError
from synth.topology import (
    Topology,
    catalogue,
    catalogue_topology,
    check_reachable,
    import_topology,
    load_topology,
    resolve,
    select_paths,
)
from synth.topology.catalogue.files import catalogue_files
from synth.topology.catalogue.layout import grid, mesh
from synth.topology.catalogue.others import _tpu_hosts
from tests import places

ROOT = places.ROOT
REAL = ROOT.parent / "shared" / "data" / "topo"
NAMES = sorted(catalogue())


@pytest.mark.parametrize("name", NAMES)
def test_every_machine_is_whole(name: str) -> None:
    entry = catalogue()[name]
    assert entry.summary
    assert len(entry.source) > 20
    nominal, achievable = resolve(name), resolve(name, "achievable")
    ranks = range(len(nominal.gpus))
    check_reachable(nominal, [(a, b) for a in ranks for b in ranks if a != b])
    assert all(max(part) < len(ranks) for part in entry.rents)
    rates = {link.id: link.capacity for link in nominal.links}
    assert all(link.capacity <= rates[link.id] * (1 + 1e-12) for link in achievable.links)
    pools = {pool.id: pool.bandwidth for pool in nominal.resources}
    assert all(pool.bandwidth <= pools.get(pool.id, pool.bandwidth) for pool in achievable.resources)


def test_the_files_are_those_of_the_catalogue() -> None:
    folder = ROOT / "instances" / "machines"
    files = catalogue_files()
    assert {path.name for path in folder.iterdir()} == set(files)
    assert all((folder / name).read_bytes() == data for name, data in files.items())
    assert load_topology(folder / "h100-box.json") == resolve("h100-box")
    assert load_topology(folder / "h100-box-achievable.json") == resolve("h100-box:capacities=achievable")


def ingress(topology: Topology, kind: str) -> float:
    """GB/s into GPU 0 over links of a kind."""
    gpu = topology.gpu_name(0)
    return sum(link.capacity for link in topology.links if link.dst == gpu and link.kind == kind) / 1e9


@pytest.mark.parametrize(
    ("name", "kind", "nominal", "achievable"),
    [
        ("dgx1-v100-box", "nvlink", 150, 120),
        ("dgx2-box", "nvlink", 150, 125),
        ("a100-box", "nvlink", 300, 240),
        ("a800-box", "nvlink", 200, 160),
        ("h100-box", "nvlink", 450, 370.8),
        ("h800-box", "nvlink", 200, 164.8),
        ("b200-box", "nvlink", 900, 721.8),
        ("a40-box", "nvlink", 56.25, 48),
        ("mi250-16-box", "xgmi", 350, 252),
        ("mi300x-box", "xgmi", 448, 336),
        ("mi50-8-box", "xgmi", 48, 48),
        ("mi100-8-box", "xgmi", 144, 144),
    ],
)
def test_scale_up_of_a_gpu(name: str, kind: str, nominal: float, achievable: float) -> None:
    """Links times rates of machines.md 3.1, 3.3 and 4."""
    assert ingress(resolve(name), kind) == pytest.approx(nominal)
    assert ingress(resolve(name, "achievable"), kind) == pytest.approx(achievable)


def test_scale_up_only_machines_are_as_they_were() -> None:
    for name, gpus in (("dgx1-v100", 8), ("dgx2", 16), ("dgx-a100", 8), ("hgx-h100", 8), ("mi250-16", 16)):
        topology = resolve(name)
        assert len(topology.gpus) == gpus
        assert {node.kind for node in topology.nodes} <= {"gpu", "switch"}


def coloured(topology: Topology) -> tuple[igraph.Graph, list[int]]:
    """Nodes and links as vertices, coloured by kind: parallel links and directions count."""
    kinds = ["gpu", "switch", "nic", "cpu", "memory", "nvlink", "xgmi", "c2c", "pcie", "socket", "net"]
    count = len(topology.nodes)
    edges = [edge for k, (a, b) in enumerate(topology.ends) for edge in ((a, count + k), (count + k, b))]
    # A link to or from memory has kind "memory", a NIC's "nic", as its node has.
    colours = [kinds.index(node.kind) for node in topology.nodes] + [kinds.index(link.kind) for link in topology.links]
    return igraph.Graph(count + len(topology.links), edges, directed=True), colours


@pytest.mark.parametrize(
    ("name", "file", "options"),
    [
        ("a100-box", "azure/ndv4-topo.xml", {"gpu": "a100", "assume": "gen4"}),
        ("h100-box", "azure/ndv5-topo.xml", {"gpu": "h100", "assume": "gen5"}),
        ("mi300x-box", "rccl_models/topo_8p_940.xml", {"assume": "gen5"}),
        ("mi250-16-box", "rccl_models/topo_16p1h.xml", {"assume": "gen4"}),
        ("mi50-8-box", "rccl_models/topo_8p_rome.xml", {"assume": "gen4"}),
        ("mi100-8-box", "rccl_models/topo_8p6l.xml", {"assume": "gen4"}),
        ("pcie-8-box", "rccl_models/topo_8p_pcie.xml", {"assume": "gen3"}),
        ("pcie-3-box", "rccl_models/topo_3p_pcie.xml", {"assume": "gen4"}),
    ],
)
def test_layouts_are_those_of_real_files(name: str, file: str, options: dict[str, str]) -> None:
    """The same graph of GPUs, switches, CPUs, memory and NICs, whatever the numbering and the speeds."""
    if not (REAL / file).exists():
        pytest.skip("the files of real machines are not here")
    ours, colours = coloured(resolve(name))
    real, others = coloured(import_topology(REAL / file, **options))  # type: ignore[arg-type]
    assert Counter(colours) == Counter(others)
    assert ours.isomorphic_vf2(real, color1=colours, color2=others)


def test_a_different_layout_is_told_apart() -> None:
    """The comparison above can fail: A100 and A800 have one layout, H100 another."""
    ours, colours = coloured(resolve("a100-box"))
    same, others = coloured(resolve("a800-box"))
    assert ours.isomorphic_vf2(same, color1=colours, color2=others)
    far, others = coloured(resolve("h100-box"))
    assert Counter(colours) != Counter(others)
    moved = resolve("mi50-8-box")
    links = tuple(link for link in moved.links if not link.id.startswith("xgmi0-1"))
    a, mine = coloured(moved)
    b, theirs = coloured(Topology("other", moved.nodes, links))
    assert Counter(mine) != Counter(theirs)
    assert far.vcount() != a.vcount() != b.vcount()


def test_hosts_are_joined_through_the_boxes_own_nics() -> None:
    two = resolve("h100-box:hosts=2,fabric=rail")
    assert len(two.gpus) == 16
    assert {node.id for node in two.nodes if node.host == "fabric"} == {f"rail{k}" for k in range(8)}
    with pytest.raises(InvalidInputError, match="no NIC"):
        resolve("mi250-8-box:hosts=2")
    with pytest.raises(InvalidInputError, match="write h100-box:hosts=2"):
        resolve("cluster:box=h100-box,hosts=2")


def test_peer_access_can_end_at_the_cpu() -> None:
    everywhere = select_paths(resolve("l40s-4-box"), ["pcie"])
    assert any(link.kind == "pcie" for link in everywhere.links)
    assert not select_paths(resolve("l40s-4-box:peer=switch"), ["pcie"]).links
    assert select_paths(resolve("l40s-8-box:peer=switch"), ["pcie"]).links


@pytest.mark.parametrize(
    ("text", "capacities", "reason"),
    [
        ("h100-box", "peak", "use nominal or achievable"),
        ("ring:4", "nominal", "one set of capacities"),
        ("h100-box:capacities=nominal", "achievable", "given twice"),
        ("h1000-box", None, "near names: h100-box"),
    ],
)
def test_wrong_requests_say_what_is_right(text: str, capacities: str | None, reason: str) -> None:
    with pytest.raises(InvalidInputError, match=reason):
        resolve(text, capacities)


def test_capacities_of_scale_up_machines_and_files(tmp_path: Path) -> None:
    assert resolve("hgx-h100", "achievable") == resolve("hgx-h100:achievable=true")
    path = tmp_path / "x.json"
    path.write_bytes(catalogue_files()["mi100-4-box.json"])
    with pytest.raises(InvalidInputError, match="one set"):
        resolve(str(path), "nominal")
    with pytest.raises(InvalidInputError, match="near names: a100-box"):
        catalogue_topology("a1000-box")


def test_grids_and_meshes() -> None:
    """A 2x2 torus has two links between neighbours, a 4x4x4 torus 6 per chip, a 2x4 mesh 10 cables."""
    assert sorted(grid((2, 2), True)) == [(0, 1, 2), (0, 2, 2), (1, 3, 2), (2, 3, 2)]
    cube = grid((4, 4, 4), True)
    degree = Counter(end for a, b, count in cube for end in (a, b) for _ in range(count))
    assert set(degree.values()) == {6}
    assert len(grid((2, 4), False)) == 10
    assert mesh(range(3), 2) == [(0, 1, 2), (0, 2, 2), (1, 2, 2)]
    assert len(_tpu_hosts((2, 2), False, 1e9, 2, 1e9).numas) == 2
