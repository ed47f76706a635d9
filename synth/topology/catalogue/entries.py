"""All machines of the catalogue, and their topologies."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Literal

from synth.errors import InvalidInputError
from synth.topology.box.build import build_topology
from synth.topology.catalogue.amd import amd_entries
from synth.topology.catalogue.entry import CatalogueEntry
from synth.topology.catalogue.nvidia import nvidia_entries
from synth.topology.catalogue.others import other_entries
from synth.topology.fabric import Fabric
from synth.topology.model import Topology

__all__ = ["Capacities", "CatalogueEntry", "catalogue", "catalogue_topology"]

Capacities = Literal["nominal", "achievable"]


def catalogue() -> Mapping[str, CatalogueEntry]:
    """Every machine by name."""
    entries = (*nvidia_entries(), *amd_entries(), *other_entries())
    return MappingProxyType({entry.name: entry for entry in entries})


def entry_topology(
    entry: CatalogueEntry,
    name: str,
    capacities: str = "nominal",
    hosts: int = 1,
    fabric: Fabric = "switch",
    peer: str = "cpu",
) -> Topology:
    """Topology of an entry (see :func:`catalogue_topology`) under a name."""
    box = replace(entry.make(), through_cpu=peer == "cpu")
    if hosts > 1 and not box.nics:
        raise InvalidInputError(f"{entry.name}: hosts={hosts}: no NIC of this machine is known that could join them")
    source = f"{entry.source}; capacities are {capacities}"
    return build_topology(name, [box] * hosts, fabric, capacities == "achievable", source)


def catalogue_topology(
    name: str, capacities: Capacities = "nominal", hosts: int = 1, fabric: Fabric = "switch", peer: str = "cpu"
) -> Topology:
    """Topology of a machine of the catalogue.

    Parameters
    ----------
    name
        One of :func:`catalogue`.
    capacities
        As sold, or as reached (NCCL's and RCCL's constants, measured rates).
    hosts, fabric
        Copies joined through their NICs by one switch, or by one per rail.
    peer
        ``cpu``: devices reach each other over PCIe everywhere; ``switch``: only below one tree of PCIe switches.

    Raises
    ------
    InvalidInputError
        An unknown name; several hosts without NICs.
    """
    entries = catalogue()
    if name not in entries:
        near = ", ".join(difflib.get_close_matches(name, entries, n=3, cutoff=0.4))
        raise InvalidInputError(f"{name!r} is no machine of the catalogue; near names: {near or ', '.join(entries)}")
    return entry_topology(entries[name], name, capacities, hosts, fabric, peer)
