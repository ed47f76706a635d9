"""Links between NUMA nodes: nodes of one CPU socket share that socket's link to the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations

from synth.topology.box.hardware import Rate
from synth.topology.box.parts import Numa, Socket

#: Servers with GPUs have one or two sockets; with more NUMA nodes than that, several are on one.
_SOCKETS = 2


def joined(
    numas: Sequence[Numa],
    notes: list[str],
    packages: Sequence[str] | None = None,
    numbers: Sequence[int] | None = None,
    rate: Callable[[int, int], Rate | None] = lambda _i, _j: None,
) -> tuple[Socket, ...]:
    """Links between any two NUMA nodes.

    Parameters
    ----------
    notes
        Grows by how nodes were put on sockets, where that is assumed.
    packages
        Socket of each node, if the file has it; else up to two nodes have one each, and more are taken to be on two.
    numbers
        The operating system's number of each node, by which they are put on sockets; by order if not known.
    rate
        Rate between the i-th and the j-th node; None if it is not known.
    """
    homes = list(packages) if packages is not None else _assumed(numas, numbers, notes)
    several = len(set(homes)) < len(homes)
    out = []
    for j, i in sorted((j, i) for i, j in combinations(range(len(numas)), 2)):
        a, b = numas[i], numas[j]
        apart = several and homes[i] != homes[j]
        ends = (homes[i], homes[j]) if apart else ("", "")
        shared = "-".join(sorted(ends)) if apart else f"{a.id}-{b.id}"
        out.append(Socket(f"{a.id}-{b.id}", shared, b.at, (a.id, b.id), rate(i, j), ends))
    return tuple(out)


def _assumed(numas: Sequence[Numa], numbers: Sequence[int] | None, notes: list[str]) -> list[str]:
    if len(numas) <= _SOCKETS:
        return [numa.id for numa in numas]
    places = list(range(len(numas))) if numbers is None else list(numbers)
    half = 1
    while _SOCKETS * half <= max(places):
        half *= 2
    homes = [f"socket{min(place // half, _SOCKETS - 1)}" for place in places]
    groups = [[numa.id for numa, home in zip(numas, homes, strict=True) if home == name] for name in sorted(set(homes))]
    notes.append(
        f"{len(numas)} NUMA nodes are taken to be on two sockets ({' | '.join(', '.join(group) for group in groups)}): "
        "what goes from one socket to the other shares one link"
    )
    return homes
