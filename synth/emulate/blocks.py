"""Thread blocks of a draft as a job's plain operations, and what would keep them from starting at all."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from synth.emulate.machine.job import Block, Op
from synth.program.msccl.model import Draft, GpuProgram, Step, ThreadBlock

SENDING: Final = frozenset({"s", "rcs", "rrs", "rrcs"})
RECEIVING: Final = frozenset({"r", "rcs", "rrs", "rrc", "rrcs"})
FROM_SOURCE: Final = frozenset({"s", "rrs", "rrc", "rrcs", "cpy", "re"})
TO_TARGET: Final = frozenset({"r", "rcs", "rrc", "rrcs", "cpy", "re"})
KNOWN: Final = SENDING | RECEIVING | FROM_SOURCE | {"nop"}

Key = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Place:
    """Element address of each of a rank's buffers, and the chunks that its steps may use of it."""

    starts: Mapping[str, int]
    chunks: Mapping[str, int]


def connection_faults(draft: Draft) -> Iterator[str]:
    """Why connections would not come up: each (source, destination, channel) needs one block at either end."""
    ends: dict[Key, tuple[list[str], list[str]]] = defaultdict(lambda: ([], []))
    for gpu in draft.gpus:
        for block in gpu.blocks:
            name = f"g{gpu.id}.tb{block.id}"
            for side, peer in enumerate((block.send, block.recv)):
                if peer < 0:
                    continue
                if peer == gpu.id or peer >= draft.semantics.ngpus:
                    yield f"{name}: peer {peer} is not another rank of {draft.semantics.ngpus}"
                elif not 0 <= block.chan < draft.nchannels:
                    yield f"{name}: channel {block.chan}, but there are {draft.nchannels}, so it never connects"
                else:
                    key = (peer, gpu.id, block.chan) if side else (gpu.id, peer, block.chan)
                    ends[key][side].append(name)
    for (src, dst, chan), sides in sorted(ends.items()):
        for verb, names in zip(("send on", "receive from"), sides, strict=True):
            if not names:
                yield f"connection g{src}->g{dst} channel {chan} hangs: there is no block to {verb} it"
            elif len(names) > 1:
                yield f"connection g{src}->g{dst} channel {chan}: {' and '.join(names)} {verb} it and race on its FIFO"


def step_faults(gpu: GpuProgram, place: Place) -> Iterator[str]:
    """Steps that no runtime could execute: outside a buffer, without a peer, a count below 1."""
    for block in gpu.blocks:
        pending = False
        for index, step in enumerate(block.steps):
            where = f"g{gpu.id}.tb{block.id}.step{index} ({step.type})"
            if step.type not in KNOWN:
                yield f"{where}: unknown step type"
                continue
            if step.depid >= 0 and step.deps < 0:
                yield f"{where}: waits for tb{step.depid}, but deps={step.deps} is not a step"
            if step.type != "nop":
                yield from _access_faults(where, block, step, place)
                if pending and step.depid < 0:
                    yield f"{where}: waits of the nop steps before it would be lost: it must carry the last one itself"
            pending = step.type == "nop" and (pending or step.depid >= 0)


def _access_faults(where: str, block: ThreadBlock, step: Step, place: Place) -> Iterator[str]:
    if step.cnt < 1:
        yield f"{where}: cnt={step.cnt} moves nothing"
    if step.type in SENDING and block.send < 0:
        yield f"{where}: sends, but the block has no send peer"
    if step.type in RECEIVING and block.recv < 0:
        yield f"{where}: receives, but the block has no receive peer"
    sides = [(step.srcbuf, step.srcoff)] if step.type in FROM_SOURCE else []
    sides += [(step.dstbuf, step.dstoff)] if step.type in TO_TARGET else []
    for buffer, offset in sides:
        room = place.chunks.get(buffer, 0)
        if not 0 <= offset <= offset + step.cnt <= room:
            yield f"{where}: {buffer}[{offset}..{offset + step.cnt - 1}] is outside buffer {buffer} of {room} chunks"


def plain_blocks(gpu: GpuProgram, place: Place, rings: Mapping[Key, int], first: int, chunk: int) -> tuple[Block, ...]:
    """Blocks of one rank, numbered from ``first`` on."""
    positions = {block.id: position for position, block in enumerate(gpu.blocks)}
    return tuple(
        Block(
            first + position,
            rings.get((block.recv, gpu.id, block.chan), -1),
            rings.get((gpu.id, block.send, block.chan), -1),
            tuple(_plain_ops(block, place, positions, chunk)),
        )
        for position, block in enumerate(gpu.blocks)
    )


def _plain_ops(block: ThreadBlock, place: Place, positions: Mapping[int, int], chunk: int) -> Iterator[Op]:
    """Real steps in order, each with the waits of the nops before it.

    The flag that a step sets is the runtime's own count (formats.md 1.4): one per step, and one more for every wait of
    a step beyond its first. It equals the step's number unless there are nops that wait for nothing.
    """
    waits: list[tuple[int, int]] = []
    count = 0
    for index, step in enumerate(block.steps):
        if step.depid >= 0:
            waits.append((positions.get(step.depid, -1), step.deps))
        if step.type == "nop":
            continue
        count += max(0, len(waits) - 1)
        yield Op(
            step.type,
            step.type in RECEIVING,
            step.type in SENDING,
            place.starts[step.srcbuf] + step.srcoff * chunk if step.type in FROM_SOURCE else -1,
            place.starts[step.dstbuf] + step.dstoff * chunk if step.type in TO_TARGET else -1,
            step.cnt,
            tuple(waits),
            count if step.hasdep else -1,
            index,
        )
        count += 1
        waits = []
