"""A schedule as flat lists, made once and run at many sizes and constants."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from synth.ground.arrays import Floats, Ints
from synth.schedule.model import Transfer
from synth.topology.model import Topology


@dataclass(frozen=True, slots=True, eq=False)
class CompiledTransfers:
    """Messages of a schedule; one message moves one transfer, or several that go together.

    Attributes
    ----------
    count
        Chunks of each message.
    links
        Link indices of each message's hop, in order.
    deps
        Messages that must have arrived, per message; all smaller.
    adds
        Whether the destination adds what arrives.
    message_of
        Message of each transfer.
    capacity, latency
        Bytes/second and seconds, per link.
    pools
        Per link, the (row, seconds per byte) of the shared resources that it uses; rows count on after the links.
    rows
        Links and shared resources together.
    """

    count: list[int]
    links: list[tuple[int, ...]]
    deps: list[tuple[int, ...]]
    adds: list[bool]
    message_of: Ints
    capacity: list[float]
    latency: list[float]
    pools: list[tuple[tuple[int, float], ...]]
    rows: int

    def __len__(self) -> int:
        return len(self.count)


@dataclass(frozen=True, slots=True, eq=False)
class Timeline:
    """Start on the first link and arrival at the destination of each transfer.

    Attributes
    ----------
    starts, arrivals
        Seconds, one per transfer in the given order. What is added at the destination has arrived when it is added.
    """

    starts: Floats
    arrivals: Floats

    @property
    def end(self) -> float:
        """Last arrival."""
        return float(self.arrivals.max(initial=0.0))


def compile_transfers(
    topology: Topology, transfers: Sequence[Transfer], messages: Sequence[int] = ()
) -> CompiledTransfers:
    """Flatten transfers.

    Parameters
    ----------
    topology
        Capacities and latencies.
    transfers
        Dependencies name positions in this sequence.
    messages
        Which transfers go together (see ``Schedule.messages``); empty: each on its own.
    """
    pools: list[list[tuple[int, float]]] = [[] for _ in topology.links]
    for k, pool in enumerate(topology.resources):
        for name, times in pool.uses:
            pools[topology.link_index[name]].append((len(topology.links) + k, times / pool.bandwidth))
    number: dict[int, int] = {}
    message_of = [number.setdefault(key, len(number)) for key in messages or range(len(transfers))]
    members: list[list[int]] = [[] for _ in number]
    for k, message in enumerate(message_of):
        members[message].append(k)
    first = [transfers[group[0]] for group in members]
    deps = [
        transfers[group[0]].deps
        if not messages
        else tuple(sorted({message_of[d] for d in chain.from_iterable(transfers[k].deps for k in group)}))
        for group in members
    ]
    return CompiledTransfers(
        count=[sum(transfers[k].count for k in group) for group in members],
        links=[transfer.links for transfer in first],
        deps=deps,
        adds=[transfer.reduce for transfer in first],
        message_of=np.array(message_of, dtype=np.int64),
        capacity=[link.capacity for link in topology.links],
        latency=[link.latency for link in topology.links],
        pools=[tuple(users) for users in pools],
        rows=len(topology.links) + len(topology.resources),
    )


def spread(compiled: CompiledTransfers, starts: Sequence[float], arrivals: Sequence[float]) -> Timeline:
    """Times of messages as times of transfers."""
    return Timeline(
        np.array(starts, dtype=float)[compiled.message_of], np.array(arrivals, dtype=float)[compiled.message_of]
    )
