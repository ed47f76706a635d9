"""Filling in what a topology file leaves open. Unknown is not zero: what nobody supplies is an error with its place."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import TypeVar

from synth.errors import InvalidInputError
from synth.ground.units import format_bandwidth
from synth.topology.box.gpus import GpuModel
from synth.topology.box.hardware import Rate, pcie_rate, slowest
from synth.topology.box.parts import Box, Cable, Gpu, Nic, Numa, Part, PcieSwitch, Port, Socket, without_empty_switches
from synth.topology.importing.assume import Assumptions
from synth.topology.importing.plausible import with_plausible_uplinks
from synth.topology.importing.scale_up import link_faults, wired
from synth.topology.paths import PathGroup

_P = TypeVar("_P", Cable, Port)


def without_unused(box: Box, groups: Collection[PathGroup]) -> Box:
    """The parts that the wanted paths need; speeds of the others need not be known."""
    if "nvlink" not in groups:
        box = replace(box, cables=(), ports=())
    if "nic" not in groups:
        box = replace(box, nics=())
    if not {"pcie", "host", "nic"} & set(groups):
        gpus = tuple(replace(gpu, parent="", port=None, host_link=None) for gpu in box.gpus)
        return replace(box, gpus=gpus, numas=(), switches=(), sockets=())
    return without_empty_switches(box)


class Filler:
    """Fills boxes in, and remembers what was assumed and what is missing."""

    def __init__(self, model: GpuModel | None, assumptions: Assumptions, groups: Collection[PathGroup]) -> None:
        self.model = model
        self.assumptions = assumptions
        self.groups = groups
        self._missing: dict[tuple[str, str], list[tuple[str, str]]] = {}
        self._notes: dict[str, list[str]] = {}
        self._names: set[str] = set()

    def fill(self, box: Box, stated: bool = False) -> Box:
        """The box with every rate known that its paths need; what is missing is collected for :meth:`faults`.

        Parameters
        ----------
        stated
            Whether the file says which GPUs have scale-up links, so that none means none.

        Raises
        ------
        InvalidInputError
            More links than the model of ``--gpu`` has, or wiring that does not follow from its name.
        """
        too_many = list(link_faults(box, self.model))
        if too_many:
            raise InvalidInputError(too_many)
        box = wired(box, self.model, stated, self.note) if "nvlink" in self.groups else box
        box = with_plausible_uplinks(without_unused(box, self.groups), self.note)
        box = replace(
            box,
            gpus=tuple(self._gpu(gpu) for gpu in box.gpus),
            switches=tuple(self._switch(part) for part in box.switches),
            nics=tuple(self._nic(nic) for nic in box.nics),
            sockets=tuple(self._socket(part) for part in box.sockets),
            cables=tuple(self._scale_up(part) for part in box.cables),
            ports=tuple(self._scale_up(part) for part in box.ports),
            numas=tuple(self._numa(part, len(box.numas)) for part in box.numas),
        )
        return self._reachable_nics(box)

    def note(self, reason: str, element: str = "") -> None:
        """Remember an assumption; elements with one reason are listed together."""
        self._notes.setdefault(reason, [])
        if element:
            self._notes[reason].append(element)

    def notes(self) -> tuple[str, ...]:
        """All assumptions, and a fault for each element of the table that no box has."""
        return tuple(f"{why}: {', '.join(dict.fromkeys(who))}" if who else why for why, who in self._notes.items())

    def unknown_elements(self) -> Iterator[str]:
        """Faults of a table that speaks of elements which are not there."""
        for name in self.assumptions.elements:
            if name not in self._names:
                near = difflib.get_close_matches(name, self._names, n=1)
                meant = f"; perhaps {near[0]!r} is meant" if near else ""
                yield f"{self.assumptions.label}: elements: {name!r} is no element of the imported file{meant}"

    # One rate

    def _rate(self, part: Part, rate: Rate | None, kind: str, what: str, name: str = "") -> Rate | None:
        """Rate of the table's element, else the file's, else the assumed one of its class."""
        keys = [key.lower() for key in (name or part.name, part.id) if key]
        self._names.update(keys)
        shown = name or part.name or part.id
        for key in keys:
            if key in self.assumptions.elements:
                given = self.assumptions.elements[key]
                self.note(f"{what} {format_bandwidth(given.nominal)} as {self.assumptions.label} says", shown)
                return given
        if rate is not None:
            if not rate.nominal_known:
                self.note(_achieved(what, rate), shown)
            return rate
        if kind in self.assumptions.classes:
            assumed, remark = self.assumptions.classes[kind]
            why = f" ({remark})" if remark else ""
            label = self.assumptions.label
            self.note(f"assumed ({label}) {what} {format_bandwidth(assumed.nominal)}{why}", shown)
            return assumed
        self._missing.setdefault((kind, what), []).append((part.at or part.id, shown))
        return None

    def faults(self) -> Iterator[str]:
        """What is missing: one message per kind of speed, naming every element."""
        for (kind, what), elements in self._missing.items():
            names = ", ".join(repr(name) for _, name in elements)
            cure = (
                f'--gpu with the GPU\'s name, or a link-speed table with "{kind}"'
                if kind in ("nvlink", "xgmi")
                else f'--assume gen3, gen4, gen5 or gen6, or a link-speed table with "{kind}" or with "elements"'
            )
            yield f"{elements[0][0]}: the {what} of {names} is not known; give {cure}"

    def _element(self, numa: Numa, what: str) -> Rate | None:
        """Rate that the table gives for ``cpu0.memory`` or ``cpu0.root_complex``."""
        key = f"{numa.id}.{what}"
        self._names.add(key)
        given = self.assumptions.elements.get(key)
        if given is not None:
            self.note(f"{what} {format_bandwidth(given.nominal)} as {self.assumptions.label} says", numa.id)
        return given

    # Parts

    def _gpu(self, gpu: Gpu) -> Gpu:
        if not gpu.parent:
            return gpu
        port = gpu.port
        if self.model is not None:
            own = pcie_rate(self.model.pcie, 16)
            if port is None and own is not None:
                self.note(f"PCIe port of the {self.model.name}: {format_bandwidth(own.nominal)}", gpu.name or gpu.id)
            elif port is not None and own is not None and own.nominal < port.nominal:
                slower = f"PCIe port of the {self.model.name} is {format_bandwidth(own.nominal)}, the file says more"
                self.note(slower, gpu.name or gpu.id)
            port = own if port is None or own is None else slowest(port, own)
            if not self.model.peer:
                self.note(f"no peer access over PCIe between {self.model.name} GPUs: host memory only")
                gpu = replace(gpu, peer=False)
            if self.model.host is not None and gpu.host_link is None:
                self.note(f"NVLink-C2C of the {self.model.name}: {format_bandwidth(self.model.host.nominal)}")
                gpu = replace(gpu, host_link=self.model.host)
        return replace(gpu, port=self._rate(gpu, port, "pcie", "PCIe speed"))

    def _switch(self, switch: PcieSwitch) -> PcieSwitch:
        return replace(switch, uplink=self._rate(switch, switch.uplink, "pcie", "PCIe speed"))

    def _nic(self, nic: Nic) -> Nic:
        rate = self._rate(nic, nic.rate, "nic", "NIC speed")
        if not nic.card:
            return replace(nic, rate=rate)
        port = self._rate(nic, nic.port, "pcie", "PCIe speed", name=nic.card)
        return replace(nic, rate=rate, port=port)

    def _socket(self, socket: Socket) -> Socket:
        return replace(socket, rate=self._rate(socket, socket.rate, "socket", "speed between CPUs"))

    def _scale_up(self, part: _P) -> _P:
        rate = part.rate
        if part.kind in self.assumptions.classes:
            rate = self.assumptions.classes[part.kind][0]
            label = self.assumptions.label
            self.note(f"{part.kind} speed per link {format_bandwidth(rate.nominal)} as {label} says")
        elif rate is None and self.model is not None and self.model.link is not None:
            rate = self.model.link
            self.note(f"{part.kind} speed per link of the {self.model.name}: {format_bandwidth(rate.nominal)}")
        if rate is not None and not rate.nominal_known:
            self.note(_achieved(f"{part.kind} speed", rate))
        if rate is None:
            key = (part.kind, f"speed of one {part.kind} link")
            self._missing.setdefault(key, []).append((part.at or part.id, part.name or part.id))
        return replace(part, rate=rate)

    def _numa(self, numa: Numa, count: int) -> Numa:
        memory = self._element(numa, "memory") or numa.memory
        root = self._element(numa, "root_complex") or numa.root
        wanted = {"host", "nic"} & set(self.groups)
        if memory is None and wanted and "memory" in self.assumptions.classes:
            assumed, remark = self.assumptions.classes["memory"]
            # A remark means "per socket": with more NUMA nodes than two sockets have, each has its part.
            memory = assumed.times(min(1.0, 2 / count)) if remark else assumed
            said = f"{format_bandwidth(memory.nominal)}{f' ({remark}, 2 sockets)' if remark else ''}"
            self.note(f"assumed ({self.assumptions.label}) host memory {said}", numa.name or numa.id)
        if memory is None and "host" in self.groups:
            self.note(
                "no host-staged paths, the bandwidth of host memory is not known (--assume, or a table with memory)",
                numa.name or numa.id,
            )
        if root is None and "root_complex" in self.assumptions.classes:
            root = self.assumptions.classes["root_complex"][0]
            self.note(f"root complex {format_bandwidth(root.nominal)} as {self.assumptions.label} says", numa.id)
        if root is None and {"pcie", "host", "nic"} & set(self.groups):
            self.note("no limit of root complexes is known, only PCIe ports, uplinks and sockets limit", numa.id)
        return replace(numa, memory=memory, root=root)

    def _reachable_nics(self, box: Box) -> Box:
        """Leave out NICs that need host memory of which nothing is known."""
        kept = []
        for nic in box.nics:
            root = box.numa.get(box.root_of(nic.parent))
            if not nic.direct and root is not None and root.memory is None:
                self.note(
                    "left out: no GPUDirect (gdr=0), and the bandwidth of host memory is not known", nic.name or nic.id
                )
            else:
                kept.append(nic)
        return replace(box, nics=tuple(kept))


def _achieved(what: str, rate: Rate) -> str:
    return f"{what} {format_bandwidth(rate.nominal)} is an achievable rate (NCCL's or RCCL's), no nominal one is known"
