"""Topologies from the files that machines and other tools already have."""

from synth.topology.importing.detect import KINDS
from synth.topology.importing.entry import import_topology

__all__ = ["KINDS", "import_topology"]
