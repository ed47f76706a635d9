"""Writing topologies as ``synth-topology/1`` files that read back as equal topologies."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from synth.files.writing import write_text
from synth.ground.units import exact_bandwidth, exact_time
from synth.topology.elements import Link, Node, Resource
from synth.topology.file import FORMAT
from synth.topology.model import Topology


def dump_topology(topology: Topology) -> str:
    """Text of a topology file; reading it gives an equal topology, every number to the last bit.

    Parameters
    ----------
    topology
        Its ``notes`` are not written: they say how it came about, not what it is.
    """
    sections: dict[str, Sequence[Mapping[str, object]]] = {
        "nodes": [_node(node) for node in topology.nodes],
        "links": list(_links(topology)),
        "resources": [_resource(resource) for resource in topology.resources],
        "symmetry": [dict(hint) for hint in topology.symmetry],
    }
    parts = [f'"format": {_json(FORMAT)}', f'"name": {_json(topology.name)}']
    if topology.source:
        parts.append(f'"source": {_json(topology.source)}')
    for name, items in sections.items():
        if items:
            rows = ",\n".join(f"  {_json(item)}" for item in items)
            parts.append(f'"{name}": [\n{rows}\n ]')
        elif name in ("nodes", "links"):
            parts.append(f'"{name}": []')
    return "{\n " + ",\n ".join(parts) + "\n}\n"


def save_topology(topology: Topology, path: Path | str) -> None:
    """Write a topology file; a reader sees the old file or the new one, never a part.

    Raises
    ------
    InvalidInputError
        The directory does not exist or cannot be written.
    """
    write_text(path, dump_topology(topology))


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _node(node: Node) -> dict[str, object]:
    entry: dict[str, object] = {"id": node.id, "kind": node.kind}
    if node.host != "host0":
        entry["host"] = node.host
    if not node.relay:
        entry["relay"] = False
    if node.passes:
        entry["passes"] = True
    return entry


def _links(topology: Topology) -> Iterator[dict[str, object]]:
    """Links in order; neighbours that are the two directions of one cable become one entry."""
    taken = {link.id for link in topology.links} | {resource.id for resource in topology.resources}
    i = 0
    while i < len(topology.links):
        link = topology.links[i]
        cable = link.id.removesuffix(":fwd")
        following = topology.links[i + 1] if i + 1 < len(topology.links) else None
        if cable and cable not in taken and following == _reverse(link, cable):
            yield {**_link(link), "id": cable, "both_ways": True}
            i += 2
        else:
            yield _link(link)
            i += 1


def _reverse(link: Link, cable: str) -> Link:
    numbers = (link.bandwidth, link.latency, link.kind, link.efficiency)
    return Link(f"{cable}:rev", link.dst, link.src, *numbers)


def _link(link: Link) -> dict[str, object]:
    bandwidth = exact_bandwidth(link.bandwidth)
    entry: dict[str, object] = {"id": link.id, "src": link.src, "dst": link.dst, "bandwidth": bandwidth}
    if link.latency:
        entry["latency"] = exact_time(link.latency)
    if link.kind != "net":
        entry["kind"] = link.kind
    if link.efficiency != 1.0:
        entry["efficiency"] = float(link.efficiency)
    return entry


def _resource(resource: Resource) -> dict[str, object]:
    uses = {link: int(times) if float(times).is_integer() else float(times) for link, times in resource.uses}
    return {"id": resource.id, "bandwidth": exact_bandwidth(resource.bandwidth), "uses": uses}
