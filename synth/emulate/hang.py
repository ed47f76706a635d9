"""Who waits for whom, when nothing moves any more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from synth.emulate.build import Built
from synth.emulate.machine.job import WAITS_BLOCK, WAITS_MESSAGE, WAITS_ROOM, Block, Control
from synth.program.msccl.model import Draft

_SHOWN: Final = 12
_WAITS: Final = (WAITS_MESSAGE, WAITS_ROOM, WAITS_BLOCK)


@dataclass(frozen=True, slots=True, eq=False)
class _Stuck:
    """One block with its state; ``waits_for`` is the number of the block at the other end, or -1."""

    name: str
    block: Block
    state: int
    what: int
    iteration: int
    op: int
    waits_for: int


def describe_hang(draft: Draft, built: Built, control: Control, depth: int) -> str:
    """Follow what the stuck blocks wait for: a cycle, or a chain that ends at a block that will never answer."""
    blocks = _blocks(draft, built, control)
    waiting = [number for number, stuck in enumerate(blocks) if stuck.state in _WAITS]
    chains = (_chain(blocks, number) for number in waiting)
    path, end = next((chain for chain in chains if chain[1] is None), None) or _chain(blocks, waiting[0])
    links = [_describe(blocks[number], blocks, built, depth) for number in path[:_SHOWN]]
    if len(path) > _SHOWN:
        links.append(f"... {len(path) - _SHOWN} more ...")
    links.append(end or blocks[path[0]].name)
    return f"deadlock, {len(waiting)} blocks wait: {' <- '.join(links)}"


def _blocks(draft: Draft, built: Built, control: Control) -> list[_Stuck]:
    """All blocks by their number in the job."""
    names = {gpu.id: [f"g{gpu.id}.tb{block.id}" for block in gpu.blocks] for gpu in draft.gpus}
    everyone = [block for blocks in built.job.ranks for block in blocks]
    senders = {block.outbound: block.number for block in everyone}
    receivers = {block.inbound: block.number for block in everyone}
    found = []
    for rank, blocks in enumerate(built.job.ranks):
        for position, block in enumerate(blocks):
            state, what, op, iteration = (int(v) for v in control.blocks[block.number])
            waits_for = -1
            if state == WAITS_MESSAGE:
                waits_for = senders[what]
            elif state == WAITS_ROOM:
                waits_for = receivers[what]
            elif state == WAITS_BLOCK and what >= 0:
                waits_for = blocks[what].number
            found.append(_Stuck(names[rank][position], block, state, what, iteration, op, waits_for))
    return found


def _chain(blocks: Sequence[_Stuck], first: int) -> tuple[list[int], str | None]:
    """Blocks from one on, each waiting for the next; None when the last waits for the first, else where it ends."""
    path: dict[int, None] = {}
    at = first
    while at not in path:
        path[at] = None
        at = blocks[at].waits_for
        if at < 0:
            return list(path), "a thread block that does not exist"
        if blocks[at].state not in _WAITS:
            return list(path), f"{blocks[at].name}, which has ended"
    numbers = list(path)
    return numbers[numbers.index(at) :], None


def _describe(stuck: _Stuck, blocks: Sequence[_Stuck], built: Built, depth: int) -> str:
    op = stuck.block.ops[stuck.op]
    where = f"{stuck.name}.step{op.step} ({op.kind}, iteration {stuck.iteration})"
    if stuck.state == WAITS_BLOCK:
        wait = next(value for position, value in op.waits if position == stuck.what)
        return f"{where} waits for step {wait} of " + (blocks[stuck.waits_for].name if stuck.what >= 0 else "one")
    src, dst, chan = built.keys[stuck.what]
    what = "a message" if stuck.state == WAITS_MESSAGE else f"room for a message (FIFO depth {depth})"
    return f"{where} waits for {what} on g{src}->g{dst} channel {chan}"
