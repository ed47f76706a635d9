"""What the MSCCL++ executor does not check and then does wrong: fixed arrays, references, balance, known defects.

Sources: microsoft/mscclpp 0.9.0 src/core/include/execution_common.hpp (array lengths),
src/core/include/execution_kernel.hpp (handlers), src/core/executor/execution_plan.cc (references).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Final

from synth.program.mscclpp.model import (
    MSCCLPP_LIMITS,
    PUTS,
    SEMAPHORES,
    SIGNALS,
    SWITCHES,
    UNLIMITED,
    WAITS,
    MscclppBlock,
    MscclppDraft,
    MscclppGpu,
    MscclppLimits,
    MscclppOp,
    Slice,
    flat_ops,
    message_chunks,
)

# A channel end: (type, rank, peer, number among the channels of that type from rank to peer).
End = tuple[str, int, int, int]
_INT_MAX: Final = (1 << 31) - 1


def channel_ends(gpu: MscclppGpu, kind: str) -> list[End]:
    """Ends of a GPU's channels of a type: the k-th channel from r to p pairs with the k-th from p to r."""
    seen: Counter[int] = Counter()
    ends = []
    for peer in gpu.peers(kind):
        ends.append((kind, gpu.id, peer, seen[peer]))
        seen[peer] += 1
    return ends


def plan_hazards(draft: MscclppDraft, limits: MscclppLimits = MSCCLPP_LIMITS) -> list[str]:
    """Everything wrong with a loadable plan that no executor check finds, one message each.

    Parameters
    ----------
    draft
        A plan without :func:`~synth.program.mscclpp.verifying.loader.loader_faults`.
    limits
        Limits of the executor and the GPU.
    """
    out = list(_size_hazards(draft, limits))
    for gpu in draft.gpus:
        out += _gpu_hazards(draft, gpu, limits)
        for block in gpu.blocks:
            checks = _Block(draft, gpu, block, limits)
            out += [f"rank {gpu.id} block {block.id}: {text}" for text in checks.hazards()]
    return out if out else _balance(draft)


def plan_notes(draft: MscclppDraft) -> list[str]:
    """Worth knowing, but not wrong."""
    names = {op.name for gpu in draft.gpus for block in gpu.blocks for op in flat_ops(block.ops)}
    out = []
    if names & set(SWITCHES):
        out.append("switch operations are compiled for sm_90 and newer only and silently do nothing elsewhere")
    if draft.max_message_size == UNLIMITED:
        out.append("no max_message_size: buffers of 4 GiB and more are taken too, and their 32-bit offsets wrap around")
    if "flush" in names:
        out.append("flush loops over nOutputs, which it never sets: it does nothing")
    local_port = any(
        op.channel_type == "port" and any(part.type in ("i", "o") for part in op.src)
        for gpu in draft.gpus
        for block in gpu.blocks
        for op in flat_ops(block.ops)
    )
    if local_port:
        out.append("port channels read the user's buffers from the start of their allocations: pass no inner pointers")
    return out


def _size_hazards(draft: MscclppDraft, limits: MscclppLimits) -> Iterator[str]:
    if draft.min_message_size > _INT_MAX:
        yield f"min_message_size {draft.min_message_size} is read as a 32-bit int"
    if draft.num_threads_per_block > limits.max_threads or draft.num_threads_per_block < 1:
        yield f"num_threads_per_block {draft.num_threads_per_block} is not in 1..{limits.max_threads}"
    for gpu in draft.gpus if draft.max_message_size != UNLIMITED else ():
        widest = max(gpu.input_chunks, gpu.output_chunks, gpu.scratch_chunks)
        largest = draft.max_message_size // message_chunks(draft, gpu) * widest
        if largest > limits.max_buffer_bytes:
            yield f"rank {gpu.id}: buffers of {largest} bytes at max_message_size, offsets have 32 bits"


def _gpu_hazards(draft: MscclppDraft, gpu: MscclppGpu, limits: MscclppLimits) -> Iterator[str]:
    at = f"rank {gpu.id}"
    if not gpu.blocks:
        yield f"{at} has no thread blocks: a launch with an empty grid fails"
    if len(gpu.blocks) > limits.max_blocks:
        yield f"{at}: {len(gpu.blocks)} thread blocks, only {limits.max_blocks} can be resident"
    if [block.id for block in gpu.blocks] != list(range(len(gpu.blocks))):
        yield f"{at}: block ids must be 0, 1, ... in order: operations go by position, channels by id"
    for name, length in (("semaphores", len(gpu.semaphores)),):
        if length > limits.max_semaphores:
            yield f"{at}: {length} {name}, the array holds {limits.max_semaphores}"
    n = len(draft.gpus)
    if any(not 0 <= peer < n or peer == gpu.id for c in gpu.channels for peer in c.connected_to):
        yield f"{at}: a channel to a rank that does not exist, or to itself"
    if any(not 0 <= buffer.rank < n for buffer in gpu.remote_buffers):
        yield f"{at}: a remote buffer of a rank that does not exist"
    yield from _barrier_hazards(gpu, limits)


def _barrier_hazards(gpu: MscclppGpu, limits: MscclppLimits) -> Iterator[str]:
    users: dict[int, set[int]] = defaultdict(set)
    counts: dict[int, set[int]] = defaultdict(set)
    for block in gpu.blocks:
        for op in flat_ops(block.ops):
            if op.name == "barrier":
                key = op.barrier_id or 0
                users[key].add(block.id)
                counts[key].add(op.num_threadblocks or 0)
    for key, who in sorted(users.items()):
        if not 0 <= key < limits.max_barriers:
            yield f"rank {gpu.id}: barrier {key}, the array holds {limits.max_barriers}"
        if counts[key] != {len(who)}:
            yield f"rank {gpu.id}: barrier {key} is for {sorted(counts[key])} blocks, but {len(who)} use it"


class _Block:
    """References and entries of one thread block."""

    def __init__(self, draft: MscclppDraft, gpu: MscclppGpu, block: MscclppBlock, limits: MscclppLimits) -> None:
        self.draft, self.gpu, self.block, self.limits = draft, gpu, block, limits
        self.channels = {kind: block.channel_list(kind) for kind in ("memory", "port", "switch")}
        self.buffers = {kind: block.buffer_list(kind) for kind in ("memory", "port")}

    def hazards(self) -> Iterator[str]:
        for kind, ids in self.channels.items():
            have = len(self.gpu.peers(kind)) if kind != "switch" else self._switches()
            if len(ids) > self.limits.max_channels:
                yield f"{len(ids)} {kind} channels, the array holds {self.limits.max_channels}"
            if any(not 0 <= i < have for i in ids):
                yield f"a {kind} channel id that the GPU does not have"
        for kind, ids in self.buffers.items():
            if len(ids) > self.limits.max_remote_buffers:
                yield f"{len(ids)} {kind} remote buffers, the array holds {self.limits.max_remote_buffers}"
            known = self.gpu.remote_buffers
            if any(not 0 <= i < len(known) or kind not in known[i].access for i in ids):
                yield f"a remote buffer id that the GPU does not have for {kind} channels"
        for k, op in enumerate(flat_ops(self.block.ops)):
            yield from (f"op {k} {op.name}: {text}" for text in self.op(op))

    def _switches(self) -> int:
        return sum(len(channel.rank_groups) for channel in self.gpu.channels if channel.type == "switch")

    def op(self, op: MscclppOp) -> Iterator[str]:
        ids = op.channel_ids
        if len(ids) > self.limits.max_channel_ids:
            yield f"{len(ids)} channel ids, the array holds {self.limits.max_channel_ids}"
        if len(set(ids)) != len(ids):
            yield "a channel id twice in one operation: two threads then count on one semaphore"
        if max(len(op.src), len(op.dst)) > self.limits.max_entries:
            yield f"{max(len(op.src), len(op.dst))} entries, the array holds {self.limits.max_entries}"
        if any(not 0 <= i < len(self.channels.get(op.channel_type or "", ())) for i in ids):
            yield "a channel id that the block does not have"
        if op.name in (*SIGNALS, *WAITS) and (not ids or op.channel_type not in ("memory", "port")):
            yield "needs channel_ids and channel_type memory or port"
        if op.name in SEMAPHORES and any(not 0 <= i < len(self.gpu.semaphores) for i in op.semaphore_ids):
            yield "a semaphore that the GPU does not have"
        for part in (*op.src, *op.dst):
            yield from self.bounds(op, part)
        yield from self.entries(op)

    def bounds(self, op: MscclppOp, part: Slice) -> Iterator[str]:
        kind, gpu = part.type, self.gpu
        if part.buffer_id is not None:
            ids = self.buffers.get(op.channel_type or "", ())
            if not 0 <= part.buffer_id < len(ids):
                yield f"buffer_id {part.buffer_id} is not among the block's {len(ids)} remote buffers"
                return
            if not 0 <= ids[part.buffer_id] < len(gpu.remote_buffers):
                return
            remote = gpu.remote_buffers[ids[part.buffer_id]]
            if not 0 <= remote.rank < len(self.draft.gpus):
                return
            kind, gpu = remote.type, self.draft.gpus[remote.rank]
        if part.switch_id is not None and not 0 <= part.switch_id < len(self.channels["switch"]):
            yield f"switch_channel_id {part.switch_id} is not among the block's switch channels"
        have = {"i": gpu.input_chunks, "o": gpu.output_chunks, "s": gpu.scratch_chunks}.get(kind or "")
        if have is not None and (part.index < 0 or part.index + part.size > have):
            yield f"chunks {part.index}..{part.index + part.size - 1} of rank {gpu.id}'s {kind}, which has {have}"

    def entries(self, op: MscclppOp) -> Iterator[str]:
        if op.name in PUTS:
            if len(op.src) != len(op.dst) or not op.dst:
                yield f"{len(op.src)} sources for {len(op.dst)} destinations"
            elif any(a.size != b.size for a, b in zip(op.src, op.dst, strict=True)):
                yield "a source and its destination differ in size"
            if op.channel_type == "memory" and len({part.type for part in op.src}) > 1:
                yield "sources in different buffers: over memory channels the first one's buffer is used for all"
            if op.channel_type == "port":
                yield from self.port(op)
        if op.name == "pwsf":
            yield "the executor passes a pointer as its source offset"
        if op.name == "get" and any(a.index != b.index for a, b in zip(op.src, op.dst, strict=False)):
            yield "the executor swaps source and destination offset, and here they differ"
        if op.name in ("copy", "re", "res", "rre", "rres") and len({part.size for part in (*op.src, *op.dst)}) != 1:
            yield "slices of different sizes"

    def port(self, op: MscclppOp) -> Iterator[str]:
        if len(op.channel_ids) != len(op.dst):
            yield f"{len(op.channel_ids)} channel ids for {len(op.dst)} destinations"
            return
        for i, part in zip(op.channel_ids, op.dst, strict=True):
            ids, buffers = self.channels["port"], self.buffers["port"]
            if part.buffer_id is None or not (0 <= i < len(ids) and 0 <= part.buffer_id < len(buffers)):
                continue
            peers = self.gpu.peers("port")
            if not (0 <= ids[i] < len(peers) and 0 <= buffers[part.buffer_id] < len(self.gpu.remote_buffers)):
                continue
            owner = self.gpu.remote_buffers[buffers[part.buffer_id]].rank
            if peers[ids[i]] != owner:
                yield f"a channel to rank {peers[ids[i]]} for a buffer of rank {owner}"


def _balance(draft: MscclppDraft) -> list[str]:
    """Every signal has one wait on the paired channel, and one block on either side.

    Pipelines repeat their operations, but both sides do, so they are left to the simulation.
    """
    sent: Counter[End] = Counter()
    taken: Counter[End] = Counter()
    blocks: dict[tuple[str, End], set[int]] = defaultdict(set)
    for gpu in draft.gpus:
        ends = {kind: channel_ends(gpu, kind) for kind in ("memory", "port")}
        for block in gpu.blocks:
            for op in block.ops:
                if op.channel_type not in ends:
                    continue
                signals = op.name in (*SIGNALS, "pws", "pwsf")
                for i in op.channel_ids if signals or op.name in WAITS else ():
                    end = ends[op.channel_type][block.channel_list(op.channel_type)[i]]
                    (sent if signals else taken)[end] += 1
                    blocks["signals" if signals else "waits", end].add(block.id)
    out = []
    for kind, rank, peer, k in sorted({*sent, *((kind, peer, rank, k) for kind, rank, peer, k in taken)}):
        have, want = sent[kind, rank, peer, k], taken[kind, peer, rank, k]
        if have != want:
            out.append(f"{kind} channel {k} from rank {rank} to rank {peer}: {have} signals but {want} waits")
    for (what, (kind, rank, peer, k)), who in sorted(blocks.items()):
        if len(who) > 1:
            out.append(f"{kind} channel {k} of rank {rank} to rank {peer}: blocks {sorted(who)} share its {what}")
    return out
