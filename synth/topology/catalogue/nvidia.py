"""Boxes with NVIDIA GPUs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from synth.topology.box.hardware import NVLINK_LATENCY, Rate, exactly
from synth.topology.box.parts import Box, Gpu, Nic, Numa
from synth.topology.catalogue.entry import CatalogueEntry
from synth.topology.catalogue.layout import (
    BROADWELL,
    CPU_SOURCE,
    EPYC,
    GEN3,
    GEN4,
    GEN5,
    MEMORY_SOURCE,
    NIC_100G,
    NIC_200G,
    NIC_400G,
    PCIE_SOURCE,
    SAPPHIRE_RAPIDS,
    SKYLAKE,
    Branch,
    edges,
    own_switches,
    pairs_under_switches,
    tree,
    with_cables,
    with_ports,
)
from synth.topology.catalogue.scale_up import DGX1_NVLINKS

VOLTA, AMPERE, HOPPER = Rate(25e9, 20e9), Rate(25e9, 20e9), Rate(25e9, 20.6e9)
BLACKWELL, BRIDGE = Rate(50e9, 40.1e9), Rate(14.0625e9, 12e9)
#: DGX-2: TACCL and TE-CCL use 125 of 150 per GPU.
VOLTA_SWITCHED = Rate(25e9, 125e9 / 6)
_NVLINK = "NVLink: nominal by the vendor, achievable NCCL topo.h"
_COMMON = (_NVLINK, PCIE_SOURCE, CPU_SOURCE, MEMORY_SOURCE)


def nvidia_entries() -> Iterator[CatalogueEntry]:
    """Machines with V100 to B200, and those whose GPUs have no NVSwitch."""
    yield from _volta()
    yield from _ampere()
    yield from _hopper()
    yield from _blackwell()
    yield from _without_switch()


def _dgx1_cables(box: Box) -> Box:
    rows = DGX1_NVLINKS
    cables = [(a, b, int(rows[a][b])) for a in range(8) for b in range(a + 1, 8) if rows[a][b] != "0"]
    return with_cables(box, cables, VOLTA, "nvlink", NVLINK_LATENCY)


def _volta() -> Iterator[CatalogueEntry]:
    cube = "hybrid cube mesh: msccl-tools topologies/nvidia.py, TE-CCL"
    yield CatalogueEntry.of(
        "dgx1-v100-box",
        "NVIDIA DGX-1: 8 V100 in a hybrid cube mesh, 4 PCIe switches, 4 NICs of 100 Gb/s",
        (cube, "switches of 2 GPUs and 1 NIC, 2 per Broadwell socket: UNVERIFIED, from memory", *_COMMON),
        lambda: _dgx1_cables(tree(pairs_under_switches(2, 2, 1, GEN3), BROADWELL, 2, GEN3, NIC_100G)),
        ((0, 1, 2, 3),),
    )
    yield CatalogueEntry.of(
        "ndv2-box",
        "Azure NDv2: 8 V100 in a hybrid cube mesh, GPUs on the CPUs, 1 NIC of 100 Gb/s",
        (cube, "layout: Azure ndv2-topo.xml, whose 16 GT/s are not believed: V100 is Gen3", *_COMMON),
        lambda: _dgx1_cables(
            tree([Branch("cpu0", (0, 1, 2, 3), 1), Branch("cpu1", (4, 5, 6, 7))], SKYLAKE, 2, GEN3, NIC_100G)
        ),
    )
    yield CatalogueEntry.of(
        "dgx2-box",
        "NVIDIA DGX-2: 16 V100 on NVSwitch, 8 NICs of 100 Gb/s",
        (
            "125 of 150 GB/s per GPU and 8 NICs: TACCL, TE-CCL",
            "switches of 2 GPUs and 1 NIC, 4 per Skylake socket: UNVERIFIED, from memory",
            *_COMMON,
        ),
        lambda: with_ports(tree(pairs_under_switches(2, 4, 1, GEN3), SKYLAKE, 2, GEN3, NIC_100G), 6, VOLTA_SWITCHED),
    )


def _ndv4(links: int) -> Box:
    """4 NUMA nodes of EPYC, each with one switch of 2 GPUs and 2 NICs."""
    return with_ports(tree(pairs_under_switches(4, 1, 2, GEN4), EPYC, 4, GEN4, NIC_200G), links, AMPERE)


def _p4d() -> Box:
    box = tree(pairs_under_switches(2, 2, 1, GEN3), SKYLAKE, 2, GEN3, NIC_100G)
    return with_ports(box, 12, AMPERE)


def _ampere() -> Iterator[CatalogueEntry]:
    layout = "layout: Azure ndv4-topo.xml; NICs 200 Gb/s (ForestColl), 23.5 GB/s achievable (SimAI, CX6)"
    yield CatalogueEntry.of(
        "a100-box",
        "NVIDIA DGX A100, Azure NDv4: 8 A100 on NVSwitch, 4 PCIe switches, 8 NICs of 200 Gb/s",
        (layout, *_COMMON),
        lambda: _ndv4(12),
    )
    yield CatalogueEntry.of(
        "a800-box",
        "8 A800 (8 NVLinks per GPU) in the layout of a DGX A100",
        (layout, "8 NVLinks: NCCL, SimAI; that the layout is that of A100: UNVERIFIED", *_COMMON),
        lambda: _ndv4(8),
    )
    yield CatalogueEntry.of(
        "p4d-box",
        "AWS p4d.24xlarge: 8 A100 on NVSwitch, 4 Gen3 switches, 4 EFA NICs of 100 Gb/s",
        (
            "layout and Gen3: aws-ofi-nccl p4d-24xl-topo.xml; NICs: ml-engineering",
            "whether devices reach each other across the CPU is not said",
            *_COMMON,
        ),
        _p4d,
    )
    yield CatalogueEntry.of(
        "ncv4-box",
        "Azure NC96ads A100 v4: 4 A100 PCIe, one per NUMA node, no NVLink in the file",
        ("layout: Azure ncv4-topo.xml (its only NIC has no GPUDirect: left out)", *_COMMON),
        lambda: tree([Branch(f"cpu{k}", (k,)) for k in range(4)], EPYC, 4, GEN4, sockets=1),
    )
    yield CatalogueEntry.of(
        "a40-box",
        "8 A40 with NVLink bridges in pairs, 8 NICs of 200 Gb/s",
        (
            "bridge of 4 x 14.0625 GB/s: GA102; Gen4 x16",
            "4 GPUs per socket is inferred; a switch per pair, one NIC per GPU and EPYC: UNVERIFIED",
            *_COMMON,
        ),
        lambda: with_cables(
            tree(pairs_under_switches(2, 2, 2, GEN4), EPYC, 2, GEN4, NIC_200G),
            edges("0-1:4 2-3:4 4-5:4 6-7:4"),
            BRIDGE,
            "nvlink",
            NVLINK_LATENCY,
        ),
        ((0, 1),),
    )


def _ndv5(links: int) -> Box:
    """2 sockets of Sapphire Rapids, a Gen5 switch of 1 GPU and 1 NIC per GPU."""
    return with_ports(tree(own_switches(2, 4, GEN5), SAPPHIRE_RAPIDS, 2, GEN5, NIC_400G), links, HOPPER)


def _hopper() -> Iterator[CatalogueEntry]:
    layout = "layout: Azure ndv5-topo.xml; NICs 400 Gb/s, 48.5 GB/s achievable (SimAI, CX7)"
    for name, what, links, more in (
        ("h100-box", "NVIDIA HGX H100, Azure NDv5: 8 H100", 18, ()),
        ("h200-box", "NVIDIA HGX H200: 8 H200", 18, ()),
        ("h800-box", "8 H800 (8 NVLinks per GPU)", 8, ("8 NVLinks: NCCL, SimAI; the layout as for H100: UNVERIFIED",)),
        ("h20-box", "8 H20", 18, ("18 NVLinks: 450 GB/s; the layout as for H100: UNVERIFIED",)),
    ):
        yield CatalogueEntry.of(
            name,
            f"{what} on NVSwitch, 8 Gen5 switches of 1 GPU and 1 NIC of 400 Gb/s",
            (layout, *more, *_COMMON),
            partial(_ndv5, links),
        )


def _grace(trays: int) -> Box:
    """Trays of 2 Grace and 4 GPUs on one NVLink domain; NVLink-C2C to host memory, NICs that no PCIe port limits.

    The NICs' way to the GPUs is C2C and PCIe of Grace, both far wider than a NIC: it is left out.
    """
    cpus = [f"cpu{k}" for k in range(2 * trays)]
    # GB300: 359 and 377 GB/s to and from host memory alone, about 175 each together (ml-engineering).
    numas = tuple(Numa(cpu, memory=exactly(350e9)) for cpu in cpus)
    gpus = tuple(Gpu(f"g{k}", parent=cpus[k // 2], host_link=Rate(450e9, 377e9), peer=False) for k in range(4 * trays))
    nics = tuple(Nic(f"nic{k}", parent=gpu.id, rate=NIC_400G) for k, gpu in enumerate(gpus))
    return with_ports(Box(gpus, numas, nics=nics), 18, BLACKWELL)


def _blackwell() -> Iterator[CatalogueEntry]:
    yield CatalogueEntry.of(
        "b200-box",
        "NVIDIA HGX B200: 8 B200 on NVSwitch, 4 Gen5 switches of 2 GPUs and 2 NICs of 400 Gb/s",
        ("switches of 2 GPUs and 2 NICs, 4 NICs per socket: dsvolk's B200 explorer; CPU as for H100", *_COMMON),
        lambda: with_ports(
            tree(pairs_under_switches(2, 2, 2, GEN5), SAPPHIRE_RAPIDS, 2, GEN5, NIC_400G), 18, BLACKWELL
        ),
    )
    grace = (
        "18 trays of 2 Grace and 4 GPUs, NICs 400 Gb/s per GPU: ml-engineering, fibermall (some vendors 800)",
        "C2C 450 GB/s: a secondary source; host memory 350 GB/s both ways together: as on GB300 (ml-engineering)",
        "no peer traffic through Grace is assumed: UNVERIFIED",
        _NVLINK,
    )
    yield CatalogueEntry.of(
        "gb200-tray-box", "One tray of GB200 NVL72: 2 Grace, 4 B200, 4 NICs of 400 Gb/s", grace, lambda: _grace(1)
    )
    yield CatalogueEntry.of(
        "gb200-nvl72-box",
        "GB200 NVL72: 36 Grace and 72 B200 in one NVLink domain, which counts as one host",
        grace,
        lambda: _grace(18),
    )


def _l40s(switched: bool) -> Box:
    """2 sockets with 1 card of two 200 Gb/s ports each: 2 GPUs on the CPU, or 4 below a switch."""
    per = 4 if switched else 2
    gpus = [tuple(range(per * c, per * c + per)) for c in range(2)]
    branches = [Branch(f"cpu{c}", gpus[c], 2, GEN4 if switched else None) for c in range(2)]
    box = tree(branches, SAPPHIRE_RAPIDS, 2, GEN4, NIC_200G)
    cards = tuple(replace(nic, card=f"card{k // 2}") for k, nic in enumerate(box.nics))
    return replace(box, nics=cards)


def _without_switch() -> Iterator[CatalogueEntry]:
    hairpin = "layout and dual-port NICs of 2 x 200 Gb/s: A. Chiao's notes (secondary); the CPU: UNVERIFIED"
    yield CatalogueEntry.of(
        "l40s-4-box",
        "4 L40S (2-2-4): GPUs and 2 dual-port NICs on the CPUs, no NVLink",
        (hairpin, *_COMMON),
        lambda: _l40s(False),
    )
    yield CatalogueEntry.of(
        "l40s-8-box",
        "8 L40S (2-2-8): 2 PCIe switches of 4 GPUs and a dual-port NIC, no NVLink",
        (hairpin, *_COMMON),
        lambda: _l40s(True),
    )
    yield CatalogueEntry.of(
        "rtx4090-8-box",
        "8 RTX 4090: 2 switches of 4 GPUs, no NVLink, no peer access (host memory only)",
        (
            "layout: nccl-tests issue 307 (Intel, 10 GB/s between sockets); its NIC's rate is not said: left out",
            *_COMMON,
        ),
        lambda: tree(
            [Branch("cpu0", (0, 1, 2, 3), 0, GEN4), Branch("cpu1", (4, 5, 6, 7), 0, GEN4)],
            SKYLAKE,
            2,
            GEN4,
            peer=False,
        ),
    )
    yield CatalogueEntry.of(
        "g5-48xl-box",
        "AWS g5.48xlarge: 8 A10G, 4 per socket, 1 NIC of 100 Gb/s, no NVLink",
        (
            "layout: inferred from aws-ofi-nccl g5.48xl-topo.xml, NIC on socket 1; EPYC and NIC rate UNVERIFIED",
            *_COMMON,
        ),
        lambda: tree([Branch("cpu0", (0, 1, 2, 3)), Branch("cpu1", (4, 5, 6, 7), 1)], EPYC, 2, GEN4, NIC_100G),
    )
