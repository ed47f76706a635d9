"""Lowering for MSCCL++: a schedule -> an execution plan.

Memory channels inside a host; port channels between hosts and for paths through NICs.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Final

from synth.errors import InvalidInputError, NotExpressibleError
from synth.program.meaning.channel_types import CHANNEL_TYPES
from synth.program.meaning.claims import claim_of, local_copies
from synth.program.meaning.semantics import IN_PLACE, Semantics, buffer_chunks
from synth.program.mscclpp.lowering.blocks import LaneBlock, lane_blocks
from synth.program.mscclpp.lowering.lanes import Bundle, Lane, least_lanes, make_bundle, pack
from synth.program.mscclpp.lowering.pieces import Piece, merge, pieces_of, split
from synth.program.mscclpp.lowering.stages import Stager
from synth.program.mscclpp.model import (
    MSCCLPP_LIMITS,
    MscclppBlock,
    MscclppChannel,
    MscclppDraft,
    MscclppGpu,
    MscclppLimits,
    MscclppOp,
    MscclppRemoteBuffer,
    Slice,
)
from synth.program.mscclpp.program import MscclppProgram
from synth.schedule.model import Schedule
from synth.topology.model import Topology

ALIGNMENT: Final = 16
# Free operations that a full block keeps for signals taken in another order than they were sent.
_SPARE: Final = (0, 8, 24)
# Thread blocks per GPU and instance that are enough to keep a GPU's links busy; more are used when fewer do not fit.
PREFERRED_BLOCKS: Final = 32


def lower_mscclpp(
    schedule: Schedule,
    *,
    inplace: bool = False,
    name: str | None = None,
    max_bytes: int | None = None,
    instances: int = 1,
    limits: MscclppLimits = MSCCLPP_LIMITS,
) -> MscclppProgram:
    """Lower a schedule to a verified MSCCL++ plan: :func:`make_mscclpp_draft`, then the verification.

    Raises
    ------
    NotExpressibleError
        When the schedule does not fit into the executor's limits; each limit is named.
    VerificationError
        When the plan does not do what it claims (a defect of synth, never of the input).
    """
    draft = make_mscclpp_draft(
        schedule, inplace=inplace, name=name, max_bytes=max_bytes, instances=instances, limits=limits
    )
    return MscclppProgram(draft, limits)


def make_mscclpp_draft(
    schedule: Schedule,
    *,
    inplace: bool = False,
    name: str | None = None,
    max_bytes: int | None = None,
    instances: int = 1,
    limits: MscclppLimits = MSCCLPP_LIMITS,
) -> MscclppDraft:
    """Execution plan of a schedule, not verified yet.

    Parameters
    ----------
    schedule
        What to run.
    inplace
        For calls that pass one buffer for both sides (all-gather, reduce-scatter, all-reduce, broadcast, reduce).
    name
        Name in the file; default made from collective, topology, ranks, hosts, chunks and mode, because the executor
        keeps one context per name (microsoft/mscclpp issue 556).
    max_bytes
        Size up to which the plan is taken; default the power of two above the schedule's size, below 4 GiB buffers.
    instances
        Blocks that share each chunk; more of them use more SMs.
    limits
        Limits of the executor and the GPU.

    Returns
    -------
    MscclppDraft

    Raises
    ------
    InvalidInputError
        When the collective has no in-place form, or a number is out of range.
    NotExpressibleError
        When the schedule does not fit; the message names the limit.

    Notes
    -----
    Uneven collectives and those over some ranks get their own collective name (``alltoallv``, ...) and buffers of
    ``nchunks`` chunks on every rank, because the executor wants at least one chunk and one size on both sides; the
    caller pads. Ranks that do not take part must launch the plan too.
    """
    claim = claim_of(schedule)
    if inplace and claim.collective not in IN_PLACE:
        raise InvalidInputError(f"{claim.collective} has no in-place form; in place are {', '.join(IN_PLACE)}")
    if instances < 1:
        raise InvalidInputError(f"instances {instances} must be 1 or more")
    counts = tuple(count * instances for count in claim.counts)
    claim = replace(claim, nchunks=claim.nchunks * instances, counts=counts)
    return _Lowering(schedule, claim, inplace, limits, instances).draft(name, max_bytes)


class _Lowering:
    def __init__(
        self, schedule: Schedule, claim: Semantics, inplace: bool, limits: MscclppLimits, instances: int
    ) -> None:
        self.schedule, self.claim, self.inplace, self.limits = schedule, claim, inplace, limits
        self.instances = instances
        self.topology = schedule.plan.topology
        self.hosts = [self.topology.nodes[node].host for node in self.topology.gpus]
        self.copies = [] if inplace else [copy for copy in local_copies(claim) if copy[3]]
        self.copying = {copy[0] for copy in self.copies}

    def draft(self, name: str | None, max_bytes: int | None) -> MscclppDraft:
        stager, lanes = self._lanes()
        gpus = tuple(self._gpu(rank, lanes, stager.scratch[rank]) for rank in range(len(self.hosts)))
        if any(channel.type == "port" for gpu in gpus for channel in gpu.channels):
            check_hosts(self.topology, self.limits)
        low, high = self._range(gpus, max_bytes)
        return MscclppDraft(
            name=re.sub(r"[^A-Za-z0-9_.-]+", "_", name or self._name())[:127],
            collective=self.claim.collective,
            protocol="Simple",
            inplace=self.inplace,
            gpus=gpus,
            buffer_alignment=ALIGNMENT,
            min_message_size=low,
            max_message_size=high,
            semantics=self.claim,
        )

    def _name(self) -> str:
        plan, ranks, hosts = self.schedule.plan, len(self.hosts), len(set(self.hosts))
        mode = "inplace" if self.inplace else "outofplace"
        chunks = f"k{self.schedule.chunks_per_shard}" + (f"x{self.instances}" if self.instances > 1 else "")
        return f"synth_{plan.demand.collective}_{plan.topology.name}_{ranks}ranks_{hosts}hosts_{chunks}_{mode}"

    def _lanes(self) -> tuple[Stager, list[dict[int, LaneBlock]]]:
        """Lanes that fit: with as few lanes and as many separate chunks as possible."""
        pieces = split(pieces_of(self.schedule), self.instances)
        longest = max(Counter(piece.route for piece in pieces).values(), default=1)
        fault = ""
        for power in range(longest.bit_length() + 1):
            stager = Stager(self.schedule, self.claim, self.inplace)
            bundles = self._bundles(pieces, 1 << power, stager)
            lanes = self._packed(bundles)
            if not isinstance(lanes, str):
                return stager, lanes
            fault = lanes
        ways = "fewer chunks, instances or ranks"
        if "operations" not in fault:
            ways = f"a schedule in which a rank passes on to, or adds from, at most {self.limits.max_channels} others"
        raise NotExpressibleError(
            f"there would be {fault}, even with {self.limits.max_blocks} thread blocks per GPU and every route's "
            f"chunks in one piece: use {ways}"
        )

    def _bundles(self, pieces: Sequence[Piece], most: int, stager: Stager) -> list[Bundle]:
        """Pieces by route, in as many bundles as one block each can hold."""
        fitting = (part for route in merge(pieces, most) for part in self._fitting(route, most))
        return [self._bundle(part, stager) for part in fitting]

    def _bundle(self, pieces: Sequence[Piece], stager: Stager) -> Bundle:
        return make_bundle([stage for piece in pieces for stage in stager.stages(piece)], self.limits)

    def _fitting(self, route: list[Piece], most: int) -> list[list[Piece]]:
        """Merge a route's pieces until one block can hold them; what cannot be merged (gaps) is halved."""

        def fits(pieces: Sequence[Piece]) -> bool:
            trial = self._bundle(pieces, Stager(self.schedule, self.claim, self.inplace))
            return Lane().fault(trial, self.limits, self.limits.max_ops) is None

        merged = route
        while len(merged) > 1 and not fits(merged) and most < len(route):
            most *= 2
            merged = merge(route, most)[0]
        if len(merged) == 1 or fits(merged):
            return [merged]
        half = len(merged) // 2
        return [*self._fitting(merged[:half], most), *self._fitting(merged[half:], most)]

    def _packed(self, bundles: Sequence[Bundle]) -> list[dict[int, LaneBlock]] | str:
        most = self.limits.max_blocks - bool(self.copies)
        count = min(least_lanes(bundles), PREFERRED_BLOCKS * self.instances, most)
        fault = "0 thread blocks left"
        while count > 0:
            for spare in _SPARE:
                packed = pack(bundles, count, len(self.hosts), self.limits, self.limits.max_ops - spare)
                if isinstance(packed, str):
                    fault = packed
                    break
                lanes = [
                    lane_blocks((s for k in lane.bundles for s in bundles[k].stages), self.limits) for lane in packed
                ]
                if all(len(block.ops) <= self.limits.max_ops for lane in lanes for block in lane.values()):
                    return lanes
            if count == most:
                break
            count = min(2 * count, most)
        return fault

    def _gpu(self, rank: int, lanes: Sequence[dict[int, LaneBlock]], scratch: int) -> MscclppGpu:
        """Number blocks, channels and remote buffers; channels in lane order, so that both sides pair alike."""
        mine = [lane[rank] for lane in lanes if rank in lane]
        used: dict[str, list[int]] = {how: [] for how in CHANNEL_TYPES}
        remote: dict[tuple[str, int, str], int] = {}
        blocks = []
        for k, lane in enumerate(mine):
            channels, refs = [], []
            for how in CHANNEL_TYPES:
                if lane.peers[how]:
                    begin = len(used[how])
                    used[how].extend(lane.peers[how])
                    channels.append((how, tuple(range(begin, len(used[how])))))
                ids = tuple(remote.setdefault((how, *buffer), len(remote)) for buffer in lane.buffers[how])
                if ids:
                    refs.append((how, ids))
            blocks.append(MscclppBlock(k, tuple(channels), tuple(refs), lane.ops))
        if rank in self.copying or not blocks:
            blocks.append(MscclppBlock(len(blocks), (), (), tuple(self._copy_ops(rank)) or (MscclppOp("nop"),)))
        i_chunks, o_chunks = (count or self.claim.nchunks for count in buffer_chunks(self.claim, rank))
        listed = tuple(MscclppChannel(how, tuple(used[how])) for how in CHANNEL_TYPES if used[how])
        buffers = tuple(MscclppRemoteBuffer(peer, type_, (how,)) for how, peer, type_ in remote)
        return MscclppGpu(rank, i_chunks, o_chunks, scratch, listed, buffers, (), tuple(blocks))

    def _copy_ops(self, rank: int) -> Iterator[MscclppOp]:
        for who, src, dst, count in self.copies:
            if who == rank:
                yield MscclppOp("copy", (Slice(src, count, type="i"),), (Slice(dst, count, type="o"),))

    def _range(self, gpus: Sequence[MscclppGpu], max_bytes: int | None) -> tuple[int, int]:
        """Sizes that the executor may take the plan for: whole aligned chunks, every buffer below 4 GiB."""
        chunks = self.claim.nchunks
        step = chunks * ALIGNMENT
        widest = max(max(gpu.input_chunks, gpu.output_chunks, gpu.scratch_chunks) for gpu in gpus)
        cap = self.limits.max_buffer_bytes // (widest * ALIGNMENT) * step
        size = math.ceil(self.schedule.chunk_bytes / self.instances - 1e-9) * chunks
        wanted = max_bytes if max_bytes is not None else size
        if wanted > cap:
            raise NotExpressibleError(
                f"{wanted} bytes need a buffer of {wanted // chunks * widest} bytes, and offsets in a plan have 32 "
                f"bits: the largest size is {cap} bytes"
            )
        if max_bytes is None:
            above = 1 << max(20, size.bit_length())
            wanted = min(cap, max(above, -(-size // step) * step))
        if wanted < step:
            raise NotExpressibleError(
                f"{wanted} bytes in {chunks} chunks are less than the {ALIGNMENT} bytes per chunk of the executor: "
                f"the smallest size is {step} bytes"
            )
        return step, wanted // step * step


def check_hosts(topology: Topology, limits: MscclppLimits) -> None:
    """Refuse hosts that the executor would mistake: it takes rank // ranks per host as the host.

    Raises
    ------
    NotExpressibleError
        When a host's GPUs are not neighbours in rank order, hosts differ in size, or there are more GPUs than entries
        in the table of InfiniBand devices (src/core/executor/executor.cc, useIB and IBs).
    """
    hosts = [topology.nodes[node].host for node in topology.gpus]
    runs = [len(list(run)) for _, run in groupby(hosts)]
    if len(runs) != len(set(hosts)) or len(set(runs)) > 1:
        raise NotExpressibleError(
            "port channels need the ranks host by host and the same number of GPUs on every host, because the executor "
            f"computes a rank's host; the ranks' hosts here are {', '.join(hosts)}"
        )
    if runs[0] > limits.max_port_gpus:
        raise NotExpressibleError(
            f"port channels between hosts of {runs[0]} GPUs: the executor knows {limits.max_port_gpus} InfiniBand "
            "devices of a host"
        )
