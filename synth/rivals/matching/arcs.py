"""GPU-to-GPU connections with what one message of a size does to the links and pools that they use."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from synth.demand.model import Demand
from synth.errors import NotExpressibleError
from synth.formulation.flow.network import Hop, split_path
from synth.schedule.paths import GpuPaths
from synth.schedule.simulate.compiled import compile_transfers
from synth.schedule.simulate.time_model import TimeModel
from synth.topology.model import Topology

# Equally cheap connections of a pair that are told apart, and connections of a machine altogether.
MOST_STRANDS = 4
MOST_ARCS = 20_000


@dataclass(frozen=True, slots=True)
class Arc:
    """A cheapest way from one member to another that passes no other member.

    Attributes
    ----------
    src, dst
        Positions among the members.
    hops
        Its hops; more than one when GPUs relay that are no members.
    uses
        (row, lead, until): the row must be free ``lead`` seconds after the start and is taken ``until`` so many.
    seconds
        From the start to the arrival.
    """

    src: int
    dst: int
    hops: tuple[Hop, ...]
    uses: tuple[tuple[int, float, float], ...]
    seconds: float

    @property
    def interval(self) -> float:
        """Seconds from one message to the next."""
        return max(until - lead for _, lead, until in self.uses)


def reversed_topology(topology: Topology) -> Topology:
    """The machine with every link turned round; ids stay."""
    return replace(
        topology, links=tuple(replace(link, src=link.dst, dst=link.src) for link in topology.links), symmetry=()
    )


def arcs_of(
    topology: Topology, demand: Demand, message_bytes: float, model: TimeModel, adds: bool = False
) -> tuple[Arc, ...]:
    """Connections between all pairs of members.

    Parameters
    ----------
    topology, demand
        The members are the demand's ranks; links are compared at ``message_bytes``.
    message_bytes
        Bytes of a message.
    model
        Latencies, overhead and how long a link is busy.
    adds
        Whether the far end adds what arrives.

    Raises
    ------
    NotExpressibleError
        When there are more than ``MOST_ARCS``.
    """
    members = [topology.gpus[rank] for rank in demand.ranks]
    inside = set(members)
    nodes = tuple(replace(node, relay=node.relay and k not in inside) for k, node in enumerate(topology.nodes))
    finder = GpuPaths(replace(topology, nodes=nodes, symmetry=()), message_bytes, relays=True)
    rows = _Rows(topology)
    out: list[Arc] = []
    for a, src in enumerate(members):
        for b, dst in enumerate(members):
            for path in finder.between(src, dst)[:MOST_STRANDS] if a != b else ():
                hops = split_path(topology, path)
                out.append(Arc(a, b, hops, *rows.timing(hops, message_bytes, model, adds)))
        if len(out) > MOST_ARCS:
            raise NotExpressibleError(f"more than {MOST_ARCS} connections between GPUs: too many for matching")
    return tuple(out)


class _Rows:
    """Links and pools of a topology as rows (see ``CompiledTransfers``)."""

    def __init__(self, topology: Topology) -> None:
        self.links = topology.links
        self.pools = compile_transfers(topology, ()).pools

    def timing(
        self, hops: tuple[Hop, ...], size: float, model: TimeModel, adds: bool
    ) -> tuple[tuple[tuple[int, float, float], ...], float]:
        """Rows of a message that starts at 0 on idle rows, and its arrival (docs/time-model.md)."""
        first: dict[int, float] = {}
        until: dict[int, float] = {}
        head = 0.0
        for hop in hops:
            done, extra = 0.0, model.overhead
            for link in hop.links:
                served = [(link, 1.0 / self.links[link].capacity), *self.pools[link]]
                head = max([head, *(until.get(row, -math.inf) for row, _ in served)])
                alpha = self.links[link].latency + (model.hop_latency if link == hop.links[-1] else 0.0)
                hold = alpha if model.alpha_mode == "blocking" else 0.0
                begun, passed = head + extra, 0.0
                for row, per_byte in served:
                    first.setdefault(row, head)
                    through = begun + size * per_byte
                    until[row] = through + hold
                    passed = max(passed, through)
                done = max(done, passed) + alpha
                head, extra = begun + alpha, 0.0
            head = done
        arrival = head + (size / model.reduce_rate if adds else 0.0)
        return tuple((row, first[row], until[row]) for row in sorted(first)), arrival
