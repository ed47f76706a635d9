"""All steps of a draft as numpy columns, so that checks of half a million steps take no loop over them.

The checks built on it only ask *whether* something is wrong; messages come from a slow look at the few blocks where it
is. That keeps the wording in one place, and the fast path free of it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from itertools import accumulate
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray

from synth.program.msccl.model import Draft, GpuProgram, Step, ThreadBlock
from synth.program.msccl.opcodes import BUFFER_ORDER, STEP_ORDER

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]
# Numbers beyond it are all alike to every check, and sums of two still fit into 64 bits.
_HUGE = 1 << 60


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """One entry per step, in document order.

    Attributes
    ----------
    owners, blocks
        Every thread block with the GPU that it stands in.
    gpu
        Index of the GPU in the draft, per block.
    first
        Index of the first step of each block, and the number of steps at the end.
    block
        Index of the block, per step.
    kind, srcbuf, dstbuf
        Positions in ``STEP_ORDER`` and ``BUFFER_ORDER``; -1 for unknown names.
    """

    owners: tuple[GpuProgram, ...]
    blocks: tuple[ThreadBlock, ...]
    gpu: Ints
    first: Ints
    block: Ints
    kind: Ints
    srcbuf: Ints
    srcoff: Ints
    dstbuf: Ints
    dstoff: Ints
    cnt: Ints
    depid: Ints
    deps: Ints
    hasdep: Flags

    def __len__(self) -> int:
        return len(self.kind)

    def are(self, kinds: Collection[str]) -> Flags:
        """Which steps are of one of these types."""
        return np.take(among(kinds), self.kind)

    @property
    def index(self) -> Ints:
        """Index of each step in its block."""
        found: Ints = np.arange(len(self), dtype=np.int64) - self.first[self.block]
        return found

    @property
    def last(self) -> Flags:
        """Which steps are the last of their block."""
        return np.equal(np.arange(1, len(self) + 1), self.first[self.block + 1])

    def per_block(self, name: str) -> Ints:
        """One field of every block."""
        return _ints(self.blocks, name)

    def sizes(self, buffer: Ints) -> Ints:
        """Chunks of the buffer named by each entry (a column such as ``srcbuf``) on the step's GPU; 0 if unknown."""
        table = np.array([[g.i_chunks, g.o_chunks, g.s_chunks, 0] for g in self.owners] or [[0] * 4], dtype=object)
        found: Ints = np.clip(table, -_HUGE, _HUGE).astype(np.int64)[self.block, buffer]
        return found


def among(kinds: Collection[str]) -> Flags:
    """Lookup table over the codes of step types; the code -1 of unknown types is never among them."""
    return np.array([*(kind in kinds for kind in STEP_ORDER), False])


def columns(draft: Draft) -> Columns:
    """Columns of a draft whose fields have the right types."""
    pairs = [(gpu, block) for gpu in draft.gpus for block in gpu.blocks]
    gpu = np.repeat(np.arange(len(draft.gpus)), [len(g.blocks) for g in draft.gpus])
    blocks = tuple(block for _, block in pairs)
    lengths = [len(block.steps) for block in blocks]
    steps = [step for block in blocks for step in block.steps]
    return Columns(
        owners=tuple(owner for owner, _ in pairs),
        blocks=blocks,
        gpu=gpu.astype(np.int64),
        first=np.array([0, *accumulate(lengths)], dtype=np.int64),
        block=np.repeat(np.arange(len(blocks)), lengths).astype(np.int64),
        kind=_codes(steps, "type", STEP_ORDER),
        srcbuf=_codes(steps, "srcbuf", BUFFER_ORDER),
        srcoff=_ints(steps, "srcoff"),
        dstbuf=_codes(steps, "dstbuf", BUFFER_ORDER),
        dstoff=_ints(steps, "dstoff"),
        cnt=_ints(steps, "cnt"),
        depid=_ints(steps, "depid"),
        deps=_ints(steps, "deps"),
        hasdep=np.fromiter(map(attrgetter("hasdep"), steps), np.bool_, len(steps)),
    )


def _ints(items: Collection[Step] | Collection[ThreadBlock], name: str) -> Ints:
    values: Iterable[int] = map(attrgetter(name), items)
    try:
        found = np.fromiter(values, np.int64, len(items))
    except OverflowError:
        found = np.fromiter((max(-_HUGE, min(_HUGE, getattr(item, name))) for item in items), np.int64, len(items))
    return np.clip(found, -_HUGE, _HUGE)


def _codes(steps: list[Step], name: str, order: tuple[str, ...]) -> Ints:
    code = {word: k for k, word in enumerate(order)}
    return np.fromiter((code.get(word, -1) for word in map(attrgetter(name), steps)), np.int64, len(steps))


@dataclass(frozen=True, slots=True, eq=False)
class Waits:
    """Steps that wait.

    Attributes
    ----------
    step
        Index of the waiting step.
    signal
        Index of the step whose signal ends the wait; -1 when there is none.
    known
        Whether the block that it waits for exists.
    """

    step: Ints
    signal: Ints
    known: Flags


def resolve_waits(table: Columns) -> Waits:
    """Find the signal that ends each wait: the first one of the awaited block with a number of at least ``deps``.

    The runtime counts real steps and dependencies carried by nops; a nop without a dependency is not counted, so after
    it the numbers lag behind the step indices.
    """
    nop = table.are(("nop",))
    unmarked = np.cumsum(nop & (table.depid < 0))
    before = np.concatenate(([0], unmarked))[table.first[:-1]]
    signals = np.flatnonzero(table.hasdep & ~nop)
    numbers = (table.index - unmarked + before[table.block])[signals] if len(table) else signals
    key = table.block[signals] << 32 | np.maximum(numbers, 0)

    waiting = np.flatnonzero(table.depid >= 0)
    target, known = _targets(table, waiting)
    wanted = target << 32 | np.clip(table.deps[waiting], 0, (1 << 32) - 1)
    at = np.searchsorted(key, wanted)
    found = known & (table.deps[waiting] >= 0) & (at < len(key))
    at = np.where(found, at, 0)
    if len(key):
        found &= key[at] >> 32 == target
    signal = np.where(found, signals[at] if len(signals) else -1, -1)
    return Waits(waiting, signal, known)


def _targets(table: Columns, waiting: Ints) -> tuple[Ints, Flags]:
    """Index of the block that each step waits for, and whether there is one."""
    ids = table.per_block("id")
    usable = np.flatnonzero((ids >= 0) & (ids < 1 << 32))
    keys = table.gpu[usable] << 32 | ids[usable]
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    depid = table.depid[waiting]
    wanted = table.gpu[table.block[waiting]] << 32 | np.minimum(depid, (1 << 32) - 1)
    at = np.searchsorted(keys, wanted)
    known = (at < len(keys)) & (depid < 1 << 32)
    at = np.where(known, at, 0)
    if not len(keys):
        return np.zeros(len(waiting), dtype=np.int64), np.zeros(len(waiting), dtype=np.bool_)
    known &= keys[at] == wanted
    return usable[order][at], known
