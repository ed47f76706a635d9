"""One rank: its thread blocks as generators that take turns, its peers as events in a pipe.

Payload travels through slots in shared memory. That a slot is full, or free again, is told by eight bytes in the
receiver's inbox, a pipe; so every order between processes is made by the kernel, no processor's memory order matters,
nobody spins, and there is no lock or semaphore to leak.
"""

from __future__ import annotations

import os
import select
import struct
import time
from collections import deque
from collections.abc import Generator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from .job import ENDED, FINISHED, PASSIVE, READY, SPAN, WAITS_BLOCK, WAITS_MESSAGE, WAITS_ROOM, Block, Control, Job, Op

EVENT: Final = struct.Struct("<ii")
_BUSY_MS: Final = 5
_IDLE_MS: Final = 500
OPERATIONS: Final[Mapping[str, np.ufunc]] = MappingProxyType(
    {"sum": np.add, "prod": np.multiply, "min": np.minimum, "max": np.maximum}
)

Wait = tuple[int, int]
Slot = NDArray[Any]


class ProgramError(Exception):
    """The program did something that no runtime survives; the text says what and where."""


class Rank:
    """State of one rank.

    Parameters
    ----------
    job, rank
        The program and which part of it to run.
    control, elements
        Views of the shared memory.
    inbox, outboxes
        Reading end of the own pipe; writing ends of all ranks' pipes, not blocking.
    """

    def __init__(
        self, job: Job, rank: int, control: Control, elements: Slot, inbox: int, outboxes: Sequence[int]
    ) -> None:
        self.job, self.rank, self.control, self.elements = job, rank, control, elements
        self.inbox, self.outboxes = inbox, outboxes
        self.blocks = job.ranks[rank]
        self.nothing = elements[:0]
        self.reduce = OPERATIONS[job.op]
        self.posted = [-1] * len(self.blocks)
        self.arrived: dict[int, deque[int]] = {b.inbound: deque() for b in self.blocks if b.inbound >= 0}
        self.room = {b.outbound: job.rings[b.outbound].slots for b in self.blocks if b.outbound >= 0}
        self.put = dict.fromkeys(self.room, 0)
        self.got = dict.fromkeys(self.arrived, 0)
        self.ready = deque(range(len(self.blocks)))
        # At most one block waits at each end of a ring; several may wait for one block.
        self.sleeping: dict[Wait, list[int]] = {}
        self.places: list[tuple[int, int]] = [(0, 0)] * len(self.blocks)
        self.parent = os.getppid()
        self.poll = select.poll()
        self.poll.register(inbox, select.POLLIN)

    def run(self) -> None:
        """Run all blocks to their end; returns never when they hang (the launcher then ends the process)."""
        turns = [self.turns(position) for position in range(len(self.blocks))]
        left = len(turns)
        while left:
            while self.ready:
                position = self.ready.popleft()
                wait = next(turns[position], None)
                if wait is None:
                    left -= 1
                else:
                    self.sleeping.setdefault(wait, []).append(position)
            if left:
                self.listen()
        self.publish()
        for ring, count in self.got.items():
            self.control.got[ring] = count
        self.control.passive[self.rank] = FINISHED

    def turns(self, position: int) -> Generator[Wait, None, None]:
        """One block from start to end; yields what it waits for whenever it cannot go on."""
        block, job = self.blocks[position], self.job
        for iteration in range(job.iterations):
            first = iteration * job.piece
            length = min(job.piece, job.chunk - first)
            base = iteration * SPAN
            for index, op in enumerate(block.ops):
                self.places[position] = (index, iteration)
                for other, value in op.waits:
                    while other < 0 or self.posted[other] < base + value:
                        yield WAITS_BLOCK, other
                if op.receives or op.sends:
                    yield from self.transfer(block, op, first, length)
                else:
                    self.local(op, first, length)
                self.control.steps[self.rank] += 1
                if op.posts >= 0:
                    self.posted[position] = base + op.posts
                    self.wake((WAITS_BLOCK, position))
        self.places[position] = (len(block.ops), job.iterations)

    def transfer(self, block: Block, op: Op, first: int, length: int) -> Generator[Wait, None, None]:
        """Receive, send or both, message by message: a message needs what came in and a free slot at once."""
        at, per = 0, self.job.per_message
        while at < op.cnt:
            chunks = min(per, op.cnt - at)
            if op.receives:
                while not self.arrived[block.inbound]:
                    yield WAITS_MESSAGE, block.inbound
            if op.sends:
                while not self.room[block.outbound]:
                    yield WAITS_ROOM, block.outbound
            # With several iterations a message is a piece of one chunk; with one, chunks follow each other in memory.
            self.message(block, op, at * self.job.chunk + first, chunks * length)
            at += chunks

    def message(self, block: Block, op: Op, offset: int, count: int) -> None:
        """Move one message; its slots and the chunks in the buffers are known to be there."""
        incoming = self.incoming(block.inbound, count, op) if op.receives else self.nothing
        outgoing = self.outgoing(block.outbound, count) if op.sends else self.nothing
        mine = self.view(op.src, offset, count) if op.src >= 0 else self.nothing
        target = self.view(op.dst, offset, count) if op.dst >= 0 else outgoing
        if op.kind == "s":
            outgoing[:] = mine
        elif op.kind in ("r", "rcs"):
            target[:] = incoming
        else:
            self.reduce(incoming, mine, out=target)
        if op.kind in ("rcs", "rrcs"):
            outgoing[:] = target
        if op.receives:
            self.got[block.inbound] += 1
            self.notify(self.job.rings[block.inbound].sender, 2 * block.inbound + 1, 0)
        if op.sends:
            self.put[block.outbound] += 1
            self.room[block.outbound] -= 1
            self.control.moved[block.outbound] += count
            self.control.put[block.outbound] += 1
            self.notify(self.job.rings[block.outbound].receiver, 2 * block.outbound, count)

    def incoming(self, number: int, count: int, op: Op) -> Slot:
        """The slot of the next message, which must have that many elements."""
        ring = self.job.rings[number]
        sent = self.arrived[number].popleft()
        if sent != count:
            raise ProgramError(
                f"step {op.step} ({op.kind}) receives {count} elements from g{ring.sender}, "
                f"but message {self.got[number]} holds {sent}"
            )
        return self.view(ring.base, self.got[number] % ring.slots * ring.width, count)

    def outgoing(self, number: int, count: int) -> Slot:
        """The slot for the next message."""
        ring = self.job.rings[number]
        return self.view(ring.base, self.put[number] % ring.slots * ring.width, count)

    def view(self, address: int, offset: int, count: int) -> Slot:
        """Part of the shared memory."""
        start = address + offset
        return self.elements[start : start + count]

    def local(self, op: Op, first: int, length: int) -> None:
        """Copy or reduce inside the rank; one numpy call where the chunks follow each other."""
        whole = length == self.job.chunk
        for at in (0,) if whole else range(op.cnt):
            offset, count = at * self.job.chunk + first, op.cnt * length if whole else length
            mine, target = self.view(op.src, offset, count), self.view(op.dst, offset, count)
            if op.kind == "re":
                self.reduce(target, mine, out=target)
            else:
                target[:] = mine

    def wake(self, wait: Wait) -> None:
        """Let the blocks go on that wait for this."""
        self.ready.extend(self.sleeping.pop(wait, ()))

    def notify(self, peer: int, code: int, count: int) -> None:
        """Put an event into a peer's inbox. A full pipe empties by itself as long as everyone reads their own."""
        self.control.sent[self.rank, peer] += 1
        event = EVENT.pack(code, count)
        while True:
            try:
                os.write(self.outboxes[peer], event)
            except BlockingIOError:
                self.drain(0)
                time.sleep(0.0002)
            else:
                return

    def listen(self) -> None:
        """Wait for events; after a moment without any, say what every block waits for."""
        if self.drain(_BUSY_MS):
            return
        self.publish()
        self.control.passive[self.rank] = PASSIVE
        while not self.poll.poll(_IDLE_MS):
            if os.getppid() != self.parent:
                os._exit(1)
        self.control.passive[self.rank] = READY
        self.drain(0)

    def drain(self, wait_ms: int) -> bool:
        """Take the events that are there; False when there are none in time."""
        if not self.poll.poll(wait_ms):
            return False
        # Writes of eight bytes are atomic and the pipe holds nothing else, so a read never ends inside an event.
        data = os.read(self.inbox, 1 << 16)
        for code, count in EVENT.iter_unpack(data):
            number, is_room = divmod(code, 2)
            if is_room:
                self.room[number] += 1
                self.wake((WAITS_ROOM, number))
            else:
                self.arrived[number].append(count)
                self.wake((WAITS_MESSAGE, number))
        self.control.received[self.rank] += len(data) // EVENT.size
        return True

    def publish(self) -> None:
        """Write what every block waits for into the control area."""
        waits = {position: wait for wait, positions in self.sleeping.items() for position in positions}
        for position, block in enumerate(self.blocks):
            index, iteration = self.places[position]
            state, what = waits.get(position, (ENDED if iteration >= self.job.iterations else READY, -1))
            self.control.blocks[block.number] = (state, what, index, iteration)
