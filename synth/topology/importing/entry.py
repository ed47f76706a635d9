"""One call for every kind of topology file."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

from synth.errors import InvalidInputError
from synth.files.json_text import Document, read_text
from synth.files.xml_tree import Element
from synth.topology.box.build import build_topology
from synth.topology.box.gpus import GpuModel, gpu_named
from synth.topology.box.parts import Box
from synth.topology.fabric import Fabric
from synth.topology.file import topology_of
from synth.topology.importing.assume import Assumptions, read_assumptions
from synth.topology.importing.astra import astra_topology
from synth.topology.importing.detect import KINDS, Found, find
from synth.topology.importing.dumps.amd.amd_smi import read_amd_json, read_amd_smi
from synth.topology.importing.dumps.amd.rocm_smi import read_rocm_smi
from synth.topology.importing.dumps.described import Described
from synth.topology.importing.dumps.hwloc_xml import read_hwloc_xml
from synth.topology.importing.dumps.nccl.log import read_nccl_log
from synth.topology.importing.dumps.nccl.xml import read_nccl_xml
from synth.topology.importing.dumps.nvidia.matrix import read_nvidia_smi
from synth.topology.importing.fill import Filler
from synth.topology.importing.pasted import Pasted, clean
from synth.topology.importing.plain import import_simai_text, plain_topology
from synth.topology.importing.plausible import IMPLAUSIBLE
from synth.topology.importing.taccl import taccl_topology
from synth.topology.importing.teccl import teccl_topology
from synth.topology.model import Topology
from synth.topology.paths import PATH_GROUPS, PathGroup, select_paths

_XML: Mapping[str, Callable[[Element, Path, GpuModel | None], Described]] = MappingProxyType(
    {"nccl": read_nccl_xml, "hwloc": lambda root, path, _: read_hwloc_xml(root, path)}
)
_TEXT: Mapping[str, Callable[[Pasted, GpuModel | None], Described]] = MappingProxyType(
    {"nvidia-smi": read_nvidia_smi, "rocm-smi": read_rocm_smi, "amd-smi": read_amd_smi, "nccl-log": read_nccl_log}
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
        NCCL or RCCL topology XML, ``nvidia-smi topo -m``, ``rocm-smi --showtopo``, ``amd-smi topology`` (text or
        ``--json``), a log of NCCL_DEBUG=INFO with its graph, hwloc XML, TE-CCL or TACCL topology JSON, ASTRA-sim
        network.yml, SimAI/ns-3 text, a plain-number instance or a synth-topology/1 file. The machine's own files may
        have prompts, prefixes, quotes and text around them.
    kind
        One of :data:`KINDS`; found out if None.
    gpu
        Name of the GPU, also as machines print it (``NVIDIA H100 80GB HBM3``), for what the file does not say of it:
        NVLink, its speed, PCIe generation. It tells a switch from a mesh, and too many links are refused.
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
    found = find(clean(read_text(path), path), kind)
    if found.root is not None:
        described = _XML[found.kind](found.root, path, options.gpu)
    elif found.document is not None and found.kind == "amd-smi":
        described = read_amd_json(found.document, options.gpu)
    elif found.document is not None:
        return _finished(_JSON[found.kind](found.document, options.assumptions), options)
    elif found.kind in _TEXT:
        described = _TEXT[found.kind](found.pasted, options.gpu)
    else:
        make = import_simai_text if found.kind == "simai" else astra_topology
        return _finished(make(path), options)
    return _machine(described, found, options)


def _options(
    gpu: str | None,
    assume: str | Path | None,
    paths: Collection[PathGroup],
    hosts: int,
    fabric: str,
    capacities: str,
    peer: str,
) -> _Options:
    faults: list[str] = []
    model = None
    try:
        model = None if gpu is None else gpu_named(gpu)
    except InvalidInputError as error:
        faults += error.faults
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
    assumptions = read_assumptions(assume)
    groups = frozenset(paths)
    joined: Fabric = "rail" if fabric == "rail" else "switch"
    return _Options(model, assumptions, groups, hosts, joined, capacities == "achievable", peer == "cpu")


def _machine(described: Described, found: Found, options: _Options) -> Topology:
    """Topology of boxes: filled in, copied, joined."""
    path = found.pasted.path
    model = options.gpu or described.gpu
    filler = Filler(model, options.assumptions, options.groups)
    boxes = []
    faults: list[str] = []
    for box in described.boxes:
        try:
            boxes.append(filler.fill(box, described.stated))
        except InvalidInputError as error:
            faults += (fault if fault.startswith(str(path)) else f"{path}: {fault}" for fault in error.faults)
    faults += filler.faults()
    faults += filler.unknown_elements() if not faults else ()
    faults += _cluster_faults(boxes, path, options)
    if faults:
        faults += (f"{path}: {note}" for note in filler.notes() if note.startswith(IMPLAUSIBLE))
        raise InvalidInputError(dict.fromkeys(faults))
    copies = [replace(box, through_cpu=options.through_cpu) for box in boxes] * options.hosts
    notes = tuple(dict.fromkeys((*found.notes, *described.notes, *_of_model(model), *filler.notes())))
    copied = f", {options.hosts} copies joined by {options.fabric}" if options.hosts > 1 else ""
    rates = "achievable" if options.achievable else "nominal"
    source = f"{path.name} ({described.what}{copied}); capacities are {rates}; " + "; ".join(notes)
    made = build_topology(path.stem, copies, options.fabric, options.achievable, source.rstrip("; "), notes)
    return select_paths(made, options.groups)


def _of_model(model: GpuModel | None) -> tuple[str, ...]:
    return () if model is None else (f"numbers of the {model.name}: {model.source}",)


def _cluster_faults(boxes: list[Box], path: Path, options: _Options) -> list[str]:
    joined = options.hosts > 1 or len(boxes) > 1
    without = [box.gpus[0].at for box in boxes if not box.nics and box.gpus]
    if joined and "nic" in options.groups and without:
        return [
            f"{path}: a host without a NIC that can be used cannot be joined with others; give one host, or add NICs: "
            f"{', '.join(without)}"
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
