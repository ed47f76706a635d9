"""Rented subsets: a collective on some GPUs of a machine, whose other GPUs are idle or somebody else's."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from synth.errors import InvalidInputError
from synth.topology.model import Topology
from synth.topology.paths import without_links


def rented(topology: Topology, ranks: Iterable[int], relay: bool = True) -> Topology:
    """The machine as a collective on some of its ranks may use it.

    Parameters
    ----------
    ranks
        Who takes part. The GPUs keep their ranks: the result is for a demand on the same ranks.
    relay
        Whether the other GPUs may forward. If not, they forward nothing, and a NIC whose nearest GPUs are all
        outside carries nothing either: as under a cloud's isolation. Wires, PCIe switches, CPUs and host memory stay.

    Raises
    ------
    InvalidInputError
        A rank that is not there.
    """
    members = frozenset(ranks)
    wrong = sorted(rank for rank in members if not 0 <= rank < len(topology.gpus))
    if wrong:
        raise InvalidInputError(f"ranks {wrong}: {topology.name} has ranks 0 to {len(topology.gpus) - 1}")
    if relay or len(members) == len(topology.gpus):
        return topology
    inside = {topology.gpus[rank] for rank in members}
    foreign = _foreign_nics(topology, inside)
    kept = without_links(topology, (not foreign & set(ends) for ends in topology.ends))
    outside = {node.id for k, node in enumerate(topology.nodes) if node.kind == "gpu" and k not in inside}
    return replace(kept, nodes=tuple(replace(n, relay=False) if n.id in outside else n for n in kept.nodes))


def _foreign_nics(topology: Topology, inside: Collection[int]) -> set[int]:
    """NICs whose nearest GPUs, by hops through anything but NICs and GPUs, are all outside."""
    near: dict[int, set[int]] = {node: set() for node in range(len(topology.nodes))}
    for a, b in topology.ends:
        near[a].add(b)
        near[b].add(a)
    kinds = [node.kind for node in topology.nodes]
    nics = (k for k, kind in enumerate(kinds) if kind == "nic")
    owners = ((nic, _nearest_gpus(nic, near, kinds)) for nic in nics)
    return {nic for nic, gpus in owners if gpus and not gpus & set(inside)}


def _nearest_gpus(nic: int, near: dict[int, set[int]], kinds: Sequence[str]) -> set[int]:
    depth = {nic: 0}
    queue = deque([nic])
    found: set[int] = set()
    limit: int | None = None
    while queue:
        node = queue.popleft()
        if limit is not None and depth[node] >= limit:
            break
        for other in near[node] - depth.keys():
            depth[other] = depth[node] + 1
            if kinds[other] == "gpu":
                found.add(other)
                limit = depth[other]
            elif kinds[other] != "nic":
                queue.append(other)
    return found
