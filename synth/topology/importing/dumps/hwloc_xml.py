"""hwloc XML (``lstopo --of xml``): PCI tree, NUMA nodes, NVLink and xGMI bandwidth matrices."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from synth.errors import InvalidInputError
from synth.files.xml_tree import Element
from synth.topology.box.hardware import (
    INTEL_PEER_FACTOR,
    NVLINK_LATENCY,
    XGMI_LATENCY,
    Rate,
    exactly,
    pcie_rate,
    socket_of,
)
from synth.topology.box.parts import Box, Cable, Gpu, Nic, Numa, PcieSwitch, Port
from synth.topology.elements import LinkKind
from synth.topology.importing.dumps.described import Described
from synth.topology.importing.dumps.pci import bus_id
from synth.topology.importing.dumps.sockets import joined

_GPU_DEVICES = re.compile(r"(nvml|cuda|rsmi|ze|opencl)[0-9]")
_MATRICES: Mapping[str, tuple[LinkKind, float]] = {
    "NVLinkBandwidth": ("nvlink", NVLINK_LATENCY),
    "XGMIBandwidth": ("xgmi", XGMI_LATENCY),
}
#: hwloc writes this on the diagonal, MB/s.
_SELF = 1_000_000


def read_hwloc_xml(root: Element, path: Path) -> Described:
    """The machine of an hwloc file as a box.

    Raises
    ------
    InvalidInputError
        No GPU in the file, or broken matrices.
    """
    reader = _Reader(path)
    for machine in root.all("object"):
        reader.read(machine, None, "")
    if not reader.gpus:
        raise InvalidInputError(
            f"{path}: no GPU in this file (a PCI device of class 0302, 0380 or 1200, or 0300 with an nvml, cuda or "
            "rsmi device); lstopo must see I/O devices: lstopo --whole-io --of xml"
        )
    for name in ("distances2", "distances2hetero"):
        for matrix in root.all(name):
            if matrix.get("name") in _MATRICES:
                reader.read_matrix(matrix)
    if reader.faults:
        raise InvalidInputError(reader.faults)
    # Without matrices hwloc was built without NVML or RSMI: the file does not say that there are no links.
    stated = bool(reader.cables or reader.ports)
    box = reader.box()
    return Described("hwloc XML", (box,), tuple(reader.notes), stated)


class _Reader:
    """The box while the file is read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.faults: list[str] = []
        self.notes: list[str] = []
        self.numas: list[Numa] = []
        self.switches: list[PcieSwitch] = []
        self.gpus: list[Gpu] = []
        self.nics: list[Nic] = []
        self.cables: list[Cable] = []
        self.ports: list[Port] = []
        self._cpus: dict[str, tuple[str, str, int | None, int | None]] = {}
        self._objects: dict[str, str] = {}  # "OSDev:802" to a GPU id, "nvswitch" or a NUMA id
        self._hosts: dict[str, Rate] = {}
        self._package = ""
        self._packages: list[str] = []

    def read(self, item: Element, numa: str | None, parent: str) -> None:
        """One object with everything inside; ``numa`` is the nearest NUMA node, ``parent`` the switch above."""
        kind = item.get("type")
        infos = {info.get("name"): info.get("value") for info in item.all("info")}
        if kind == "Package":
            self._package = f"package{item.get('os_index') or item.get('gp_index')}"
        if any(child.get("type") == "NUMANode" for child in item.all("object")):
            numa = self._add_numa(item, infos)
        if kind == "Package":
            self._name(item, numa or "")
        if kind == "Bridge" and item.get("pci_busid"):
            parent = self._add_switch(item, numa, parent)
        elif kind == "PCIDev":
            self._add_device(item, self._home(numa), parent)
        for child in item.all("object"):
            self.read(child, numa, parent)

    def _home(self, numa: str | None) -> str:
        """NUMA node of a device; what hangs on the whole machine is taken to hang on the first."""
        if numa is None and not self.numas:
            self.numas.append(Numa("cpu0", "numa 0", str(self.path)))
            self._packages.append("package0")
            self._cpus["cpu0"] = ("", "", None, None)
        return numa or self.numas[0].id

    def _add_numa(self, item: Element, infos: Mapping[str, str]) -> str:
        name = f"cpu{len(self.numas)}"
        vendor, model = infos.get("CPUVendor", ""), infos.get("CPUModel", "")
        arch = "ppc64" if model.upper().startswith("POWER") else "arm64" if "CPUImplementer" in infos else "x86_64"
        numbers = (_count(infos.get("CPUFamilyNumber", "")), _count(infos.get("CPUModelNumber", "")))
        self._cpus[name] = (arch, vendor, *numbers)
        factor = INTEL_PEER_FACTOR if vendor == "GenuineIntel" else 1.0
        self.numas.append(Numa(name, f"numa {len(self.numas)}", item.at, peer_factor=factor))
        self._packages.append(self._package or name)
        return name

    def _name(self, item: Element, what: str) -> None:
        """Remember an object under the two numbers that matrices may use."""
        for number in (item.get("gp_index"), item.get("logical_index"), item.get("os_index")):
            if number:
                self._objects.setdefault(f"{item.get('type')}:{number}", what)

    def _add_switch(self, item: Element, numa: str | None, parent: str) -> str:
        name = f"pcie{len(self.switches)}"
        at = f"{item.at}: bridge {item.get('pci_busid')}"
        above = parent or self._home(numa)
        self.switches.append(PcieSwitch(name, bus_id(item.get("pci_busid")), at, above, self._rate(item)))
        return name

    def _add_device(self, item: Element, numa: str, parent: str) -> None:
        bus, kind = bus_id(item.get("pci_busid")), item.get("pci_type")[:4].lower()
        at = f"{item.at}: PCIDev {bus}"
        devices = [child for child in item.all("object") if child.get("type") == "OSDev"]
        compute = any(_GPU_DEVICES.match(device.get("name")) for device in devices)
        if item.get("subtype") == "NVSwitch" or kind == "0680":
            self._name(item, "nvswitch")
        elif kind in ("0302", "0380", "1200") or (kind == "0300" and compute):
            gpu = Gpu(f"g{len(self.gpus)}", bus, at, parent or numa, self._rate(item))
            self.gpus.append(gpu)
            for named in (item, *devices):
                self._name(named, gpu.id)
        elif kind.startswith("02"):
            names = [device.get("name") for device in devices if not device.get("name").startswith("en")]
            name = next(iter(names), bus)
            nic = Nic(f"nic{len(self.nics)}", name, at, parent or numa, bus, self._rate(item))
            self.nics.append(nic)

    def _rate(self, item: Element) -> Rate | None:
        """PCIe rate of ``pci_link_speed`` in GB/s; hwloc writes zero where it does not know."""
        text = item.get("pci_link_speed")
        if not text:
            return None
        if not re.fullmatch(r"[0-9]{1,6}(\.[0-9]{1,12})?", text):
            self.faults.append(f"{item.at}: pci_link_speed={text!r} is not a number of GB/s")
            return None
        nominal = float(text) * 1e9
        reference = pcie_rate(16.0, 16)
        share = 1.0 if reference is None else reference.efficiency
        return Rate(nominal, nominal * share) if nominal > 0 else None

    # NVLink and xGMI

    def read_matrix(self, matrix: Element) -> None:
        """Links of a bandwidth matrix, MB/s."""
        kind, latency = _MATRICES[matrix.get("name")]
        names = " ".join(text for part in matrix.all("indexes") for text in part.texts).split()
        values = " ".join(text for part in matrix.all("u64values") for text in part.texts).split()
        if len(values) != len(names) ** 2 or not all(re.fullmatch("[0-9]{1,15}", value) for value in values):
            self.faults.append(
                f"{matrix.at}: {matrix.get('name')}: {len(names)} objects need {len(names) ** 2} whole numbers, the "
                f"matrix has {len(values)} values"
            )
            return
        prefix = "" if ":" in "".join(names) else f"{matrix.get('type')}:"
        what = [self._objects.get(prefix + name, "") for name in names]
        n = len(names)
        rates = {(i, j): int(values[i * n + j]) * 1e6 for i in range(n) for j in range(n) if i != j}
        gpus = [i for i in range(n) if re.fullmatch("g[0-9]+", what[i])]
        for i in gpus:
            total = sum(rates[i, j] for j in range(n) if what[j] == "nvswitch")
            if total:
                at = f"{matrix.at}: GPU {names[i]}"
                self.ports.append(Port(f"nv-{what[i]}", "", at, what[i], 1, exactly(total), kind, latency / 2))
            host = sum(rates[i, j] for j in range(n) if what[j].startswith("cpu"))
            if host:
                self._hosts[what[i]] = exactly(host)
            self.cables += (
                Cable(
                    f"{kind}{what[i]}>{what[j]}",
                    "",
                    matrix.at,
                    what[i],
                    what[j],
                    1,
                    exactly(rate),
                    kind,
                    latency,
                    False,
                )
                for j in gpus
                if what[j] != what[i] and (rate := rates[i, j])
            )

    def _between(self, i: int, j: int) -> Rate | None:
        """Rate between two NUMA nodes by their CPUs."""
        known = [rate for k in (i, j) if (rate := socket_of(*self._cpus[self.numas[k].id])) is not None]
        return min(known, key=lambda rate: rate.nominal) if len(known) == 2 else None

    def box(self) -> Box:
        """Everything read, as a box."""
        gpus = tuple(
            Gpu(g.id, g.name, g.at, g.parent, g.port, self._hosts.get(g.id)) if g.id in self._hosts else g
            for g in self.gpus
        )
        names = ", ".join(gpu.name for gpu in gpus)
        self.notes.append(f"GPUs g0 to g{len(gpus) - 1} are {names}")
        sockets = joined(self.numas, self.notes, packages=self._packages, rate=self._between)
        return Box(
            gpus,
            tuple(self.numas),
            tuple(self.switches),
            tuple(self.nics),
            sockets,
            tuple(self.cables),
            tuple(self.ports),
        )


def _count(text: str) -> int | None:
    return int(text) if re.fullmatch("[0-9]{1,9}", text) else None
