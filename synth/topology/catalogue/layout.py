"""What boxes are made of: rates by name, PCIe trees from branches, meshes, rings, tori and switch ports.

Rates are bytes/second per direction, nominal and achievable. PCIe: 31, 63 nominal for 16 lanes of Gen4 and Gen5
(ml-engineering), half of Gen4's for Gen3; achievable as in NCCL topo.cc. NICs: SimAI's 23.5 of 25 (CX6) and 48.5 of
50 (CX7), NCCL's NET_BW 12 of 12.5. CPUs: NCCL topo.h, which has achievable rates only, so they stand for both.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product

from synth.topology.box.hardware import INTEL_PEER_FACTOR, NVLINK_LATENCY, XGMI_LATENCY, Rate, exactly
from synth.topology.box.parts import Box, Cable, Gpu, Nic, Numa, PcieSwitch, Port, Socket
from synth.topology.elements import LinkKind

GEN3, GEN4, GEN5 = Rate(15.75e9, 12e9), Rate(31e9, 24e9), Rate(63e9, 48e9)
NIC_100G, NIC_200G, NIC_400G = Rate(12.5e9, 12e9), Rate(25e9, 23.5e9), Rate(50e9, 48.5e9)

PCIE_SOURCE = "PCIe: 15.75, 31, 63 GB/s nominal for x16 of Gen3, 4, 5 (ml-engineering), 12, 24, 48 achievable (NCCL)"
CPU_SOURCE = "between CPUs: NCCL topo.h"
MEMORY_SOURCE = "host memory UNVERIFIED: DDR channels of such a server"


@dataclass(frozen=True, slots=True)
class Cpu:
    """A kind of CPU: host memory of one socket, rate between any two NUMA nodes, uses of a byte of peer traffic.

    A staged copy is limited by ``memory``, one pool for reads and writes.
    """

    memory: Rate
    between: Rate
    peer_factor: float = 1.0


#: Channels x transfers/second x 8 bytes; rates between NUMA nodes and the 6/5 of Intel CPUs from NCCL topo.h.
BROADWELL = Cpu(exactly(4 * 2400e6 * 8), exactly(6e9), INTEL_PEER_FACTOR)
SKYLAKE = Cpu(exactly(6 * 2666e6 * 8), exactly(10e9), INTEL_PEER_FACTOR)
SAPPHIRE_RAPIDS = Cpu(exactly(8 * 4800e6 * 8), exactly(22e9), INTEL_PEER_FACTOR)
EPYC = Cpu(exactly(8 * 3200e6 * 8), exactly(16e9))
ARM = Cpu(exactly(8 * 2933e6 * 8), exactly(6e9))


@dataclass(frozen=True, slots=True)
class Branch:
    """Devices below one PCIe switch, or directly on a NUMA node.

    Attributes
    ----------
    home
        ``cpu0``, or an earlier branch's switch (``pcie0``).
    gpus
        Ranks.
    nics
        Number of NICs, each a card of its own.
    uplink
        Rate of the switch's way up; None: no switch, the devices hang on ``home``.
    """

    home: str
    gpus: tuple[int, ...] = ()
    nics: int = 0
    uplink: Rate | None = None


def tree(
    branches: Sequence[Branch],
    cpu: Cpu,
    numas: int,
    port: Rate,
    nic: Rate | None = None,
    *,
    card: Rate | None = None,
    sockets: int = 2,
    peer: bool = True,
) -> Box:
    """Box without scale-up links.

    Parameters
    ----------
    branches
        Switch ``k`` is that of the k-th branch with an uplink; NICs are numbered in order.
    cpu, numas, sockets
        Kind of CPU and number of NUMA nodes, among which the memory of the sockets is shared out.
    port
        PCIe port of each GPU.
    nic, card
        Rate of each NIC towards the network, and of its PCIe port (default: the GPUs').
    peer
        Whether devices reach GPUs over PCIe without host memory.
    """
    memory = cpu.memory.times(min(1.0, sockets / numas))
    nodes = tuple(Numa(f"cpu{k}", memory=memory, peer_factor=cpu.peer_factor) for k in range(numas))
    switches: list[PcieSwitch] = []
    gpus: dict[int, Gpu] = {}
    nics: list[Nic] = []
    for branch in branches:
        home = branch.home
        if branch.uplink is not None:
            home = f"pcie{len(switches)}"
            switches.append(PcieSwitch(home, parent=branch.home, uplink=branch.uplink))
        gpus |= {rank: Gpu(f"g{rank}", parent=home, port=port, peer=peer) for rank in branch.gpus}
        for _ in range(branch.nics):
            name = f"nic{len(nics)}"
            nics.append(Nic(name, parent=home, card=name, port=card or port, rate=nic))
    between = tuple(Socket(f"{a.id}-{b.id}", ends=(a.id, b.id), rate=cpu.between) for a, b in combinations(nodes, 2))
    return Box(tuple(gpus[rank] for rank in sorted(gpus)), nodes, tuple(switches), tuple(nics), between)


def pairs_under_switches(cpus: int, per_cpu: int, nics: int, uplink: Rate) -> list[Branch]:
    """Two GPUs and some NICs under each switch, ``per_cpu`` switches per NUMA node."""
    places = product(range(cpus), range(per_cpu))
    return [Branch(f"cpu{c}", (2 * k, 2 * k + 1), nics, uplink) for k, (c, _) in enumerate(places)]


def own_switches(cpus: int, per_cpu: int, uplink: Rate) -> list[Branch]:
    """One GPU and one NIC under each switch, ``per_cpu`` switches per NUMA node."""
    places = product(range(cpus), range(per_cpu))
    return [Branch(f"cpu{c}", (k,), 1, uplink) for k, (c, _) in enumerate(places)]


def bare(count: int) -> Box:
    """GPUs of whose PCIe nothing is said."""
    return Box(tuple(Gpu(f"g{k}") for k in range(count)))


def with_ports(box: Box, links: int, rate: Rate) -> Box:
    """The box with its GPUs on an NVSwitch: half a GPU-to-GPU hop of latency on each side."""
    ports = (Port(f"nv{gpu.id}", gpu=gpu.id, count=links, rate=rate, latency=NVLINK_LATENCY / 2) for gpu in box.gpus)
    return replace(box, ports=tuple(ports))


def with_cables(
    box: Box, cables: Iterable[tuple[int, int, int]], rate: Rate, kind: LinkKind, latency: float = XGMI_LATENCY
) -> Box:
    """The box with (GPU, GPU, number of parallel links), each both ways."""
    made = (
        Cable(f"{kind}{a}-{b}", src=f"g{a}", dst=f"g{b}", count=count, rate=rate, kind=kind, latency=latency)
        for a, b, count in cables
    )
    return replace(box, cables=tuple(made))


def passing(box: Box) -> Box:
    """The box with GPUs that pass traffic on in hardware: an xGMI hive, whose GPUs all reach each other over hops."""
    return replace(box, gpus=tuple(replace(gpu, passes=True) for gpu in box.gpus))


def with_chip_nics(box: Box, count: int, rate: Rate) -> Box:
    """The box with NICs on the GPUs' own chips, which no PCIe port limits."""
    places = product(box.gpus, range(count))
    return replace(box, nics=tuple(Nic(f"nic{k}", parent=gpu.id, rate=rate) for k, (gpu, _) in enumerate(places)))


def mesh(members: Collection[int], count: int = 1) -> list[tuple[int, int, int]]:
    """Every pair of GPUs with ``count`` links."""
    return [(a, b, count) for a, b in combinations(members, 2)]


def edges(text: str) -> list[tuple[int, int, int]]:
    """Cables of ``0-1 0-3:2``; one link where no number stands."""
    out = []
    for item in text.split():
        ends, _, count = item.partition(":")
        a, b = ends.split("-")
        out.append((int(a), int(b), int(count or 1)))
    return out


def grid(dims: Sequence[int], wrap: bool) -> list[tuple[int, int, int]]:
    """Neighbours in a mesh or torus, last dimension fastest."""
    out: dict[tuple[int, int], int] = {}
    places = list(product(*map(range, dims)))
    rank = {place: k for k, place in enumerate(places)}
    for place in places:
        for axis, length in enumerate(dims):
            there = list(place)
            there[axis] = (place[axis] + 1) % length
            if length > 1 and (wrap or there[axis] > place[axis]):
                a, b = sorted((rank[place], rank[tuple(there)]))
                out[a, b] = out.get((a, b), 0) + 1
    return [(a, b, count) for (a, b), count in out.items()]
