"""Samples of the import tests: our own small files, the shared real ones, and XML that is written here."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from synth.errors import InvalidInputError
from synth.topology import Topology, import_topology
from tests import places

SAMPLES = places.SAMPLES
SHARED = places.SHARED
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
