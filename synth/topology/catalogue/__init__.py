"""Machine catalogue: whole boxes (GPUs, PCIe switches, NUMA nodes, NICs, host memory), each number with its source."""

from synth.topology.catalogue.entries import CatalogueEntry, catalogue, catalogue_topology

__all__ = ["CatalogueEntry", "catalogue", "catalogue_topology"]
