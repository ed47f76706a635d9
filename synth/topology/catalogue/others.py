"""Boxes with accelerators of other vendors. Their "achievable" rates are not known: nominal ones stand for both."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from math import prod

from synth.topology.box.hardware import exactly
from synth.topology.box.parts import Box
from synth.topology.catalogue.entry import CatalogueEntry
from synth.topology.catalogue.layout import (
    ARM,
    CPU_SOURCE,
    EPYC,
    GEN4,
    GEN5,
    MEMORY_SOURCE,
    NIC_200G,
    NIC_400G,
    PCIE_SOURCE,
    SAPPHIRE_RAPIDS,
    Branch,
    bare,
    edges,
    grid,
    mesh,
    own_switches,
    tree,
    with_cables,
    with_chip_nics,
    with_ports,
)

_COMMON = (PCIE_SOURCE, CPU_SOURCE, MEMORY_SOURCE)
_TPU = "rates per link and PCIe: jax scaling-book; 25 GB/s of network per host"


def other_entries() -> Iterator[CatalogueEntry]:
    """Ascend, Gaudi, Biren, Cambricon, Moore Threads, Maia, Trainium, TPU."""
    yield from _ascend()
    yield from _ethernet()
    yield from _chinese()
    yield from _tori()


def _ascend910() -> Box:
    box = tree([Branch("cpu0", (0, 1, 2, 3)), Branch("cpu1", (4, 5, 6, 7))], ARM, 2, GEN4)
    box = with_chip_nics(box, 1, exactly(12.5e9))
    return with_cables(box, mesh(range(4)) + mesh(range(4, 8)), exactly(30e9), "net")


def _ascend910b() -> Box:
    socket_pairs = ((0, 2), (1, 3), (4, 6), (5, 7))
    box = tree([Branch(f"cpu{k}", pair) for k, pair in enumerate(socket_pairs)], ARM, 4, GEN4, sockets=4)
    box = with_chip_nics(box, 1, exactly(25e9))
    return with_cables(box, mesh(range(8)), exactly(28e9), "net")


def _ascend() -> Iterator[CatalogueEntry]:
    yield CatalogueEntry.of(
        "ascend910-box",
        "Ascend 910 (2019): two meshes of 4 NPUs over HCCS, PCIe between, a 100 Gb/s RoCE port per NPU",
        (
            "groups: hiascend, Huawei CCE; HCCS 30 GB/s per port, 2 x 100 Gb/s on the chip, Gen4: Hot Chips 31",
            "that one of the two ports is used, and a CPU per group: UNVERIFIED",
            *_COMMON,
        ),
        _ascend910,
        ((0, 1, 2, 3),),
    )
    yield CatalogueEntry.of(
        "ascend910b-box",
        "Ascend 910B: 8 NPUs in a full HCCS mesh, a 200 Gb/s RoCE NIC on each, 4 Kunpeng 920",
        (
            "HCCS 56 GB/s both ways per pair, 8 x 200 Gb/s, sockets of NPUs {0,2} {1,3} {4,6} {5,7}: A. Chiao's notes",
            "28 per direction and NICs on the chip: inferred; Gen4 x16: UNVERIFIED",
            *_COMMON,
        ),
        _ascend910b,
        ((0, 2, 4, 6), (0, 2)),
    )


def _ethernet() -> Iterator[CatalogueEntry]:
    habana = "docs.habana.ai; its PCIe is not in a source: left out"
    yield CatalogueEntry.of(
        "gaudi2-box",
        "8 Gaudi2: 3 x 100 Gb/s to each peer, 3 x 100 Gb/s to the network, all on the chip",
        (habana,),
        lambda: with_chip_nics(with_cables(bare(8), mesh(range(8), 3), exactly(12.5e9), "net"), 3, exactly(12.5e9)),
    )
    yield CatalogueEntry.of(
        "gaudi3-box",
        "8 Gaudi3: 3 x 200 Gb/s to each peer, 3 x 200 Gb/s to the network, all on the chip",
        (habana,),
        lambda: with_chip_nics(with_cables(bare(8), mesh(range(8), 3), exactly(25e9), "net"), 3, exactly(25e9)),
    )
    yield CatalogueEntry.of(
        "maia100-box",
        "4 Maia 100: 3 x 400 Gb/s to each peer, 3 x 400 Gb/s to the network",
        ("glennklockwood, hostzealot; where its PCIe (Gen5 x8) leads is not in a source: left out",),
        lambda: with_chip_nics(with_cables(bare(4), mesh(range(4), 3), exactly(50e9), "net"), 3, exactly(50e9)),
    )


def _chinese() -> Iterator[CatalogueEntry]:
    yield CatalogueEntry.of(
        "br100-box",
        "8 Biren BR100 in a full BLink mesh, 8 Gen5 switches of 1 GPU and 1 NIC of 400 Gb/s",
        (
            "BLink 32 GB/s per direction, Gen5 x16: chipsandcheese; 8 OAM directly joined: hardwareluxx",
            "7 of 8 links for the mesh is inferred; switches, NICs and CPU: UNVERIFIED",
            *_COMMON,
        ),
        lambda: with_cables(
            tree(own_switches(2, 4, GEN5), SAPPHIRE_RAPIDS, 2, GEN5, NIC_400G), mesh(range(8)), exactly(32e9), "net"
        ),
        ((0, 1, 2, 3), (0, 1)),
    )
    yield CatalogueEntry.of(
        "mlu370-x8-box",
        "8 Cambricon MLU370-X8 cards, bridged in groups of 4, a NIC of 200 Gb/s per card",
        (
            "200 GB/s both ways per card, groups of 4, Gen4 x16: release coverage",
            "two bridges of 50 GB/s per direction in a ring, a switch per two cards with 2 NICs, CPU: UNVERIFIED",
            *_COMMON,
        ),
        lambda: with_cables(
            tree([Branch(f"cpu{k // 2}", (2 * k, 2 * k + 1), 2, GEN4) for k in range(4)], EPYC, 2, GEN4, NIC_200G),
            edges("0-1 1-2 2-3 0-3 4-5 5-6 6-7 4-7"),
            exactly(50e9),
            "net",
        ),
        ((0, 1, 2, 3),),
    )
    yield CatalogueEntry.of(
        "mtt-s4000-box",
        "8 Moore Threads S4000 (KUAE D800) on MTLink",
        ("120 GB/s per direction and card: UNVERIFIED, from memory; wiring, PCIe and NICs not in a source",),
        lambda: with_ports(bare(8), 1, exactly(120e9)),
    )


def _tpu_hosts(dims: tuple[int, ...], wrap: bool, rate: float, per_host: int, port: float) -> Box:
    """Chips in a mesh or torus; each host has some of them on its PCIe, and one NIC that works from host memory."""
    hosts = prod(dims) // per_host
    branches = [Branch(f"cpu{k}", tuple(range(per_host * k, per_host * (k + 1))), 1) for k in range(hosts)]
    box = tree(branches, EPYC, hosts, exactly(port), exactly(25e9), card=GEN4, sockets=hosts, peer=False)
    # The hosts share nothing but the network: there is no link between their CPUs.
    alone = Box(box.gpus, box.numas, box.switches, box.nics)
    return with_cables(alone, grid(dims, wrap), exactly(rate), "net", 1e-6)


def _tori() -> Iterator[CatalogueEntry]:
    yield CatalogueEntry.of(
        "trn2-box",
        "16 Trainium2 in a 4x4 torus",
        ("128 GB/s per neighbour: ml-engineering; 4x4 is inferred; PCIe and NICs not in a source: left out",),
        lambda: with_cables(bare(16), grid((4, 4), True), exactly(128e9), "net"),
    )
    host = "chips per host, card and host memory: UNVERIFIED; staging only, no peer access assumed"
    for name, what, dims, wrap, rate, per_host, port in (
        ("tpu-v3-box", "4 TPU v3 of one host in a 2x2 mesh", (2, 2), False, 100e9, 4, 15e9),
        ("tpu-v5e-box", "8 TPU v5e of one host in a 2x4 mesh", (2, 4), False, 45e9, 8, 15e9),
        ("tpu-v6e-box", "8 TPU v6e of one host in a 2x4 mesh", (2, 4), False, 90e9, 8, 32e9),
        ("tpu-v4-box", "A cube of 4x4x4 TPU v4 (a torus), 16 hosts counted as one", (4, 4, 4), True, 45e9, 4, 15e9),
        ("tpu-v5p-box", "A cube of 4x4x4 TPU v5p (a torus), 16 hosts counted as one", (4, 4, 4), True, 90e9, 4, 15e9),
    ):
        yield CatalogueEntry.of(
            name,
            what,
            (_TPU, "1 us per hop", host),
            partial(_tpu_hosts, dims, wrap, rate, per_host, port),
        )
