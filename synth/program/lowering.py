"""Lowering: transfers -> thread blocks.

One block per (peer, channel) and direction; every block's steps are in the schedule's order. Since each transfer's send
and receive stand at the same place of one global order, the first unfinished transfer can always proceed, so the
program cannot deadlock at any FIFO depth or message size.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Literal

from synth.errors import InvalidInputError
from synth.program.claims import claim_of, input_offset, local_copies, output_offset
from synth.program.model import Buffer, Draft, GpuProgram, Semantics, Step, StepType, ThreadBlock
from synth.program.program import Program
from synth.program.semantics import IN_PLACE, buffer_chunks
from synth.program.targets import MSCCL, Target
from synth.schedule.model import Schedule, Transfer

Place = tuple[Buffer, int]
Direction = Literal["recv", "copy", "send"]
# Order of block ids on a GPU: blocks that others wait for come first, because only ids 0..127 can be waited for.
DIRECTIONS: tuple[Direction, ...] = ("recv", "copy", "send")


@dataclass(frozen=True, slots=True)
class BlockKey:
    """Identity of a thread block on a GPU before it has a number."""

    direction: Direction
    peer: int
    chan: int


@dataclass(frozen=True, slots=True)
class _Op:
    """A step whose waits are not yet numbered: ``waits`` are (block, position of the op in it)."""

    type: StepType
    src: Place
    dst: Place
    count: int
    waits: tuple[tuple[BlockKey, int], ...] = ()


def lower(
    schedule: Schedule,
    *,
    target: Target = MSCCL,
    inplace: bool = False,
    name: str | None = None,
    max_bytes: int | None = None,
) -> Program:
    """Lower a schedule to a verified program: :func:`make_draft`, then the verification.

    Raises
    ------
    NotExpressibleError
        When the schedule does not fit into the target's limits; each limit is named.
    VerificationError
        When the program does not do what it claims (a defect of synth, never of the input).
    """
    return Program(make_draft(schedule, target=target, inplace=inplace, name=name, max_bytes=max_bytes), target)


def make_draft(
    schedule: Schedule,
    *,
    target: Target = MSCCL,
    inplace: bool = False,
    name: str | None = None,
    max_bytes: int | None = None,
) -> Draft:
    """Thread blocks of a schedule, not verified yet.

    Parameters
    ----------
    schedule
        What to run.
    target
        Runtime whose limits apply.
    inplace
        For calls that pass one buffer for both sides (all-gather, reduce-scatter, all-reduce, broadcast, reduce).
    name
        Name in the file; default made from collective, topology and chunks.
    max_bytes
        Size up to which the file is active; default the power of two above the demand's size.

    Returns
    -------
    Draft

    Raises
    ------
    InvalidInputError
        When the collective has no in-place form.
    """
    claim = claim_of(schedule)
    if inplace and claim.collective not in IN_PLACE:
        raise InvalidInputError(f"{claim.collective} has no in-place form; in place are {', '.join(IN_PLACE)}")
    lowering = _Lowering(schedule, claim, target, inplace)
    size = schedule.plan.demand.size_bytes
    return Draft(
        name=_safe_name(name or _default_name(schedule), target.max_name_bytes),
        semantics=claim,
        nchannels=lowering.channels,
        proto="Simple",
        inplace=inplace,
        outofplace=not inplace,
        min_bytes=0,
        max_bytes=max_bytes or 1 << max(20, int(size).bit_length()),
        gpus=lowering.gpus(),
    )


def _default_name(schedule: Schedule) -> str:
    plan = schedule.plan
    return f"synth_{plan.demand.collective}_{plan.topology.name}_k{schedule.chunks_per_shard}"


def _safe_name(name: str, limit: int) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]+", "_", name)[:limit]


@dataclass
class _Rank:
    """Blocks of one rank while they are filled."""

    ops: dict[BlockKey, list[_Op]] = field(default_factory=dict)
    writer: dict[Place, tuple[BlockKey, int]] = field(default_factory=dict)
    scratch: int = 0

    def add(self, key: BlockKey, op: _Op, reads: Place | None, writes: Place | None) -> None:
        """Append an op; it waits for the last writers, in other blocks, of all the chunks that it reads."""
        waits: dict[BlockKey, int] = {}
        if reads is not None:
            for chunk in range(reads[1], reads[1] + op.count):
                known = self.writer.get((reads[0], chunk))
                if known is not None and known[0] != key:
                    waits[known[0]] = max(waits.get(known[0], -1), known[1])
        ops = self.ops.setdefault(key, [])
        if writes is not None:
            for chunk in range(writes[1], writes[1] + op.count):
                self.writer[writes[0], chunk] = (key, len(ops))
        ops.append(replace(op, waits=tuple(waits.items())))

    def reserve(self, count: int) -> Place:
        """Fresh scratch chunks."""
        place: Place = ("s", self.scratch)
        self.scratch += count
        return place


class _Lowering:
    def __init__(self, schedule: Schedule, claim: Semantics, target: Target, inplace: bool) -> None:
        self.schedule, self.claim, self.target, self.inplace = schedule, claim, target, inplace
        topology = schedule.plan.topology
        self.rank_of = topology.rank_of
        self.ranks = [_Rank() for _ in topology.gpus]
        self.members = {topology.gpus[rank] for rank in schedule.plan.demand.ranks}
        self.pattern = schedule.plan.demand.pattern
        self.partial: dict[tuple[int, int, int], Place] = {}  # GPU, shard, first chunk -> where its sum is kept
        self.landed: dict[int, Place] = {}  # transfer -> where its chunks arrived
        self.lanes = self._lanes()
        self.channels = 1 + max(self.lanes, default=0)
        self._local_copies()
        for k, transfer in enumerate(schedule.transfers):
            self._transfer(k, transfer)

    def _lanes(self) -> list[int]:
        """Channel of each transfer: one per physical path of a GPU pair, more where a block would be too long."""
        paths: dict[tuple[int, int], dict[tuple[int, ...], int]] = {}
        for t in self.schedule.transfers:
            of_pair = paths.setdefault((t.src, t.dst), {})
            of_pair[t.links] = of_pair.get(t.links, 0) + -(-t.count // self.target.max_count)
        first: dict[tuple[tuple[int, int], tuple[int, ...]], tuple[int, int]] = {}
        for pair, of_pair in paths.items():
            chan = 0
            for links in sorted(of_pair):
                # Waiting for several blocks takes an extra step each, so a block is filled to three quarters only.
                width = -(-of_pair[links] // (self.target.max_steps_per_block * 3 // 4))
                first[pair, links] = (chan, width)
                chan += width
        turn: dict[tuple[tuple[int, int], tuple[int, ...]], int] = {}
        lanes = []
        for t in self.schedule.transfers:
            key = ((t.src, t.dst), t.links)
            begin, width = first[key]
            lanes.append(begin + turn.get(key, 0) % width)
            turn[key] = turn.get(key, 0) + 1
        return lanes

    def _local_copies(self) -> None:
        """Own chunks go from input to output by an explicit copy (in place they are there already)."""
        if self.inplace:
            return
        for rank, at_input, at_output, count in local_copies(self.claim):
            most = self.target.max_count
            for k, begin in enumerate(range(0, count, most)):
                key = BlockKey("copy", -1, k // self.target.max_steps_per_block)
                n = min(most, count - begin)
                src: Place = ("i", at_input + begin)
                dst: Place = ("o", at_output + begin)
                self.ranks[rank].add(key, _Op("cpy", src, dst, n), src, dst)

    def _transfer(self, k: int, transfer: Transfer) -> None:
        source = self._source(transfer)
        first_sum = (transfer.dst, transfer.shard, transfer.first) not in self.partial
        target = self.landed[k] = self._target(transfer)
        operand = None
        if transfer.reduce:  # the destination adds to its own input the first time, then to the sum so far
            operand = self._input(transfer.dst, transfer) if first_sum else target
        src, dst = self.rank_of[transfer.src], self.rank_of[transfer.dst]
        send = BlockKey("send", dst, self.lanes[k])
        recv = BlockKey("recv", src, self.lanes[k])
        for begin in range(0, transfer.count, self.target.max_count):
            n = min(self.target.max_count, transfer.count - begin)
            out, to = _shift(source, begin), _shift(target, begin)
            self.ranks[src].add(send, _Op("s", out, to, n), out, None)
            if operand is None:
                self.ranks[dst].add(recv, _Op("r", out, to, n), None, to)
            else:
                local = _shift(operand, begin)
                self.ranks[dst].add(recv, _Op("rrc", local, to, n), local, to)

    def _source(self, t: Transfer) -> Place:
        """Where the source has the chunks."""
        if t.src not in self.members or self.pattern == "unicast":
            return self.landed[t.deps[-1]] if t.deps else self._input(t.src, t)
        if (t.src, t.shard, t.first) in self.partial:
            return self.partial[t.src, t.shard, t.first]
        received = [d for d in t.deps if not self.schedule.transfers[d].reduce]
        return self.landed[received[-1]] if received else self._input(t.src, t)

    def _target(self, t: Transfer) -> Place:
        """Where the destination puts the chunks."""
        if t.dst not in self.members:
            return self.ranks[self.rank_of[t.dst]].reserve(t.count)
        item = self.schedule.plan.demand.commodities[t.shard]
        rank = self.rank_of[t.dst]
        if self.pattern == "unicast":
            final = item.dest == rank
            return self._output(t.dst, t) if final else self.ranks[rank].reserve(t.count)
        if not t.reduce:
            self.partial.pop((t.dst, t.shard, t.first), None)
            return self._output(t.dst, t)
        key = (t.dst, t.shard, t.first)
        if key not in self.partial:
            at_output = self.pattern == "allreduce" or item.root == rank
            self.partial[key] = self._output(t.dst, t) if at_output else self.ranks[rank].reserve(t.count)
        return self.partial[key]

    def _input(self, node: int, t: Transfer) -> Place:
        return ("i", input_offset(self.claim, self.schedule, self.rank_of[node], t.shard) + t.first)

    def _output(self, node: int, t: Transfer) -> Place:
        return ("o", output_offset(self.claim, self.schedule, self.rank_of[node], t.shard) + t.first)

    def gpus(self) -> tuple[GpuProgram, ...]:
        """Number the blocks, turn waits into step numbers, and several waits of one step into no-ops before it."""
        out = []
        for rank, work in enumerate(self.ranks):
            keys = sorted(work.ops, key=lambda key: (DIRECTIONS.index(key.direction), key.peer, key.chan))
            number = {key: k for k, key in enumerate(keys)}
            position = {key: _positions(work.ops[key]) for key in keys}
            waited = {wait for key in keys for op in work.ops[key] for wait in op.waits}
            blocks = []
            for key in keys:
                steps: list[Step] = []
                for k, op in enumerate(work.ops[key]):
                    waits = sorted((number[b], position[b][p]) for b, p in op.waits)
                    steps += _steps(op, waits, (key, k) in waited)
                sends, recvs = key.direction == "send", key.direction == "recv"
                chan = 0 if key.direction == "copy" else key.chan
                blocks.append(
                    ThreadBlock(number[key], key.peer if sends else -1, key.peer if recvs else -1, chan, tuple(steps))
                )
            i_chunks, o_chunks = buffer_chunks(self.claim, rank)
            out.append(GpuProgram(rank, i_chunks, o_chunks, work.scratch, tuple(blocks)))
        return tuple(out)


def _shift(place: Place, by: int) -> Place:
    return (place[0], place[1] + by)


def _positions(ops: list[_Op]) -> list[int]:
    """Step number of each op when every wait but the last takes a no-op of its own."""
    extra = list(accumulate(max(0, len(op.waits) - 1) for op in ops))
    return [k + before for k, before in enumerate(extra)]


def _steps(op: _Op, waits: list[tuple[int, int]], waited: bool) -> list[Step]:
    steps = [Step("nop", "i", -1, "o", -1, 0, block, step) for block, step in waits[:-1]]
    depid, deps = waits[-1] if waits else (-1, -1)
    steps.append(Step(op.type, op.src[0], op.src[1], op.dst[0], op.dst[1], op.count, depid, deps, waited))
    return steps
