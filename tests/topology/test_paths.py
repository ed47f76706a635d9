"""Path kinds, against enumeration of all simple paths."""

from __future__ import annotations

from collections.abc import Iterator

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from synth.errors import InvalidInputError
from synth.topology import Link, Node, Topology, builtin, import_topology, path_kind, select_paths
from synth.topology.box.build import build_topology
from synth.topology.box.parts import Box
from synth.topology.elements import LinkKind, NodeKind
from synth.topology.paths import PATH_GROUPS, PathGroup, group_of, parse_groups
from tests.topology.importing.samples import SAMPLES
from tests.topology.test_box import boxes


@st.composite
def mixed(draw: st.DrawFn) -> Topology:
    """Any graph of GPUs and other vertices with links of any kind."""
    others: tuple[NodeKind, ...] = ("switch", "nic", "cpu", "memory")
    nodes = [Node(f"g{k}", "gpu") for k in range(draw(st.integers(2, 3)))]
    nodes += (Node(f"v{k}", draw(st.sampled_from(others))) for k in range(draw(st.integers(0, 4))))
    ends = st.tuples(st.sampled_from(nodes), st.sampled_from(nodes)).filter(lambda pair: pair[0] is not pair[1])
    kinds: tuple[LinkKind, ...] = ("nvlink", "pcie", "socket", "memory", "nic", "net")
    links = [
        Link(f"l{k}", a.id, b.id, 1e9, kind=draw(st.sampled_from(kinds)))
        for k, (a, b) in enumerate(draw(st.lists(ends, min_size=1, max_size=12)))
    ]
    return Topology("mixed", tuple(nodes), tuple(links))


groups = st.sets(st.sampled_from(PATH_GROUPS), min_size=1)


def hops(topology: Topology) -> Iterator[tuple[str, ...]]:
    """Link ids of every simple path from GPU to GPU through no other GPU."""
    names = [topology.nodes[k].id for k in topology.gpus]
    for a in names:
        for b in names:
            if a == b:
                continue
            inside = {node.id for node in topology.nodes if node.kind != "gpu"} | {a, b}
            graph: nx.MultiDiGraph[str] = nx.MultiDiGraph()
            graph.add_nodes_from((a, b))
            for link in topology.links:
                if {link.src, link.dst} <= inside:
                    graph.add_edge(link.src, link.dst, key=link.id)
            for path in nx.all_simple_edge_paths(graph, a, b):
                yield tuple(str(edge[-1]) for edge in path)


def kind_of(topology: Topology, names: tuple[str, ...]) -> PathGroup:
    return group_of(path_kind(topology, [topology.link_index[name] for name in names]))


@given(box=boxes(), wanted=groups)
def test_selected_paths_of_a_box_are_exactly_the_wanted_ones(box: Box, wanted: set[PathGroup]) -> None:
    whole = build_topology("box", [box])
    part = select_paths(whole, wanted)
    assert set(hops(part)) == {hop for hop in hops(whole) if kind_of(whole, hop) in wanted}
    assert part.gpus == whole.gpus
    left = {link.id for link in part.links}
    for pool in part.resources:
        old = next(other for other in whole.resources if other.id == pool.id)
        assert pool.uses == tuple(use for use in old.uses if use[0] in left)


@given(topology=mixed(), wanted=groups)
def test_selected_paths_of_any_topology_are_exact_or_refused(topology: Topology, wanted: set[PathGroup]) -> None:
    try:
        part = select_paths(topology, wanted)
    except InvalidInputError:
        # Allowed, and rare: ways that visit a vertex twice count as paths too, so more is refused than must be.
        return
    assert set(hops(part)) == {hop for hop in hops(topology) if kind_of(topology, hop) in wanted}


def test_kinds_by_hand() -> None:
    topology = import_topology(SAMPLES / "provider.xml", gpu="a100", assume="gen4")
    at = topology.link_index
    for names, kind in (
        (("nvg0:fwd", "nvg1:rev"), "switch"),
        (("g0-pcie0", "pcie0-g1"), "pcie"),
        (("g0-pcie0", "pcie0-cpu0", "cpu0-cpu1", "cpu1-g2"), "pcie"),
        (("g0-mem0", "mem0-g2"), "host"),
        (("g0-pcie0", "pcie0-nic0.tx", "nic0:send", "nic1:recv", "nic1.rx-pcie0.rx", "pcie0.rx-g1"), "nic"),
        (("nvg0:fwd", "nvg1:rev", "nvg1:fwd", "nvg2:rev"), "relay"),
    ):
        assert path_kind(topology, [at[name] for name in names]) == kind
    rings = import_topology(SAMPLES / "rings.xml")
    assert path_kind(rings, [rings.link_index["xgmi0-1.0:fwd"]]) == "direct"
    for wrong in ([], ["g0-pcie0"], ["g0-pcie0", "pcie0-g1", "g0-mem0"], ["pcie0-g1"]):
        with pytest.raises(InvalidInputError, match="no path from a GPU to a GPU"):
            path_kind(topology, [at[name] for name in wrong])


def test_clusters_of_built_ins_have_path_kinds() -> None:
    cluster = builtin("cluster", box="dgx-a100", hosts=2)
    scale_up = select_paths(cluster, ["nvlink"])
    assert {link.kind for link in scale_up.links} == {"nvlink"}
    network = select_paths(cluster, ["nic"])
    assert {link.kind for link in network.links} == {"pcie", "nic"}
    assert select_paths(cluster, PATH_GROUPS) is cluster


def test_what_cannot_be_told_apart_is_refused() -> None:
    """Two GPUs and a NIC behind one PCIe switch vertex: whoever reaches the NIC's receive side also reaches the GPU."""
    nodes = (Node("a", "gpu"), Node("b", "gpu"), Node("s", "switch"), Node("n", "nic"))
    ways = [("a", "s"), ("s", "b"), ("s", "n"), ("n", "s")]
    topology = Topology("t", nodes, tuple(Link(f"{x}{y}", x, y, 1e9, kind="pcie") for x, y in ways))
    with pytest.raises(InvalidInputError, match="without pcie paths GPU 'b' would still be reached"):
        select_paths(topology, ["nic"])
    assert {link.id for link in select_paths(topology, ["pcie"]).links} == {"as", "sb"}


def test_groups_of_a_text() -> None:
    assert parse_groups("nvlink, nic") == {"nvlink", "nic"}
    for text in ("", "nvlink,usb"):
        with pytest.raises(InvalidInputError, match="use any of nvlink, pcie, host, nic"):
            parse_groups(text)
