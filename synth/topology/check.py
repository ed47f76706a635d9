"""What makes a topology wrong: every fault with its place and what would be right, all at once.

The same checks serve a :class:`~synth.topology.model.Topology` made in Python and a file: the place of a fault is
written by a function that is handed in.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from typing import Protocol

from synth.topology.elements import LINK_KINDS, NODE_KINDS, Link, Node, Resource

#: Section ("nodes", "links", "resources"), position in it and field to the text that says where that is.
Where = Callable[[str, int, str], str]


class Elements(Protocol):
    """A topology whose fields are set; it need not have passed any check."""

    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def nodes(self) -> Sequence[Node]: ...  # noqa: D102
    @property
    def links(self) -> Sequence[Link]: ...  # noqa: D102
    @property
    def resources(self) -> Sequence[Resource]: ...  # noqa: D102
    @property
    def source(self) -> str: ...  # noqa: D102
    @property
    def symmetry(self) -> Sequence[tuple[tuple[str, str], ...]]: ...  # noqa: D102


def model_faults(topology: Elements) -> list[str]:
    """Every fault of a topology, as messages for a person; an empty list if there is none.

    Parameters
    ----------
    topology
        A topology whose fields are set; it need not have passed any check.
    """
    sections: dict[str, Collection[Node] | Collection[Link] | Collection[Resource]] = {
        "nodes": topology.nodes,
        "links": topology.links,
        "resources": topology.resources,
    }
    names = {section: [entry.id for entry in entries] for section, entries in sections.items()}

    def where(section: str, index: int, field: str) -> str:
        return f"{section.removesuffix('s')} {names[section][index]!r}, {field}"

    faults = list(_text_faults(topology))
    faults += duplicates(((node.id, "nodes", i) for i, node in enumerate(topology.nodes)), where)
    rows = [(link.id, "links", i) for i, link in enumerate(topology.links)]
    rows += [(resource.id, "resources", i) for i, resource in enumerate(topology.resources)]
    faults += duplicates(rows, where)
    faults += _node_faults(topology.nodes, where)
    known = frozenset(names["nodes"])
    for i, link in enumerate(topology.links):
        faults += end_faults(link.src, link.dst, known, partial(where, "links", i))
        faults += _link_faults(link, i, where)
    faults += _resource_faults(topology.resources, frozenset(names["links"]), where)
    faults += _symmetry_faults(topology.symmetry, known)
    return faults


def id_fault(name: str) -> str | None:
    """Why a text cannot be an id, or None: ids are not empty and can be written on one line of any UTF-8 file."""
    if not name:
        return "is empty, every id needs at least one character"
    if not name.isprintable():
        return f"{name!r} has characters that cannot be printed, use letters, digits, blanks and punctuation"
    return None


def duplicates(rows: Iterable[tuple[str, str, int]], where: Where) -> Iterator[str]:
    """Ids that two entries claim; each row is (id, section, position), one entry may claim several ids."""
    seen: dict[str, tuple[str, int]] = {}
    reported: set[tuple[str, int]] = set()
    for name, section, index in rows:
        first = seen.setdefault(name, (section, index))
        if first != (section, index) and (section, index) not in reported:
            reported.add((section, index))
            other = where(first[0], first[1], "id")
            yield f"{where(section, index, 'id')}: {name!r} is already taken by {other}; ids must differ"


def end_faults(src: str, dst: str, known: Collection[str], place: Callable[[str], str]) -> Iterator[str]:
    """Link ends that no node declares, and links from a node to itself; ``place`` is told the field."""
    for field, end in (("src", src), ("dst", dst)):
        if end not in known:
            yield f"{place(field)}: {end!r} is not a declared node; declare it in nodes or name one that is"
    if src == dst:
        yield f"{place('dst')}: {dst!r} is also the src; a link joins two different nodes"


def _text_faults(topology: Elements) -> Iterator[str]:
    """Texts that no file can hold, and a topology without ranks."""
    for field, text in (("name", topology.name), ("source", topology.source)):
        if any("\ud800" <= char <= "\udfff" for char in text):
            yield f"topology {field}: {text!r} has lone surrogates, which no UTF-8 file can hold"
    if not any(node.kind == "gpu" for node in topology.nodes):
        yield "topology: has no node of kind gpu, so there are no ranks; declare at least one"


def _node_faults(nodes: Iterable[Node], where: Where) -> Iterator[str]:
    for i, node in enumerate(nodes):
        if (reason := id_fault(node.id)) is not None:
            yield f"{where('nodes', i, 'id')}: {reason}"
        if (reason := id_fault(node.host)) is not None:
            yield f"{where('nodes', i, 'host')}: {reason}"
        if node.kind not in NODE_KINDS:
            yield f"{where('nodes', i, 'kind')}: {node.kind!r} is unknown; use one of {', '.join(NODE_KINDS)}"
        if relay_is_wrong(node.kind, node.relay):
            yield f"{where('nodes', i, 'relay')}: {RELAY_REASON.format(kind=node.kind)}"
        if passes_is_wrong(node.kind, node.passes):
            yield f"{where('nodes', i, 'passes')}: {PASSES_REASON.format(kind=node.kind)}"


PASSES_REASON = "true is for nodes of kind gpu only; this one is a {kind}, remove passes (it forwards anyway)"
RELAY_REASON = "false is for nodes of kind gpu only; this one is a {kind}, remove relay"


def passes_is_wrong(kind: object, passes: object) -> bool:
    """Whether a node that is not a GPU is told to pass traffic on, as all of them do."""
    return passes is True and kind in NODE_KINDS and kind != "gpu"


def relay_is_wrong(kind: object, relay: object) -> bool:
    """Whether a node that is not a GPU is told not to forward: it would be a dead end, which nobody means."""
    return relay is False and kind != "gpu" and kind in NODE_KINDS


def _link_faults(link: Link, index: int, where: Where) -> Iterator[str]:
    if (reason := id_fault(link.id)) is not None:
        yield f"{where('links', index, 'id')}: {reason}"
    if link.kind not in LINK_KINDS:
        yield f"{where('links', index, 'kind')}: {link.kind!r} is unknown; use one of {', '.join(LINK_KINDS)}"
    yield from _bandwidth_faults(link.bandwidth, where("links", index, "bandwidth"))
    if not (math.isfinite(link.latency) and link.latency >= 0):
        yield f"{where('links', index, 'latency')}: {link.latency!r} must be zero or more seconds, and finite"
    if not 0 < link.efficiency <= 1:
        yield f"{where('links', index, 'efficiency')}: {link.efficiency!r} must be above 0 and at most 1"
    elif link.bandwidth > 0 and link.capacity == 0:
        yield f"{where('links', index, 'efficiency')}: {link.efficiency!r} leaves a capacity of zero"


def _bandwidth_faults(bandwidth: float, place: str) -> Iterator[str]:
    if bandwidth == math.inf:
        yield f"{place}: inf is unbounded: no time follows from it; give a finite number of bytes/second"
    elif not bandwidth > 0:
        yield f"{place}: {bandwidth!r} must be a positive, finite number of bytes/second; leave a dead link out"


def _resource_faults(resources: Iterable[Resource], links: Collection[str], where: Where) -> Iterator[str]:
    for i, resource in enumerate(resources):
        if (reason := id_fault(resource.id)) is not None:
            yield f"{where('resources', i, 'id')}: {reason}"
        yield from _bandwidth_faults(resource.bandwidth, where("resources", i, "bandwidth"))
        seen = set()
        for link, times in resource.uses:
            place = where("resources", i, f"uses[{link!r}]")
            if link not in links:
                yield f"{place}: is not a declared link; name one that is"
            if link in seen:
                yield f"{place}: is there twice; add the multiplicities"
            seen.add(link)
            if not (math.isfinite(times) and times > 0):
                yield f"{place}: {times!r} must be a positive, finite multiplicity"


def _symmetry_faults(symmetry: Iterable[tuple[tuple[str, str], ...]], known: Collection[str]) -> Iterator[str]:
    for i, hint in enumerate(symmetry):
        if len(dict(hint)) < len(hint):
            yield f"symmetry[{i}]: maps a node twice; a map has one image per node"
        for node in dict.fromkeys(name for pair in hint for name in pair):
            if node not in known:
                yield f"symmetry[{i}]: {node!r} is not a declared node"
