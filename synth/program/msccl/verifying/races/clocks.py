"""Vector clocks over messages and waits, restricted to the blocks that somebody asks about.

A clock says, per such block, how many of its chunks are known to be done. They travel with messages and waits; the
blocks are taken in several passes when their clocks would not fit into memory together.
"""

from __future__ import annotations

from collections import deque

import numpy as np
from numpy.typing import NDArray

from synth.program.msccl.columns import Flags, Ints
from synth.program.msccl.verifying.image import Image
from synth.program.msccl.verifying.races.timeline import Timeline

_Clocks = NDArray[np.int32]
_MAX_CELLS = 1 << 26
# (first op, tick of its first chunk in question, second op, its first chunk in question, number of chunks)
Asked = tuple[Ints, Ints, Ints, Ints, Ints]


def passes(image: Image, order: Ints, sources: Ints, fine: bool = False) -> list[Ints]:
    """Split the blocks into groups whose clocks fit into memory."""
    blocks = np.unique(sources)
    width = max(1, _MAX_CELLS // (image.units + _most_alive(image, order, fine)))
    return [blocks[k : k + width] for k in range(0, len(blocks), width)]


def _most_alive(image: Image, order: Ints, fine: bool) -> int:
    """Most messages and signals under way at one time in this order, in rows of a clock."""
    rows = image.cnt if fine else np.minimum(image.cnt, 2)
    position = np.empty(image.ops, dtype=np.int64)
    position[order] = np.arange(image.ops)
    last_use = np.full(image.ops, -1, dtype=np.int64)
    np.maximum.at(last_use, image.wait, np.repeat(position, np.diff(image.wait_first)))
    awaited = last_use >= 0
    change = (rows * image.sends - rows * image.receives + awaited)[order]
    np.subtract.at(change, last_use[awaited], 1)
    return int(np.cumsum(change).max(initial=0))


def sweep(image: Image, time: Timeline, order: Ints, asked: Asked, fine: bool) -> Flags:
    """Answer questions by sweeping over the program.

    Parameters
    ----------
    image, time, order
        The program.
    asked
        The questions, see ``Asked``.
    fine
        Whether to follow every chunk of a message; otherwise only the first and the last, and a question gets a yes
        only when all chunks of the first op come before the first chunk of the second.
    """
    answers = np.zeros(len(asked[0]), dtype=np.bool_)
    sources = image.unit[asked[0]]
    for blocks in passes(image, order, sources, fine):
        mine = np.flatnonzero(np.isin(sources, blocks))
        _Sweep(image, time, blocks, asked, mine, fine).run(order, answers)
    return answers


class _Sweep:
    """One pass."""

    def __init__(self, image: Image, time: Timeline, blocks: Ints, asked: Asked, mine: Ints, fine: bool) -> None:
        self.image, self.fine, self.width = image, fine, len(blocks)
        self.asked = asked
        column = np.full(image.units, -1, dtype=np.int64)
        column[blocks] = np.arange(len(blocks))
        self.column = column.tolist()
        self.source = column[image.unit[asked[0]]]
        self.questions: dict[int, list[int]] = {}
        for k in mine.tolist():
            self.questions.setdefault(int(asked[2][k]), []).append(k)
        self.clocks = np.zeros((image.units, self.width), dtype=np.int32)
        self.queues: list[deque[_Clocks]] = [deque() for _ in image.sender]
        self.users = np.bincount(image.wait, minlength=image.ops).tolist()
        self.posted: dict[int, tuple[_Clocks, int]] = {}
        self.wait_first, self.wait = image.wait_first.tolist(), image.wait.tolist()
        self.start = time.start.tolist()

    def run(self, order: Ints, answers: Flags) -> None:
        image = self.image
        unit = image.unit[order]
        steps = zip(
            order.tolist(),
            unit.tolist(),
            image.cnt[order].tolist(),
            np.where(image.receives[order], image.inbound[unit], -1).tolist(),
            np.where(image.sends[order], image.outbound[unit], -1).tolist(),
            strict=True,
        )
        for op, u, cnt, inbound, outbound in steps:
            self.step(op, u, cnt, inbound, outbound, answers)

    def step(self, op: int, u: int, cnt: int, inbound: int, outbound: int, answers: Flags) -> None:
        """One op: join what it waits for and receives, answer, tell others."""
        clock, column = self.clocks[u], self.column[u]
        for k in range(self.wait_first[op], self.wait_first[op + 1]):
            np.maximum(clock, self.claim(self.wait[k]), out=clock)
        message = self.queues[inbound].popleft() if inbound >= 0 else None
        asked = self.questions.get(op)
        if outbound >= 0 or (asked and message is not None):
            rows = self.rows(clock, message, cnt)
            if column >= 0:
                rows[:, column] = self.ticks(self.start[op], cnt, len(rows))
            clock[:] = rows[-1]
        else:
            rows = clock[None, :]
            if message is not None:
                np.maximum(clock, message[-1], out=clock)
            if column >= 0:
                clock[column] = self.start[op] + cnt
        if outbound >= 0:
            self.queues[outbound].append(rows)
        if asked:
            self.answer(asked, rows, answers)
        if self.users[op]:
            self.posted[op] = (clock.copy(), self.users[op])

    def rows(self, clock: _Clocks, message: _Clocks | None, cnt: int) -> _Clocks:
        """Clock after each chunk that is followed."""
        if message is not None:
            return np.maximum(message, clock)
        return np.repeat(clock[None, :], cnt if self.fine else min(cnt, 2), axis=0)

    def ticks(self, start: int, cnt: int, rows: int) -> Ints:
        """Chunks of the op itself that are done, per row."""
        return np.arange(start + 1, start + cnt + 1) if self.fine else np.array([start + 1, start + cnt])[:rows]

    def claim(self, awaited: int) -> _Clocks:
        """Clock that a wait receives; dropped after its last use."""
        clock, left = self.posted[awaited]
        if left == 1:
            del self.posted[awaited]
        else:
            self.posted[awaited] = (clock, left - 1)
        return clock

    def answer(self, asked: list[int], rows: _Clocks, answers: Flags) -> None:
        _, begin, _, offset, length = self.asked
        for k in asked:
            source, tick = self.source[k], int(begin[k])
            if not self.fine:
                answers[k] = rows[0, source] >= tick + length[k]
                continue
            low = min(int(offset[k]), len(rows) - 1)
            known = rows[low : low + int(length[k]), source]
            answers[k] = bool((known > np.arange(tick, tick + int(length[k]))).all())
