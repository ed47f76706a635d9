"""Machines that people have: link counts, nominal and achievable rates, and where each number comes from.

Rates are bytes/second per direction. "Achievable" are the constants of NCCL's and RCCL's graph models or measured
values that published synthesizers use; a topology carries them as link ``efficiency``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations
from types import MappingProxyType

from synth.topology.box.hardware import Rate
from synth.topology.elements import Link, LinkKind, Node
from synth.topology.model import Topology
from synth.topology.shapes import both_ways, gpu_nodes

#: Number of NVLinks between each pair of a DGX-1's GPUs (msccl-tools topologies/nvidia.py, the same in TE-CCL).
DGX1_NVLINKS = (
    "02112000",
    "20120100",
    "11020020",
    "12200001",
    "20000211",
    "01002012",
    "00201102",
    "00011220",
)
#: GCD, GCD, number of xGMI links (ForestColl mi250_topology(1) and TE-CCL amd.py agree; RCCL's topo_16p1h.xml is the
#: same graph with other numbers). Four links join the two GCDs of one package; seven links leave each GCD.
MI250_XGMI = (
    "0-1:4 0-4:2 0-8:1 1-5:1 1-9:1 1-10:1 2-3:4 2-6:1 2-9:1 2-10:1 3-7:2 3-11:1 4-5:4 4-6:1 5-6:1 5-7:1 "
    "6-7:4 8-9:4 8-12:2 9-13:1 10-11:4 10-14:1 11-15:2 12-13:4 12-14:1 13-14:1 13-15:1 14-15:4"
)


@dataclass(frozen=True, slots=True)
class Network:
    """How a machine meets the network: NIC rate, GPUs per NIC, the PCIe rate between them (None: not confirmed)."""

    nic: Rate
    gpus_per_nic: int
    pcie: Rate | None
    source: str


@dataclass(frozen=True, slots=True)
class Machine:
    """A box of GPUs.

    Attributes
    ----------
    cables
        (GPU, GPU, number of parallel links) of a directly wired box; empty: every GPU hangs on one switch ``sw``.
    rate
        Of one cable, or of one GPU's port on the switch.
    latency
        Seconds of one link; half a GPU-to-GPU hop where a switch is in the middle.
    passes
        Whether its GPUs pass traffic on in hardware, so that those without a cable reach each other over hops.
    """

    name: str
    gpus: int
    cables: tuple[tuple[int, int, int], ...]
    kind: LinkKind
    rate: Rate
    latency: float
    network: Network
    summary: str
    source: str
    passes: bool = False


def build_machine(machine: Machine, name: str, bandwidth: float, latency: float, achievable: bool) -> Topology:
    """Topology of one box.

    Parameters
    ----------
    machine
        Its wiring and rates.
    name
        Name of the topology.
    bandwidth
        Nominal bytes/second of one cable, or of one GPU's switch port.
    latency
        Seconds per link.
    achievable
        Whether links get the machine's achievable share as ``efficiency``; otherwise capacities are nominal.
    """
    efficiency = machine.rate.efficiency if achievable else 1.0
    nodes = tuple(replace(node, passes=machine.passes) for node in gpu_nodes(machine.gpus))
    links: list[Link] = []
    short = {"nvlink": "nv"}.get(machine.kind, machine.kind)
    if not machine.cables:
        nodes = (*nodes, Node("sw", "switch"))
        for i in range(machine.gpus):
            links += both_ways(f"{short}{i}-sw", f"g{i}", "sw", bandwidth, latency, machine.kind, efficiency)
    for a, b, count in machine.cables:
        for k in range(count):
            # Parallel links stay apart: one may fail alone, and a runtime may open a channel on each.
            cable = f"{short}{a}-{b}.{k}"
            links += both_ways(cable, f"g{a}", f"g{b}", bandwidth, latency, machine.kind, efficiency)
    used = "achievable" if achievable else "nominal"
    return Topology(name, nodes, tuple(links), source=f"{machine.source}; capacities are {used}")


def machines() -> MappingProxyType[str, Machine]:
    """Every built-in machine by name."""
    boxes = (_dgx1(), _ndv2(), _dgx2(), _dgx_a100(), _hgx_h100(), _mi250(), _mi300x())
    return MappingProxyType({box.name: box for box in boxes})


def _dgx1() -> Machine:
    rows = DGX1_NVLINKS
    return Machine(
        name="dgx1-v100",
        gpus=8,
        cables=tuple((a, b, int(rows[a][b])) for a, b in combinations(range(8), 2) if rows[a][b] != "0"),
        kind="nvlink",
        rate=Rate(25e9, 20e9),
        latency=0.7e-6,
        network=Network(
            Rate(12.5e9, 12e9),
            2,
            Rate(15.75e9, 12e9),
            "NIC 100 Gb/s (TE-CCL's NDv2); one NIC for two GPUs is from memory, UNVERIFIED; PCIe Gen3 x16",
        ),
        summary="NVIDIA DGX-1, 8 V100, hybrid cube mesh, 6 NVLinks per GPU",
        source=(
            "NVLink 2.0 25 GB/s nominal (NVIDIA DGX-1), 20 achievable (NCCL topo.h); link counts: msccl-tools "
            "topologies/nvidia.py, same in TE-CCL; 0.7 us: TE-CCL (TACCL uses 0.3)"
        ),
    )


def _ndv2() -> Machine:
    return replace(
        _dgx1(),
        name="ndv2",
        network=Network(
            Rate(12.5e9, 12e9),
            8,
            Rate(15.75e9, 12e9),
            "one NIC of 100 Gb/s per box (Azure ndv2-topo.xml, TE-CCL); PCIe Gen3 x16, whatever the file says",
        ),
        summary="Azure NDv2, 8 V100 wired as in a DGX-1, one NIC",
    )


def _dgx2() -> Machine:
    return Machine(
        name="dgx2",
        gpus=16,
        cables=(),
        kind="nvlink",
        rate=Rate(150e9, 125e9),
        latency=0.35e-6,
        network=Network(
            Rate(12.5e9, 12e9), 2, None, "8 NICs of 100 Gb/s (TE-CCL, TACCL); PCIe not confirmed, the NIC's rate used"
        ),
        summary="NVIDIA DGX-2, 16 V100 on NVSwitch",
        source=(
            "6 NVLinks of 25 GB/s nominal per GPU, 125 achievable (TACCL and TE-CCL use 125); 0.35 us to the switch: "
            "TE-CCL"
        ),
    )


def _dgx_a100() -> Machine:
    return Machine(
        name="dgx-a100",
        gpus=8,
        cables=(),
        kind="nvlink",
        rate=Rate(300e9, 240e9),
        latency=0.3e-6,
        network=Network(
            Rate(25e9, 23.5e9),
            1,
            Rate(31e9, 24e9),
            "NIC 200 Gb/s per GPU (ForestColl), 23.5 achievable (SimAI, CX6); PCIe Gen4 x16 31 nominal "
            "(ml-engineering), 24 achievable (NCCL)",
        ),
        summary="NVIDIA DGX A100 (Azure NDv4), 8 A100 on NVSwitch",
        source=(
            "12 NVLinks of 25 GB/s nominal per GPU (ndv4-topo.xml, ForestColl: 300), 240 achievable (NCCL topo.h); "
            "0.3 us to the switch: half of NCCL's NVLink hop 0.6 us (tuning.cc, LL)"
        ),
    )


def _hgx_h100() -> Machine:
    return Machine(
        name="hgx-h100",
        gpus=8,
        cables=(),
        kind="nvlink",
        rate=Rate(450e9, 370.8e9),
        latency=0.3e-6,
        network=Network(
            Rate(50e9, 48.5e9),
            1,
            Rate(63e9, 48e9),
            "NIC 400 Gb/s per GPU (ndv5-topo.xml), 48.5 achievable (SimAI, CX7); PCIe Gen5 x16 63 nominal "
            "(ml-engineering), 48 achievable (NCCL)",
        ),
        summary="NVIDIA HGX H100 or H200 (Azure NDv5), 8 GPUs on NVSwitch",
        source=(
            "18 NVLinks of 25 GB/s nominal per GPU (ndv5-topo.xml), 370.8 achievable (NCCL topo.h); 0.3 us to the "
            "switch: half of NCCL's NVLink hop 0.6 us (tuning.cc, LL); ASTRA-sim's fitted file has 400 GB/s, 0.936 us"
        ),
    )


def _mi250() -> Machine:
    cables = []
    for cable in MI250_XGMI.split():
        ends, count = cable.split(":")
        a, b = ends.split("-")
        cables.append((int(a), int(b), int(count)))
    return Machine(
        name="mi250-16",
        gpus=16,
        cables=tuple(cables),
        kind="xgmi",
        rate=Rate(50e9, 36e9),
        latency=0.8e-6,
        network=Network(
            Rate(25e9, 23.5e9),
            2,
            # 8 lanes of Gen4: half of the x16 numbers, 31 nominal (ml-engineering) and 24 achievable (NCCL).
            Rate(15.5e9, 12e9),
            "8 NICs of 200 Gb/s, one for two GCDs, PCIe Gen4 x8 per GCD (RCCL topo_16p1h.xml); 15.5 GB/s nominal is "
            "half of ml-engineering's Gen4 x16; NIC achievable 23.5 as for CX6 (SimAI); ForestColl gives each GCD "
            "16 GB/s of its own",
        ),
        summary="AMD MI250, 16 GCDs, 7 xGMI links per GCD",
        source=(
            "xGMI 50 GB/s nominal per link (16 bit x 25 GT/s), 36 achievable (RCCL topo.h); link counts: ForestColl "
            "and TE-CCL, checked against RCCL topo_16p1h.xml; 0.8 us: RCCL's xGMI hop (tuning.cc, LL)"
        ),
        passes=True,
    )


def _mi300x() -> Machine:
    return Machine(
        name="mi300x-8",
        gpus=8,
        cables=tuple((a, b, 1) for a, b in combinations(range(8), 2)),
        kind="xgmi",
        rate=Rate(64e9, 48e9),
        latency=0.8e-6,
        network=Network(
            Rate(50e9, 48.5e9),
            1,
            Rate(63e9, 48e9),
            "NIC 400 Gb/s per GPU and PCIe Gen5 x16 (RCCL topo_8p_940.xml), 63 nominal (ml-engineering), 48 achievable "
            "(NCCL); NIC achievable 48.5 as for CX7 (SimAI)",
        ),
        summary="AMD MI300X, 8 GPUs, full mesh of xGMI links",
        source=(
            "xGMI 64 GB/s nominal per link (128 both ways: ml-engineering), 48 achievable (RCCL topo.h); wiring: RCCL "
            "topo_8p_940.xml; 0.8 us: RCCL's xGMI hop (tuning.cc, LL)"
        ),
        passes=True,
    )
