"""What the step MILP sees of a machine: hops between ranks, and what each may send in a round.

A round lets a link of bandwidth ``unit`` send one chunk; a link of twice that bandwidth, or two parallel links, two
(SCCL, Cai et al., PPoPP 2021, section 3: a step of r rounds sends r x bandwidth chunks over a link).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from synth.errors import InvalidInputError
from synth.formulation.flow.network import Hop
from synth.formulation.flow.parallel import Bundles, bundle
from synth.topology.model import Topology

MOST_HOPS = 5_000
FAR = 1 << 30


@dataclass(frozen=True)
class StepNetwork:
    """Hops of a machine as the step MILP uses them.

    Attributes
    ----------
    bundles
        The machine; parallel links are one link where the MILP may treat them as one.
    unit
        Bytes/second of a link that sends one chunk per round.
    hops
        Every way from a GPU to another that passes through no third one, over links of ``bundles.bundled``.
    ends
        Per hop the ranks (source, destination).
    room
        Chunks per round of each row: links of ``bundles.bundled``, then resources.
    uses
        Per hop the rows that a chunk uses, and how often.
    """

    bundles: Bundles
    unit: float
    hops: tuple[Hop, ...]
    ends: tuple[tuple[int, int], ...]
    room: tuple[float, ...]
    uses: tuple[tuple[tuple[int, float], ...], ...]

    @property
    def topology(self) -> Topology:
        """The machine with parallel links told apart."""
        return self.bundles.topology

    @cached_property
    def relays(self) -> tuple[bool, ...]:
        """Per rank, whether it may forward what is not its own."""
        return tuple(self.topology.nodes[node].relay for node in self.topology.gpus)

    @cached_property
    def into(self) -> tuple[tuple[int, ...], ...]:
        """Per rank the hops that end there."""
        return tuple(tuple(k for k, (_, b) in enumerate(self.ends) if b == rank) for rank in range(len(self.relays)))

    @cached_property
    def out_of(self) -> tuple[tuple[int, ...], ...]:
        """Per rank the hops that start there."""
        return tuple(tuple(k for k, (a, _) in enumerate(self.ends) if a == rank) for rank in range(len(self.relays)))

    def reversed(self) -> StepNetwork:
        """The machine with every hop turned around: reductions are multicasts on it, run backwards."""
        hops = tuple(Hop(hop.dst, hop.src, hop.links) for hop in self.hops)
        return replace(self, hops=hops, ends=tuple((b, a) for a, b in self.ends))

    def distances(self, sources: Collection[int]) -> list[int]:
        """Fewest hops from any of some ranks to each rank; ``FAR`` where there is no way."""
        return self._search(sources, self.out_of, 1)

    def distances_to(self, goals: Collection[int]) -> list[int]:
        """Fewest hops from each rank to any of some ranks; ``FAR`` where there is no way."""
        return self._search(goals, self.into, 0)

    def _search(self, starts: Collection[int], near: tuple[tuple[int, ...], ...], side: int) -> list[int]:
        found = [FAR] * len(self.relays)
        queue = deque(starts)
        for rank in starts:
            found[rank] = 0
        while queue:
            rank = queue.popleft()
            if found[rank] and not self.relays[rank]:
                continue
            for k in near[rank]:
                other = self.ends[k][side]
                if found[other] == FAR:
                    found[other] = found[rank] + 1
                    queue.append(other)
        return found


def step_network(topology: Topology, unit: float | None = None, *, strands: bool = False) -> StepNetwork:
    """Index a machine for the step MILP.

    Parameters
    ----------
    topology
        The machine.
    unit
        Bytes/second that make one chunk per round; default: the slowest link.
    strands
        Keep parallel links apart.

    Raises
    ------
    InvalidInputError
        When ``unit`` is not positive, or there are too many ways through switches.
    """
    if unit is None:
        unit = min((link.capacity for link in topology.links), default=1.0)
    if not 0 < unit < float("inf"):
        raise InvalidInputError(f"a round's link bandwidth of {unit:g} bytes/second must be positive and finite")
    alone = tuple((k,) for k in range(len(topology.links)))
    bundles = Bundles(topology, alone) if strands else _whole_bundles(topology, unit)
    machine = bundles.bundled
    hops = tuple(_hops(machine))
    ends = tuple((machine.rank_of[hop.src], machine.rank_of[hop.dst]) for hop in hops)
    links = [link.capacity / unit for link in machine.links]
    room = tuple(links + [pool.bandwidth / unit for pool in machine.resources])
    pools: list[list[tuple[int, float]]] = [[] for _ in links]
    for row, pool in enumerate(machine.resources, len(links)):
        for link, times in pool.uses:
            pools[machine.link_index[link]].append((row, times))
    return StepNetwork(bundles, unit, hops, ends, room, tuple(_rows(hop, pools) for hop in hops))


def _rows(hop: Hop, pools: list[list[tuple[int, float]]]) -> tuple[tuple[int, float], ...]:
    use: dict[int, float] = {}
    for link in hop.links:
        for row, times in ((link, 1.0), *pools[link]):
            use[row] = use.get(row, 0.0) + times
    return tuple(sorted(use.items()))


def _whole_bundles(topology: Topology, unit: float) -> Bundles:
    """Bundle parallel links that each send a whole number of chunks per round; others round for themselves."""
    strands: list[tuple[int, ...]] = []
    for strand in bundle(topology).strands:
        counts = [topology.links[k].capacity / unit for k in strand]
        whole = all(abs(n - round(n)) < 1e-9 for n in counts)
        strands += [strand] if whole else [(k,) for k in strand]
    return Bundles(topology, tuple(strands))


def _hops(topology: Topology) -> Iterator[Hop]:
    """Simple paths from GPU to GPU through other nodes."""
    out: list[list[int]] = [[] for _ in topology.nodes]
    for link, (src, _) in enumerate(topology.ends):
        out[src].append(link)
    found = 0
    for gpu in topology.gpus:
        paths: list[tuple[int, tuple[int, ...], frozenset[int]]] = [(gpu, (), frozenset({gpu}))]
        while paths:
            node, links, seen = paths.pop()
            for link in out[node]:
                end = topology.ends[link][1]
                if end in seen:
                    continue
                if topology.nodes[end].kind != "gpu":
                    paths.append((end, (*links, link), seen | {end}))
                    continue
                yield Hop(gpu, end, (*links, link))
                found += 1
                if found > MOST_HOPS:
                    raise InvalidInputError(
                        f"{topology.name!r} has more than {MOST_HOPS} ways between two GPUs through its switches: "
                        "too many for the step MILP"
                    )
