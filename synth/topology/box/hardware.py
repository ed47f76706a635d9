"""What parts reach: PCIe generations, NVLink and xGMI per link, sockets between CPUs.

Rates are bytes/second per direction. "Achievable" are the constants of NCCL's graph model (NVIDIA/nccl
src/graph/topo.h) and RCCL's (ROCm/rccl topo.h), "nominal" those of the standard or the vendor. What GPUs have stands
in :mod:`synth.topology.box.gpus`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

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


@dataclass(frozen=True, slots=True)
class Rate:
    """A link's rate as sold and as reached, bytes/second per direction.

    Attributes
    ----------
    nominal_known
        Whether ``nominal`` is what the standard or the vendor says; if not, the achievable rate stands for it.
    """

    nominal: float
    achievable: float
    nominal_known: bool = True

    @property
    def efficiency(self) -> float:
        """Achievable share, in (0, 1]."""
        return min(1.0, self.achievable / self.nominal)

    def times(self, count: float) -> Rate:
        """Rate of ``count`` such links together."""
        return Rate(self.nominal * count, self.achievable * count, self.nominal_known)


def exactly(rate: float) -> Rate:
    """Rate whose nominal value is reached, or of which no other is known."""
    return Rate(rate, rate)


def achieved(rate: float) -> Rate:
    """Rate of NCCL's or RCCL's tables, of which no nominal value is known."""
    return Rate(rate, rate, nominal_known=False)


def slowest(*rates: Rate) -> Rate:
    """Rate of links in a row."""
    narrow = min(rates, key=lambda rate: rate.nominal)
    return Rate(narrow.nominal, min(rate.achievable for rate in rates), narrow.nominal_known)


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


#: RCCL's xGMI per link; for 906 and 908 no nominal rate is in our sources.
_XGMI = MappingProxyType(
    {
        "906": achieved(24e9),
        "908": achieved(24e9),
        "910": Rate(50e9, 36e9),
        "90a": Rate(50e9, 36e9),
        "940": Rate(64e9, 48e9),
        "941": Rate(64e9, 48e9),
        "942": Rate(64e9, 48e9),
        # RCCL has 48 GB/s for gfx95x (GFX95X_XGMI_WIDTH); 153.6 GB/s both ways are 76.8 each.
        "950": Rate(76.8e9, 48e9),
    }
)


def xgmi_of(gcn: str) -> Rate | None:
    """Rate of one xGMI link by the ``gcn`` of RCCL's files (``906``, ``gfx942``)."""
    return _XGMI.get(gcn.removeprefix("gfx"))


def socket_of(arch: str, vendor: str, family: int | None, model: int | None) -> Rate | None:
    """Rate between two NUMA nodes by the CPU (NCCL topo.h); None if the CPU is not known."""
    if arch == "ppc64":
        return achieved(32e9)
    if arch == "arm64":
        return achieved(6e9)
    if vendor == "AuthenticAMD":
        return achieved(16e9)
    if vendor in ("CentaurHauls", "  Shanghai  "):
        return achieved(6e9)
    if vendor != "GenuineIntel" or family is None or model is None:
        return None
    if family != 6:
        return achieved(6e9)
    steps = ((0xCF, 40e9), (0x8F, 22e9), (0x55, 10e9))
    return achieved(next((rate for low, rate in steps if model >= low), 6e9))
