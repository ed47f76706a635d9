"""The runtimes' checks of one rank's thread blocks and steps, in the parser's own terms."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from synth.program.msccl.opcodes import BUFFERS, PARSER_CHECKS_DST, PARSER_CHECKS_SRC, RECEIVES, SENDS, place
from synth.program.msccl.targets import Target
from synth.program.msccl.xml.c_integers import c_int
from synth.program.msccl.xml.nodes import Node, Values
from synth.program.msccl.xml.tags import STEP_ATTRIBUTES

_GPU = ("i_chunks", "o_chunks", "s_chunks")
_TB = ("id", "recv", "send", "chan")


class Numbers(dict[str | None, int]):
    """Values as the runtimes read them, each converted once; None (a missing value) is 0."""

    def __missing__(self, text: str | None) -> int:
        self[text] = value = 0 if text is None else c_int(text)
        return value


class StepFields(NamedTuple):
    """One step as the runtimes read it."""

    s: int
    type: str
    srcbuf: str
    srcoff: int
    dstbuf: str
    dstoff: int
    cnt: int
    depid: int
    deps: int
    hasdep: int


def step_fields(values: Values, numbers: Numbers) -> StepFields:
    """Convert the texts of one step; missing ones are empty or 0."""
    s, kind, srcbuf, srcoff, dstbuf, dstoff, cnt, depid, deps, hasdep = values
    return StepFields(
        numbers[s],
        kind or "",
        srcbuf or "",
        numbers[srcoff],
        dstbuf or "",
        numbers[dstoff],
        numbers[cnt],
        numbers[depid],
        numbers[deps],
        numbers[hasdep],
    )


@dataclass(slots=True)
class Rank:
    """What a rank's parser has seen so far."""

    id: int
    ngpus: int
    target: Target
    sizes: dict[str, int] = field(default_factory=dict)
    senders: Counter[int] = field(default_factory=Counter)
    receivers: Counter[int] = field(default_factory=Counter)
    numbers: Numbers = field(default_factory=Numbers)


def rank_faults(rank: int, gpus: Sequence[Node], algo: Node, target: Target) -> Iterator[str]:
    """Why one rank refuses the file, if it does."""
    state = Rank(rank, c_int(algo.attributes.get("ngpus", "0")), target)
    for gpu in gpus:
        missing = [name for name in _GPU if name not in gpu.attributes]
        yield from (f"g{rank}: attribute {name} of gpu not found" for name in missing)
        state.sizes = {name[0]: c_int(gpu.attributes.get(name, "0")) for name in _GPU}
        if state.sizes["s"] < 0:
            yield f"g{rank}: s_chunks={state.sizes['s']} must not be negative"
        yield from _chunk_rule(state, algo)
        seen: set[int] = set()
        for block in gpu.children:
            yield from _block_faults(state, block, algo, seen)
        gap = next((k for k in sorted(seen) if k and k - 1 not in seen), None)
        if gap is not None:
            yield f"g{rank}: thread block ids must be without gaps, {gap - 1} is missing"


def _chunk_rule(state: Rank, algo: Node) -> Iterator[str]:
    if not state.target.chunk_rule:
        return
    coll, chunks = algo.attributes.get("coll", ""), c_int(algo.attributes.get("nchunksperloop", "0"))
    a = state.ngpus if coll == state.target.coll_name("allgather") else 1
    b = state.ngpus if coll == state.target.coll_name("reducescatter") else 1
    i, o = state.sizes["i"], state.sizes["o"]
    if (i > 0 and i * a != chunks) or (o > 0 and o * b != chunks):
        yield f"g{state.id}: i_chunks={i} * {a} and o_chunks={o} * {b} must be nchunksperloop={chunks} for {coll[:40]}"


def _block_faults(state: Rank, block: Node, algo: Node, seen: set[int]) -> Iterator[str]:
    missing = [name for name in _TB if name not in block.attributes]
    if missing:
        yield f"g{state.id}: attribute {', '.join(missing)} of tb not found"
        return
    number, recv, send, chan = (c_int(block.attributes[name]) for name in _TB)
    where, target = f"g{state.id}.tb{number}", state.target
    if not 0 <= number < target.max_blocks_per_gpu:
        yield f"{where}: thread block id {number} is outside 0..{target.max_blocks_per_gpu - 1}"
    if number in seen:
        yield f"{where}: duplicate thread block id"
    seen.add(number)
    if state.id in (recv, send):
        yield f"{where}: a peer is the GPU itself"
    if min(recv, send) < -1 or (target.checks_peers and max(recv, send) >= state.ngpus):
        yield f"{where}: peers {recv} and {send} must be -1 or 0..{state.ngpus - 1}"
    if not 0 <= chan < target.max_channels:
        past = " (it is let through and overruns an array)" if chan == target.max_channels else ""
        yield f"{where}: channel {chan} must be >= 0 and < {target.max_channels}{past}"
        return
    yield from _step_faults(state, block, (number, recv, send, chan))
    for peer, used in ((send, state.senders), (recv, state.receivers)):
        if peer >= 0:
            used[chan] += 1
            if used[chan] > target.max_blocks_per_channel:
                yield f"{where}: more than {target.max_blocks_per_channel} blocks on channel {chan} overrun an array"


def _step_faults(state: Rank, block: Node, numbers: tuple[int, int, int, int]) -> Iterator[str]:
    """Walk over the steps as the parser does, with its bookkeeping of dependencies and merged reductions."""
    number, recv, send, chan = numbers
    target, waits, claimed, transfers, adds = state.target, 0, 0, 0, 0
    run: tuple[str, int, str] | None = None
    for index, values in enumerate(block.steps):
        if None in values:
            lacks = [name for name, value in zip(STEP_ATTRIBUTES, values, strict=True) if value is None]
            yield f"{place(state.id, number, index)}: attribute {', '.join(lacks)} of step not found"
            continue
        step = step_fields(values, state.numbers)
        wrong = _field_faults(state, step)
        if step.type in SENDS:
            wrong += _peer_faults("send", send, state.senders[chan], target)
        if step.type in RECEIVES:
            wrong += _peer_faults("recv", recv, state.receivers[chan], target)
        waits += step.depid >= 0
        key = (step.dstbuf, step.dstoff, step.srcbuf)
        merged = step.type == "re" and run == key and step.depid == -1
        if step.type != "nop":
            transfers += not merged
            if not merged:
                if waits > claimed and step.depid < 0:
                    wrong.append("the step after a run of nops must itself carry a dependency")
                claimed = waits
            adds += step.type == "re"
            ends = step.hasdep != 0 or adds == target.max_fused_reductions
            run = key if step.type == "re" and not ends else None
        for text in wrong:
            yield f"{place(state.id, number, index)}: {text}"
    for what, count in (("steps", transfers), ("dependencies", waits)):
        if count > target.max_steps_per_block:
            yield f"g{state.id}.tb{number}: {count} {what} overrun an array of {target.max_steps_per_block}"


def _field_faults(state: Rank, step: StepFields) -> list[str]:
    target, wrong = state.target, []
    if not 0 <= step.s < target.max_steps_per_block:
        wrong.append(f"s={step.s} is outside 0..{target.max_steps_per_block - 1}")
    if step.type not in target.parsed_step_types:
        wrong.append(f"type {step.type[:40]!r} is not known to {target.name}")
    if step.srcbuf not in BUFFERS or step.dstbuf not in BUFFERS:
        wrong.append(f"buffers {step.srcbuf[:40]!r} and {step.dstbuf[:40]!r} must be i, o or s")
        return wrong
    if step.type == "nop":
        return wrong
    moves = step.type in SENDS or step.type in RECEIVES
    if not 0 <= step.cnt <= target.max_count or (moves and step.cnt < target.checks_counts_from):
        wrong.append(f"cnt={step.cnt} is outside 1..{target.max_count}")
    both = step.type == "ra"
    for checked, name, buffer, offset in (
        (both or step.type in PARSER_CHECKS_SRC, "srcoff", step.srcbuf, step.srcoff),
        (both or step.type in PARSER_CHECKS_DST, "dstoff", step.dstbuf, step.dstoff),
    ):
        if checked and not -1 <= offset < state.sizes[buffer]:
            wrong.append(f"{name}={offset} is outside buffer {buffer} of {state.sizes[buffer]} chunks")
    if step.hasdep not in (0, 1):
        wrong.append(f"hasdep={step.hasdep} must be 0 or 1")
    return wrong


def _peer_faults(side: str, peer: int, blocks: int, target: Target) -> list[str]:
    if peer < 0:
        return [f"there is no {side} peer"]
    if blocks >= target.max_blocks_per_channel:
        return [f"more than {target.max_blocks_per_channel} {side} blocks on this channel"]
    return []
