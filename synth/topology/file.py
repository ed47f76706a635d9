"""Topology files: reading the ``synth-topology/1`` format strictly, all faults at once.

A Topology is written back by :mod:`synth.topology.dump`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from synth.errors import InvalidInputError
from synth.files.faults import entry_name, validate
from synth.files.json_text import Document, read_json
from synth.ground.units import parse_bandwidth, parse_time
from synth.topology.check import (
    PASSES_REASON,
    RELAY_REASON,
    duplicates,
    end_faults,
    id_fault,
    passes_is_wrong,
    relay_is_wrong,
)
from synth.topology.elements import Link, LinkKind, Node, NodeKind, Resource
from synth.topology.model import Topology

FORMAT = "synth-topology/1"


def _reads(parse: Callable[[object], float]) -> Callable[[object], float]:
    """Parser of a quantity whose error pydantic collects."""

    def read(value: object) -> float:
        try:
            return parse(value)
        except InvalidInputError as error:
            raise ValueError(str(error)) from None

    return read


def _checked_id(name: str) -> str:
    if (reason := id_fault(name)) is not None:
        raise ValueError(reason)
    return name


def positive(value: float) -> float:
    """Refuse zero, for pydantic."""
    if value == 0:
        raise ValueError("is zero; a resource needs a positive bandwidth, leave dead links out instead")
    return value


_Id = Annotated[str, AfterValidator(_checked_id), Field(description='an id such as "g0"')]
#: A bandwidth with its unit, as bytes/second.
BandwidthText = Annotated[
    float, BeforeValidator(_reads(parse_bandwidth)), Field(description='a bandwidth such as "25 GB/s"')
]
_Latency = Annotated[float, BeforeValidator(_reads(parse_time)), Field(description='a time such as "0.7 us"')]
_Share = Annotated[
    float, Field(gt=0, le=1, allow_inf_nan=False, description="the achievable share of the bandwidth, such as 0.8")
]
_Times = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Entry(BaseModel):
    """Base of what a file holds: strict types, no unknown keys."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class NodeEntry(Entry):
    """A vertex of the file."""

    id: _Id
    kind: NodeKind = Field(description='a kind such as "gpu"')
    host: _Id = "host0"
    relay: bool = True
    passes: bool = False


class LinkEntry(Entry):
    """A link of the file; ``both_ways`` makes two directed links of it."""

    id: _Id
    src: str = Field(description="the id of a node")
    dst: str = Field(description="the id of a node")
    bandwidth: BandwidthText
    latency: _Latency = 0.0
    kind: LinkKind = "net"
    efficiency: _Share = 1.0
    both_ways: bool = False

    def links(self) -> Iterator[Link]:
        """One directed link, or two with the ids ``:fwd`` (src to dst) and ``:rev``."""
        numbers = (self.bandwidth, self.latency, self.kind, self.efficiency)
        if not self.both_ways:
            yield Link(self.id, self.src, self.dst, *numbers)
            return
        yield Link(f"{self.id}:fwd", self.src, self.dst, *numbers)
        yield Link(f"{self.id}:rev", self.dst, self.src, *numbers)


class ResourceEntry(Entry):
    """A shared capacity of the file."""

    id: _Id
    bandwidth: Annotated[BandwidthText, AfterValidator(positive)]
    uses: dict[str, _Times] = Field(description='links and multiplicities such as {"a": 1, "b:fwd": 2}')


class TopologyFile(Entry):
    """The whole file."""

    format: Literal["synth-topology/1"] = Field(description=f'"{FORMAT}"')
    name: str | None = None
    nodes: list[NodeEntry] = Field(description="a list of nodes")
    links: list[LinkEntry] = Field(description="a list of links")
    resources: list[ResourceEntry] = []
    symmetry: list[dict[str, str]] = []
    source: str = ""


def load_topology(path: Path | str) -> Topology:
    """Read a topology file.

    Parameters
    ----------
    path
        A JSON file in the ``synth-topology/1`` format. Without a ``name`` the topology is called as the file is.

    Returns
    -------
    Topology
        Links of bandwidth zero are left out, also from what resources are used by; ``notes`` say so.

    Raises
    ------
    InvalidInputError
        All faults of the file at once, each with file, line, JSON place, id and what would be right.
    """
    path = Path(path)
    return topology_of(read_json(path), path.stem)


def topology_of(document: Document, stem: str) -> Topology:
    """Topology of a parsed JSON document; ``stem`` is its name when it gives none. Errors as :func:`load_topology`."""
    if not isinstance(document.value, dict):
        raise InvalidInputError(f"{document.place()}: must be an object with format, nodes and links")
    items: dict[str, type[BaseModel]] = {"nodes": NodeEntry, "links": LinkEntry, "resources": ResourceEntry}
    parsed, faults = validate(document, TopologyFile, items)
    faults += _reference_faults(document)
    if faults or parsed is None:
        raise InvalidInputError(sorted(dict.fromkeys(faults), key=document.line_of))
    try:
        return _to_topology(parsed, stem)
    except InvalidInputError as error:
        raise InvalidInputError(f"{document.file}: {fault}" for fault in error.faults) from None


def _to_topology(parsed: TopologyFile, stem: str) -> Topology:
    nodes = tuple(Node(node.id, node.kind, node.host, node.relay, node.passes) for node in parsed.nodes)
    links = [link for entry in parsed.links for link in entry.links()]
    dead = {link.id for link in links if link.bandwidth == 0}
    notes = [f"link {link.id!r} has bandwidth 0 and is left out" for link in links if link.id in dead]
    resources = []
    for entry in parsed.resources:
        uses = tuple((link, float(times)) for link, times in entry.uses.items() if link not in dead)
        if uses or not entry.uses:
            resources.append(Resource(entry.id, entry.bandwidth, uses))
        else:
            notes.append(f"resource {entry.id!r} is left out: no link that uses it is left")
    return Topology(
        name=stem if parsed.name is None else parsed.name,
        nodes=nodes,
        links=tuple(link for link in links if link.id not in dead),
        resources=tuple(resources),
        source=parsed.source,
        notes=tuple(notes),
        symmetry=tuple(tuple(hint.items()) for hint in parsed.symmetry),
    )


def _reference_faults(document: Document) -> Iterator[str]:
    """Faults between entries, found in the raw values so that they are reported along with faults inside entries."""
    nodes, links, resources = (_section(document, name) for name in ("nodes", "links", "resources"))
    where = partial(_where, document)
    known = {name for _, node in nodes if isinstance(name := node.get("id"), str)}
    yield from duplicates(((name, "nodes", i) for i, node in nodes if isinstance(name := node.get("id"), str)), where)
    yield from duplicates(_claims(links, resources), where)
    for i, node in nodes:
        if relay_is_wrong(node.get("kind"), node.get("relay")):
            yield f"{where('nodes', i, 'relay')}: {RELAY_REASON.format(kind=node['kind'])}"
        if passes_is_wrong(node.get("kind"), node.get("passes")):
            yield f"{where('nodes', i, 'passes')}: {PASSES_REASON.format(kind=node['kind'])}"
    for i, link in links:
        src, dst = link.get("src"), link.get("dst")
        if isinstance(src, str) and isinstance(dst, str):
            yield from end_faults(src, dst, known, partial(where, "links", i))
    yield from _use_faults(document, links, resources)
    for i, hint in _section(document, "symmetry"):
        for key, image in hint.items():
            for name in (key, image):
                if isinstance(name, str) and name not in known:
                    yield f"{document.place('symmetry', i, key)}: {name!r} is not a declared node"


_Section = list[tuple[int, dict[str, object]]]


def _section(document: Document, name: str) -> _Section:
    """Objects of a list of the file with their positions, whatever else may be wrong with them."""
    root = document.value
    items = root.get(name) if isinstance(root, dict) else None
    return [(i, item) for i, item in enumerate(items) if isinstance(item, dict)] if isinstance(items, list) else []


def _where(document: Document, section: str, index: int, field: str) -> str:
    root = document.value
    entry = root[section][index] if isinstance(root, dict) else {}
    return document.place(section, index, field) + entry_name(section, entry, field)


def _claims(links: _Section, resources: _Section) -> Iterator[tuple[str, str, int]]:
    """Ids that links and resources take: a link both ways takes its own id and those of its two directions."""
    for i, link in links:
        if isinstance(name := link.get("id"), str):
            yield name, "links", i
            if link.get("both_ways") is True:
                yield f"{name}:fwd", "links", i
                yield f"{name}:rev", "links", i
    for i, resource in resources:
        if isinstance(name := resource.get("id"), str):
            yield name, "resources", i


def _use_faults(document: Document, links: _Section, resources: _Section) -> Iterator[str]:
    both = {link.get("id") for _, link in links if link.get("both_ways") is True}
    known = {name for name, section, _ in _claims(links, []) if section == "links"} - both
    for i, resource in resources:
        uses = resource.get("uses")
        for name in uses if isinstance(uses, dict) else ():
            place = document.place("resources", i, "uses", name) + entry_name("resources", resource, name)
            if name in both:
                yield f"{place}: the link {name!r} goes both ways; name {name + ':fwd'!r} or {name + ':rev'!r} or both"
            elif name not in known:
                yield f"{place}: {name!r} is not a declared link; name one that is"
