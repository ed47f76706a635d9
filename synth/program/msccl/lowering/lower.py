"""Lowering: transfers -> thread blocks.

One block per (peer, channel) and direction; every block's steps are in the schedule's order. Since each transfer's send
and receive stand at the same place of one global order, the first unfinished transfer can always proceed, so the
program cannot deadlock at any FIFO depth or message size.
"""

from __future__ import annotations

import re
from typing import Any

from synth.errors import InvalidInputError, NotExpressibleError
from synth.program.meaning.claims import claim_of, input_offset, local_copies, output_offset
from synth.program.meaning.lowering_options import DEFAULT, Lowering
from synth.program.meaning.semantics import IN_PLACE, Semantics, buffer_chunks
from synth.program.msccl.lowering.blocks import BlockKey, Place, RankBlocks
from synth.program.msccl.lowering.lanes import lanes_of
from synth.program.msccl.model import Draft, GpuProgram
from synth.program.msccl.program import Program
from synth.program.msccl.targets import MSCCL, Target, target_named
from synth.schedule.model import Schedule, Transfer


def lower(schedule: Schedule, target: Target | str = MSCCL, **options: Any) -> Program:
    """Lower a schedule to a verified program: options are the fields of :class:`Lowering`, then the verification.

    Raises
    ------
    NotExpressibleError
        When the schedule does not fit into the target's limits; each limit is named.
    VerificationError
        When the program does not do what it claims (a defect of synth, never of the input).
    """
    runtime = target_named(target) if isinstance(target, str) else target
    return Program(make_draft(schedule, runtime, Lowering.of(options)), runtime)


def make_draft(schedule: Schedule, target: Target = MSCCL, options: Lowering = DEFAULT) -> Draft:
    """Thread blocks of a schedule, not verified yet.

    Parameters
    ----------
    schedule
        What to run.
    target
        Runtime whose limits and step types apply.
    options
        How; ``sms`` is the target's own limit (:meth:`Target.on_gpu`) and not looked at here.

    Returns
    -------
    Draft

    Raises
    ------
    InvalidInputError
        When the collective has no in-place form, or an option is out of range.
    NotExpressibleError
        When more than ``max_channels`` channels are needed.
    """
    claim = claim_of(schedule)
    top = options.max_bytes or 1 << max(20, int(schedule.plan.demand.size_bytes).bit_length())
    _check_options(claim, target, options, top)
    lowering = _Lowering(schedule, claim, target, options)
    max_channels = options.max_channels
    if max_channels is not None and lowering.channels > max_channels:
        raise NotExpressibleError(
            f"the program needs {lowering.channels} channels, {max_channels} are allowed: fewer chunks need fewer"
        )
    return Draft(
        name=_safe_name(options.name or _default_name(schedule), target.max_name_bytes),
        semantics=claim,
        nchannels=lowering.channels,
        proto=options.protocol,
        inplace=options.inplace,
        outofplace=not options.inplace,
        min_bytes=options.min_bytes,
        max_bytes=top,
        gpus=lowering.gpus(),
    )


def _check_options(claim: Semantics, target: Target, asked: Lowering, top: int) -> None:
    faults = []
    if asked.inplace and claim.collective not in IN_PLACE:
        faults.append(f"{claim.collective} has no in-place form; in place are {', '.join(IN_PLACE)}")
    if target.protocol(asked.protocol) is None:
        faults.append(f"protocol {asked.protocol!r}: {target.name} has {', '.join(p.name for p in target.protocols)}")
    if asked.instances < 1:
        faults.append(f"instances {asked.instances} must be 1 or more")
    if not 0 <= asked.min_bytes < top:
        faults.append(f"min_bytes {asked.min_bytes} must be 0 or more and below max_bytes {top}")
    if faults:
        raise InvalidInputError(faults)


def _default_name(schedule: Schedule) -> str:
    plan = schedule.plan
    return f"synth_{plan.demand.collective}_{plan.topology.name}_k{schedule.chunks_per_shard}"


def _safe_name(name: str, limit: int) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]+", "_", name)[:limit]


class _Lowering:
    def __init__(self, schedule: Schedule, claim: Semantics, target: Target, options: Lowering) -> None:
        self.schedule, self.claim, self.target, self.inplace = schedule, claim, target, options.inplace
        self.fused = "rrc" in target.step_types
        topology = schedule.plan.topology
        self.rank_of = topology.rank_of
        self.ranks = [RankBlocks() for _ in topology.gpus]
        self.members = {topology.gpus[rank] for rank in schedule.plan.demand.ranks}
        self.pattern = schedule.plan.demand.pattern
        self.partial: dict[tuple[int, int, int], Place] = {}  # GPU, shard, first chunk -> where its sum is kept
        self.landed: dict[int, Place] = {}  # transfer -> where its chunks arrived
        self.lanes = lanes_of(schedule, target, options)
        self.channels = 1 + max(self.lanes, default=0)
        self._local_copies()
        for k, transfer in enumerate(schedule.transfers):
            self._transfer(k, transfer)

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
                self.ranks[rank].add(key, "cpy", src, dst, n, reads=[src], writes=dst)

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
            self.ranks[src].add(send, "s", out, to, n, reads=[out])
            if operand is None:
                self.ranks[dst].add(recv, "r", out, to, n, writes=to)
            elif self.fused:
                local = _shift(operand, begin)
                self.ranks[dst].add(recv, "rrc", local, to, n, reads=[local], writes=to)
            else:
                self._receive_and_add(self.ranks[dst], recv, out, _shift(operand, begin), to, n)

    def _receive_and_add(
        self, rank: RankBlocks, key: BlockKey, out: Place, operand: Place, to: Place, count: int
    ) -> None:
        """A reduction for runtimes without fused steps: receive, then a local reduction in the same block.

        The first sum is received where it is to stay and the own input added to it, unless that is where the own
        input lies (in place); every other sum is received into scratch.
        """
        if operand != to and not (self.inplace and to[0] == "o"):
            rank.add(key, "r", out, to, count, writes=to)
            rank.add(key, "re", operand, to, count, reads=[operand, to], writes=to)
            return
        aside = rank.reserve(count)
        rank.add(key, "r", out, aside, count, writes=aside)
        rank.add(key, "re", aside, to, count, reads=[aside, to], writes=to)

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
        """Programs of all ranks."""
        return tuple(
            GpuProgram(rank, *buffer_chunks(self.claim, rank), work.scratch, work.numbered())
            for rank, work in enumerate(self.ranks)
        )


def _shift(place: Place, by: int) -> Place:
    return (place[0], place[1] + by)
