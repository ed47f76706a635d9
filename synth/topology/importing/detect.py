"""Telling kinds of topology files apart by what is in them, and saying what a file is that is no topology."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Literal, get_args

from synth.errors import InvalidInputError
from synth.files.json_text import Document
from synth.files.xml_tree import Element

Kind = Literal[
    "nccl", "hwloc", "nvidia-smi", "rocm-smi", "teccl", "taccl", "astra-sim", "simai", "plain", "synth-topology"
]
KINDS: tuple[str, ...] = get_args(Kind)
#: Kinds whose text is XML, and kinds whose text is JSON.
XML_KINDS = ("nccl", "hwloc")
JSON_KINDS = ("teccl", "taccl", "plain", "synth-topology")

_JSON_KEYS: Mapping[str, Kind] = MappingProxyType(
    {"format": "synth-topology", "TopologyParams": "teccl", "gpus_per_node": "taccl", "num_nodes": "plain"}
)
_OTHER_JSON = MappingProxyType(
    {
        "logical-dims": "an ASTRA-sim file of logical dimensions, which has no links; import its network.yml",
        "1-Epoch_Duration": "a TE-CCL result, not its input; import the JSON with TopologyParams",
        "intranode_sketch": "a TACCL sketch, which has no speeds; import the topology JSON (gpus_per_node, alpha, ...)",
        "nnodes": "a TACCL sketch, which has no speeds; import the topology JSON (gpus_per_node, alpha, ...)",
    }
)


def kind_of_xml(root: Element, path: Path) -> Kind:
    """Kind of an XML file by its root element."""
    if root.tag == "system":
        return "nccl"
    if root.tag == "topology":
        return "hwloc"
    others = {
        "graphs": "an NCCL graph dump (NCCL_GRAPH_DUMP_FILE): rings and trees; import NCCL_TOPO_DUMP_FILE instead",
        "algo": "an MSCCL algorithm; synth verify reads it",
    }
    what = others.get(root.tag, f"XML with root <{root.tag}>; <system> (NCCL, RCCL) and <topology> (hwloc) are known")
    raise InvalidInputError(f"{root.at}: is no topology but {what}")


def kind_of_json(document: Document) -> Kind:
    """Kind of a JSON file by its keys."""
    keys = document.value if isinstance(document.value, dict) else {}
    for key, kind in _JSON_KEYS.items():
        if key in keys:
            return kind
    for key, what in _OTHER_JSON.items():
        if key in keys:
            raise InvalidInputError(f"{document.file}: is no topology but {what}")
    raise InvalidInputError(f"{document.file}: JSON of no known kind; {_hint()}")


def kind_of_text(text: str, path: Path) -> Kind:
    """Kind of a file that is neither XML nor JSON."""
    if re.search(r"ROCm|(Weight|Hops|Link Type) between two GPUs", text):
        return "rocm-smi"
    if re.search(r"^\s*(\x1b\[[0-9;]*m)*\s*GPU0\b.*$", text, re.MULTILINE):
        return "nvidia-smi"
    if re.search(r"^\s*npus_count\s*:", text, re.MULTILINE):
        return "astra-sim"
    if re.match(r"\s*([0-9]+\s+){5}\S+(\s+[0-9]+)?\s*(\n|$)", text):
        return "simai"
    others = (
        (r"^\s*Machine \(", "console output of lstopo; write XML: lstopo --of xml"),
        (r"^\s*Tiers\s+[0-9]+", "an htsim fat-tree description, which names no cables; write its links as SimAI text"),
    )
    for pattern, what in others:
        if re.search(pattern, text, re.MULTILINE):
            raise InvalidInputError(f"{path}: is not imported: {what}")
    raise InvalidInputError(f"{path}: text of no known kind; {_hint()}")


def _hint() -> str:
    return f"known kinds: {', '.join(KINDS)} (--kind says which one it is)"
