"""Counts of links between pairs of GPUs as cables, or as ports on one switch where a GPU has no room for so many."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import networkx as nx

from synth.topology.box.hardware import NVLINK_LATENCY, Rate
from synth.topology.box.parts import Cable, Part, Port

#: Links of a whole GPU, by generation: with each of these between any two of several GPUs a switch is possible.
_WHOLE = (6, 8, 12, 18)
_MOST = 18


@dataclass(frozen=True, slots=True)
class Limit:
    """The most links that a GPU has, and whose number that is (``the a100``)."""

    links: int
    whose: str


def linked(
    gpus: Sequence[Part],
    counts: Mapping[tuple[int, int], int],
    limit: Limit | None,
    faults: list[str],
    notes: list[str],
    rate: Rate | None = None,
) -> tuple[list[Cable], list[Port]]:
    """Cables and ports that give each pair its NVLinks, and no GPU more than it has.

    With an NVSwitch ``nvidia-smi`` and NCCL count the links of a GPU to the switch for every pair: eight GPUs with NV18
    have 18 links each, not 126.

    Parameters
    ----------
    gpus
        All GPUs; ``counts`` has pairs (i, j), i < j, of their positions.
    limit
        What the GPU's model says; None if it is not known.
    faults
        Grows by pairs that cannot be, and by those that could be a mesh as well as a switch.
    notes
        Grows by what is taken for a switch, and by GPUs that use fewer links than they have.
    """
    graph: nx.Graph[int] = nx.Graph()
    graph.add_edges_from(pair for pair, count in counts.items() if count)
    cables: list[Cable] = []
    ports: list[Port] = []
    for group in sorted(sorted(part) for part in nx.connected_components(graph)):
        inside = {pair: counts[pair] for pair in sorted(counts) if pair[0] in group and pair[1] in group}
        count = _switched(group, inside, gpus, limit, faults, notes)
        if count is None:
            cables += (_cable(gpus, pair, n, rate) for pair, n in inside.items())
        else:
            half = NVLINK_LATENCY / 2
            ports += (
                Port(f"nv-{gpus[i].id}", gpus[i].name, gpus[i].at, gpus[i].id, count, rate, latency=half) for i in group
            )
    return cables, ports


def _cable(gpus: Sequence[Part], pair: tuple[int, int], count: int, rate: Rate | None) -> Cable:
    a, b = (gpus[i] for i in pair)
    return Cable(f"nv{pair[0]}-{pair[1]}", f"{a.name}-{b.name}", a.at, a.id, b.id, count, rate, latency=NVLINK_LATENCY)


def _switched(
    group: Sequence[int],
    counts: Mapping[tuple[int, int], int],
    gpus: Sequence[Part],
    limit: Limit | None,
    faults: list[str],
    notes: list[str],
) -> int | None:
    """Links of each GPU of the group to a switch; None if they are wired one to another."""
    most = _MOST if limit is None else limit.links
    totals = {i: sum(n for pair, n in counts.items() if i in pair) for i in group}
    same = set(counts.values())
    whole = len(same) == 1 and len(counts) == len(group) * (len(group) - 1) // 2
    count = next(iter(same))
    where = gpus[group[0]].at
    if max(totals.values()) <= most:
        if limit is None and whole and len(group) > 2 and count in _WHOLE:
            faults.append(
                f"{where}: {count} links between any two of {len(group)} GPUs are a mesh, or {count} links of each to "
                "a switch: give --gpu with the GPU's name, whose number of links tells"
            )
        elif limit is not None:
            notes.extend(_unused(gpus, totals, limit))
        return None
    if whole and count <= most and (limit is not None or count in _WHOLE):
        have = f"{limit.whose} has {most}" if limit is not None else f"no GPU has more than {most}"
        notes.append(
            f"NV{count} between any two of {len(group)} GPUs is one switch with {count} links per GPU: wired one to "
            f"another they would be {max(totals.values())} per GPU, {have}"
        )
        if limit is not None and count < most:
            notes.extend(_unused(gpus, dict.fromkeys(group, count), limit))
        return count
    worst = max(totals, key=lambda i: totals[i])
    have = f"{limit.whose} has {most}; is --gpu right?" if limit is not None else f"{most} are the most of any GPU"
    faults.append(f"{gpus[worst].at}: {totals[worst]} links to other GPUs, {have}")
    return None


def _unused(gpus: Sequence[Part], totals: Mapping[int, int], limit: Limit) -> Iterator[str]:
    for used in sorted({n for n in totals.values() if n < limit.links}):
        names = ", ".join(gpus[i].name for i, n in sorted(totals.items()) if n == used)
        yield f"{used} of the {limit.links} links that {limit.whose} has are in the file: {names}"
