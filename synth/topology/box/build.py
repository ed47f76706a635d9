"""From boxes to a topology: which links each path takes and which wires they share.

Vertices. A GPU's sends go up a tree of PCIe switches and CPUs to other GPUs and to NICs (``nic0.tx``); what a NIC
receives (``nic0.rx``) goes through a tree of its own, ``pcie0.rx``, ``cpu0.rx``, to the GPUs. Two trees, so that no
path enters by one NIC and leaves by another without a GPU. Host memory is a vertex per NUMA node (``mem0``): a
staged copy is written there and read from there.

Wires. What a byte really uses is a resource that all these links share: a PCIe port up or down (``g0.pcie:up``), a
switch's uplink, a NUMA node's root complex, the link between sockets, and DRAM, which counts the write and the read.
"""

from __future__ import annotations

from collections.abc import Sequence

from synth.errors import InvalidInputError
from synth.topology.box.hardware import PCIE_LATENCY, Rate, slowest
from synth.topology.box.parts import Box, Gpu, Nic, Numa, Socket, without_empty_switches, without_single_switches
from synth.topology.box.wiring import Wire, Wiring
from synth.topology.elements import LinkKind, Node, NodeKind
from synth.topology.fabric import NIC_LATENCY, Fabric
from synth.topology.model import Topology

#: The layer of what GPUs send, and that of what NICs receive.
SENT, RECEIVED = "", ".rx"
_SWITCH = "nvsw"


def build_topology(
    name: str,
    boxes: Sequence[Box],
    fabric: Fabric = "switch",
    achievable: bool = False,
    source: str = "",
    notes: Sequence[str] = (),
) -> Topology:
    """Topology of one box, or of several joined through their NICs.

    Parameters
    ----------
    boxes
        Every rate known, except host memory and root complexes (see :class:`~synth.topology.box.parts.Numa`).
    fabric
        One switch for all NICs, or one per rail: the k-th NICs of all boxes.
    achievable
        Whether links reach the achievable rates (as ``efficiency``) or the nominal ones.

    Returns
    -------
    Topology
        With several boxes, ids begin with ``h0.``, ``h1.``, ...; ranks are the GPUs of the first box, then the next.

    Raises
    ------
    InvalidInputError
        A rate that is not known.
    """
    wiring = Wiring(achievable)
    for i, box in enumerate(boxes):
        prefix = f"h{i}." if len(boxes) > 1 else ""
        tidy = without_single_switches(without_empty_switches(box))
        _BoxBuilder(tidy, wiring, prefix, f"h{i}", fabric).build()
    wiring.finish_fabric()
    return Topology(name, tuple(wiring.nodes), tuple(wiring.links), wiring.resources(), source, tuple(notes))


class _BoxBuilder:
    """Adds one box to the wiring."""

    def __init__(self, box: Box, wiring: Wiring, prefix: str, host: str, fabric: Fabric) -> None:
        self.box = box
        self.wiring = wiring
        self.prefix = prefix
        self.host = host
        self.fabric = fabric

    def build(self) -> None:
        for gpu in self.box.gpus:
            self.wiring.nodes.append(Node(self._id(gpu.id), "gpu", self.host, gpu.relay, gpu.passes))
        self._scale_up()
        for layer in (SENT, RECEIVED) if self.box.nics else (SENT,):
            self._tree(layer)
            self._sockets(layer)
            self._memory(layer)
        for rail, nic in enumerate(self.box.nics):
            self._nic(nic, rail)

    def _id(self, name: str) -> str:
        return self.prefix + name

    def _wire(self, name: str, rate: Rate | None) -> Wire:
        return Wire(self._id(name), self._known(name, rate))

    def _known(self, name: str, rate: Rate | None) -> Rate:
        if rate is None:
            raise InvalidInputError(f"{name}: its rate is not known")
        return rate

    def _link(
        self,
        ends: tuple[str, str],
        kind: LinkKind,
        uses: Sequence[tuple[Wire, float]],
        latency: float = 0.0,
        limit: Rate | None = None,
    ) -> None:
        """Link ``src-dst`` that can carry what its slowest wire carries."""
        wires = [wire.rate for wire, times in uses if times] + ([limit] if limit else [])
        name = self._id(f"{ends[0]}-{ends[1]}")
        self.wiring.link(name, (self._id(ends[0]), self._id(ends[1])), slowest(*wires), kind, latency, uses)

    # Scale-up

    def _scale_up(self) -> None:
        for cable in self.box.cables:
            rate = self._known(cable.id, cable.rate)
            a, b = self._id(cable.src), self._id(cable.dst)
            for k in range(cable.count):
                # Parallel links stay apart: one may fail alone, and a runtime may open a channel on each.
                name = self._id(f"{cable.id}.{k}")
                if not cable.both_ways:
                    self.wiring.link(name, (a, b), rate, cable.kind, cable.latency)
                    continue
                self.wiring.link(f"{name}:fwd", (a, b), rate, cable.kind, cable.latency)
                self.wiring.link(f"{name}:rev", (b, a), rate, cable.kind, cable.latency)
        if self.box.ports:
            self.wiring.nodes.append(Node(self._id(_SWITCH), "switch", self.host))
        for port in self.box.ports:
            rate = self._known(port.id, port.rate).times(port.count)
            ends = (self._id(port.gpu), self._id(_SWITCH))
            self.wiring.link(self._id(f"{port.id}:fwd"), ends, rate, port.kind, port.latency)
            self.wiring.link(self._id(f"{port.id}:rev"), ends[::-1], rate, port.kind, port.latency)

    # PCIe

    def _tree(self, layer: str) -> None:
        """Switches and CPUs of one layer with the links of devices that reach each other without host memory."""
        homes = [part.id for part in self.box.switches]
        homes += [part.id for part in self.box.numas] if self.box.through_cpu else []
        devices = [gpu for gpu in self.box.gpus if gpu.peer and gpu.parent in homes]
        cards = [nic for nic in self.box.nics if nic.direct and nic.parent in homes]
        if not devices or (layer == RECEIVED and not cards):
            return
        for part in (*self.box.switches, *self.box.numas):
            if part.id in homes:
                kind: NodeKind = "cpu" if isinstance(part, Numa) else "switch"
                self.wiring.nodes.append(Node(self._id(part.id + layer), kind, self.host))
        for switch in self.box.switches:
            if switch.parent in homes:
                ends = (switch.id + layer, switch.parent + layer)
                self._link(ends, "pcie", self._edge(switch.id, switch.uplink, switch.parent, "up"))
                self._link(ends[::-1], "pcie", self._edge(switch.id, switch.uplink, switch.parent, "down"))
        for gpu in devices:
            up, down = (self._edge(f"{gpu.id}.pcie", gpu.port, gpu.parent, way) for way in ("up", "down"))
            if layer == SENT:
                self._link((gpu.id, gpu.parent), "pcie", up, PCIE_LATENCY)
            self._link((gpu.parent + layer, gpu.id), "pcie", down, PCIE_LATENCY)
        for nic in cards:
            way = "down" if layer == SENT else "up"
            ends = (nic.parent, f"{nic.id}.tx") if layer == SENT else (f"{nic.id}.rx", nic.parent + layer)
            # The NIC's latency towards the network stands for its PCIe port too.
            self._link(ends, "pcie", self._card_edge(nic, way), limit=self._known(nic.id, nic.rate))

    def _edge(self, name: str, rate: Rate | None, parent: str, way: str) -> list[tuple[Wire, float]]:
        """Wires of peer traffic between a part and what is above it."""
        uses = [(self._wire(f"{name}:{way}", rate), self._factor(parent))]
        return uses + self._root(parent, self._factor(parent)) if way == "up" else uses

    def _card_edge(self, nic: Nic, way: str) -> list[tuple[Wire, float]]:
        if nic.card:
            return self._edge(f"{nic.card}.pcie", nic.port, nic.parent, way)
        return self._root(nic.parent, self._factor(nic.parent)) if way == "up" else []

    def _factor(self, parent: str) -> float:
        return self.box.numa[parent].peer_factor if parent in self.box.numa else 1.0

    def _root(self, parent: str, times: float) -> list[tuple[Wire, float]]:
        """Root complex, if ``parent`` is a NUMA node whose root complex is a limit."""
        numa = self.box.numa.get(parent)
        return [(self._wire(f"{numa.id}.root", numa.root), times)] if numa is not None and numa.root else []

    def _sockets(self, layer: str) -> None:
        """Peer traffic between NUMA nodes."""
        there = {node.id for node in self.wiring.nodes}
        for socket in self.box.sockets:
            for a, b in (socket.ends, socket.ends[::-1]):
                if self._id(a + layer) in there:
                    factor = max(self._factor(a), self._factor(b))
                    uses = [(self._socket_wire(socket, (a, b)), factor), *self._root(b, factor)]
                    self._link((a + layer, b + layer), "socket", uses)

    def _socket_wire(self, socket: Socket, way: tuple[str, str]) -> Wire:
        """Wire between two NUMA nodes: their own, or that of their sockets, which is as slow as its slowest pair."""
        if not all(socket.packages):
            return self._wire(f"{way[0]}-{way[1]}.socket", socket.rate)
        a, b = socket.packages if way == socket.ends else socket.packages[::-1]
        shared = [self._known(k.id, k.rate) for k in self.box.sockets if set(k.packages) == {a, b}]
        return self._wire(f"{a}-{b}.socket", slowest(*shared))

    # Host memory

    def _memory(self, layer: str) -> None:
        """Writes to the memory of the own NUMA node, reads from any: the reader fetches over the socket."""
        staging = self._staging_nics()
        if layer == RECEIVED and not staging:
            return
        for numa in self.box.numas:
            memory = f"mem{numa.id.removeprefix('cpu')}{layer}"
            if numa.memory is None:
                continue
            self.wiring.nodes.append(Node(self._id(memory), "memory", self.host))
            dram = self._wire(f"{numa.id}.dram", numa.memory)
            writers: Sequence[Gpu | Nic] = self.box.gpus if layer == SENT else staging
            for part in writers:
                if self._staged_home(part) == numa.id:
                    uses = [*self._way(part, "up"), (dram, 1.0)]
                    self._link((_source(part), memory), "memory", uses, PCIE_LATENCY, _limit(part))
            readers: Sequence[Gpu | Nic] = (*self.box.gpus, *staging) if layer == SENT else self.box.gpus
            for part in readers:
                far = self._between(numa.id, self._staged_home(part))
                if far is not None:
                    uses = [*self._way(part, "down"), *far, (dram, 1.0)]
                    self._link((memory, _sink(part)), "memory", uses, PCIE_LATENCY, _limit(part))

    def _staging_nics(self) -> list[Nic]:
        """NICs that some GPU of the box cannot reach without host memory."""
        every = not self.box.through_cpu or any(not gpu.peer for gpu in self.box.gpus)
        on_chip = {gpu.id for gpu in self.box.gpus}
        return [nic for nic in self.box.nics if nic.parent not in on_chip and (every or not nic.direct)]

    def _staged_home(self, part: Gpu | Nic) -> str:
        return self.box.root_of(part.parent)

    def _between(self, memory: str, reader: str) -> list[tuple[Wire, float]] | None:
        """Wires from one NUMA node's memory to another NUMA node; None if there is no way."""
        if memory == reader:
            return []
        for socket in self.box.sockets:
            if {memory, reader} == set(socket.ends):
                return [(self._socket_wire(socket, (memory, reader)), 1.0), *self._root(reader, 1.0)]
        return None

    def _way(self, part: Gpu | Nic, way: str) -> list[tuple[Wire, float]]:
        """Wires between a device and the root complex above it, and the root complex."""
        if isinstance(part, Gpu) and part.host_link is not None:
            return [(self._wire(f"{part.id}.c2c:{way}", part.host_link), 1.0)]
        name, port = (f"{part.id}.pcie", part.port) if isinstance(part, Gpu) else (f"{part.card}.pcie", part.port)
        uses = [] if isinstance(part, Nic) and not part.card else [(self._wire(f"{name}:{way}", port), 1.0)]
        uses += ((self._wire(f"{above.id}:{way}", above.uplink), 1.0) for above in self.box.above(part.parent))
        return uses + self._root(self._staged_home(part), 1.0)

    # Network

    def _nic(self, nic: Nic, rail: int) -> None:
        rate = self._known(nic.id, nic.rate)
        switch = self.wiring.fabric_switch(f"rail{rail}" if self.fabric == "rail" else "fabric")
        name, on_chip = self._id(nic.id), nic.parent in {gpu.id for gpu in self.box.gpus}
        self.wiring.nodes += (Node(f"{name}{side}", "nic", self.host) for side in (".tx", ".rx"))
        # NIC_LATENCY is that of a whole side, from GPU to fabric; the GPU's PCIe port has its part already.
        latency = NIC_LATENCY if on_chip else NIC_LATENCY - PCIE_LATENCY
        self.wiring.link(f"{name}:send", (f"{name}.tx", switch), rate, "nic", latency)
        self.wiring.link(f"{name}:recv", (switch, f"{name}.rx"), rate, "nic", latency)
        if on_chip:
            gpu = self._id(nic.parent)
            self.wiring.link(f"{gpu}-{name}", (gpu, f"{name}.tx"), rate, "nic")
            self.wiring.link(f"{name}-{gpu}", (f"{name}.rx", gpu), rate, "nic")


def _source(part: Gpu | Nic) -> str:
    return part.id if isinstance(part, Gpu) else f"{part.id}.rx"


def _sink(part: Gpu | Nic) -> str:
    return part.id if isinstance(part, Gpu) else f"{part.id}.tx"


def _limit(part: Gpu | Nic) -> Rate | None:
    return part.rate if isinstance(part, Nic) else None
