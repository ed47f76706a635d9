"""What parts reach: PCIe generations, NVLink and xGMI per link, sockets between CPUs, GPU models.

Rates are bytes/second per direction. "Achievable" are the constants of NCCL's graph model (NVIDIA/nccl
src/graph/topo.h) and RCCL's (ROCm/rccl topo.h), "nominal" those of the standard or the vendor.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from synth.topology.elements import LinkKind

#: Seconds. A device's PCIe port is half of NCCL's PCI hop of 1.0 us, a switch port half of its NVLink hop of 0.6 us
#: (tuning.cc, LL); the xGMI hop is RCCL's.
PCIE_LATENCY = 0.5e-6
NVLINK_LATENCY = 0.6e-6
XGMI_LATENCY = 0.8e-6
#: Peer traffic through an Intel CPU costs 6/5 of its bytes (NCCL topo.h, INTEL_P2P_OVERHEAD).
INTEL_PEER_FACTOR = 1.2

#: GT/s of a PCIe lane to NCCL's achievable GB/s of 16 lanes (topo.cc: 15 to 480 x 100 Mb/s per lane).
_PCIE_ACHIEVABLE = MappingProxyType({2.5: 3e9, 5.0: 6e9, 8.0: 12e9, 16.0: 24e9, 32.0: 48e9, 64.0: 96e9})
#: GT/s of each PCIe generation.
PCIE_GENERATIONS: Mapping[str, float] = MappingProxyType({"gen3": 8.0, "gen4": 16.0, "gen5": 32.0, "gen6": 64.0})

Wiring = Literal["switch", "mesh", "none", "unknown"]


@dataclass(frozen=True, slots=True)
class Rate:
    """A link's rate as sold and as reached, bytes/second per direction."""

    nominal: float
    achievable: float

    @property
    def efficiency(self) -> float:
        """Achievable share, in (0, 1]."""
        return min(1.0, self.achievable / self.nominal)

    def times(self, count: float) -> Rate:
        """Rate of ``count`` such links together."""
        return Rate(self.nominal * count, self.achievable * count)


def exactly(rate: float) -> Rate:
    """Rate whose nominal value is reached, or of which no other is known."""
    return Rate(rate, rate)


def slowest(*rates: Rate) -> Rate:
    """Rate of links in a row."""
    return Rate(min(rate.nominal for rate in rates), min(rate.achievable for rate in rates))


def pcie_rate(gigatransfers: float, lanes: int) -> Rate | None:
    """Rate of a PCIe link; None if there is no such generation.

    Nominal is what line coding leaves (8b/10b up to 5 GT/s, then 128b/130b; FLIT mode at 64 GT/s 242/256).
    """
    achievable = _PCIE_ACHIEVABLE.get(gigatransfers)
    if achievable is None:
        return None
    coding = 0.8 if gigatransfers <= 5 else 128 / 130 if gigatransfers <= 32 else 242 / 256
    return Rate(gigatransfers * 1e9 * lanes * coding / 8, achievable * lanes / 16)


#: Lowest compute capability (times 10): NVLink rate per link, most links of a GPU (NCCL topo.h and topo.cc).
_NVLINK = (
    (100, Rate(50e9, 40.1e9), 18),
    (90, Rate(25e9, 20.6e9), 18),
    (86, Rate(14.0625e9, 12e9), 12),
    (80, Rate(25e9, 20e9), 12),
    (70, Rate(25e9, 20e9), 6),
    (60, Rate(20e9, 18e9), 4),
)


def nvlink_of(sm: int) -> tuple[Rate, int] | None:
    """Rate of one NVLink and the most links of a GPU of compute capability ``sm / 10``; None below 6.0."""
    # 8.7 to 8.9 are Orin and Ada, which have no NVLink; a file that lists some there is not believed.
    if sm in (87, 88, 89):
        return None
    return next(((rate, most) for low, rate, most in _NVLINK if sm >= low), None)


#: RCCL's xGMI per link; for 906 and 908 no nominal rate is in our sources, so RCCL's stands for both.
_XGMI = MappingProxyType(
    {
        "906": exactly(24e9),
        "908": exactly(24e9),
        "910": Rate(50e9, 36e9),
        "90a": Rate(50e9, 36e9),
        "940": Rate(64e9, 48e9),
        "941": Rate(64e9, 48e9),
        "942": Rate(64e9, 48e9),
    }
)


def xgmi_of(gcn: str) -> Rate | None:
    """Rate of one xGMI link by the ``gcn`` of RCCL's files (``906``, ``gfx942``)."""
    return _XGMI.get(gcn.removeprefix("gfx"))


def socket_of(arch: str, vendor: str, family: int | None, model: int | None) -> Rate | None:
    """Rate between two NUMA nodes by the CPU (NCCL topo.h); None if the CPU is not known."""
    if arch == "ppc64":
        return exactly(32e9)
    if arch == "arm64":
        return exactly(6e9)
    if vendor == "AuthenticAMD":
        return exactly(16e9)
    if vendor in ("CentaurHauls", "  Shanghai  "):
        return exactly(6e9)
    if vendor != "GenuineIntel" or family is None or model is None:
        return None
    if family != 6:
        return exactly(6e9)
    steps = ((0xCF, 40e9), (0x8F, 22e9), (0x55, 10e9))
    return exactly(next((rate for low, rate in steps if model >= low), 6e9))


@dataclass(frozen=True, slots=True)
class GpuModel:
    """What a GPU's name says beyond a topology file.

    Attributes
    ----------
    link, links, kind
        One scale-up link, links of the GPU, and what they are; None and 0 for a GPU without.
    wiring
        How the links of a whole box go: to a switch, one to each other GPU, or not to be told from the name.
    pcie
        GT/s of its PCIe port, 16 lanes.
    peer
        Whether its driver lets other devices read and write it over PCIe.
    """

    name: str
    link: Rate | None
    links: int
    kind: LinkKind
    wiring: Wiring
    pcie: float
    peer: bool = True


def gpu_models() -> Mapping[str, GpuModel]:
    """GPUs that ``--gpu`` knows, by name.

    Link counts: NVIDIA's and AMD's data sheets by way of NCCL topo.h, RCCL's topo_expl models and ml-engineering.
    """
    hopper, ampere, blackwell = Rate(25e9, 20.6e9), Rate(25e9, 20e9), Rate(50e9, 40.1e9)
    bridge, mi200, mi300 = Rate(14.0625e9, 12e9), Rate(50e9, 36e9), Rate(64e9, 48e9)
    models = (
        GpuModel("p100", Rate(20e9, 18e9), 4, "nvlink", "unknown", 8.0),
        GpuModel("v100", ampere, 6, "nvlink", "unknown", 8.0),
        GpuModel("a100", ampere, 12, "nvlink", "switch", 16.0),
        GpuModel("a800", ampere, 8, "nvlink", "switch", 16.0),
        GpuModel("h100", hopper, 18, "nvlink", "switch", 32.0),
        GpuModel("h200", hopper, 18, "nvlink", "switch", 32.0),
        GpuModel("h20", hopper, 18, "nvlink", "switch", 32.0),
        GpuModel("h800", hopper, 8, "nvlink", "switch", 32.0),
        GpuModel("b200", blackwell, 18, "nvlink", "switch", 32.0),
        GpuModel("a40", bridge, 4, "nvlink", "unknown", 16.0),
        GpuModel("rtx3090", bridge, 4, "nvlink", "unknown", 16.0),
        GpuModel("a10g", None, 0, "nvlink", "none", 16.0),
        GpuModel("l20", None, 0, "nvlink", "none", 16.0),
        GpuModel("l40s", None, 0, "nvlink", "none", 16.0),
        # Its stock driver refuses peer access; a patched one allows it (tinygrad open-gpu-kernel-modules).
        GpuModel("rtx4090", None, 0, "nvlink", "none", 16.0, peer=False),
        GpuModel("mi50", exactly(24e9), 2, "xgmi", "unknown", 16.0),
        GpuModel("mi100", exactly(24e9), 6, "xgmi", "unknown", 16.0),
        GpuModel("mi210", mi200, 3, "xgmi", "unknown", 16.0),
        GpuModel("mi250", mi200, 7, "xgmi", "unknown", 16.0),
        GpuModel("mi300x", mi300, 7, "xgmi", "mesh", 32.0),
    )
    return MappingProxyType({model.name: model for model in models})
