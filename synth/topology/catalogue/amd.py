"""Boxes with AMD GPUs, and two of RCCL's models in which PCIe alone joins the GPUs."""

from __future__ import annotations

from collections.abc import Iterator

from synth.topology.box.hardware import Rate, exactly
from synth.topology.box.parts import Box
from synth.topology.catalogue.entry import CatalogueEntry
from synth.topology.catalogue.layout import (
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
    mesh,
    own_switches,
    passing,
    tree,
    with_cables,
)
from synth.topology.catalogue.scale_up import MI250_XGMI

MI200, MI300, MI350, VEGA = Rate(50e9, 36e9), Rate(64e9, 48e9), exactly(76.5e9), exactly(24e9)
_COMMON = (PCIE_SOURCE, CPU_SOURCE, MEMORY_SOURCE)
#: GCDs of each NUMA node in the numbers of mi250-16; RCCL's topo_16p1h.xml numbers them 4..7, 0..3, 12..15, 8..11.
_MI250_NUMAS = ((4, 5, 6, 7), (0, 1, 2, 3), (12, 13, 14, 15), (8, 9, 10, 11))


def amd_entries() -> Iterator[CatalogueEntry]:
    """Machines with MI50 to MI355X, and PCIe-only ones."""
    yield from _instinct()
    yield from _mesh()
    yield from _rings()
    yield from _pcie_only()


def _mi250() -> Box:
    """Per NUMA node one x16 switch above two more, each with 2 GCDs of 8 lanes and a NIC."""
    branches: list[Branch] = []
    for numa, gcds in enumerate(_MI250_NUMAS):
        top = f"pcie{3 * numa}"
        branches.append(Branch(f"cpu{numa}", uplink=GEN4))
        branches += (Branch(top, gcds[k : k + 2], 1, GEN4) for k in (0, 2))
    box = tree(branches, EPYC, 4, GEN4.times(0.5), NIC_200G, card=GEN4)
    return passing(with_cables(box, edges(MI250_XGMI), MI200, "xgmi"))


def _instinct() -> Iterator[CatalogueEntry]:
    yield CatalogueEntry.of(
        "mi250-16-box",
        "8 MI250: 16 GCDs, 7 xGMI links per GCD, 8 NICs of 200 Gb/s behind 3 switches per NUMA node",
        (
            "xGMI counts: ForestColl, TE-CCL; layout: RCCL topo_16p1h.xml",
            "xGMI 50 GB/s nominal, 36 achievable (RCCL topo.h)",
            *_COMMON,
        ),
        _mi250,
    )
    yield CatalogueEntry.of(
        "mi250-8-box",
        "4 MI250: 8 GCDs on one CPU, 3 xGMI links per GCD, no NIC",
        ("RCCL topo_8p_90a.xml; its NIC (0.1 GB/s, no GPUDirect) is left out", *_COMMON),
        lambda: passing(
            with_cables(
                tree([Branch("cpu0", tuple(range(8)))], EPYC, 1, GEN4, sockets=1),
                edges("0-1 0-2 0-6 1-3 1-5 2-3 2-4 3-7 4-5 4-6 5-7 6-7"),
                MI200,
                "xgmi",
            )
        ),
    )


def _mi300(rate: Rate) -> Box:
    box = tree(own_switches(2, 4, GEN5), SAPPHIRE_RAPIDS, 2, GEN5, NIC_400G)
    return passing(with_cables(box, mesh(range(8)), rate, "xgmi"))


def _mesh() -> Iterator[CatalogueEntry]:
    layout = "a Gen5 switch of 1 GPU and 1 NIC of 400 Gb/s per GPU, Sapphire Rapids: RCCL topo_8p_940.xml"
    rents = ((0, 1, 2, 3), (0, 1))
    yield CatalogueEntry.of(
        "mi300x-box",
        "8 MI300X in a full xGMI mesh, 8 Gen5 switches of 1 GPU and 1 NIC of 400 Gb/s",
        (layout, "xGMI 64 GB/s nominal (ml-engineering), 48 achievable (RCCL topo.h)", *_COMMON),
        lambda: _mi300(MI300),
        rents,
    )
    yield CatalogueEntry.of(
        "mi355x-box",
        "8 MI350 or MI355X in a full xGMI mesh, laid out as MI300X",
        (f"{layout}: for MI300X, here UNVERIFIED", "xGMI 76.5 GB/s per link, achievable not known", *_COMMON),
        lambda: _mi300(MI350),
        rents,
    )


def _rings() -> Iterator[CatalogueEntry]:
    halves = [Branch("cpu0", (0, 1, 2, 3)), Branch("cpu1", (4, 5, 6, 7), 1)]
    xgmi = "xGMI 24 GB/s: RCCL topo.h, nominal not known"
    yield CatalogueEntry.of(
        "mi50-8-box",
        "8 MI50 in two separate xGMI rings, 1 NIC of 200 Gb/s: PCIe joins the rings",
        ("RCCL topo_8p_rome.xml", xgmi, *_COMMON),
        lambda: with_cables(
            tree(halves, EPYC, 2, GEN4, NIC_200G), edges("0-1 0-3 1-5 3-5 2-4 2-6 4-7 6-7"), VEGA, "xgmi"
        ),
        ((0, 1, 3, 5),),
    )
    missing = {(0, 5), (1, 4), (2, 7), (3, 6)}
    yield CatalogueEntry.of(
        "mi100-8-box",
        "8 MI100, 6 xGMI links per GPU, 1 NIC of 200 Gb/s",
        ("RCCL topo_8p6l.xml", xgmi, *_COMMON),
        lambda: with_cables(
            tree(halves, EPYC, 2, GEN4, NIC_200G),
            [cable for cable in mesh(range(8)) if cable[:2] not in missing],
            VEGA,
            "xgmi",
        ),
    )
    yield CatalogueEntry.of(
        "mi100-4-box",
        "4 MI100 in a full xGMI mesh under one Gen3 switch",
        ("RCCL topo_4p3l.xml; its NIC (1.25 GB/s, no GPUDirect) is left out; CPU UNVERIFIED", xgmi, *_COMMON),
        lambda: with_cables(
            tree([Branch("cpu0", (0, 1, 2, 3), 0, GEN3)], SKYLAKE, 1, GEN3, sockets=1), mesh(range(4)), VEGA, "xgmi"
        ),
    )


def _pcie_only() -> Iterator[CatalogueEntry]:
    yield CatalogueEntry.of(
        "pcie-8-box",
        "8 GPUs without scale-up links: 2 Gen3 switches of 4, 1 NIC of 100 Gb/s",
        ("RCCL topo_8p_pcie.xml; CPU (an Intel) UNVERIFIED", *_COMMON),
        lambda: tree(
            [Branch("cpu0", (0, 1, 2, 3), 1, GEN3), Branch("cpu0", (4, 5, 6, 7), 0, GEN3)],
            SKYLAKE,
            1,
            GEN3,
            NIC_100G,
            sockets=1,
        ),
    )
    yield CatalogueEntry.of(
        "pcie-3-box",
        "3 GPUs without scale-up links on 2 NUMA nodes, 1 NIC of 200 Gb/s",
        ("RCCL topo_3p_pcie.xml", *_COMMON),
        lambda: tree([Branch("cpu0", (0,), 1), Branch("cpu1", (1, 2))], EPYC, 2, GEN4, NIC_200G),
    )
