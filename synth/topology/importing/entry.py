"""One call for every kind of topology file."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

from synth.errors import InvalidInputError
from synth.files.json_text import Document, parse_json, read_text
from synth.files.xml_tree import Element, read_xml_tree
from synth.topology.box.build import build_topology
from synth.topology.box.hardware import GpuModel, gpu_models
from synth.topology.box.parts import Box
from synth.topology.fabric import Fabric
from synth.topology.file import topology_of
from synth.topology.importing.assume import Assumptions, read_assumptions
from synth.topology.importing.astra import astra_topology
from synth.topology.importing.detect import JSON_KINDS, KINDS, XML_KINDS, kind_of_json, kind_of_text, kind_of_xml
from synth.topology.importing.dumps.described import Described
from synth.topology.importing.dumps.hwloc_xml import read_hwloc_xml
from synth.topology.importing.dumps.nccl_xml import read_nccl_xml
from synth.topology.importing.dumps.nvidia_smi import read_nvidia_smi
from synth.topology.importing.dumps.rocm_smi import read_rocm_smi
from synth.topology.importing.fill import Filler
from synth.topology.importing.plain import import_simai_text, plain_topology
from synth.topology.importing.taccl import taccl_topology
from synth.topology.importing.teccl import teccl_topology
from synth.topology.model import Topology
from synth.topology.paths import PATH_GROUPS, PathGroup, select_paths

_XML: Mapping[str, Callable[[Element, Path], Described]] = MappingProxyType(
    {"nccl": read_nccl_xml, "hwloc": read_hwloc_xml}
)
_TEXT: Mapping[str, Callable[[str, Path], Described]] = MappingProxyType(
    {"nvidia-smi": read_nvidia_smi, "rocm-smi": read_rocm_smi}
)
_JSON: Mapping[str, Callable[[Document, Assumptions], Topology]] = MappingProxyType(
    {
        "teccl": teccl_topology,
        "taccl": taccl_topology,
        "plain": lambda document, _: plain_topology(document),
        "synth-topology": lambda document, _: topology_of(document, Path(document.file).stem),
    }
)


@dataclass(frozen=True, slots=True)
class _Options:
    gpu: GpuModel | None
    assumptions: Assumptions
    groups: frozenset[PathGroup]
    hosts: int
    fabric: Fabric
    achievable: bool
    through_cpu: bool


def import_topology(
    path: Path | str,
    kind: str | None = None,
    *,
    gpu: str | None = None,
    assume: str | Path | None = None,
    paths: Collection[PathGroup] = PATH_GROUPS,
    hosts: int = 1,
    fabric: str = "switch",
    capacities: str = "nominal",
    peer: str = "cpu",
) -> Topology:
    """Topology of a file that a machine or another tool has written.

    Parameters
    ----------
    path
        NCCL or RCCL topology XML, ``nvidia-smi topo -m``, ``rocm-smi --showtopo``, hwloc XML, TE-CCL or TACCL topology
        JSON, ASTRA-sim network.yml, SimAI/ns-3 text, a plain-number instance or a synth-topology/1 file.
    kind
        One of :data:`KINDS`; found out if None.
    gpu
        Name of the GPU, for what the file does not say of it: NVLink, its speed, PCIe generation.
    assume
        ``gen3`` to ``gen6``, or a link-speed table (:func:`~synth.topology.importing.assume.read_assumptions`), for
        speeds that the file does not have.
    paths
        Groups of path kinds to keep: ``nvlink`` (scale-up), ``pcie``, ``host``, ``nic``.
    hosts, fabric
        Copies of the imported box, joined by one switch or by one switch per rail.
    capacities
        ``nominal`` or ``achievable``.
    peer
        How far devices reach each other over PCIe without host memory: ``cpu`` (everywhere) or ``switch`` (below one
        tree of PCIe switches).

    Returns
    -------
    Topology
        ``notes`` list every assumption and everything left out; ``source`` names file, kind and assumptions.

    Raises
    ------
    InvalidInputError
        A wrong option; every fault of the file; every speed that is missing, with its element.
    """
    options = _options(gpu, assume, paths, hosts, fabric, capacities, peer)
    path = Path(path)
    if kind is not None and kind not in KINDS:
        raise InvalidInputError(f"kind {kind!r}: use one of {', '.join(KINDS)}")
    text = read_text(path).lstrip()
    if kind in XML_KINDS or (kind is None and text.startswith("<")):
        root = read_xml_tree(path)
        return _machine(_XML[kind or kind_of_xml(root, path)](root, path), path, options)
    if kind in JSON_KINDS or (kind is None and text.startswith(("{", "["))):
        document = parse_json(read_text(path), str(path))
        return _finished(_JSON[kind or kind_of_json(document)](document, options.assumptions), options)
    kind = kind or kind_of_text(text, path)
    if kind in _TEXT:
        return _machine(_TEXT[kind](read_text(path), path), path, options)
    make = import_simai_text if kind == "simai" else astra_topology
    return _finished(make(path), options)


def _options(
    gpu: str | None,
    assume: str | Path | None,
    paths: Collection[PathGroup],
    hosts: int,
    fabric: str,
    capacities: str,
    peer: str,
) -> _Options:
    faults = []
    models = gpu_models()
    if gpu is not None and gpu.lower() not in models:
        near = difflib.get_close_matches(gpu.lower(), models, n=1)
        meant = f"perhaps {near[0]!r} is meant; " if near else ""
        faults.append(f"gpu {gpu!r} is not known; {meant}known: {', '.join(models)}")
    choices: tuple[tuple[str, object, tuple[str, ...]], ...] = (
        ("fabric", fabric, ("switch", "rail")),
        ("capacities", capacities, ("nominal", "achievable")),
        ("peer", peer, ("cpu", "switch")),
    )
    faults += (f"{name} {value!r}: use {' or '.join(known)}" for name, value, known in choices if value not in known)
    wrong = [group for group in paths if group not in PATH_GROUPS]
    if wrong or not paths:
        faults.append(f"paths {list(paths)}: use any of {', '.join(PATH_GROUPS)}")
    if not isinstance(hosts, int) or not 1 <= hosts <= 4096:
        faults.append(f"hosts {hosts!r}: use a whole number from 1 to 4096")
    if faults:
        raise InvalidInputError(faults)
    model = None if gpu is None else models[gpu.lower()]
    assumptions = read_assumptions(assume)
    groups = frozenset(paths)
    joined: Fabric = "rail" if fabric == "rail" else "switch"
    return _Options(model, assumptions, groups, hosts, joined, capacities == "achievable", peer == "cpu")


def _machine(described: Described, path: Path, options: _Options) -> Topology:
    """Topology of boxes: filled in, copied, joined."""
    filler = Filler(options.gpu, options.assumptions, options.groups)
    boxes = []
    faults: list[str] = []
    for box in described.boxes:
        try:
            boxes.append(filler.fill(box))
        except InvalidInputError as error:
            faults += (f"{path}: {fault}" for fault in error.faults)
    faults += filler.faults()
    faults += filler.unknown_elements() if not faults else ()
    faults += _cluster_faults(boxes, path, options)
    if faults:
        raise InvalidInputError(dict.fromkeys(faults))
    copies = [replace(box, through_cpu=options.through_cpu) for box in boxes] * options.hosts
    notes = (*described.notes, *filler.notes())
    copied = f", {options.hosts} copies joined by {options.fabric}" if options.hosts > 1 else ""
    rates = "achievable" if options.achievable else "nominal"
    source = f"{path.name} ({described.what}{copied}); capacities are {rates}; " + "; ".join(notes)
    made = build_topology(path.stem, copies, options.fabric, options.achievable, source.rstrip("; "), notes)
    return select_paths(made, options.groups)


def _cluster_faults(boxes: list[Box], path: Path, options: _Options) -> list[str]:
    joined = options.hosts > 1 or len(boxes) > 1
    if joined and "nic" in options.groups and boxes and not all(box.nics for box in boxes):
        return [
            f"{path}: a host without a NIC that can be used cannot be joined with others; give one host, or add NICs"
        ]
    if options.hosts > 1 and "nic" not in options.groups:
        return [f"hosts {options.hosts}: copies are joined through NICs; paths must have nic"]
    return []


def _finished(topology: Topology, options: _Options) -> Topology:
    """A topology that other tools describe as a graph: only paths can be chosen."""
    if options.hosts > 1:
        raise InvalidInputError(
            f"hosts {options.hosts}: {topology.name} is a whole topology, not the parts of one box; copies are for "
            "machine files (NCCL, RCCL, hwloc, nvidia-smi, rocm-smi)"
        )
    return select_paths(topology, options.groups)
