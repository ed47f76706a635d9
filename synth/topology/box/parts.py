"""A box as its parts: CPUs with their NUMA memory, PCIe switches, GPUs, NICs and scale-up links.

Importers and catalogues describe a machine with these; :mod:`synth.topology.box.build` makes the topology of it. A rate
of None is not known: it must be filled in (:mod:`synth.topology.importing.fill`) before a box is built.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from synth.errors import InvalidInputError
from synth.topology.box.hardware import Rate, slowest
from synth.topology.elements import LinkKind


@dataclass(frozen=True, slots=True)
class Part:
    """What every part has: an id that is unique in its box, its name in the source, and where that stands."""

    id: str
    name: str = ""
    at: str = ""


@dataclass(frozen=True, slots=True)
class Numa(Part):
    """A CPU's NUMA node with its root complex.

    Attributes
    ----------
    memory
        Host DRAM: one pool for reads and writes. Unknown: nothing is staged there.
    root
        Root complex: one pool for what passes through. Unknown: it is no limit.
    peer_factor
        How often a byte counts that goes from device to device through this CPU (1.2 on Intel, NCCL).
    """

    memory: Rate | None = None
    root: Rate | None = None
    peer_factor: float = 1.0


@dataclass(frozen=True, slots=True)
class PcieSwitch(Part):
    """A PCIe switch: ``parent`` is a NUMA node or a switch, ``uplink`` the rate of the way there."""

    parent: str = ""
    uplink: Rate | None = None


@dataclass(frozen=True, slots=True)
class Gpu(Part):
    """A GPU.

    Attributes
    ----------
    parent
        Switch or NUMA node above its PCIe port; "" if it has none that counts.
    port
        PCIe port, up and down each.
    host_link
        NVLink or NVLink-C2C to its CPU, used for host memory instead of the port.
    peer
        Whether other devices may reach it over PCIe without host memory.
    relay
        Whether it forwards for others.
    passes
        Whether it passes traffic on in hardware, from one scale-up link to another.
    """

    parent: str = ""
    port: Rate | None = None
    host_link: Rate | None = None
    peer: bool = True
    relay: bool = True
    passes: bool = False


@dataclass(frozen=True, slots=True)
class Nic(Part):
    """A NIC, or one port of a card of several.

    Attributes
    ----------
    parent
        Switch or NUMA node above it, or a GPU that has it on the chip.
    card
        Id of the card whose PCIe port it uses, shared by all NICs of one card; "" if no PCIe port limits it.
    port
        The card's PCIe port, up and down each.
    rate
        Towards the network, sending and receiving each.
    direct
        Whether devices reach it without host memory (GPUDirect).
    """

    parent: str = ""
    card: str = ""
    port: Rate | None = None
    rate: Rate | None = None
    direct: bool = True


@dataclass(frozen=True, slots=True)
class Socket(Part):
    """The link between two NUMA nodes, each way.

    Attributes
    ----------
    packages
        CPU sockets of both ends if several NUMA nodes are on one: all pairs between two sockets share their link.
    """

    ends: tuple[str, str] = ("", "")
    rate: Rate | None = None
    packages: tuple[str, str] = ("", "")


@dataclass(frozen=True, slots=True)
class Cable(Part):
    """Parallel scale-up links between two GPUs: ``rate`` of each of ``count``; one way unless ``both_ways``."""

    src: str = ""
    dst: str = ""
    count: int = 1
    rate: Rate | None = None
    kind: LinkKind = "nvlink"
    latency: float = 0.0
    both_ways: bool = True


@dataclass(frozen=True, slots=True)
class Port(Part):
    """A GPU's port on the scale-up switch: ``count`` links of ``rate`` each, that act as one."""

    gpu: str = ""
    count: int = 1
    rate: Rate | None = None
    kind: LinkKind = "nvlink"
    latency: float = 0.0


@dataclass(frozen=True)
class Box:
    """One host. Ranks are the GPUs in order.

    Attributes
    ----------
    through_cpu
        Whether devices reach each other through a CPU without host memory; PCIe switches always let them.

    Raises
    ------
    InvalidInputError
        Two parts with one id, a part that hangs on none, a circle of switches: all at once.
    """

    gpus: tuple[Gpu, ...]
    numas: tuple[Numa, ...] = ()
    switches: tuple[PcieSwitch, ...] = ()
    nics: tuple[Nic, ...] = ()
    sockets: tuple[Socket, ...] = ()
    cables: tuple[Cable, ...] = ()
    ports: tuple[Port, ...] = ()
    through_cpu: bool = True

    def __post_init__(self) -> None:
        faults = list(_faults(self))
        if faults:
            raise InvalidInputError(faults)

    @cached_property
    def switch(self) -> dict[str, PcieSwitch]:
        """PCIe switches by id."""
        return {part.id: part for part in self.switches}

    @cached_property
    def numa(self) -> dict[str, Numa]:
        """NUMA nodes by id."""
        return {part.id: part for part in self.numas}

    def above(self, parent: str) -> tuple[PcieSwitch, ...]:
        """Switches from ``parent`` up to the root complex, nearest first."""
        chain = []
        while parent in self.switch:
            chain.append(self.switch[parent])
            parent = self.switch[parent].parent
        return tuple(chain)

    def root_of(self, parent: str) -> str:
        """NUMA node above ``parent`` (itself if it is one)."""
        chain = self.above(parent)
        return chain[-1].parent if chain else parent


def without_empty_switches(box: Box) -> Box:
    """Leave out PCIe switches with nothing below them, whose speeds need not be known."""
    used: set[str] = set()
    hung: tuple[Gpu | Nic, ...] = (*box.gpus, *box.nics)
    for part in hung:
        used.update(switch.id for switch in box.above(part.parent))
    return replace(box, switches=tuple(part for part in box.switches if part.id in used))


def without_single_switches(box: Box) -> Box:
    """Merge each PCIe switch with one thing below it into that thing: the two links in a row are one.

    Not where peer traffic counts more on the upper link only, and the lower one is slower: one link cannot say that.
    """
    while True:
        single = next((part for part in box.switches if _is_single(box, part)), None)
        if single is None:
            return box
        box = _merged(box, single)


def _is_single(box: Box, switch: PcieSwitch) -> bool:
    """Whether a switch with one thing below it can be merged into that without loss."""
    below: dict[str, Rate | None] = {part.id: part.port for part in box.gpus if part.parent == switch.id}
    below |= {part.id: part.uplink for part in box.switches if part.parent == switch.id}
    below |= {nic.card or nic.id: nic.port for nic in box.nics if nic.parent == switch.id}
    if len(below) != 1:
        return False
    numa, (rate,) = box.numa.get(switch.parent), below.values()
    if numa is None or numa.peer_factor == 1.0:
        return True
    if rate is None or switch.uplink is None:
        return False
    return rate.nominal >= switch.uplink.nominal and rate.achievable >= switch.uplink.achievable


def _merged(box: Box, gone: PcieSwitch) -> Box:
    def narrowed(rate: Rate | None) -> Rate | None:
        return gone.uplink if rate is None else rate if gone.uplink is None else slowest(rate, gone.uplink)

    def gpu(part: Gpu) -> Gpu:
        moved = part.parent == gone.id
        return replace(part, parent=gone.parent, port=narrowed(part.port)) if moved else part

    def nic(part: Nic) -> Nic:
        moved = part.parent == gone.id
        card = part.card or part.id
        return replace(part, parent=gone.parent, card=card, port=narrowed(part.port)) if moved else part

    def switch(part: PcieSwitch) -> PcieSwitch:
        moved = part.parent == gone.id
        return replace(part, parent=gone.parent, uplink=narrowed(part.uplink)) if moved else part

    return replace(
        box,
        gpus=tuple(map(gpu, box.gpus)),
        nics=tuple(map(nic, box.nics)),
        switches=tuple(switch(part) for part in box.switches if part is not gone),
    )


def _faults(box: Box) -> Iterator[str]:
    groups: tuple[tuple[Part, ...], ...] = (box.gpus, box.numas, box.switches, box.nics)
    seen: set[str] = set()
    for part in (part for group in groups for part in group):
        if part.id in seen:
            yield f"{part.at or part.id}: the id {part.id!r} is taken twice in one box"
        seen.add(part.id)
    numas, gpus = {part.id for part in box.numas}, {part.id for part in box.gpus}
    homes = numas | {part.id for part in box.switches}
    parts: tuple[Gpu | PcieSwitch | Nic, ...] = (*box.gpus, *box.switches, *box.nics)
    for hung in parts:
        fits = homes | ({""} if isinstance(hung, Gpu) else gpus if isinstance(hung, Nic) else set())
        if hung.parent not in fits:
            yield f"{hung.at or hung.id}: hangs on {hung.parent!r}, which is no NUMA node and no PCIe switch of the box"
    parents = {part.id: part.parent for part in box.switches}
    for start in parents:
        at, steps = start, 0
        while at in parents and steps <= len(parents):
            at, steps = parents[at], steps + 1
        if at in parents:
            yield f"{start}: PCIe switches hang on each other in a circle"
    for socket in box.sockets:
        yield from (f"{socket.id}: joins {end!r}, which is no NUMA node" for end in socket.ends if end not in numas)
    for cable in box.cables:
        for end in (cable.src, cable.dst):
            if end not in gpus:
                yield f"{cable.id}: joins {end!r}, which is no GPU of the box"
    yield from (f"{port.id}: is a port of {port.gpu!r}, which is no GPU" for port in box.ports if port.gpu not in gpus)
