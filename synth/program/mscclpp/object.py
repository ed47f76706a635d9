"""MSCCL++ plans as plain JSON objects.

Source: microsoft/mscclpp 0.9.0 python/mscclpp/language/internal/{gpu,threadblock,operations}.py. The executor ignores
keys that it does not know, so what a plan claims travels in a key of our own, ``synth``.
"""

from __future__ import annotations

from typing import Any, Final

from synth.program.mscclpp.model import (
    MscclppBlock,
    MscclppChannel,
    MscclppDraft,
    MscclppGpu,
    MscclppOp,
    Slice,
)

OUR_KEY: Final = "synth"


def plan_object(draft: MscclppDraft) -> dict[str, Any]:
    """Return the plan as the executor's JSON object, keys in the order of upstream's writer."""
    out: dict[str, Any] = {
        "name": draft.name,
        "collective": draft.collective,
        "protocol": draft.protocol,
        "inplace": draft.inplace,
        "reuse_resources": draft.reuse_resources,
        "gpus": [_gpu_object(gpu) for gpu in draft.gpus],
        "num_threads_per_block": draft.num_threads_per_block,
        "use_double_scratch_buffer": draft.use_double_scratch_buffer,
        "buffer_alignment": draft.buffer_alignment,
        "min_message_size": draft.min_message_size,
        "max_message_size": draft.max_message_size,
    }
    claim = draft.semantics
    if claim is not None:
        out[OUR_KEY] = {
            "collective": claim.collective,
            "ranks": claim.ngpus,
            "chunks": claim.nchunks,
            "root": claim.root,
            "members": list(claim.members),
            "counts": list(claim.counts),
        }
    return out


def _gpu_object(gpu: MscclppGpu) -> dict[str, Any]:
    return {
        "id": gpu.id,
        "input_chunks": gpu.input_chunks,
        "output_chunks": gpu.output_chunks,
        "scratch_chunks": gpu.scratch_chunks,
        "threadblocks": [_block_object(block) for block in gpu.blocks],
        "channels": [_channel_object(channel) for channel in gpu.channels],
        "remote_buffers": [
            {"rank": b.rank, "type": b.type, "access_channel_types": list(b.access)} for b in gpu.remote_buffers
        ],
        "semaphores": [{"init_value": value} for value in gpu.semaphores],
    }


def _channel_object(channel: MscclppChannel) -> dict[str, Any]:
    if channel.type != "switch":
        return {"channel_type": channel.type, "connected_to": list(channel.connected_to)}
    groups = [{"size": size, "ranks": list(ranks)} for size, ranks in channel.rank_groups]
    return {"buffer_type": channel.buffer_type, "channel_type": channel.type, "rank_groups": groups}


def _block_object(block: MscclppBlock) -> dict[str, Any]:
    refs = [{"access_channel_type": kind, "remote_buffer_ids": list(ids)} for kind, ids in block.remote_buffer_refs]
    return {
        "id": block.id,
        "ops": [_op_object(op) for op in block.ops],
        "channels": [{"channel_type": kind, "channel_ids": list(ids)} for kind, ids in block.channels],
        "remote_buffer_refs": refs,
    }


def _op_object(op: MscclppOp) -> dict[str, Any]:
    optional: list[tuple[str, Any]] = [
        ("src_buff", [_slice_object(s) for s in op.src] or None),
        ("dst_buff", [_slice_object(s) for s in op.dst] or None),
        ("channel_ids", list(op.channel_ids) or None),
        ("channel_type", op.channel_type),
        ("reduce_op", op.reduce_op),
        ("tbg_info", op.tbg and {"tb_id": op.tbg[0], "tbg_size": op.tbg[1]}),
        ("barrier_id", op.barrier_id),
        ("num_threadblocks", op.num_threadblocks),
        ("semaphore_ids", list(op.semaphore_ids) or None),
        ("iter_context", op.iter_context and {"unit_size": op.iter_context[0], "num_chunks": op.iter_context[1]}),
        ("ops", [_op_object(inner) for inner in op.ops] or None),
    ]
    return {"name": op.name, **{key: value for key, value in optional if value is not None}}


def _slice_object(s: Slice) -> dict[str, Any]:
    where: list[tuple[str, Any]] = [("type", s.type), ("buffer_id", s.buffer_id), ("switch_channel_id", s.switch_id)]
    return {**{key: value for key, value in where if value is not None}, "index": s.index, "size": s.size}
