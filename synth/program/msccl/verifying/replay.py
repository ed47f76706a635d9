"""Run a program on bounded FIFOs: whether every block finishes, and an order in which the steps can complete.

A step waits for its dependencies, then moves its chunks in messages of at most ``piece`` chunks. A message is sent when
the connection holds fewer than ``depth`` messages; a step that receives and sends needs both a message and a free slot,
as the kernels do. Such a network is deterministic: whether it hangs does not depend on the order in which blocks run.
"""

from __future__ import annotations

import sys
from collections import deque
from dataclasses import dataclass

import numpy as np

from synth.program.msccl.columns import Ints
from synth.program.msccl.verifying.image import Image


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """Outcome of a replay.

    Attributes
    ----------
    order
        Ops of the first iteration in the order of their completion; an op stands after everything it depends on.
    cycle
        Empty, or the blocks that wait for each other, in words.
    """

    order: Ints
    cycle: str = ""


class _Machine:
    """State of one replay; connections count messages sent and received. Plain lists: this is the innermost loop."""

    def __init__(self, image: Image, depth: int | None, piece: int, iterations: int) -> None:
        self.image, self.iterations = image, iterations
        self.depth = sys.maxsize if depth is None else depth
        self.at = image.first[:-1].tolist()
        self.first, self.end = self.at.copy(), image.first[1:].tolist()
        self.unit = image.unit.tolist()
        self.iteration = [0 if begin < end else iterations for begin, end in zip(self.at, self.end, strict=True)]
        self.moved = [0] * image.units
        self.total = (-(-image.cnt // piece)).tolist()
        self.receives, self.sends = image.receives.tolist(), image.sends.tolist()
        self.inbound, self.outbound = image.inbound.tolist(), image.outbound.tolist()
        self.sender, self.receiver = image.sender.tolist(), image.receiver.tolist()
        self.wait_first, self.wait = image.wait_first.tolist(), image.wait.tolist()
        self.sent, self.got = [0] * len(self.sender), [0] * len(self.sender)
        self.reason: list[tuple[str, int] | None] = [None] * image.units
        self.sleepers: list[list[int]] = [[] for _ in range(image.units)]
        self.ready = deque(range(image.units))
        self.order: list[int] = []

    def run(self) -> None:
        while self.ready:
            self.advance(self.ready.popleft())

    def advance(self, u: int) -> None:
        """Run one block until it ends or must wait."""
        self.reason[u] = None
        op, iteration, end = self.at[u], self.iteration[u], self.end[u]
        wait_first, sleepers = self.wait_first, self.sleepers[u]
        while iteration < self.iterations:
            if wait_first[op] != wait_first[op + 1] and not self.moved[u] and not self.dependencies_met(u, op):
                return
            if (self.receives[op] or self.sends[op]) and not self.transfer(u, op):
                return
            self.moved[u] = 0
            if not iteration:
                self.order.append(op)
            op += 1
            if op == end:
                op = self.first[u]
                iteration += 1
                self.iteration[u] = iteration
            self.at[u] = op
            if sleepers:
                for sleeper in sleepers:
                    self.wake(sleeper, "dep", u)
                sleepers.clear()

    def dependencies_met(self, u: int, op: int) -> bool:
        iteration = self.iteration[u]
        for k in range(self.wait_first[op], self.wait_first[op + 1]):
            awaited = self.wait[k]
            other = self.unit[awaited]
            if self.iteration[other] <= iteration and (self.iteration[other] < iteration or self.at[other] <= awaited):
                self.reason[u] = ("dep", other)
                self.sleepers[other].append(u)
                return False
        return True

    def transfer(self, u: int, op: int) -> bool:
        """Move as many messages of a step as possible; False when the block must wait."""
        left = self.total[op] - self.moved[u]
        inbound, outbound = self.inbound[u], self.outbound[u]
        while left:
            count = left
            if self.receives[op]:
                count = min(count, self.sent[inbound] - self.got[inbound])
                if not count:
                    self.reason[u] = ("recv", self.sender[inbound])
                    return False
            if self.sends[op]:
                count = min(count, self.depth - self.sent[outbound] + self.got[outbound])
                if not count:
                    self.reason[u] = ("send", self.receiver[outbound])
                    return False
            left -= count
            self.moved[u] += count
            if self.receives[op]:
                self.got[inbound] += count
                self.wake(self.sender[inbound], "send", u)
            if self.sends[op]:
                self.sent[outbound] += count
                self.wake(self.receiver[outbound], "recv", u)
        return True

    def wake(self, sleeper: int, verb: str, by: int) -> None:
        if self.reason[sleeper] == (verb, by):
            self.reason[sleeper] = None
            self.ready.append(sleeper)

    def cycle(self) -> str:
        """Follow what each stuck block waits for until a block repeats."""
        stuck = next((u for u, reason in enumerate(self.reason) if reason is not None), None)
        path: dict[int, None] = {}
        while stuck is not None and stuck not in path:
            path[stuck] = None
            reason = self.reason[stuck]
            stuck = None if reason is None else reason[1]
        names = list(path)
        if stuck is None:
            return _shortened([self.describe(u) for u in names])
        loop = names[names.index(stuck) :]
        return _shortened([self.describe(u) for u in [*loop, loop[0]]])

    def describe(self, u: int) -> str:
        reason = self.reason[u]
        if self.first[u] == self.end[u]:
            return f"g{self.image.rank[u]}.tb{self.image.block_id[u]} done"
        return f"{self.image.name(self.at[u])} {'done' if reason is None else reason[0]}"


def _shortened(names: list[str], most: int = 24) -> str:
    if len(names) > most:
        names = [*names[: most // 2], f"({len(names) - most} more)", *names[-(most // 2) :]]
    return " <- ".join(names)


def replay(image: Image, depth: int | None, piece: int, iterations: int = 2) -> Run:
    """Run all thread blocks as far as they go.

    Parameters
    ----------
    image
        The program in one mode; whether it hangs is the same in both modes.
    depth
        Messages that a connection holds before its sender waits; None for no limit.
    piece
        Most chunks per message, at least 1. Smaller pieces (larger messages sizes) can only hang more.
    iterations
        Loop iterations; blocks run ahead into the next one as the runtime's do.
    """
    machine = _Machine(image, depth, piece, iterations)
    machine.run()
    hung = any(done < iterations for done in machine.iteration)
    return Run(np.array(machine.order, dtype=np.int64), machine.cycle() if hung else "")
