"""Does a draft fit into a target runtime? One clear message per fault, with the place and the number of the limit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

from synth.program.model import Draft, GpuProgram, Semantics, Step, ThreadBlock
from synth.program.opcodes import BUFFERS, PARSER_CHECKS_DST, PARSER_CHECKS_SRC, RECEIVES, SENDS, place
from synth.program.semantics import IN_PLACE, UNEVEN, is_standard
from synth.program.targets import Target

# (the runtime's own parser refuses the file, message). The others load and then hang, corrupt data or are never used.
_Item = tuple[bool, str]


def limit_faults(draft: Draft, target: Target) -> list[str]:
    """Every limit of the target that the draft breaks.

    Parameters
    ----------
    draft
        A program as written.
    target
        The runtime's limits, for example ``MSCCL``.

    Returns
    -------
    list of str
        Empty when the draft fits.
    """
    return [text for _, text in _items(draft, target)]


def parser_faults(draft: Draft, target: Target) -> list[str]:
    """Those of ``limit_faults`` for which the runtime refuses to load the file, or overruns its memory loading it."""
    return [text for refused, text in _items(draft, target) if refused]


def unaddressable(draft: Draft, target: Target) -> list[str]:
    """Buffers that no step can reach to their end, with the largest offset and count; too large to replay, too."""
    most = target.max_offset + target.max_count
    sizes = [("nchunksperloop", draft.semantics.nchunks)]
    for gpu in draft.gpus:
        sizes += [(f"g{gpu.id}: {name}", getattr(gpu, name)) for name in ("i_chunks", "o_chunks", "s_chunks")]
    return [
        f"{name}={size} chunks, limit {most}: a step starts at offset {target.max_offset} (16-bit signed) at most "
        f"and has at most {target.max_count} chunks"
        for name, size in sizes
        if size > most
    ]


def coll_name(semantics: Semantics, target: Target) -> str | None:
    """Return the ``coll`` to write, or None when the target cannot express the claim."""
    if is_standard(semantics):
        return target.coll_name(semantics.collective)
    return target.custom


def counts_values(row: tuple[int, ...], target: Target) -> list[str]:
    """Comma-separated numbers cut into attribute values that the target's XML reader can hold."""
    values = [""]
    for number in map(str, row):
        if values[-1] and len(values[-1]) + 1 + len(number) > target.max_value_chars:
            values.append(number)
        else:
            values[-1] = f"{values[-1]},{number}" if values[-1] else number
    return values


def counts_row(semantics: Semantics, rank: int) -> tuple[int, ...]:
    """Return the counts that the ``gpu`` element of a rank carries: its matrix row, or its own shard."""
    n = semantics.ngpus
    return (
        semantics.counts[rank * n : rank * n + n]
        if semantics.collective == "alltoallv"
        else semantics.counts[rank : rank + 1]
    )


def _items(draft: Draft, target: Target) -> Iterator[_Item]:
    yield from _algo_items(draft, target)
    yield from _size_items(draft, target)
    yield from _id_items(draft)
    for text in unaddressable(draft, target):
        yield False, text
    for gpu in draft.gpus:
        yield from _gpu_items(draft, gpu, target)
        yield from _channel_items(gpu, target)
        for block in gpu.blocks:
            yield from _block_items(draft, gpu, block, target)
            yield from _nop_items(gpu, block)
            yield from _fusion_items(gpu, block, target)
            for index, step in enumerate(block.steps):
                yield from _step_items(gpu, block, step, place(gpu.id, block.id, index), target)


def _algo_items(draft: Draft, target: Target) -> Iterator[_Item]:
    claim = draft.semantics
    if target.protocol(draft.proto) is None:
        yield True, f"proto {draft.proto!r} is not one of {', '.join(p.name for p in target.protocols)}"
    if coll_name(claim, target) is None:
        known = ", ".join(ours for ours, _ in target.collectives)
        yield True, f"{target.name} cannot run {claim.collective} over {claim.ngpus} ranks; it knows {known}"
    if not 1 <= draft.nchannels <= target.max_channels:
        yield False, f"nchannels={draft.nchannels} is outside 1..{target.max_channels}"
    if claim.ngpus > target.max_gpus:
        yield True, f"{claim.ngpus} GPUs, limit {target.max_gpus} children of one XML element"
    size = len(xml_escape(draft.name).encode("utf-8", "surrogatepass"))
    if size > target.max_name_bytes:
        yield False, f"name takes {size} bytes, limit {target.max_name_bytes}: {draft.name!r}"
    if not draft.name.isprintable():
        yield False, f"name {draft.name!r} has characters that cannot be printed"
    if not (draft.inplace or draft.outofplace):
        yield False, "the file claims neither in place nor out of place, so it is never selected"
    if draft.inplace and claim.collective not in (*IN_PLACE, "custom"):
        yield False, f"{claim.collective} cannot run in place"
    if claim.collective in UNEVEN:
        need = max((len(counts_values(counts_row(claim, r), target)) for r in range(claim.ngpus)), default=0)
        if need + 5 > target.max_attributes:
            yield False, f"a row of counts needs {need} attributes, limit {target.max_attributes - 5}"


def _size_items(draft: Draft, target: Target) -> Iterator[_Item]:
    low, high = draft.min_bytes, draft.max_bytes
    if low < 0 or high < 0 or max(low, high) >= 1 << 63:
        yield False, f"minBytes={low} and maxBytes={high} must be in 0..2^63-1"
    if high == 0 and target.zero_max_is_unlimited:
        return
    if low > high:
        yield True, f"minBytes={low} is greater than maxBytes={high}"
    elif low == high:
        yield (
            False,
            f"minBytes={low} must be less than maxBytes={high}: {target.name} selects minBytes <= size < maxBytes",
        )


def _id_items(draft: Draft) -> Iterator[_Item]:
    ids = Counter(gpu.id for gpu in draft.gpus)
    missing = [r for r in range(draft.semantics.ngpus) if r not in ids]
    extra = sorted(r for r, k in ids.items() if k > 1 or not 0 <= r < draft.semantics.ngpus)
    if missing:
        yield (
            False,
            f"gpu ids must be 0..{draft.semantics.ngpus - 1}; missing: {missing[:8]} (the others hang)",
        )
    if extra:
        yield False, f"gpu ids must be 0..{draft.semantics.ngpus - 1}, each once; wrong: {extra[:8]}"
    for gpu in draft.gpus:
        blocks = [block.id for block in gpu.blocks]
        if sorted(blocks) != list(range(len(blocks))):
            yield True, f"g{gpu.id}: thread block ids must be 0..{len(blocks) - 1} without gaps or duplicates"


def _gpu_items(draft: Draft, gpu: GpuProgram, target: Target) -> Iterator[_Item]:
    where, claim = f"g{gpu.id}", draft.semantics
    if len(gpu.blocks) > target.max_blocks_per_gpu:
        yield True, f"{where}: {len(gpu.blocks)} thread blocks, limit {target.max_blocks_per_gpu}"
    nodes = 1 + len(draft.gpus) + len(gpu.blocks) + sum(len(block.steps) for block in gpu.blocks)
    if nodes > target.max_nodes:
        yield True, f"{where}: {nodes} XML elements for this rank, limit {target.max_nodes}"
    for name, value in (("i_chunks", gpu.i_chunks), ("o_chunks", gpu.o_chunks), ("s_chunks", gpu.s_chunks)):
        if value < 0:
            yield True, f"{where}: {name}={value} must not be negative"
    a, b = 1, 1
    if is_standard(claim):
        a = claim.ngpus if claim.collective == "allgather" else 1
        b = claim.ngpus if claim.collective == "reducescatter" else 1
    if target.chunk_rule and (gpu.i_chunks * a not in (0, claim.nchunks) or gpu.o_chunks * b not in (0, claim.nchunks)):
        yield (
            True,
            (
                f"{where}: i_chunks={gpu.i_chunks}, o_chunks={gpu.o_chunks}, but {claim.collective} needs "
                f"i_chunks*{a} = o_chunks*{b} = nchunksperloop={claim.nchunks} (or 0)"
            ),
        )
    if claim.members and gpu.id not in claim.members and (gpu.i_chunks or gpu.o_chunks):
        yield False, f"{where}: only relays, so i_chunks and o_chunks must be 0"


def _channel_items(gpu: GpuProgram, target: Target) -> Iterator[_Item]:
    for verb, peers in (
        ("sending", Counter(b.chan for b in gpu.blocks if b.send >= 0)),
        ("receiving", Counter(b.chan for b in gpu.blocks if b.recv >= 0)),
    ):
        for channel, count in sorted(peers.items()):
            if count > target.max_blocks_per_channel:
                yield (
                    True,
                    f"g{gpu.id}: {count} {verb} blocks on channel {channel}, limit {target.max_blocks_per_channel}",
                )


def _block_items(draft: Draft, gpu: GpuProgram, block: ThreadBlock, target: Target) -> Iterator[_Item]:
    where = f"g{gpu.id}.tb{block.id}"
    if not 0 <= block.chan < target.max_channels:
        yield True, f"{where}: channel {block.chan} must be >= 0 and < {target.max_channels}"
    elif block.chan >= draft.nchannels:
        yield False, f"{where}: channel {block.chan} must be < nchannels={draft.nchannels}"
    for verb, peer in (("send", block.send), ("recv", block.recv)):
        if not -1 <= peer < draft.semantics.ngpus:
            yield True, f"{where}: {verb} peer {peer} must be -1 or 0..{draft.semantics.ngpus - 1}"
        elif peer == gpu.id:
            yield True, f"{where}: {verb} peer {peer} is the GPU itself"
    if len(block.steps) > target.max_steps_per_block:
        yield True, f"{where}: {len(block.steps)} steps, limit {target.max_steps_per_block}"


def _step_items(gpu: GpuProgram, block: ThreadBlock, step: Step, where: str, target: Target) -> Iterator[_Item]:
    if step.type not in target.step_types or step.srcbuf not in BUFFERS or step.dstbuf not in BUFFERS:
        yield (
            True,
            f"{where}: type {step.type!r} or buffer {step.srcbuf!r}, {step.dstbuf!r} is not known to {target.name}",
        )
        return
    if step.depid > target.max_dep_block:
        yield False, f"{where}: waits for block {step.depid}, limit {target.max_dep_block} (8-bit signed)"
    for name, offset in (("srcoff", step.srcoff), ("dstoff", step.dstoff)):
        if not -1 <= offset <= target.max_offset:
            yield False, f"{where}: {name}={offset} is outside -1..{target.max_offset} (16-bit signed)"
    if step.type == "nop":
        return
    if not 1 <= step.cnt <= target.max_count:
        yield True, f"{where}: cnt={step.cnt} is outside 1..{target.max_count}"
    sizes = {"i": gpu.i_chunks, "o": gpu.o_chunks, "s": gpu.s_chunks}
    if step.type in PARSER_CHECKS_SRC and not -1 <= step.srcoff < sizes[step.srcbuf]:
        yield True, f"{where}: srcoff={step.srcoff} is outside buffer {step.srcbuf} of {sizes[step.srcbuf]} chunks"
    if step.type in PARSER_CHECKS_DST and not -1 <= step.dstoff < sizes[step.dstbuf]:
        yield True, f"{where}: dstoff={step.dstoff} is outside buffer {step.dstbuf} of {sizes[step.dstbuf]} chunks"
    if step.type in SENDS and block.send < 0:
        yield True, f"{where}: {step.type} sends, but the block has no send peer"
    if step.type in RECEIVES and block.recv < 0:
        yield True, f"{where}: {step.type} receives, but the block has no recv peer"


def _nop_items(gpu: GpuProgram, block: ThreadBlock) -> Iterator[_Item]:
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


def _fusion_items(gpu: GpuProgram, block: ThreadBlock, target: Target) -> Iterator[_Item]:
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


def xml_escape(text: str) -> str:
    """Escape a value for a double-quoted XML attribute."""
    for char, entity in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ('"', "&quot;")):
        text = text.replace(char, entity)
    return text
