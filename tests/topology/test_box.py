"""Boxes as topologies: what flows take is what a walk over the box's own parts says."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from synth.errors import InvalidInputError
from synth.formulation.flow.network import Network
from synth.topology import Topology
from synth.topology.box.build import build_topology
from synth.topology.box.hardware import Rate, exactly
from synth.topology.box.parts import Box, Cable, Gpu, Nic, Numa, PcieSwitch, Port, Socket

Wires = Counter[str]


@st.composite
def boxes(draw: st.DrawFn) -> Box:
    """Small boxes: up to three NUMA nodes, any tree of switches, GPUs and NICs anywhere."""

    def rate() -> Rate:
        nominal = draw(st.integers(2, 60))
        return Rate(nominal * 1e9, nominal * draw(st.sampled_from((1.0, 0.75, 0.5))) * 1e9)

    numas = tuple(
        Numa(
            f"cpu{k}",
            memory=rate(),
            root=draw(st.none() | st.just(rate())),
            peer_factor=draw(st.sampled_from((1.0, 1.2))),
        )
        for k in range(draw(st.integers(1, 3)))
    )
    homes = [numa.id for numa in numas]
    switches = []
    for k in range(draw(st.integers(0, 4))):
        switches.append(PcieSwitch(f"pcie{k}", parent=draw(st.sampled_from(homes)), uplink=rate()))
        homes.append(f"pcie{k}")
    gpus = tuple(Gpu(f"g{k}", parent=draw(st.sampled_from(homes)), port=rate()) for k in range(draw(st.integers(2, 4))))
    nics = tuple(
        Nic(f"nic{k}", parent=draw(st.sampled_from(homes)), card=f"card{k}", port=rate(), rate=rate())
        for k in range(draw(st.integers(0, 2)))
    )
    pairs = [(a.id, b.id) for i, a in enumerate(numas) for b in numas[i + 1 :]]
    sockets = tuple(Socket(f"{a}-{b}", ends=(a, b), rate=rate()) for a, b in pairs)
    return Box(gpus, numas, tuple(switches), nics, sockets)


class Walker:
    """Uses of wires by a flow, from the box's parts alone."""

    def __init__(self, box: Box) -> None:
        self.box = box
        self.capacity: dict[str, float] = {}

    def _use(self, wires: Wires, name: str, rate: Rate | None, times: float) -> None:
        assert rate is not None
        self.capacity[name] = rate.achievable
        wires[name] += times  # type: ignore[assignment]

    def _climb(self, part: Gpu | Nic) -> list[tuple[str, Rate | None, str]]:
        """Port and uplinks from a device to its NUMA node: name, rate and what each leads to."""
        name = part.card if isinstance(part, Nic) else part.id
        steps, at = [(name, part.port, part.parent)], part.parent
        while at in self.box.switch:
            steps.append((at, self.box.switch[at].uplink, self.box.switch[at].parent))
            at = self.box.switch[at].parent
        return steps

    def peer(self, a: Gpu | Nic, b: Gpu | Nic) -> Wires:
        up, down = self._climb(a), self._climb(b)
        meeting = next((top for *_, top in up if top in {t for *_, t in down}), None)
        wires: Wires = Counter()
        for way, steps in (("up", up), ("down", down)):
            for name, rate, top in steps:
                factor = self.box.numa[top].peer_factor if top in self.box.numa else 1.0
                self._use(wires, f"{name}:{way}", rate, factor)
                if way == "up" and top in self.box.numa and self.box.numa[top].root:
                    self._use(wires, f"{top}.root", self.box.numa[top].root, factor)
                if top == meeting:
                    break
        if meeting is None:
            self._cross(wires, up[-1][2], down[-1][2], peer=True)
        return wires

    def _cross(self, wires: Wires, x: str, y: str, peer: bool) -> None:
        socket = next(part for part in self.box.sockets if set(part.ends) == {x, y})
        factor = max(self.box.numa[x].peer_factor, self.box.numa[y].peer_factor) if peer else 1.0
        self._use(wires, f"{x}>{y}", socket.rate, factor)
        if peer and self.box.numa[y].root:
            self._use(wires, f"{y}.root", self.box.numa[y].root, factor)

    def staged(self, a: Gpu, b: Gpu) -> Wires:
        wires: Wires = Counter()
        for way, part in (("up", a), ("down", b)):
            steps = self._climb(part)
            for name, rate, _ in steps:
                self._use(wires, f"{name}:{way}", rate, 1.0)
            home = steps[-1][2]
            if self.box.numa[home].root:
                self._use(wires, f"{home}.root", self.box.numa[home].root, 1.0)
        x, y = self._climb(a)[-1][2], self._climb(b)[-1][2]
        self._use(wires, f"{x}.dram", self.box.numa[x].memory, 2.0)
        if x != y:
            self._cross(wires, x, y, peer=False)
        return wires

    def nic(self, a: Gpu, out: Nic, back: Nic, b: Gpu) -> Wires:
        wires = self.peer(a, out)
        wires.update(self.peer(back, b))
        self._use(wires, f"{out.id}:send", out.rate, 1.0)
        self._use(wires, f"{back.id}:recv", back.rate, 1.0)
        return wires


def links_of(topology: Topology, kind: str, a: str, b: str, via: tuple[str, ...] = ()) -> list[int]:
    """Links of the path of a kind: the only one through vertices of that kind."""
    tree = {node.id for node in topology.nodes if node.kind in ("switch", "cpu") and node.id != "fabric"}
    received = {name for name in tree if name.endswith(".rx")}
    graph: nx.DiGraph[str] = nx.DiGraph()
    inside = {"pcie": tree - received, "rx": received, "host": set(via)}[kind] | {a, b}
    graph.add_edges_from((k.src, k.dst) for k in topology.links if {k.src, k.dst} <= inside)
    path = nx.shortest_path(graph, a, b)
    ends = {(link.src, link.dst): k for k, link in enumerate(topology.links)}
    return [ends[pair] for pair in pairwise(path)]


@given(box=boxes(), data=st.data())
def test_flows_take_what_a_walk_over_the_parts_says(box: Box, data: st.DataObject) -> None:
    """Time of random flows at once: the fullest wire of the walk, and the fullest row of the topology."""
    topology = build_topology("box", [box], achievable=True)
    walker, network = Walker(box), Network(topology)
    total: Wires = Counter()
    carried = np.zeros(len(topology.links))
    kinds = ["pcie", "host", *(["nic"] if box.nics else [])]
    for _ in range(data.draw(st.integers(1, 4))):
        a, b = data.draw(st.permutations(box.gpus))[:2]
        kind = data.draw(st.sampled_from(kinds))
        if kind == "pcie":
            total.update(walker.peer(a, b))
            links = links_of(topology, "pcie", a.id, b.id)
        elif kind == "host":
            total.update(walker.staged(a, b))
            memory = f"mem{box.root_of(a.parent).removeprefix('cpu')}"
            links = links_of(topology, "host", a.id, b.id, (memory,))
        else:
            out, back = data.draw(st.sampled_from(box.nics)), data.draw(st.sampled_from(box.nics))
            total.update(walker.nic(a, out, back, b))
            links = links_of(topology, "pcie", a.id, f"{out.id}.tx")
            links += [topology.link_index[f"{out.id}:send"], topology.link_index[f"{back.id}:recv"]]
            links += links_of(topology, "rx", f"{back.id}.rx", b.id)
        for link in links:
            carried[link] += 1.0
    expected = max(times / walker.capacity[wire] for wire, times in total.items())
    assert max(network.row_bytes(carried) / network.capacity) == pytest.approx(expected, rel=1e-9)


def test_a_wire_that_a_link_forgets_is_noticed() -> None:
    """The check above can fail: without the pool of a port the NIC path does not load the host path's port."""
    numa = Numa("cpu0", memory=exactly(1e12))
    gpus = tuple(Gpu(f"g{k}", parent="cpu0", port=exactly(10e9)) for k in range(2))
    topology = build_topology("box", [Box(gpus, (numa,))])
    assert {pool.id for pool in topology.resources} == {
        "g0.pcie:up",
        "g0.pcie:down",
        "g1.pcie:up",
        "g1.pcie:down",
        "cpu0.dram",
    }
    carried = np.ones(len(topology.links))
    broken = replace(topology, resources=topology.resources[4:])
    full, less = (max(n.row_bytes(carried) / n.capacity) for n in (Network(topology), Network(broken)))
    assert full == pytest.approx(2e-10)
    assert less == pytest.approx(1e-10)


def test_a_card_receives_what_is_sent_through_it() -> None:
    """Two ports of one card: sending loads the way down to the card, receiving the way up."""
    nics = tuple(Nic(f"nic{k}", parent="cpu0", card="card", port=exactly(9e9), rate=exactly(8e9)) for k in range(2))
    box = Box((Gpu("g0", parent="cpu0", port=exactly(10e9)),), (Numa("cpu0"),), nics=nics)
    uses = {pool.id: set(dict(pool.uses)) for pool in build_topology("box", [box]).resources}
    assert uses["card.pcie:down"] == {"cpu0-nic0.tx", "cpu0-nic1.tx"}
    assert uses["card.pcie:up"] == {"nic0.rx-cpu0.rx", "nic1.rx-cpu0.rx"}


def test_switches_in_a_row_are_merged_only_where_one_link_says_the_same() -> None:
    """A port of 10 GB/s below an uplink of 20 GB/s on an Intel CPU: 0.1 s per GB; one link of 10 would say 0.12."""

    def seconds_per_gb(port: float) -> float:
        switches = tuple(PcieSwitch(f"pcie{k}", parent="cpu0", uplink=exactly(20e9)) for k in range(2))
        gpus = tuple(Gpu(f"g{k}", parent=f"pcie{k}", port=exactly(port)) for k in range(2))
        topology = build_topology("box", [Box(gpus, (Numa("cpu0", peer_factor=1.2),), switches)])
        carried = np.zeros(len(topology.links))
        carried[links_of(topology, "pcie", "g0", "g1")] = 1e9
        network = Network(topology)
        return float(max(network.row_bytes(carried) / network.capacity))

    assert seconds_per_gb(10e9) == pytest.approx(0.1)
    assert seconds_per_gb(20e9) == pytest.approx(0.06)


def test_a_nic_on_the_chip_does_not_share_the_pcie_port() -> None:
    numa = Numa("cpu0", memory=exactly(1e12))
    gpus = tuple(Gpu(f"g{k}", parent="cpu0", port=exactly(10e9)) for k in range(2))
    nics = tuple(Nic(f"nic{k}", parent=f"g{k}", rate=exactly(25e9)) for k in range(2))
    topology = build_topology("box", [Box(gpus, (numa,), nics=nics)], fabric="switch")
    ways = {link.id for link in topology.links if link.src == "g0"}
    assert ways == {"g0-cpu0", "g0-mem0", "g0-nic0"}
    shared = [dict(pool.uses) for pool in topology.resources if pool.id == "g0.pcie:up"]
    assert shared == [{"g0-cpu0": 1.0, "g0-mem0": 1.0}]


def test_scale_up_parts_and_rails() -> None:
    gpus = tuple(Gpu(f"g{k}", parent="cpu0", port=exactly(10e9)) for k in range(2))
    box = Box(
        gpus,
        (Numa("cpu0"),),
        nics=tuple(
            Nic(f"nic{k}", parent="cpu0", card=f"card{k}", port=exactly(9e9), rate=exactly(8e9)) for k in range(2)
        ),
        cables=(Cable("nv", src="g0", dst="g1", count=2, rate=exactly(25e9)),),
        ports=(Port("p0", gpu="g0", count=3, rate=exactly(25e9)),),
    )
    topology = build_topology("two", [box, box], fabric="rail")
    assert [node.id for node in topology.nodes if node.host == "fabric"] == ["rail0", "rail1"]
    assert {link.dst for link in topology.links if link.id.endswith("nic1:send")} == {"rail1"}
    by_id = {link.id: link for link in topology.links}
    assert by_id["h1.nv.1:rev"].src == "h1.g1"
    assert by_id["h0.p0:fwd"].bandwidth == 75e9
    assert [topology.nodes[k].id for k in topology.gpus] == ["h0.g0", "h0.g1", "h1.g0", "h1.g1"]


def test_faulty_boxes_all_at_once() -> None:
    with pytest.raises(InvalidInputError) as caught:
        Box(
            (Gpu("g0", parent="nowhere"), Gpu("g0")),
            (Numa("cpu0"),),
            (PcieSwitch("a", parent="b"), PcieSwitch("b", parent="a")),
            (Nic("nic0", parent="g7"),),
            (Socket("s", ends=("cpu0", "cpu1")),),
            (Cable("c", src="g0", dst="g9"),),
            (Port("p", gpu="g9"),),
        )
    text = "\n".join(caught.value.faults)
    assert len(caught.value.faults) == 8
    for part in ("'g0' is taken twice", "'nowhere'", "in a circle", "'g7'", "'cpu1'", "'g9', which is no GPU"):
        assert part in text


def test_a_rate_that_is_not_known_is_refused() -> None:
    box = Box((Gpu("g0", parent="cpu0"), Gpu("g1", parent="cpu0")), (Numa("cpu0"),))
    with pytest.raises(InvalidInputError, match="rate is not known"):
        build_topology("box", [box])
