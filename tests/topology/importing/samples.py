"""Samples of the import tests: our own small files, the shared real ones, and XML that is written here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from synth.errors import InvalidInputError
from synth.topology import Topology, import_topology
from tests import places

SAMPLES = places.SAMPLES
SHARED = places.SHARED
PASTED = SAMPLES / "pasted"
needs_shared = pytest.mark.skipif(not SHARED.exists(), reason="the shared samples are not here")


def attempt(path: Path, kind: str | None = None, **options: Any) -> tuple[Topology | None, tuple[str, ...]]:
    """The imported topology, or None and the faults."""
    try:
        return import_topology(path, kind, **options), ()
    except InvalidInputError as error:
        return None, error.faults


def xgmi_xml(gpus: int, cables: Mapping[tuple[int, int], int], order: list[int], gcn: str = "910") -> str:
    """RCCL topology XML of GPUs that hang on one CPU; GPU ``i`` is the ``order[i]``-th of the file and in rank."""
    bus = {i: f"0000:{0x10 + order[i]:02x}:00.0" for i in range(gpus)}
    rows = []
    for i in sorted(range(gpus), key=order.__getitem__):
        links = {b if a == i else a: n for (a, b), n in cables.items() if i in (a, b)}
        xgmi = "".join(f'<xgmi target="{bus[j]}" count="{n}" tclass="0x038000"/>\n' for j, n in links.items())
        rows.append(
            f'<pci busid="{bus[i]}" class="0x038000" link_speed="16.0 GT/s PCIe" link_width="16">\n'
            f'<gpu dev="{order[i]}" sm="104" gcn="{gcn}" rank="{order[i]}" gdr="1">\n{xgmi}</gpu>\n</pci>\n'
        )
    cpu = '<cpu numaid="0" arch="x86_64" vendor="AuthenticAMD" familyid="143" modelid="49">\n'
    return f'<system version="2">\n{cpu}{"".join(rows)}</cpu>\n</system>\n'


def matrix(cells: str, gpus: int, affinity: str = "0-31\t0\t\tN/A", host: str = "") -> str:
    """Matrix of GPUs with one kind of cell between all of them."""
    head = "\t" + "".join(f"GPU{i}\t" for i in range(gpus)) + "CPU Affinity\tNUMA Affinity\tGPU NUMA ID\n"
    rows = (
        f"GPU{i}\t" + "".join(f"{' X ' if i == j else cells}\t" for j in range(gpus)) + f"{affinity}\n"
        for i in range(gpus)
    )
    return host + head + "".join(rows)


def given_file(folder: Path, text: str, name: str = "smi.txt") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def count(topology: Topology, kind: str) -> int:
    return sum(node.kind == kind for node in topology.nodes)


def between(topology: Topology) -> Counter[tuple[int, int]]:
    """Scale-up links of each pair of ranks, one way."""
    rank = {topology.gpu_name(k): k for k in range(len(topology.gpus))}
    found = ((rank.get(k.src, -1), rank.get(k.dst, -1)) for k in topology.links if k.kind in ("nvlink", "xgmi"))
    return Counter((a, b) for a, b in found if 0 <= a < b)


def to_switch(topology: Topology) -> Counter[float]:
    """Rates of scale-up links from GPUs to a switch, GB/s."""
    return Counter(k.bandwidth / 1e9 for k in topology.links if k.kind == "nvlink" and k.dst.endswith("nvsw"))


def no_scale_up(topology: Topology) -> bool:
    return not any(link.kind in ("nvlink", "xgmi") for link in topology.links)


def noted(topology: Topology, *texts: str) -> bool:
    return all(any(text in note for note in topology.notes) for text in texts)
