"""Built-in topologies by name, and the text form of a topology on the command line."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from synth.errors import InvalidInputError
from synth.topology import shapes
from synth.topology.builtin.parameters import Parameter, Value, read_parameters
from synth.topology.catalogue.entries import CatalogueEntry, catalogue, entry_topology
from synth.topology.catalogue.scale_up import Machine, build_machine, machines
from synth.topology.fabric import NIC_LATENCY, Fabric, Joint, join_hosts
from synth.topology.file import load_topology
from synth.topology.model import Topology

_BANDWIDTH = Parameter("bandwidth", "bandwidth", "of each link, per direction", 25e9)
_LATENCY = Parameter("latency", "time", "of each link", 0.7e-6)
_BOTH_WAYS = Parameter("both_ways", "flag", "false: links only from rank i to i + 1", True)
_ACHIEVABLE = Parameter("achievable", "flag", "capacities as reached (NCCL, RCCL, measured), not as sold", False)
CAPACITIES = ("nominal", "achievable")
#: For boxes that no table of machines has.
_PLAIN_NIC = 25e9


@dataclass(frozen=True, slots=True)
class Builtin:
    """A named topology with parameters.

    Attributes
    ----------
    positional
        Names of the counts that may stand after the colon, joined by ``x``: ``torus2d:4x4``.
    make
        Called with the topology's name and all parameter values.
    """

    name: str
    summary: str
    source: str
    parameters: tuple[Parameter, ...]
    positional: tuple[str, ...]
    make: Callable[..., Topology]


def builtin(name: str, **params: object) -> Topology:
    """Build a topology by name.

    Parameters
    ----------
    name
        One of :func:`builtin_names`.
    **params
        Counts, flags and texts; a bandwidth or latency is bytes/second or seconds, or a text with a unit.

    Returns
    -------
    Topology
        Its name is a text that :func:`resolve` turns back into the same topology.

    Raises
    ------
    InvalidInputError
        An unknown name, with near ones; every unknown, missing or wrong parameter.
    """
    found = _find(name)
    values = read_parameters(found.name, found.parameters, params)
    return found.make(_canonical(found, values), **values)


def builtin_names() -> tuple[str, ...]:
    """Names of all built-in topologies, shapes first."""
    return tuple(entry.name for entry in describe_builtins())


def describe_builtins() -> tuple[Builtin, ...]:
    """Every built-in with its parameters, defaults, a one-line description and the source of its numbers."""
    boxes = (_whole_box(entry) for entry in catalogue().values())
    return (*_shapes(), *(_machine(box) for box in machines().values()), *boxes, _cluster())


def resolve(text: str, capacities: str | None = None) -> Topology:
    """Topology of a command-line text: a file, or a built-in such as ``ring:8`` or ``cluster:box=dgx-a100,hosts=2``.

    Parameters
    ----------
    text
        Path of an existing topology file, or ``NAME``, ``NAME:4x4``, ``NAME:key=value,key=value`` or both
        (``mesh2d:3x3,bandwidth=50 GB/s``).
    capacities
        ``nominal`` or ``achievable``, for machines of which both are known; None leaves it to the text.

    Raises
    ------
    InvalidInputError
        No such file, a faulty file, an unknown name, wrong parameters, or capacities that are not known.
    """
    head, colon, rest = text.partition(":")
    is_path = "/" in head or "\\" in head or text.endswith(".json")
    try:
        exists = Path(text).is_file()
    except OSError:
        exists = False
    if exists or is_path:
        if capacities is not None:
            raise InvalidInputError(f"capacities {capacities!r}: {text} has one set of capacities, leave them out")
        return load_topology(Path(text))
    found = _find(head)
    given: dict[str, object] = dict(_read_arguments(found, rest) if colon else {})
    return builtin(head, **given, **_capacity_parameter(found, given, capacities))


def _capacity_parameter(found: Builtin, given: Mapping[str, object], capacities: str | None) -> dict[str, object]:
    """Parameter of a built-in that says which capacities are meant."""
    if capacities is None:
        return {}
    if capacities not in CAPACITIES:
        raise InvalidInputError(f"capacities {capacities!r}: use {' or '.join(CAPACITIES)}")
    values = {"capacities": capacities, "achievable": capacities == "achievable"}
    name = next((p.name for p in found.parameters if p.name in values), None)
    if name is None:
        raise InvalidInputError(f"capacities {capacities!r}: {found.name} has one set of capacities, leave them out")
    if name in given:
        raise InvalidInputError(f"{found.name}: {name} is given twice, as {given[name]!r} and by capacities")
    return {name: values[name]}


def _read_arguments(found: Builtin, rest: str) -> dict[str, str]:
    """Parameters of the text after the colon, still as texts."""
    params: dict[str, str] = {}
    faults: list[str] = []
    for i, item in enumerate(part.strip() for part in rest.split(",")):
        key, equals, value = (side.strip() for side in item.partition("="))
        if equals:
            rows = [(key, value)]
        elif i == 0 and item.count("x") + 1 == len(found.positional):
            rows = list(zip(found.positional, item.split("x"), strict=True))
        else:
            shape = f"{found.name}:{'x'.join(name.upper() for name in found.positional)}" if found.positional else ""
            faults.append(
                f"{found.name}: {item!r} is not key=value" + (f" and not of the form {shape}" if shape else "")
            )
            continue
        for name, text in rows:
            if name in params:
                faults.append(f"{found.name}: {name} is given twice, as {params[name]!r} and {text!r}")
            params[name] = text
    if faults:
        raise InvalidInputError(faults)
    return params


def _find(name: str) -> Builtin:
    entries = {entry.name: entry for entry in describe_builtins()}
    if name in entries:
        return entries[name]
    near = difflib.get_close_matches(name.lower(), entries, n=3, cutoff=0.5)
    meant = f"near names: {', '.join(near)}; " if near else ""
    raise InvalidInputError(
        f"{name!r} is neither a topology file nor a built-in topology; {meant}`synth topology list` shows all"
    )


def _canonical(found: Builtin, values: Mapping[str, Value]) -> str:
    """Text of the built-in with these values, defaults left out."""
    parts = ["x".join(str(values[name]) for name in found.positional)] if found.positional else []
    for parameter in found.parameters:
        value = values.get(parameter.name)
        if parameter.name not in found.positional and value is not None and value != parameter.default:
            parts.append(f"{parameter.name}={parameter.write(value)}")
    return f"{found.name}:{','.join(parts)}" if parts else found.name


def _count(name: str, high: int, help_text: str) -> Parameter:
    return Parameter(name, "count", help_text, required=True, low=1, high=high)


def _shapes() -> tuple[Builtin, ...]:
    """Shapes; the limits of their counts keep the largest topology near a million links."""
    link = (_BANDWIDTH, _LATENCY)
    n = _count("n", 65536, "number of GPUs")
    pair = (_count("n", 1024, "number of GPUs"),)
    grid = (_count("rows", 512, "rows"), _count("cols", 512, "columns"))
    cube = tuple(_count(axis, 48, f"GPUs along {axis}") for axis in "xyz")
    dim = _count("dim", 14, "2**dim GPUs")

    def shape(make: Callable[..., Topology], counts: tuple[Parameter, ...], *extra: Parameter) -> Builtin:
        summary = (make.__doc__ or "").strip().splitlines()[0].replace("``", "")
        places = tuple(parameter.name for parameter in counts)
        return Builtin(make.__name__, summary, shapes.SHAPE_SOURCE, (*counts, *link, *extra), places, make)

    return (
        shape(shapes.ring, (n,), _BOTH_WAYS),
        shape(shapes.line, (n,)),
        shape(shapes.mesh2d, grid),
        shape(shapes.torus2d, grid),
        shape(shapes.torus3d, cube),
        shape(shapes.hypercube, (dim,)),
        shape(shapes.fullmesh, pair),
        shape(shapes.switch, (n,)),
    )


def _machine(box: Machine) -> Builtin:
    per = "of each link" if box.cables else "of each GPU's switch port"
    parameters = (
        Parameter("bandwidth", "bandwidth", f"{per}, nominal, per direction", box.rate.nominal),
        Parameter("latency", "time", "of each link", box.latency),
        _ACHIEVABLE,
    )
    return Builtin(box.name, box.summary, box.source, parameters, (), partial(build_machine, box))


def _whole_box(entry: CatalogueEntry) -> Builtin:
    fabrics, peers = ("switch", "rail"), ("cpu", "switch")
    parameters = (
        Parameter("capacities", "choice", "as sold, or as reached", "nominal", choices=CAPACITIES),
        Parameter("hosts", "count", "number of boxes, joined through their NICs", 1, low=1, high=4096),
        Parameter("fabric", "choice", "one switch, or one per NIC of a box", "switch", choices=fabrics),
        Parameter("peer", "choice", "peer access over PCIe everywhere, or not across a CPU", "cpu", choices=peers),
    )
    return Builtin(entry.name, entry.summary, entry.source, parameters, (), partial(entry_topology, entry))


def _cluster() -> Builtin:
    parameters = (
        Parameter("box", "text", "a built-in that is one host, such as dgx-a100 or ring:4", required=True),
        Parameter("hosts", "count", "number of boxes", required=True, low=1, high=4096),
        Parameter("fabric", "choice", "one switch, or one per rail", "switch", choices=("switch", "rail")),
        Parameter("nic_bandwidth", "bandwidth", "of each NIC, per direction; default: the machine's, else 25 GB/s"),
        Parameter("pcie_bandwidth", "bandwidth", "between a GPU and its NIC; default: the machine's, else the NIC's"),
        Parameter("gpus_per_nic", "count", "GPUs that share a NIC; default: the machine's, else 1", low=1, high=64),
        Parameter("nic_latency", "time", "between a NIC and its fabric switch", NIC_LATENCY),
        _ACHIEVABLE,
    )
    source = (
        "the box's; NIC and PCIe rates of its machine; 1.3 us is half of the 2.6 us of TACCL and TE-CCL (InfiniBand)"
    )
    return Builtin("cluster", "Copies of a box, joined through NICs by a fabric", source, parameters, (), _make_cluster)


def _make_cluster(
    name: str,
    box: str,
    hosts: int,
    fabric: Fabric,
    nic_latency: float,
    achievable: bool,
    nic_bandwidth: float | None = None,
    pcie_bandwidth: float | None = None,
    gpus_per_nic: int | None = None,
) -> Topology:
    head, colon, rest = box.partition(":")
    entry = _find(head)
    if entry.name == "cluster":
        raise InvalidInputError("cluster: box: 'cluster' is not one host; name a machine or a shape")
    if entry.name in catalogue():
        raise InvalidInputError(f"cluster: box: {entry.name!r} has NICs of its own: write {entry.name}:hosts={hosts}")
    params: dict[str, object] = dict(_read_arguments(entry, rest) if colon else {})
    machine = machines().get(entry.name)
    if achievable and machine is None:
        raise InvalidInputError(f"cluster: achievable: no achievable rates are known for {entry.name!r}; leave it out")
    if achievable:
        params["achievable"] = True
    joint = _joint(machine, nic_bandwidth, pcie_bandwidth, gpus_per_nic, nic_latency, achievable)
    return join_hosts(name, builtin(entry.name, **params), hosts, fabric, joint)


def _joint(
    machine: Machine | None,
    nic: float | None,
    pcie: float | None,
    gpus_per_nic: int | None,
    latency: float,
    achievable: bool,
) -> Joint:
    """Rates between GPU and fabric: what is given, else the machine's, else plain ones."""
    if machine is None:
        nic = nic or _PLAIN_NIC
        return Joint(nic, pcie or nic, gpus_per_nic or 1, latency, source="NICs: parameters, no machine's numbers")
    network = machine.network
    nic = nic or network.nic.nominal
    pcie = pcie or (network.pcie.nominal if network.pcie else nic)
    nic_share = network.nic.efficiency if achievable else 1.0
    # Without a confirmed PCIe rate the NIC's nominal rate stands in, and the NIC alone is the bottleneck.
    pcie_share = network.pcie.efficiency if achievable and network.pcie else 1.0
    source = f"{network.source}; NIC to fabric 1.3 us: half of 2.6 us (TACCL, TE-CCL)"
    return Joint(nic, pcie, gpus_per_nic or network.gpus_per_nic, latency, nic_share, pcie_share, source)
