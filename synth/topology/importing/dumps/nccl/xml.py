"""NCCL and RCCL topology XML: dumps of ``NCCL_TOPO_DUMP_FILE`` and the files that cloud providers ship.

Elements and rules: NVIDIA/nccl src/graph/xml.cc and topo.cc, ROCm/rccl. GPUs and NICs may be bare ``pci`` elements;
then their class tells what they are.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from synth.errors import InvalidInputError
from synth.files.xml_tree import Element
from synth.topology.box.gpus import GpuModel
from synth.topology.box.hardware import INTEL_PEER_FACTOR, Rate, exactly, socket_of
from synth.topology.box.parts import Box, Gpu, Nic, Numa, PcieSwitch, Socket
from synth.topology.importing.dumps.described import Described
from synth.topology.importing.dumps.nccl.links import GpuElement, scale_up
from synth.topology.importing.dumps.pci import (
    GPU_CLASSES,
    NIC_CLASSES,
    SWITCH_CLASSES,
    bus_id,
    link_rate,
    network_rate,
    whole,
)
from synth.topology.importing.dumps.sockets import joined

#: Network devices that are no way out of the host: bridges, tunnels and ends of containers.
_VIRTUAL = re.compile(r"(veth|br-|docker|cali|tunl|virbr|flannel|cni|vxlan|lo$)")


def read_nccl_xml(root: Element, path: Path, model: GpuModel | None = None) -> Described:
    """Boxes of a topology, one per ``host_hash``.

    Raises
    ------
    InvalidInputError
        It has no CPU or no GPU, or GPUs cannot be told from other devices.
    """
    hosts: dict[str, _Host] = {}
    faults: list[str] = []
    for cpu in root.all("cpu"):
        hosts.setdefault(cpu.get("host_hash"), _Host(faults)).add_cpu(cpu)
    if not hosts:
        raise InvalidInputError(f"{path}: a system without cpu elements; is it a topology dump (NCCL_TOPO_DUMP_FILE)?")
    dull = [pci for host in hosts.values() for pci in host.unclear]
    with_gpus = [host for host in hosts.values() if host.gpus]
    if dull:
        names = ", ".join([*(pci.get("busid") for pci in dull[:8]), *(["..."] if len(dull) > 8 else [])])
        faults.append(
            f"{dull[0].at}: {len(dull)} pci elements have no class and no gpu or nic inside ({names}): "
            'GPUs and NICs cannot be told apart; add class="0x030200" to GPUs and class="0x020000" to NICs, or take a '
            "dump made on the machine"
        )
    elif not with_gpus:
        faults.append(f"{path}: no GPU in this file; a topology needs pci elements of class 0x03 or 0x12, or with gpu")
    if faults or not with_gpus:
        raise InvalidInputError(faults)
    notes: list[str] = []
    for number, host in enumerate(hosts.values()):
        if not host.gpus:
            notes.append(f"host {number} of the file has no GPU and is left out")
    boxes = tuple(host.box(model, notes) for host in with_gpus)
    dialect = "RCCL" if any(e.tag == "xgmi" for e in root.walk()) or root.get("version") == "2" else "NCCL"
    # A dump that was made on the machine has a gpu element with the links of each GPU; provider files have none.
    stated = all(raw.gpu is not None for host in with_gpus for raw in host.gpus)
    return Described(f"{dialect} topology XML", boxes, tuple(dict.fromkeys(notes)), stated)


@dataclass
class _Host:
    """One host while the file is read."""

    faults: list[str]
    numas: list[Numa] = field(default_factory=list)
    cpus: list[Element] = field(default_factory=list)
    switches: list[PcieSwitch] = field(default_factory=list)
    gpus: list[GpuElement] = field(default_factory=list)
    nics: list[Nic] = field(default_factory=list)
    unclear: list[Element] = field(default_factory=list)
    virtual: list[str] = field(default_factory=list)

    def add_cpu(self, cpu: Element) -> None:
        numaid = whole(cpu, "numaid", self.faults)
        name = f"cpu{len(self.numas) if numaid is None else numaid}"
        if any(numa.id == name for numa in self.numas):
            self.faults.append(f"{cpu.at}: a second cpu with numaid {numaid} on the same host")
            return
        intel = cpu.get("vendor") == "GenuineIntel"
        factor = INTEL_PEER_FACTOR if intel else 1.0
        self.numas.append(Numa(name, f"numa {name.removeprefix('cpu')}", cpu.at, peer_factor=factor))
        self.cpus.append(cpu)
        for nic in cpu.all("nic"):
            self._add_nets(nic, name, "", None)
        for pci in cpu.all("pci"):
            self._add_pci(pci, name)

    def _add_pci(self, pci: Element, parent: str) -> None:
        """A device or a switch with what is below it."""
        kind, inside = pci.get("class").lower(), list(pci.all("pci"))
        gpu = next(pci.all("gpu"), None)
        nics = list(pci.all("nic"))
        if not pci.get("busid"):
            self.faults.append(f"{pci.at}: pci without busid")
        if gpu is not None or (kind.startswith(GPU_CLASSES) and not nics):
            self.gpus.append(GpuElement(gpu, pci, parent, link_rate(pci, self.faults)))
        elif nics:
            for nic in nics:
                self._add_nets(nic, parent, bus_id(pci.get("busid")), pci)
        elif kind.startswith(NIC_CLASSES) and not inside:
            self._add_nic(pci, parent, bus_id(pci.get("busid")), pci, "", None)
        elif inside or kind.startswith(SWITCH_CLASSES):
            switch = f"pcie{len(self.switches)}"
            at = f"{pci.at}: pci {pci.get('busid')}"
            uplink = link_rate(pci, self.faults)
            self.switches.append(PcieSwitch(switch, bus_id(pci.get("busid")), at, parent, uplink))
            parent = switch
        elif not kind:
            self.unclear.append(pci)
        for child in inside:
            self._add_pci(child, parent)

    def _add_nets(self, nic: Element, parent: str, card: str, pci: Element | None) -> None:
        for net in nic.all("net"):
            name = net.get("name")
            if card == "" and (_VIRTUAL.match(name) or any(other.name == name for other in self.nics)):
                # NCCL writes the devices that no PCI device stands behind under every CPU.
                self.virtual.append(name)
            else:
                self._add_nic(net, parent, card, pci, name, network_rate(net, self.faults))

    def _add_nic(
        self, element: Element, parent: str, card: str, pci: Element | None, name: str, speed: float | None
    ) -> None:
        at = f"{element.at}: {element.tag} {name or card}"
        port = None if pci is None else link_rate(pci, self.faults)
        rate = None if speed is None else exactly(speed)
        direct = element.get("gdr") != "0" and card != ""
        self.nics.append(Nic(f"nic{len(self.nics)}", name or card, at, parent, card, port, rate, direct))

    def box(self, model: GpuModel | None, notes: list[str]) -> Box:
        """The host as a box; GPUs in the order of their ranks if the file has them."""
        gpus = _ranked(self.gpus, self.faults)
        if gpus and all(raw.gpu is None for raw in gpus):
            notes.append("GPUs are bare pci elements: the file says nothing of NVLink (--gpu names the GPU)")
        names = [bus_id(raw.pci.get("busid")) for raw in gpus]
        for name, times in Counter(names).items():
            if times > 1:
                self.faults.append(f"{gpus[0].pci.at}: GPU {name} is there {times} times on one host")
        notes.append(f"GPUs g0 to g{len(names) - 1} are {', '.join(names)}")
        if self.virtual:
            left_out = ", ".join(dict.fromkeys(self.virtual))
            notes.append(f"network devices without PCI device, left out: {left_out}")
        links = scale_up(gpus, names, model, self.faults, notes)
        parts = tuple(
            Gpu(f"g{i}", names[i], f"{raw.pci.at}: GPU {names[i]}", raw.parent, raw.port, links.host_links.get(f"g{i}"))
            for i, raw in enumerate(gpus)
        )
        if self.faults:
            raise InvalidInputError(self.faults)
        direct = not all(raw.gpu is not None and raw.gpu.get("gdr") == "0" for raw in gpus)
        nics = tuple(self.nics) if direct else tuple(_staged(nic) for nic in self.nics)
        return Box(
            parts,
            tuple(self.numas),
            tuple(self.switches),
            nics,
            self._sockets(notes),
            links.cables,
            links.ports,
        )

    def _sockets(self, notes: list[str]) -> tuple[Socket, ...]:
        """All pairs of the host's NUMA nodes, as NCCL joins them."""
        rates = [_socket_rate(cpu, self.faults) for cpu in self.cpus]

        def slower(i: int, j: int) -> Rate | None:
            x, y = rates[i], rates[j]
            return None if x is None or y is None else min(x, y, key=lambda rate: rate.nominal)

        numbers = [int(numa.id.removeprefix("cpu")) for numa in self.numas]
        known = all(0 <= number < 4096 for number in numbers)
        return joined(self.numas, notes, numbers=numbers if known else None, rate=slower)


def _staged(nic: Nic) -> Nic:
    return Nic(nic.id, nic.name, nic.at, nic.parent, nic.card, nic.port, nic.rate, direct=False)


def _socket_rate(cpu: Element, faults: list[str]) -> Rate | None:
    vendor = cpu.attributes.get("vendor", "")
    return socket_of(cpu.get("arch"), vendor, whole(cpu, "familyid", faults), whole(cpu, "modelid", faults))


def _ranked(gpus: list[GpuElement], faults: list[str]) -> list[GpuElement]:
    """In rank order if every GPU has a rank of its own, else in file order."""
    ranks = [None if raw.gpu is None else whole(raw.gpu, "rank", faults) for raw in gpus]
    known = [rank for rank in ranks if rank is not None]
    if len(known) < len(gpus) or len(set(known)) < len(gpus):
        return list(gpus)
    return [raw for _, raw in sorted(zip(known, gpus, strict=True), key=lambda pair: pair[0])]
