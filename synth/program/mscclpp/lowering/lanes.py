"""Bundles of stages to lanes, so that every block stays within the executor's arrays and the blocks are evenly long."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from synth.program.meaning.channel_types import CHANNEL_TYPES, ChannelType
from synth.program.mscclpp.lowering.stages import Stage
from synth.program.mscclpp.model import MscclppLimits

Sets = dict[tuple[int, str], frozenset[object]]


def ceil_div(a: int, b: int) -> int:
    """Least whole number not below a / b."""
    return -(-a // b)


@dataclass(frozen=True)
class Bundle:
    """Stages that stay together in one lane, and what they need on every rank.

    Attributes
    ----------
    cost
        Operations per rank, without those that a block needs once.
    channels, buffers
        Peers, and (peer, buffer) pairs, per (rank, channel type).
    senders
        Ranks that move data.
    """

    stages: tuple[Stage, ...]
    cost: dict[int, int]
    channels: Sets
    buffers: Sets
    senders: frozenset[int]


def make_bundle(stages: Sequence[Stage], limits: MscclppLimits) -> Bundle:
    """Count what stages need."""
    cost: dict[int, int] = {}
    channels: dict[tuple[int, str], set[object]] = {}
    buffers: dict[tuple[int, str], set[object]] = {}
    for stage in stages:
        cost[stage.rank] = cost.get(stage.rank, 0) + _cost(stage, limits)
        for put in stage.puts:
            how = put.how
            cost.setdefault(put.peer, 0)
            channels.setdefault((stage.rank, how), set()).add(put.peer)
            channels.setdefault((put.peer, how), set()).add(stage.rank)
            buffers.setdefault((stage.rank, how), set()).add((put.peer, put.dst[0]))
    frozen = {key: frozenset(value) for key, value in channels.items()}
    senders = frozenset(stage.rank for stage in stages)
    return Bundle(tuple(stages), cost, frozen, {key: frozenset(value) for key, value in buffers.items()}, senders)


def _cost(stage: Stage, limits: MscclppLimits) -> int:
    """Operations of a stage when nothing is shared with its neighbours."""
    wide = limits.max_channel_ids
    waits: dict[ChannelType, set[int]] = {how: set() for how in CHANNEL_TYPES}
    for peer, how, _ in stage.waits:
        waits[how].add(peer)
    total = sum(ceil_div(len(peers), wide) for peers in waits.values()) + bool(stage.waits)
    for fold in stage.folds:
        total += 2 * ceil_div(len(fold.srcs) - 1, limits.max_entries - 1)
    for how in CHANNEL_TYPES:
        puts = [put for put in stage.puts if put.how == how]
        total += ceil_div(len(puts), wide) + ceil_div(sum(put.signals for put in puts), wide)
    return total + any(put.signals for put in stage.puts)


def base_cost(memory: int, port: int, wide: int) -> int:
    """Operations that a block needs once: ready signals and waits, last signals and waits, acknowledgements."""
    return 4 * ceil_div(memory, wide) + 6 * ceil_div(port, wide) + 3


@dataclass
class Lane:
    """What is in a lane so far."""

    bundles: list[int] = field(default_factory=list)
    cost: dict[int, int] = field(default_factory=dict)
    channels: Sets = field(default_factory=dict)
    buffers: Sets = field(default_factory=dict)

    def fault(self, bundle: Bundle, limits: MscclppLimits, budget: int) -> str | None:
        """The limit that a bundle would break here, in words, or None."""
        for (rank, how), peers in bundle.channels.items():
            have = len(self.channels.get((rank, how), frozenset()) | peers)
            if have > limits.max_channels:
                return f"{have} {how} channels in a block of rank {rank}, at most {limits.max_channels}"
        for (rank, how), places in bundle.buffers.items():
            have = len(self.buffers.get((rank, how), frozenset()) | places)
            if have > limits.max_remote_buffers:
                return f"{have} remote buffers in a block of rank {rank}, at most {limits.max_remote_buffers}"
        for rank, cost in bundle.cost.items():
            sets = [self.channels.get((rank, how), frozenset()) for how in CHANNEL_TYPES]
            more = [bundle.channels.get((rank, how), frozenset()) for how in CHANNEL_TYPES]
            memory, port = (len(a | b) for a, b in zip(sets, more, strict=True))
            total = self.cost.get(rank, 0) + cost + base_cost(memory, port, limits.max_channel_ids)
            if total > budget:
                return f"{total} operations in a block of rank {rank}, at most {limits.max_ops}"
        return None

    def add(self, index: int, bundle: Bundle) -> None:
        """Put a bundle in."""
        self.bundles.append(index)
        for rank, cost in bundle.cost.items():
            self.cost[rank] = self.cost.get(rank, 0) + cost
        for mine, theirs in ((self.channels, bundle.channels), (self.buffers, bundle.buffers)):
            for key, value in theirs.items():
                mine[key] = mine.get(key, frozenset()) | value


def pack(bundles: Sequence[Bundle], lanes: int, ranks: int, limits: MscclppLimits, budget: int) -> list[Lane] | str:
    """Give every bundle to the lane, among those where it fits, whose senders and then receivers have least to do.

    Returns
    -------
    list of Lane or str
        Or the limit that was in the way.
    """
    out = [Lane() for _ in range(lanes)]
    work = np.zeros((lanes, ranks), dtype=np.int64)  # operations of ranks that move data
    idle = np.zeros((lanes, ranks), dtype=np.int64)  # bundles for which ranks only wait
    for index, bundle in enumerate(bundles):
        senders = [rank for rank in bundle.cost if rank in bundle.senders]
        others = [rank for rank in bundle.cost if rank not in bundle.senders]
        most = (work[:, senders] + [bundle.cost[rank] for rank in senders]).max(axis=1)
        fault: str | None = f"{lanes} lanes"
        for lane in np.lexsort((idle[:, others].max(axis=1, initial=0), most)).tolist():
            fault = out[lane].fault(bundle, limits, budget)
            if fault is None:
                out[lane].add(index, bundle)
                work[lane, senders] += [bundle.cost[rank] for rank in senders]
                idle[lane, others] += 1
                break
        if fault is not None:
            return fault
    return [lane for lane in out if lane.bundles]


def least_lanes(bundles: Sequence[Bundle]) -> int:
    """Lanes that let every rank serve each of its bundles with a block of its own."""
    count: dict[int, int] = {}
    for bundle in bundles:
        for rank in bundle.senders:
            count[rank] = count.get(rank, 0) + 1
    return max(count.values(), default=1)
