"""Run a program on bounded FIFOs: whether every block finishes, and an order in which the steps can complete.

A step waits for its dependencies, then moves its chunks in messages of at most ``piece`` chunks. A message is sent when
the connection holds fewer than ``depth`` messages; a step that receives and sends needs both a message and a free slot,
as the kernels do. Such a network is deterministic: whether it hangs does not depend on the order in which blocks run.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from synth.program.image import Image, Op


@dataclass(frozen=True, slots=True)
class Run:
    """Outcome of a replay.

    Attributes
    ----------
    order
        (unit, op, iteration) of every completed step; a step stands after everything it depends on.
    cycle
        Empty, or the blocks that wait for each other, in words.
    """

    order: tuple[tuple[int, int, int], ...]
    cycle: str = ""


class _Machine:
    """State of one replay; connections count messages sent and received."""

    def __init__(self, image: Image, depth: int | None, piece: int, iterations: int) -> None:
        self.image, self.depth, self.piece, self.iterations = image, depth, piece, iterations
        n = len(image.units)
        self.completed = [0] * n
        self.messages = [0] * n
        self.sent = [0] * len(image.sender)
        self.got = [0] * len(image.sender)
        self.reason: list[tuple[str, int] | None] = [None] * n
        self.sleepers: list[list[int]] = [[] for _ in range(n)]
        self.ready = deque(range(n))
        self.order: list[tuple[int, int, int]] = []

    def run(self) -> None:
        while self.ready:
            self.advance(self.ready.popleft())

    def advance(self, u: int) -> None:
        """Run one block until it ends or must wait."""
        unit = self.image.units[u]
        length = len(unit.ops)
        self.reason[u] = None
        while self.completed[u] < length * self.iterations:
            iteration, index = divmod(self.completed[u], length)
            op = unit.ops[index]
            if not self.messages[u] and not self.dependencies_met(u, op, iteration):
                return
            if not self.transfer(u, op):
                return
            self.messages[u] = 0
            self.completed[u] += 1
            self.order.append((u, index, iteration))
            for sleeper in self.sleepers[u]:
                self.wake(sleeper, "dep", u)
            self.sleepers[u].clear()

    def dependencies_met(self, u: int, op: Op, iteration: int) -> bool:
        for other, index in op.waits:
            if self.completed[other] <= iteration * len(self.image.units[other].ops) + index:
                self.reason[u] = ("dep", other)
                self.sleepers[other].append(u)
                return False
        return True

    def transfer(self, u: int, op: Op) -> bool:
        """Move as many messages of a step as possible; False when the block must wait."""
        if not (op.receives or op.sends):
            return True
        unit, total = self.image.units[u], -(-op.cnt // self.piece)
        while self.messages[u] < total:
            count = total - self.messages[u]
            if op.receives:
                count = min(count, self.sent[unit.inbound] - self.got[unit.inbound])
                if not count:
                    self.reason[u] = ("recv", self.image.sender[unit.inbound])
                    return False
            if op.sends and self.depth is not None:
                count = min(count, self.depth - self.sent[unit.outbound] + self.got[unit.outbound])
                if not count:
                    self.reason[u] = ("send", self.image.receiver[unit.outbound])
                    return False
            self.messages[u] += count
            if op.receives:
                self.got[unit.inbound] += count
                self.wake(self.image.sender[unit.inbound], "send", u)
            if op.sends:
                self.sent[unit.outbound] += count
                self.wake(self.image.receiver[unit.outbound], "recv", u)
        return True

    def wake(self, sleeper: int, verb: str, by: int) -> None:
        if self.reason[sleeper] == (verb, by):
            self.reason[sleeper] = None
            self.ready.append(sleeper)

    def cycle(self) -> str:
        """Follow what each stuck block waits for until a block repeats."""
        stuck = next((u for u, reason in enumerate(self.reason) if reason is not None), None)
        path: list[int] = []
        while stuck is not None and stuck not in path:
            path.append(stuck)
            reason = self.reason[stuck]
            stuck = None if reason is None else reason[1]
        if stuck is None:
            return " <- ".join(self.describe(u) for u in path)
        loop = path[path.index(stuck) :]
        return " <- ".join([*(self.describe(u) for u in loop), self.describe(loop[0])])

    def describe(self, u: int) -> str:
        unit, reason = self.image.units[u], self.reason[u]
        index = self.completed[u] % len(unit.ops) if unit.ops else 0
        return f"{unit.name(index)} {'done' if reason is None else reason[0]}"


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
    hung = any(done < len(unit.ops) * iterations for done, unit in zip(machine.completed, image.units, strict=True))
    return Run(tuple(machine.order), machine.cycle() if hung else "")
