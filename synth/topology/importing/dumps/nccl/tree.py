"""NCCL's printed tree as a box."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from synth.topology.box.gpus import GpuModel
from synth.topology.box.hardware import (
    INTEL_PEER_FACTOR,
    NVLINK_LATENCY,
    XGMI_LATENCY,
    Rate,
    achieved,
    exactly,
    pcie_rate,
)
from synth.topology.box.parts import Box, Cable, Gpu, Nic, Numa, PcieSwitch, Port
from synth.topology.elements import LinkKind
from synth.topology.importing.dumps.sockets import joined

#: NCCL's rate of what is inside one chip or not known (LOC_BW), GB/s: no limit, and no PCI device behind it.
_LOCAL = 1000e9
_INTEL, _KINDS = "1", {"PCI", "SYS", "NVL", "XGMI", "C2C", "NET", "LOC"}
#: Nominal to NCCL's rate of PCIe from 8 to 32 GT/s; NCCL has 0.75 GB/s per lane of 8 GT/s.
_PCIE_SHARE = 0.75e9 / (8e9 * 128 / 130 / 8)
_ROUNDING = 0.06


@dataclass
class Vertex:
    """A node of the tree: kind, id, the host's number, what stands in parentheses, and the link to it, bytes/s."""

    kind: str
    id: str
    system: str
    details: str
    link: str
    rate: float
    at: str
    children: list[Vertex] = field(default_factory=list)


@dataclass
class _Parts:
    """Parts while the tree is walked; ``wired`` are scale-up links (GPU id, other end, rate, kind of link)."""

    numas: list[Numa] = field(default_factory=list)
    switches: list[PcieSwitch] = field(default_factory=list)
    gpus: list[tuple[int, Gpu]] = field(default_factory=list)
    nics: list[Nic] = field(default_factory=list)
    wired: list[tuple[str, Vertex]] = field(default_factory=list)
    between: dict[tuple[str, str], float] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)


def box_of_tree(roots: Sequence[Vertex], model: GpuModel | None, faults: list[str], notes: list[str]) -> Box:
    """The box of one host's tree; ``faults`` grows by what is not understood."""
    parts = _Parts(faults=faults)
    for root in roots:
        _cpu(root, parts)
    systems = sorted({vertex.system for root in roots for vertex in _walk(root)})
    if len(systems) > 1:
        faults.append(f"{roots[0].at}: the graph joins several hosts ({', '.join(systems)}), which is not imported")
    if not parts.gpus:
        faults.append(f"{roots[0].at if roots else ''}: no GPU in the printed topology")
    if faults:
        return Box(())
    ranked = [gpu for _, gpu in sorted(parts.gpus, key=lambda pair: pair[0])]
    ids = {gpu.id: f"g{i}" for i, gpu in enumerate(ranked)}
    gpus = tuple(replace(gpu, id=ids[gpu.id]) for gpu in ranked)
    cables, ports, hosts = _scale_up(parts, ids, model, notes)
    gpus = tuple(replace(gpu, host_link=hosts.get(gpu.id)) for gpu in gpus)
    notes.append(f"GPUs g0 to g{len(gpus) - 1} are {', '.join(gpu.name for gpu in gpus)}")
    return _box(parts, gpus, cables, ports, notes)


def _box(parts: _Parts, gpus: tuple[Gpu, ...], cables: list[Cable], ports: list[Port], notes: list[str]) -> Box:
    names = [numa.id for numa in parts.numas]

    def rate(i: int, j: int) -> Rate | None:
        found = [parts.between[pair] for pair in ((names[i], names[j]), (names[j], names[i])) if pair in parts.between]
        return achieved(min(found)) if found and min(found) < _LOCAL else None

    numbers = [int(name.removeprefix("cpu"), 16) for name in names]
    known = all(number < 4096 for number in numbers)
    sockets = joined(parts.numas, notes, numbers=numbers if known else None, rate=rate)
    switches, nics = tuple(parts.switches), tuple(parts.nics)
    return Box(gpus, tuple(parts.numas), switches, nics, sockets, tuple(cables), tuple(ports))


def _walk(vertex: Vertex) -> Iterator[Vertex]:
    yield vertex
    for child in vertex.children:
        yield from _walk(child)


def _cpu(root: Vertex, parts: _Parts) -> None:
    name = f"cpu{root.id}"
    vendor = root.details.split("/")[1:2]
    factor = INTEL_PEER_FACTOR if vendor == [_INTEL] else 1.0
    if any(numa.id == name for numa in parts.numas):
        parts.faults.append(f"{root.at}: CPU/{root.id} is there a second time")
        return
    parts.numas.append(Numa(name, f"numa {root.id}", root.at, peer_factor=factor))
    for child in root.children:
        _device(child, name, parts)


def _device(vertex: Vertex, parent: str, parts: _Parts) -> None:
    """What hangs on a CPU or on a bridge, with everything below."""
    name = f"{vertex.kind}/{vertex.id}"
    at = f"{vertex.at}: {name}"
    port = None if vertex.rate >= _LOCAL else pcie(vertex.rate)
    if vertex.kind == "CPU" and vertex.link == "SYS":
        parts.between[parent, f"cpu{vertex.id}"] = vertex.rate
    elif vertex.kind == "PCI" and vertex.link == "PCI":
        if not vertex.children:
            parts.faults.append(f"{at}: a bridge with nothing below it; has the log lost its indentation?")
        switch = f"pcie{len(parts.switches)}"
        parts.switches.append(PcieSwitch(switch, vertex.id, at, parent, port))
        for child in vertex.children:
            _device(child, switch, parts)
    elif vertex.kind == "GPU" and vertex.link == "PCI":
        rank = int(vertex.details) if re.fullmatch("[0-9]{1,6}", vertex.details) else len(parts.gpus)
        parts.gpus.append((rank, Gpu(f"gpu{vertex.id}", vertex.id, at, parent, port)))
        for child in vertex.children:
            parts.wired.append((f"gpu{vertex.id}", child))
    elif vertex.kind == "NIC" and vertex.link == "PCI":
        card = "" if vertex.rate >= _LOCAL else vertex.id
        for net in vertex.children:
            text = net.details.rpartition("/")[2]
            speed = float(text) * 1e9 if re.fullmatch(r"[0-9]{1,5}\.[0-9]{1,8}", text) else net.rate
            net_name = f"{net.kind}/{net.id}"
            place = f"{net.at}: {net_name}"
            if net.kind != "NET" or speed <= 0:
                parts.faults.append(f"{place}: expected NET with a speed below {name}")
                continue
            parts.nics.append(Nic(f"nic{len(parts.nics)}", net_name, place, parent, card, port, exactly(speed)))
    elif vertex.link not in _KINDS or vertex.kind not in ("NVS",):
        parts.faults.append(f"{at}: {vertex.link}[...] to {vertex.kind} is not understood here")


def pcie(rate: float) -> Rate:
    """PCIe rate with NCCL's ``rate`` as what is reached."""
    gen6 = pcie_rate(64.0, 16)
    return gen6 if gen6 is not None and rate == gen6.achievable else Rate(rate / _PCIE_SHARE, rate)


def _scale_up(
    parts: _Parts, ids: dict[str, str], model: GpuModel | None, notes: list[str]
) -> tuple[list[Cable], list[Port], dict[str, Rate]]:
    """Cables (one way each, as each GPU lists its own), ports on the switch, links to CPUs."""
    cables: list[Cable] = []
    ports: dict[str, Port] = {}
    hosts: dict[str, Rate] = {}
    for gpu, vertex in parts.wired:
        name, at = ids[gpu], f"{vertex.at}: {gpu}"
        other = ids.get(f"gpu{vertex.id}") if vertex.kind == "GPU" else None
        if vertex.kind == "CPU":
            hosts[name] = achieved(vertex.rate)
        elif vertex.link not in ("NVL", "XGMI") or (other is None and vertex.kind != "NVS"):
            parts.faults.append(
                f"{at}: {vertex.link}[...] to {vertex.kind}/{vertex.id}: no such GPU or switch in the tree"
            )
        else:
            xgmi = vertex.link == "XGMI" or (model is not None and model.kind == "xgmi")
            kind: LinkKind = "xgmi" if xgmi else "nvlink"
            count, rate = _split(vertex.rate, model, notes)
            if other is None:
                ports[name] = Port(f"nv-{name}", gpu, at, name, count, rate, kind, NVLINK_LATENCY / 2)
            else:
                latency = XGMI_LATENCY if xgmi else NVLINK_LATENCY
                cables.append(Cable(f"{kind}{name}>{other}", "", at, name, other, count, rate, kind, latency, False))
    return cables, list(ports.values()), hosts


def _split(total: float, model: GpuModel | None, notes: list[str]) -> tuple[int, Rate]:
    """Number of links and the rate of one: by the model's achievable rate; else one link that reaches the total."""
    if model is not None and model.link is not None:
        count = total / model.link.achievable
        if round(count) >= 1 and abs(count - round(count)) < _ROUNDING:
            return round(count), model.link
    notes.append(
        f"{total / 1e9:g} GB/s of scale-up links of a GPU are NCCL's achievable rate; their number is not known"
    )
    return 1, achieved(total)
