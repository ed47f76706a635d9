"""Faults that can be seen without running a draft: its types, bounds, connections and dependencies."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import accumulate, zip_longest
from operator import attrgetter
from typing import Any, NamedTuple

from synth.program.meaning.semantics import Semantics
from synth.program.msccl.columns import Columns, Flags, columns, resolve_waits
from synth.program.msccl.model import Draft, GpuProgram, Step, ThreadBlock
from synth.program.msccl.opcodes import READS_SRC, RECEIVES, SENDS, STEP_TYPES, USES_DST, place

_INTS = {
    Semantics: ("ngpus", "nchunks"),
    Draft: ("nchannels", "min_bytes", "max_bytes"),
    GpuProgram: ("id", "i_chunks", "o_chunks", "s_chunks"),
    ThreadBlock: ("id", "send", "recv", "chan"),
    Step: ("srcoff", "dstoff", "cnt", "depid", "deps"),
}
_STRINGS = {
    Semantics: ("collective",),
    Draft: ("name", "proto"),
    GpuProgram: (),
    ThreadBlock: (),
    Step: ("type", "srcbuf", "dstbuf"),
}
_BOOLS = {Semantics: (), Draft: ("inplace", "outofplace"), GpuProgram: (), ThreadBlock: (), Step: ("hasdep",)}


def type_faults(draft: Draft) -> list[str]:
    """Anything that is not exactly the model's immutable types, which could change after verification."""
    if type(draft) is not Draft or type(draft.semantics) is not Semantics:
        return ["a draft must be exactly Draft with exactly Semantics"]
    claim = draft.semantics
    faults = [*_field_faults(draft, "draft"), *_field_faults(claim, "semantics")]
    if claim.root is not None and type(claim.root) is not int:
        faults.append("semantics: root must be an int or None")
    for name, numbers in (("members", claim.members), ("counts", claim.counts)):
        if type(numbers) is not tuple or any(type(n) is not int for n in numbers):
            faults.append(f"semantics: {name} must be a tuple of int")
    faults += _sequence_faults(draft.gpus, GpuProgram, "gpus")
    for gpu in draft.gpus if not faults else ():
        faults += _sequence_faults(gpu.blocks, ThreadBlock, f"g{gpu.id}.blocks")
        for block in gpu.blocks if not faults else ():
            faults += _sequence_faults(block.steps, Step, f"g{gpu.id}.tb{block.id}.steps")
    return faults


def _sequence_faults(items: object, kind: type, where: str) -> list[str]:
    if type(items) is not tuple or any(type(item) is not kind for item in items):
        return [f"{where} must be a tuple of {kind.__name__}"]
    if all(
        set(map(type, map(attrgetter(name), items))) <= {want}
        for names, want in ((_INTS[kind], int), (_STRINGS[kind], str), (_BOOLS[kind], bool))
        for name in names
    ):
        return []
    return [fault for index, item in enumerate(items) for fault in _field_faults(item, f"{where}[{index}]")]


def _field_faults(item: Any, where: str) -> list[str]:
    kind = type(item)
    for names, want in ((_INTS[kind], int), (_STRINGS[kind], str), (_BOOLS[kind], bool)):
        for name in names:
            if type(getattr(item, name)) is not want:
                return [f"{where}: {name} must be {want.__name__}, is {getattr(item, name)!r}"]
    return []


def structure_faults(draft: Draft, table: Columns | None = None) -> list[str]:
    """Bounds of every access, both ends of every connection, and every dependency's signal.

    Parameters
    ----------
    draft
        A draft without type faults.
    table
        Its columns, when they are at hand.

    Notes
    -----
    A draft without these faults has equally many sends and receives with equal counts on every connection, and every
    wait has a signal in its own loop iteration. It follows that waits, messages and back-pressure never point from a
    later iteration to an earlier one, so what holds within one iteration holds for any number of them.
    """
    table = columns(draft) if table is None else table
    faults: list[str] = []
    ids = [gpu.id for gpu in draft.gpus]
    if len(ids) != draft.semantics.ngpus or sorted(ids) != list(range(len(ids))):
        faults.append(
            f"the file must hold ranks 0..{draft.semantics.ngpus - 1}, each once; it holds {sorted(ids)[:16]}"
        )
    access = set(table.block[_suspicious_accesses(table)].tolist())
    waits = resolve_waits(table)
    hanging = set(table.gpu[table.block[waits.step[waits.signal < 0]]].tolist())
    starts = accumulate((len(gpu.blocks) for gpu in draft.gpus), initial=0)
    for position, (gpu, start) in enumerate(zip(draft.gpus, starts, strict=False)):
        blocks = [block.id for block in gpu.blocks]
        if len(set(blocks)) != len(blocks):
            faults.append(f"g{gpu.id}: duplicate thread block ids")
        for k, block in enumerate(gpu.blocks, start):
            if k in access:
                faults += _access_faults(gpu, block)
        if position in hanging:
            faults += _wait_faults(gpu)
    return faults + list(_connection_faults(draft, table))


def _suspicious_accesses(table: Columns) -> Flags:
    """Which steps may have access faults; the fast form of :func:`_access_faults`."""
    real = ~table.are(("nop",))
    sends, receives = table.are(SENDS), table.are(RECEIVES)
    wrong = (table.kind < 0) | (real & (table.cnt < 1))
    wrong |= sends & (table.per_block("send")[table.block] < 0)
    wrong |= receives & (table.per_block("recv")[table.block] < 0)
    for kinds, buffer, offset in (
        (READS_SRC, table.srcbuf, table.srcoff),
        (USES_DST, table.dstbuf, table.dstoff),
    ):
        wrong |= table.are(kinds) & ((offset < 0) | (offset + table.cnt > table.sizes(buffer)))
    return wrong


def _access_faults(gpu: GpuProgram, block: ThreadBlock) -> Iterator[str]:
    sizes = {"i": gpu.i_chunks, "o": gpu.o_chunks, "s": gpu.s_chunks}
    for index, step in enumerate(block.steps):
        where = place(gpu.id, block.id, index)
        if step.type not in STEP_TYPES:
            yield f"{where}: step type {step.type!r} is not known"
        if step.type not in STEP_TYPES or step.type == "nop":
            continue
        if step.cnt < 1:
            yield f"{where}: cnt={step.cnt} must be at least 1"
        if (step.type in SENDS and block.send < 0) or (step.type in RECEIVES and block.recv < 0):
            yield f"{where}: {step.type} without a peer"
        sides = [(step.srcbuf, step.srcoff)] if step.type in READS_SRC else []
        sides += [(step.dstbuf, step.dstoff)] if step.type in USES_DST else []
        for buffer, offset in sides:
            if offset < 0 or offset + step.cnt > sizes.get(buffer, 0):
                span, size = f"{buffer}[{offset}..{offset + step.cnt - 1}]", sizes.get(buffer, 0)
                yield f"{where}: {span} is outside buffer {buffer} of {size} chunks"


def signal_values(block: ThreadBlock) -> list[tuple[int, int]]:
    """(step index, number that the runtime signals after it) of every step that signals.

    The runtime counts real steps and dependencies carried by nops; a nop without a dependency is not counted, so after
    it the numbers lag behind the step indices.
    """
    signals, lag = [], 0
    for index, step in enumerate(block.steps):
        if step.type == "nop":
            lag += step.depid < 0
        elif step.hasdep:
            signals.append((index, index - lag))
    return signals


def _wait_faults(gpu: GpuProgram) -> Iterator[str]:
    last = {block.id: max((value for _, value in signal_values(block)), default=-1) for block in gpu.blocks}
    for block in gpu.blocks:
        for index, step in enumerate(block.steps):
            if step.depid < 0:
                continue
            where = place(gpu.id, block.id, index)
            if step.depid not in last:
                yield f"{where}: hangs, it waits for tb{step.depid}, which does not exist on g{gpu.id}"
            elif step.deps < 0:
                yield f"{where}: waits for tb{step.depid}, but deps={step.deps} is not a step"
            elif last[step.depid] < step.deps:
                awaited = f"tb{step.depid}.step{step.deps}"
                yield f"{where}: hangs, it waits for {awaited}, but neither that step nor a later one there has hasdep"


class _End(NamedTuple):
    """One block's end of a connection, with the counts of its messages as bytes."""

    rank: int
    block: ThreadBlock
    counts: bytes


def _connection_faults(draft: Draft, table: Columns) -> Iterator[str]:
    senders: dict[tuple[int, int, int], list[_End]] = defaultdict(list)
    receivers: dict[tuple[int, int, int], list[_End]] = defaultdict(list)
    sends, receives = table.are(SENDS), table.are(RECEIVES)
    bounds = table.first.tolist()
    for k, (gpu, block) in enumerate(zip(table.owners, table.blocks, strict=True)):
        span = slice(bounds[k], bounds[k + 1])
        if block.send >= 0:
            end = _End(gpu.id, block, table.cnt[span][sends[span]].tobytes())
            senders[gpu.id, block.send, block.chan].append(end)
        if block.recv >= 0:
            end = _End(gpu.id, block, table.cnt[span][receives[span]].tobytes())
            receivers[block.recv, gpu.id, block.chan].append(end)
    for key in sorted({*senders, *receivers}):
        name = f"connection g{key[0]}->g{key[1]} channel {key[2]}"
        for verb, ends in (("sends on", senders.get(key, [])), ("receives from", receivers.get(key, []))):
            if len(ends) > 1:
                blocks = ", ".join(f"g{end.rank}.tb{end.block.id}" for end in ends)
                yield f"{name}: {len(ends)} blocks share one end: {blocks}"
            elif not ends:
                yield f"{name}: no block {verb} it, so its other end never connects"
        if len(senders.get(key, [])) == len(receivers.get(key, [])) == 1:
            sender, receiver = senders[key][0], receivers[key][0]
            if sender.counts != receiver.counts:
                yield from _pairing_faults(name, sender, receiver)


def _pairing_faults(name: str, sender: _End, receiver: _End) -> Iterator[str]:
    sends = [(i, s.cnt) for i, s in enumerate(sender.block.steps) if s.type in SENDS]
    receives = [(i, s.cnt) for i, s in enumerate(receiver.block.steps) if s.type in RECEIVES]
    for k, (send, receive) in enumerate(zip_longest(sends, receives)):
        if send is None or receive is None:
            what = "messages are left over" if receive is None else "the receiver hangs"
            yield f"{name}: {len(sends)} sends but {len(receives)} receives per iteration; {what}"
            return
        if send[1] != receive[1]:
            first = f"{place(sender.rank, sender.block.id, send[0])} cnt={send[1]}"
            second = f"{place(receiver.rank, receiver.block.id, receive[0])} cnt={receive[1]}"
            yield f"{name}: send and receive number {k} differ: {first} and {second}"
            return
