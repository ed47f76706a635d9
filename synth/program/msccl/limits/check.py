"""Does a draft fit into a target runtime? One clear message per fault, with the place and the number of the limit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import accumulate

import numpy as np

from synth.program.meaning.semantics import IN_PLACE, UNEVEN, Semantics, is_standard
from synth.program.msccl.columns import Columns, columns
from synth.program.msccl.limits.screen import suspicious_blocks
from synth.program.msccl.limits.steps import Item, block_items, step_items
from synth.program.msccl.model import Draft, GpuProgram
from synth.program.msccl.opcodes import STEP_TYPES, place
from synth.program.msccl.selection import mode_faults, size_faults
from synth.program.msccl.targets import Target


def limit_faults(draft: Draft, target: Target, table: Columns | None = None) -> list[str]:
    """Every limit of the target that the draft breaks.

    Parameters
    ----------
    draft
        A program as written.
    target
        The runtime's limits, for example ``MSCCL``.
    table
        The draft's columns, when they are at hand.

    Returns
    -------
    list of str
        Empty when the draft fits.
    """
    return [text for _, text in limit_items(draft, target, table)]


def parser_faults(draft: Draft, target: Target) -> list[str]:
    """Those of ``limit_faults`` for which the runtime refuses to load the file, or overruns its memory loading it."""
    return [text for refused, text in limit_items(draft, target) if refused]


def launch_faults(draft: Draft, target: Target, table: Columns | None = None) -> list[str]:
    """Step types that the runtime's parser takes but its launch refuses, each with its first place."""
    table = columns(draft) if table is None else table
    faults = []
    for kind in sorted((target.parsed_step_types & STEP_TYPES) - target.step_types):
        at = np.flatnonzero(table.are((kind,)))
        if at.size:
            k = int(table.block[at[0]])
            where = place(table.owners[k].id, table.blocks[k].id, int(at[0] - table.first[k]))
            faults.append(f"{where}: {target.name} refuses {kind} steps at launch ({at.size} of them)")
    return faults


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


def limit_items(draft: Draft, target: Target, table: Columns | None = None) -> list[tuple[bool, str]]:
    """Return (whether the runtime refuses the file for it, message) of everything in :func:`limit_faults`."""
    return list(_items(draft, target, columns(draft) if table is None else table))


def _items(draft: Draft, target: Target, table: Columns) -> Iterator[Item]:
    yield from _algo_items(draft, target)
    yield from size_faults(draft.min_bytes, draft.max_bytes, target)
    yield from _id_items(draft)
    for text in unaddressable(draft, target):
        yield False, text
    for text in launch_faults(draft, target, table):
        yield False, text
    suspects = suspicious_blocks(draft, target, table)
    starts = accumulate((len(gpu.blocks) for gpu in draft.gpus), initial=0)
    for gpu, start in zip(draft.gpus, starts, strict=False):
        yield from _gpu_items(draft, gpu, target)
        yield from _channel_items(gpu, target)
        for k, block in enumerate(gpu.blocks, start):
            yield from block_items(draft, gpu, block, target)
            if k in suspects:
                yield from step_items(gpu, block, target)


def _algo_items(draft: Draft, target: Target) -> Iterator[Item]:
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
    for text in mode_faults(draft.inplace, draft.outofplace):
        yield False, text
    if draft.inplace and claim.collective not in (*IN_PLACE, "custom"):
        yield False, f"{claim.collective} cannot run in place"
    if claim.collective in UNEVEN:
        need = max((len(counts_values(counts_row(claim, r), target)) for r in range(claim.ngpus)), default=0)
        if need + 5 > target.max_attributes:
            yield False, f"a row of counts needs {need} attributes, limit {target.max_attributes - 5}"


def _id_items(draft: Draft) -> Iterator[Item]:
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


def _gpu_items(draft: Draft, gpu: GpuProgram, target: Target) -> Iterator[Item]:
    where, claim = f"g{gpu.id}", draft.semantics
    if len(gpu.blocks) > target.max_blocks_per_gpu:
        yield True, f"{where}: {len(gpu.blocks)} thread blocks, limit {target.max_blocks_per_gpu}"
    elif len(gpu.blocks) > target.resident_blocks:
        yield (
            False,
            f"{where}: {len(gpu.blocks)} thread blocks hang on a GPU with {target.resident_blocks} SMs: all must be "
            "resident at once",
        )
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


def _channel_items(gpu: GpuProgram, target: Target) -> Iterator[Item]:
    limit = target.max_blocks_per_channel
    for verb, side in (("sending", "send"), ("receiving", "recv")):
        used: Counter[int] = Counter()
        spilt: dict[int, int] = {}
        for block in gpu.blocks:
            if used[block.chan] >= limit:
                spilt.setdefault(block.chan, block.id)
            used[block.chan] += getattr(block, side) >= 0
        for channel, count in sorted(used.items()):
            if count > limit:
                yield True, f"g{gpu.id}: {count} {verb} blocks on channel {channel}, limit {limit}"
            elif channel in spilt:
                # The parsers count each block's messages in the table's next free row, which is then past its end: in
                # the executor and RCCL that row overlaps the peers of the channel's receivers, and changes them.
                yield (
                    False,
                    f"g{gpu.id}.tb{spilt[channel]}: stands after {limit} {verb} blocks on channel {channel}, whose "
                    "table the parser then overruns",
                )


def xml_escape(text: str) -> str:
    """Escape a value for a double-quoted XML attribute."""
    for char, entity in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ('"', "&quot;")):
        text = text.replace(char, entity)
    return text
