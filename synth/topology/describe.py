"""A topology in a few lines for a person."""

from __future__ import annotations

from collections import Counter

from synth.ground.units import format_bandwidth
from synth.topology.model import Topology

#: Names that a line of resources shows.
_SHOWN = 4


def describe_topology(topology: Topology) -> str:
    """Nodes by kind and host, links by kind and capacity, shared resources, notes and sources."""
    nodes = Counter(node.kind for node in topology.nodes)
    hosts = len({node.host for node in topology.nodes if node.kind == "gpu"})
    lines = [f"{topology.name}: " + ", ".join(f"{n} {kind}" for kind, n in nodes.items()) + f", {hosts} host(s)"]
    links = Counter((link.kind, link.capacity, link.efficiency) for link in topology.links)
    for (kind, capacity, efficiency), n in links.items():
        share = "" if efficiency == 1 else f" ({efficiency:.0%} of nominal)"
        lines.append(f"  {n} {kind} links of {format_bandwidth(capacity)}{share}, one direction each")
    alike: dict[tuple[float, int], list[str]] = {}
    for pool in topology.resources:
        alike.setdefault((pool.bandwidth, len(pool.uses)), []).append(pool.id)
    for (capacity, shared), names in alike.items():
        several = f"{len(names)} resources" if len(names) > 1 else "resource"
        shown = ", ".join([*names[:_SHOWN], *(["..."] if len(names) > _SHOWN else [])])
        lines.append(f"  {several} {shown}: {format_bandwidth(capacity)} shared by {shared} link{'s' * (shared != 1)}")
    fixed = [node.id for node in topology.nodes if not node.relay]
    if fixed:
        lines.append(f"  may not relay: {', '.join(fixed)}")
    passing = sum(node.passes for node in topology.nodes)
    if passing:
        lines.append(f"  {passing} GPUs pass traffic on in hardware: pairs without a link reach each other over hops")
    lines += [f"  note: {note}" for note in topology.notes]
    if topology.source:
        lines.append(f"  source: {topology.source}")
    return "\n".join(lines)
