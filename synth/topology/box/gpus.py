"""GPUs that ``--gpu`` knows: what a name says beyond a topology file, and the names that machines print for them."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from synth.errors import InvalidInputError
from synth.topology.box.hardware import Rate, achieved
from synth.topology.elements import LinkKind

Wiring = Literal["switch", "mesh", "bridge", "none", "unknown"]


@dataclass(frozen=True, slots=True)
class GpuModel:
    """What a GPU's name says beyond a topology file.

    Attributes
    ----------
    link, links, kind
        One scale-up link, links of the GPU, and what they are; None and 0 for a GPU without.
    wiring
        How the links of a whole box go: to a switch, one to each other GPU, over a bridge that a card may have or not
        (none is taken that the file does not state), or not to be told from the name.
    pcie
        GT/s of its PCIe port, 16 lanes.
    source
        Where the numbers are from; ``UNVERIFIED`` before those that no source confirms.
    peer
        Whether its driver lets other devices read and write it over PCIe.
    host
        NVLink-C2C to its CPU; None without.
    """

    name: str
    link: Rate | None
    links: int
    kind: LinkKind
    wiring: Wiring
    pcie: float
    source: str
    peer: bool = True
    host: Rate | None = None


_PASCAL, _VOLTA, _AMPERE = Rate(20e9, 18e9), Rate(25e9, 20e9), Rate(25e9, 20e9)
_GA102, _HOPPER, _BLACKWELL = Rate(14.0625e9, 12e9), Rate(25e9, 20.6e9), Rate(50e9, 40.1e9)
_VEGA, _MI200, _MI300, _MI350 = achieved(24e9), Rate(50e9, 36e9), Rate(64e9, 48e9), Rate(76.8e9, 48e9)
#: NVLink-C2C: 900 GB/s both ways together; 359 GB/s to the GPU are measured on a GB300 Station (377 back).
_C2C = Rate(450e9, 359e9)
_GEN3, _GEN4, _GEN5, _GEN6 = 8.0, 16.0, 32.0, 64.0
_TOPO_H = "NCCL topo.h"

_NVIDIA = (
    GpuModel("p100", _PASCAL, 4, "nvlink", "unknown", _GEN3, _TOPO_H),
    GpuModel("v100", _VOLTA, 6, "nvlink", "unknown", _GEN3, _TOPO_H),
    GpuModel("v100-pcie", None, 0, "nvlink", "none", _GEN3, "Dell reference guide: GPUs talk over PCIe, 16 GB/s"),
    GpuModel("t4", None, 0, "nvlink", "none", _GEN3, "PNY manual of the T4: PCIe Gen3 x16"),
    GpuModel("a100", _AMPERE, 12, "nvlink", "switch", _GEN4, _TOPO_H),
    GpuModel(
        "a100-pcie",
        _AMPERE,
        12,
        "nvlink",
        "bridge",
        _GEN4,
        "NVIDIA product brief PB-10137 (A100 PCIe): NVLink bridges, Gen4; UNVERIFIED: all 12 links go over the bridges",
    ),
    GpuModel("a800", _AMPERE, 8, "nvlink", "switch", _GEN4, "SimAI: 8 links"),
    GpuModel("a30", _AMPERE, 4, "nvlink", "bridge", _GEN4, "UNVERIFIED: 200 GB/s both ways over a bridge, PCIe Gen4"),
    GpuModel("a10", None, 0, "nvlink", "none", _GEN4, "sysrqmts.com: PCIe 4.0 x16"),
    GpuModel("a10g", None, 0, "nvlink", "none", _GEN4, "AWS g5 topology file"),
    GpuModel("a40", _GA102, 4, "nvlink", "bridge", _GEN4, "NVIDIA A40 data sheet: 112.5 GB/s both ways"),
    GpuModel("a6000", _GA102, 4, "nvlink", "bridge", _GEN4, "servethehome: 112.5 GB/s both ways, PCI Express 4.0 x16"),
    GpuModel("rtx3090", _GA102, 4, "nvlink", "bridge", _GEN4, "GA102 white paper: 4 links, 112.5 GB/s both ways"),
    GpuModel("l4", None, 0, "nvlink", "none", _GEN4, "sourcecode.com: PCI Express 4.0 x16"),
    GpuModel("l20", None, 0, "nvlink", "none", _GEN4, "NCCL dump of a server with L20"),
    GpuModel("l40s", None, 0, "nvlink", "none", _GEN4, "sourcecode.com: PCI Express 4.0 x16"),
    # Stock drivers of GeForce cards refuse peer access (nvidia-smi topo -p2p: CNS or GNS); a patched one allows it.
    GpuModel("rtx4090", None, 0, "nvlink", "none", _GEN4, "tinygrad open-gpu-kernel-modules", peer=False),
    GpuModel(
        "rtx5090",
        None,
        0,
        "nvlink",
        "none",
        _GEN5,
        "sipoch.com: PCI Express 5.0; a report's topo -p2p: GNS",
        peer=False,
    ),
    GpuModel("h100", _HOPPER, 18, "nvlink", "switch", _GEN5, _TOPO_H),
    GpuModel(
        "h100-pcie",
        _HOPPER,
        12,
        "nvlink",
        "bridge",
        _GEN5,
        "NVIDIA product brief PB-11133 (H100 PCIe): Gen5; UNVERIFIED: bridges of 600 GB/s both ways, 12 links",
    ),
    GpuModel(
        "h100-nvl",
        _HOPPER,
        12,
        "nvlink",
        "bridge",
        _GEN5,
        "aiminingco.com: bridge of 600 GB/s both ways; gpu.blog: Gen5",
    ),
    GpuModel("h200", _HOPPER, 18, "nvlink", "switch", _GEN5, "ml-engineering: 900 GB/s both ways"),
    GpuModel("h20", _HOPPER, 18, "nvlink", "switch", _GEN5, "UNVERIFIED: 18 links, as the H100"),
    GpuModel("h800", _HOPPER, 8, "nvlink", "switch", _GEN5, "SimAI: 8 links"),
    GpuModel(
        "gh200",
        _HOPPER,
        18,
        "nvlink",
        "unknown",
        _GEN5,
        "spheron.network: NVLink-C2C 900 GB/s both ways; achievable as on a GB300 Station; UNVERIFIED: PCIe",
        host=_C2C,
    ),
    GpuModel("b200", _BLACKWELL, 18, "nvlink", "switch", _GEN5, _TOPO_H),
    GpuModel(
        "b300",
        _BLACKWELL,
        18,
        "nvlink",
        "switch",
        _GEN6,
        "HGX B300: NVLink 5, 1.8 TB/s both ways (fibermall, acecloud); UNVERIFIED: PCIe Gen6 of the GPU's port",
    ),
    GpuModel(
        "gb200",
        _BLACKWELL,
        18,
        "nvlink",
        "switch",
        _GEN5,
        "GB200 NVL72: NVLink 5, 1.8 TB/s both ways; UNVERIFIED: C2C 450 GB/s per direction and GPU, PCIe Gen5",
        host=_C2C,
    ),
)
_AMD = (
    GpuModel("mi50", _VEGA, 2, "xgmi", "unknown", _GEN4, "RCCL topo.h and its models: 24 GB/s, no nominal rate"),
    GpuModel("mi100", _VEGA, 6, "xgmi", "unknown", _GEN4, "RCCL topo.h and its models: 24 GB/s, no nominal rate"),
    GpuModel("mi210", _MI200, 3, "xgmi", "unknown", _GEN4, "RCCL topo.h and its models"),
    GpuModel("mi250", _MI200, 7, "xgmi", "unknown", _GEN4, "RCCL topo.h and its models"),
    GpuModel("mi300x", _MI300, 7, "xgmi", "mesh", _GEN5, "RCCL topo.h and its models"),
    GpuModel(
        "mi325x",
        _MI300,
        7,
        "xgmi",
        "mesh",
        _GEN5,
        "wiaix.com: seven links, PCIe Gen5; UNVERIFIED: their rate, as MI300X's",
    ),
    GpuModel(
        "mi355x",
        _MI350,
        7,
        "xgmi",
        "mesh",
        _GEN5,
        "ml-engineering: 153.6 GB/s both ways per link; RCCL topo.h: 48 GB/s; UNVERIFIED: PCIe Gen5",
    ),
)
_MODELS: Mapping[str, GpuModel] = MappingProxyType({model.name: model for model in (*_NVIDIA, *_AMD)})

#: Words of printed names that do not tell GPUs apart: makers, families, memory, cooling, virtual functions.
_NOISE = re.compile(
    r"nvidia|amd|instinct|tesla|geforce|quadro|radeon|graphics|corporation|accelerator|gpu|tm|r|"
    r"[0-9]+gi?b|hbm[0-9]e?|sxm[0-9]?|oam|ac|lc|vf|hf"
)
#: Printed names, without those words, that are not spelled as here.
_ALIASES = MappingProxyType(
    {
        "rtxa6000": "a6000",
        "h203e": "h20",
        "mi60": "mi50",
        "mi250x": "mi250",
        "mi250xmi250": "mi250",
        "v100s": "v100-pcie",
        "v100spcie": "v100-pcie",
    }
)


def gpu_models() -> Mapping[str, GpuModel]:
    """GPUs that ``--gpu`` knows, by name."""
    return _MODELS


def find_gpu(text: str) -> GpuModel | None:
    """GPU of a name as ``--gpu`` or a machine has it.

    Parameters
    ----------
    text
        ``h100``, or what ``nvidia-smi -L`` and ``amd-smi`` print: ``NVIDIA H100 80GB HBM3``, ``Tesla V100-PCIE-16GB``,
        ``AMD Instinct MI300X``.

    Returns
    -------
    GpuModel or None
        None if the name is not known; a card's form counts: ``NVIDIA H100 PCIe`` is not ``h100``.
    """
    if text.strip().lower() in _MODELS:
        return _MODELS[text.strip().lower()]
    short = _short(text)
    by_short = {name.replace("-", ""): model for name, model in _MODELS.items()}
    return by_short.get(short) or _MODELS.get(_ALIASES.get(short, ""))


def gpu_named(text: str) -> GpuModel:
    """GPU of a name, as :func:`find_gpu`.

    Raises
    ------
    InvalidInputError
        The name is not known; the message says the nearest and all.
    """
    model = find_gpu(text)
    if model is None:
        near = difflib.get_close_matches(_short(text) or text.lower(), _MODELS, n=1)
        meant = f"perhaps {near[0]!r} is meant; " if near else ""
        raise InvalidInputError(
            f"gpu {text!r} is not known; {meant}known, also as machines print them: {', '.join(_MODELS)}"
        )
    return model


def _short(text: str) -> str:
    words = re.findall("[a-z0-9]+", text.lower())
    return "".join(word for word in words if not _NOISE.fullmatch(word))
