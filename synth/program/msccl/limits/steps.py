"""Limits of single thread blocks and steps; the part of ``limits`` that looks at every step."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from synth.program.msccl.model import Draft, GpuProgram, Step, ThreadBlock
from synth.program.msccl.opcodes import (
    BUFFERS,
    PARSER_CHECKS_DST,
    PARSER_CHECKS_SRC,
    RECEIVES,
    SENDS,
    STEP_TYPES,
    place,
)
from synth.program.msccl.targets import Target

# (the runtime's own parser refuses the file, message). The others load and then hang, corrupt data or are never used.
Item = tuple[bool, str]


def block_items(draft: Draft, gpu: GpuProgram, block: ThreadBlock, target: Target) -> Iterator[Item]:
    """Faults of a block's channel, peers and length."""
    where = f"g{gpu.id}.tb{block.id}"
    if not 0 <= block.chan < target.max_channels:
        # The parsers let chan == limit through and write past their array (formats.md 1.3), which counts as a refusal.
        yield True, f"{where}: channel {block.chan} must be >= 0 and < {target.max_channels}"
    elif block.chan >= draft.nchannels:
        yield False, f"{where}: channel {block.chan} must be < nchannels={draft.nchannels}"
    for verb, peer in (("send", block.send), ("recv", block.recv)):
        if not -1 <= peer < draft.semantics.ngpus:
            yield (
                target.checks_peers or peer < -1,
                f"{where}: {verb} peer {peer} must be -1 or 0..{draft.semantics.ngpus - 1}",
            )
        elif peer == gpu.id:
            yield True, f"{where}: {verb} peer {peer} is the GPU itself"
    if len(block.steps) > target.max_steps_per_block:
        yield True, f"{where}: {len(block.steps)} steps, limit {target.max_steps_per_block}"


def step_items(gpu: GpuProgram, block: ThreadBlock, target: Target) -> Iterator[Item]:
    """Faults of a block's steps, one by one and as nop chains and merged reductions."""
    yield from _nop_items(gpu, block)
    yield from _fusion_items(gpu, block, target)
    for index, step in enumerate(block.steps):
        yield from _step_items(gpu, block, step, place(gpu.id, block.id, index), target)


def _step_items(gpu: GpuProgram, block: ThreadBlock, step: Step, where: str, target: Target) -> Iterator[Item]:
    if step.type not in target.parsed_step_types or step.srcbuf not in BUFFERS or step.dstbuf not in BUFFERS:
        yield (
            True,
            f"{where}: type {step.type!r} or buffer {step.srcbuf!r}, {step.dstbuf!r} is not known to {target.name}",
        )
        return
    if step.type not in STEP_TYPES:
        yield False, f"{where}: {target.name} reads type {step.type!r}, and then does nothing"
        return
    if step.depid > target.max_dep_block:
        yield False, f"{where}: waits for block {step.depid}, limit {target.max_dep_block} (8-bit signed)"
    for name, offset in (("srcoff", step.srcoff), ("dstoff", step.dstoff)):
        if not -1 <= offset <= target.max_offset:
            yield False, f"{where}: {name}={offset} is outside -1..{target.max_offset} (16-bit signed)"
    if step.type == "nop":
        return
    if not 1 <= step.cnt <= target.max_count:
        moves = step.type in SENDS or step.type in RECEIVES
        refused = step.cnt != 0 or (moves and target.checks_counts_from > 0)
        yield refused, f"{where}: cnt={step.cnt} is outside 1..{target.max_count}"
    sizes = {"i": gpu.i_chunks, "o": gpu.o_chunks, "s": gpu.s_chunks}
    if step.type in PARSER_CHECKS_SRC and not -1 <= step.srcoff < sizes[step.srcbuf]:
        yield True, f"{where}: srcoff={step.srcoff} is outside buffer {step.srcbuf} of {sizes[step.srcbuf]} chunks"
    if step.type in PARSER_CHECKS_DST and not -1 <= step.dstoff < sizes[step.dstbuf]:
        yield True, f"{where}: dstoff={step.dstoff} is outside buffer {step.dstbuf} of {sizes[step.dstbuf]} chunks"
    if step.type in SENDS and block.send < 0:
        yield True, f"{where}: {step.type} sends, but the block has no send peer"
    if step.type in RECEIVES and block.recv < 0:
        yield True, f"{where}: {step.type} receives, but the block has no recv peer"


def _nop_items(gpu: GpuProgram, block: ThreadBlock) -> Iterator[Item]:
    for index, step in enumerate(block.steps):
        if step.type != "nop":
            continue
        where = place(gpu.id, block.id, index)
        if step.depid < 0:
            yield False, f"{where}: nop without a dependency shifts the runtime's step numbers"
        if step.hasdep:
            yield False, f"{where}: nop never signals, hasdep must be 0"
        if index + 1 == len(block.steps):
            yield False, f"{where}: nop at the end of a block is ignored, its wait never happens"
    for (index, before), (_, after) in pairwise(enumerate(block.steps)):
        if before.type == "nop" and before.depid >= 0 and after.type != "nop" and after.depid < 0:
            yield (
                True,
                f"{place(gpu.id, block.id, index + 1)}: the step after a run of nops must itself carry a dependency",
            )


def _fusion_items(gpu: GpuProgram, block: ThreadBlock, target: Target) -> Iterator[Item]:
    steps = [(index, step) for index, step in enumerate(block.steps) if step.type != "nop"]
    run = 1
    for (_, before), (index, step) in pairwise(steps):
        fused = before.type == step.type == "re" and not before.hasdep and step.depid < 0
        fused = fused and (before.dstbuf, before.dstoff, before.srcbuf) == (step.dstbuf, step.dstoff, step.srcbuf)
        run = run + 1 if fused else 1
        where = place(gpu.id, block.id, index)
        if fused and step.cnt != before.cnt:
            yield (
                False,
                f"{where}: cnt={step.cnt} differs from cnt={before.cnt} of the re step it is merged with",
            )
        if run == target.max_fused_reductions + 1:
            yield (
                False,
                f"{where}: more than {target.max_fused_reductions} re steps in a row are merged into one",
            )
