"""A lane's stages as operations: one thread block per rank.

Every block does the lane's stages in one global order, and a wait is always for a signal of an earlier stage, so the
first unfinished stage can always go on: no lane can hang, whatever the size. A block

* tells its senders that its buffers are ready (``rlxsignal``, ``rlxwait``), because a put may come before its kernel;
* puts, and signals at once only what the receiver acts on; the rest is signalled by one last signal per channel;
* waits for all that is still to come, so that everything has arrived when its kernel ends;
* over port channels, acknowledges that: the proxy reads the source later, and upstream's ``flush`` does nothing and its
  ``pwsf`` passes a wrong offset (src/core/include/execution_kernel.hpp, handleFlush and handlePut).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from synth.program.meaning.channel_types import CHANNEL_TYPES, ChannelType
from synth.program.mscclpp.lowering.stages import Fold, Put, Stage
from synth.program.mscclpp.model import MscclppLimits, MscclppOp, Slice

#: A channel's other end; a direction of a channel from source to destination.
_End = tuple[int, ChannelType]
_Edge = tuple[int, int, ChannelType]


@dataclass(frozen=True, slots=True)
class LaneBlock:
    """Operations of one rank in a lane, with the peers and remote buffers in the order of their local ids."""

    peers: dict[str, tuple[int, ...]]
    buffers: dict[str, tuple[tuple[int, str], ...]]
    ops: tuple[MscclppOp, ...]


def lane_blocks(stages: Iterable[Stage], limits: MscclppLimits) -> dict[int, LaneBlock]:
    """Operations of every rank that takes part in a lane."""
    return _Lane(sorted(stages, key=lambda stage: stage.order), limits).build()


class _Writer:
    """Writes one block. A ``nop`` (__syncthreads) separates data operations from waits before and signals after."""

    def __init__(self, peers: dict[str, set[int]], limits: MscclppLimits) -> None:
        self.limits = limits
        self.peers: dict[str, tuple[int, ...]] = {how: tuple(sorted(peers[how])) for how in CHANNEL_TYPES}
        self.buffers: dict[str, list[tuple[int, str]]] = {how: [] for how in CHANNEL_TYPES}
        self.ops: list[MscclppOp] = []
        self.waited = self.moved = self.folded = False

    def sync(self) -> None:
        self.ops.append(MscclppOp("nop"))
        self.waited = self.moved = self.folded = False

    def message(self, name: str, how: str, peers: Iterable[int]) -> None:
        """Signal or wait on the channels of peers, as many in one operation as fit."""
        ids = sorted(self.peers[how].index(peer) for peer in peers)
        wide = self.limits.max_channel_ids
        for begin in range(0, len(ids), wide):
            self.ops.append(MscclppOp(name, channel_type=how, channel_ids=tuple(ids[begin : begin + wide])))

    def signal(self, peers: dict[str, set[int]]) -> None:
        if any(peers.values()) and (self.moved or self.folded or self.waited):
            self.sync()
        for how in CHANNEL_TYPES:
            self.message("signal", how, peers[how])

    def wait(self, peers: dict[str, set[int]]) -> None:
        for how in CHANNEL_TYPES:
            self.message("wait", how, peers[how])
        self.waited |= any(peers.values())

    def fold(self, fold: Fold) -> None:
        """Add in as many operations as the entries need; each goes on with the sum so far."""
        have, step = fold.srcs[0], self.limits.max_entries - 1
        for begin in range(1, len(fold.srcs), step):
            if self.waited or self.folded:
                self.sync()
            srcs = (have, *fold.srcs[begin : begin + step])
            src = tuple(Slice(at, fold.count, type=buffer) for buffer, at in srcs)
            self.ops.append(MscclppOp("re", src, (Slice(fold.dst[1], fold.count, type=fold.dst[0]),), reduce_op="sum"))
            self.folded, have = True, fold.dst

    def put(self, put: Put) -> None:
        how = put.how
        if self.waited or self.folded:
            self.sync()
        buffer = (put.peer, put.dst[0])
        if buffer not in self.buffers[how]:
            self.buffers[how].append(buffer)
        src = Slice(put.src[1], put.count, type=put.src[0])
        dst = Slice(put.dst[1], put.count, buffer_id=self.buffers[how].index(buffer))
        ids = (self.peers[how].index(put.peer),) if how == "port" else ()
        last = self.ops[-1] if self.ops else None
        if last is not None and self._joins(last, how, src, ids):
            joined = replace(last, src=(*last.src, src), dst=(*last.dst, dst), channel_ids=(*last.channel_ids, *ids))
            self.ops[-1] = joined
        else:
            self.ops.append(MscclppOp("put", (src,), (dst,), how, ids))
        self.moved = True

    def _joins(self, last: MscclppOp, how: str, src: Slice, ids: tuple[int, ...]) -> bool:
        """Whether a put can be another entry of the last one; memory puts take one source buffer for all entries."""
        same = last.name == "put" and last.channel_type == how and last.src[0].type == src.type
        return same and len(last.src) < self.limits.max_channel_ids and not set(ids) & set(last.channel_ids)


class _Lane:
    def __init__(self, stages: Sequence[Stage], limits: MscclppLimits) -> None:
        self.stages, self.limits = stages, limits
        self.edges = sorted({(stage.rank, put.peer, put.how) for stage in stages for put in stage.puts})
        ranks = sorted({rank for edge in self.edges for rank in edge[:2]})
        peers: dict[int, dict[str, set[int]]] = {rank: self._none() for rank in ranks}
        for src, dst, how in self.edges:
            peers[src][how].add(dst)
            peers[dst][how].add(src)
        self.writers = {rank: _Writer(peers[rank], limits) for rank in ranks}
        self.sent: Counter[_Edge] = Counter()
        self.taken: Counter[_Edge] = Counter()
        self.number: dict[int, int] = {}  # transfer -> which signal of its channel tells of it
        self.owed: set[_Edge] = set()

    def build(self) -> dict[int, LaneBlock]:
        for rank, writer in self.writers.items():
            self._ready(rank, writer)
        for stage in self.stages:
            self._stage(stage)
        for src in self.writers:
            self._signal(src, [(dst, how) for a, dst, how in sorted(self.owed) if a == src])
        for rank in self.writers:
            self._wait(rank, {(src, how): self.sent[src, rank, how] for src, dst, how in self.edges if dst == rank})
        self._acknowledge()
        return {
            rank: LaneBlock(writer.peers, {how: tuple(writer.buffers[how]) for how in CHANNEL_TYPES}, tuple(writer.ops))
            for rank, writer in self.writers.items()
        }

    def _none(self) -> dict[str, set[int]]:
        return {how: set() for how in CHANNEL_TYPES}

    def _by_type(self, ends: Iterable[_End]) -> dict[str, set[int]]:
        out = self._none()
        for peer, how in ends:
            out[how].add(peer)
        return out

    def _ready(self, rank: int, writer: _Writer) -> None:
        senders = self._by_type((src, how) for src, dst, how in self.edges if dst == rank)
        receivers = self._by_type((dst, how) for src, dst, how in self.edges if src == rank)
        for word in ("signal", "wait"):
            peers = senders if word == "signal" else receivers
            writer.message("rlx" + word, "memory", peers["memory"])
            writer.message(word, "port", peers["port"])
        writer.waited = any(receivers.values())

    def _stage(self, stage: Stage) -> None:
        writer = self.writers[stage.rank]
        needed: dict[_End, int] = {}
        for peer, how, carry in stage.waits:
            needed[peer, how] = max(needed.get((peer, how), 0), self.number[carry])
        self._wait(stage.rank, needed)
        for fold in stage.folds:
            writer.fold(fold)
        for put in sorted(stage.puts, key=lambda put: put.how):
            writer.put(put)
            self.owed.add((stage.rank, put.peer, put.how))
        self._signal(stage.rank, dict.fromkeys((put.peer, put.how) for put in stage.puts if put.signals))
        for put in stage.puts:
            if put.signals:
                self.number[put.carry] = self.sent[stage.rank, put.peer, put.how]

    def _signal(self, src: int, ends: Iterable[_End]) -> None:
        """One signal per channel; it tells of every put before it."""
        receivers = list(ends)
        self.writers[src].signal(self._by_type(receivers))
        for dst, how in receivers:
            self.sent[src, dst, how] += 1
            self.owed.discard((src, dst, how))

    def _wait(self, rank: int, needed: dict[_End, int]) -> None:
        """Wait until so many signals of each channel have been taken; a wait operation takes one per channel."""
        while due := [end for end, count in needed.items() if self.taken[end[0], rank, end[1]] < count]:
            self.writers[rank].wait(self._by_type(due))
            for peer, how in due:
                self.taken[peer, rank, how] += 1

    def _acknowledge(self) -> None:
        """Over port channels, tell the sender that all has arrived: then its proxy has read every source."""
        ports = [edge for edge in self.edges if edge[2] == "port"]
        for rank, writer in self.writers.items():
            writer.signal(self._by_type((src, how) for src, dst, how in ports if dst == rank))
        for rank, writer in self.writers.items():
            writer.wait(self._by_type((dst, how) for src, dst, how in ports if src == rank))
