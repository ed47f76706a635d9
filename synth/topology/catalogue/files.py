"""The catalogue as topology files (``instances/machines``)."""

from __future__ import annotations

from synth.topology.builtin.names import CAPACITIES, resolve
from synth.topology.catalogue.entries import catalogue
from synth.topology.dump import dump_topology


def catalogue_files() -> dict[str, bytes]:
    """``NAME.json`` with nominal and ``NAME-achievable.json`` with achievable capacities: file name to contents."""
    files = {}
    for name in catalogue():
        for capacities in CAPACITIES:
            file = f"{name}.json" if capacities == "nominal" else f"{name}-{capacities}.json"
            files[file] = dump_topology(resolve(name, capacities)).encode()
    return files
