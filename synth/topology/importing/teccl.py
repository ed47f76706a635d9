"""TE-CCL inputs (``TopologyParams``): the topology is a name of a closed list and a number of chassis."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from synth.errors import InvalidInputError
from synth.files.json_text import Document
from synth.topology.catalogue.scale_up import DGX1_NVLINKS, MI250_XGMI
from synth.topology.elements import Link, LinkKind, Node
from synth.topology.importing.assume import Assumptions
from synth.topology.model import Topology
from synth.topology.shapes import both_ways

#: TE-CCL's numbers (microsoft/TE-CCL teccl/topologies): bytes/second per link and seconds.
_NVLINK, _NVLINK_LATENCY = 25e9, 0.7e-6
_NVSWITCH, _NVSWITCH_LATENCY = 125e9, 0.35e-6
_INFINIBAND = 12.5e9
_NDV2_REMOTE, _DGX2_REMOTE = 1.3e-6, 2.6e-6
_XGMI = 50e9

_Made = tuple[list[Node], list[Link], list[str]]


def teccl_topology(document: Document, assumptions: Assumptions) -> Topology:
    """The topology that TE-CCL builds for an input file, with its rates and latencies.

    NDv2 of two chassis is what the paper describes, 16 GPUs; the released code takes GPU 0 for a switch there. Mesh is
    TE-CCL's own, whose rows are joined end to end (a helix); its rate must come from a link-speed table ("link").

    Raises
    ------
    InvalidInputError
        Unknown names, chassis numbers that TE-CCL has no wiring for, a missing rate.
    """
    root = document.value if isinstance(document.value, dict) else {}
    params = root.get("TopologyParams")
    if not isinstance(params, dict):
        raise InvalidInputError(f"{document.place('TopologyParams')}: must be an object with name and chassis")
    name = params.get("name")
    chassis = params.get("chassis", 1)
    builders = {"DGX1": _dgx1, "NDv2": _ndv2, "DGX2": _dgx2, "AMD": _amd}
    if name == "Mesh":
        nodes, links, notes = _mesh(document, params, assumptions)
    elif isinstance(name, str) and name in builders:
        most = {"DGX1": 1, "AMD": 1}.get(name, 2)
        if not isinstance(chassis, int) or isinstance(chassis, bool) or not 1 <= chassis <= most:
            raise InvalidInputError(
                f"{document.place('TopologyParams', 'chassis')}: {chassis!r} chassis of {name}: "
                f"1 to {most} can be imported"
            )
        nodes, links, notes = builders[name](chassis)
    else:
        known = ", ".join((*builders, "Mesh"))
        raise InvalidInputError(f"{document.place('TopologyParams', 'name')}: {name!r} is not one of {known}")
    source = f"{document.file.rpartition('/')[2]} (TE-CCL input); rates and latencies are TE-CCL's own"
    return Topology(f"teccl-{name.lower()}-{chassis}", tuple(nodes), tuple(links), source=source, notes=tuple(notes))


def _gpus(chassis: int, each: int) -> list[Node]:
    return [Node(f"g{c * each + i}", "gpu", f"h{c}") for c in range(chassis) for i in range(each)]


def _cables(pairs: Mapping[tuple[int, int], int], kind: LinkKind, rate: float, latency: float) -> Iterator[Link]:
    for (a, b), count in pairs.items():
        for k in range(count):
            yield from both_ways(f"g{a}-g{b}.{k}", f"g{a}", f"g{b}", rate, latency, kind)


def _cube_mesh(chassis: int) -> Iterator[Link]:
    """The hybrid cube mesh of DGX-1, which NDv2 has as well."""
    for c in range(chassis):
        pairs = {
            (8 * c + a, 8 * c + b): int(DGX1_NVLINKS[a][b])
            for a in range(8)
            for b in range(a + 1, 8)
            if DGX1_NVLINKS[a][b] != "0"
        }
        yield from _cables(pairs, "nvlink", _NVLINK, _NVLINK_LATENCY)


def _dgx1(chassis: int) -> _Made:
    return _gpus(chassis, 8), list(_cube_mesh(chassis)), []


def _ndv2(chassis: int) -> _Made:
    links = list(_cube_mesh(chassis))
    if chassis == 2:
        # GPU 0 of each chassis sends to the network, GPU 1 receives from it.
        links += (Link(f"g{a}-g{b}", f"g{a}", f"g{b}", _INFINIBAND, _NDV2_REMOTE, "nic") for a, b in ((0, 9), (8, 1)))
    return _gpus(chassis, 8), links, ["GPU 0 is a GPU here; TE-CCL's released code makes it a switch"] * (chassis > 1)


def _dgx2(chassis: int) -> _Made:
    nodes, links = _gpus(chassis, 16), list[Link]()
    for c in range(chassis):
        nodes.append(Node(f"sw{c}", "switch", f"h{c}"))
        for i in range(16 * c, 16 * c + 16):
            links += both_ways(f"g{i}-sw{c}", f"g{i}", f"sw{c}", _NVSWITCH, _NVSWITCH_LATENCY, "nvlink")
    if chassis == 2:
        # Every odd GPU sends to the even one before its peer in the other chassis.
        for i in range(1, 32, 2):
            j = (i + 15) % 32
            links.append(Link(f"g{i}-g{j}", f"g{i}", f"g{j}", _INFINIBAND, _DGX2_REMOTE, "nic"))
    return nodes, links, []


def _amd(chassis: int) -> _Made:
    pairs = {}
    for cable in MI250_XGMI.split():
        ends, count = cable.split(":")
        a, b = ends.split("-")
        pairs[int(a), int(b)] = int(count)
    return _gpus(chassis, 16), list(_cables(pairs, "xgmi", _XGMI, 0.0)), []


def _mesh(document: Document, params: Mapping[str, object], assumptions: Assumptions) -> _Made:
    side, alpha = params.get("side_length"), params.get("alpha", [0.0])
    if not isinstance(side, int) or isinstance(side, bool) or not 2 <= side <= 256:
        raise InvalidInputError(
            f"{document.place('TopologyParams', 'side_length')}: {side!r}: must be a number from 2 to 256"
        )
    latency = alpha[0] if isinstance(alpha, list) and alpha else None
    if isinstance(latency, bool) or not isinstance(latency, (int, float)) or not 0 <= latency < 1e6:
        raise InvalidInputError(f"{document.place('TopologyParams', 'alpha')}: must be a list of seconds, as in TE-CCL")
    if "link" not in assumptions.classes:
        raise InvalidInputError(
            f"{document.place('TopologyParams')}: Mesh: the rate of a link is not in the file; give a link-speed table "
            'with "link" (--assume)'
        )
    rate = assumptions.classes["link"][0]
    count = side * side
    pairs = {(i, i + step): 1 for step in (1, side) for i in range(count - step)}
    notes = [f"link rate as {assumptions.label} says", "TE-CCL's mesh: rows are joined end to end (a helix)"]
    return _gpus(1, count), list(_cables(pairs, "net", rate.nominal, float(latency))), notes
