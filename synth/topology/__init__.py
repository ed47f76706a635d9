"""Topologies: the model, its file format, built-in machines and fabrics, reachability and importers."""

from synth.topology.builtin.names import Builtin, builtin, builtin_names, describe_builtins, resolve
from synth.topology.builtin.parameters import Parameter
from synth.topology.catalogue import catalogue, catalogue_topology
from synth.topology.check import model_faults
from synth.topology.dump import dump_topology, save_topology
from synth.topology.elements import Link, Node, Resource
from synth.topology.fabric import Joint, join_hosts
from synth.topology.file import load_topology
from synth.topology.importing import import_topology
from synth.topology.importing.plain import import_plain_instance, import_simai_text
from synth.topology.model import Topology
from synth.topology.paths import PathGroup, PathKind, path_kind, select_paths
from synth.topology.reachability import check_reachable, check_steps, hop_distance, unreachable_pairs
from synth.topology.rent import rented

__all__ = [
    "Builtin",
    "Joint",
    "Link",
    "Node",
    "Parameter",
    "PathGroup",
    "PathKind",
    "Resource",
    "Topology",
    "builtin",
    "builtin_names",
    "catalogue",
    "catalogue_topology",
    "check_reachable",
    "check_steps",
    "describe_builtins",
    "dump_topology",
    "hop_distance",
    "import_plain_instance",
    "import_simai_text",
    "import_topology",
    "join_hosts",
    "load_topology",
    "model_faults",
    "path_kind",
    "rented",
    "resolve",
    "save_topology",
    "select_paths",
    "unreachable_pairs",
]
