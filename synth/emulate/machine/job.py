"""A program as plain numbers, and the shared memory that its processes work in."""

from __future__ import annotations

import marshal
from dataclasses import dataclass, fields
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

# States of a block in ``Control.blocks``.
READY: Final = 0
WAITS_MESSAGE: Final = 1
WAITS_ROOM: Final = 2
WAITS_BLOCK: Final = 3
ENDED: Final = 4
# A rank in ``Control.passive``.
PASSIVE: Final = 1
FINISHED: Final = 2
# Flag values of one loop iteration; larger than any step number (a file has at most 2^15 of them per block).
SPAN: Final = 1 << 40

Ints = NDArray[np.int64]


class Op(NamedTuple):
    """One real step: ``src`` and ``dst`` are element addresses of its first chunk, -1 when not used.

    ``waits`` are (position of a block in the rank or -1, flag value); ``posts`` is the flag value that it sets after
    it is done, or -1; ``step`` is its place in the file.
    """

    kind: str
    receives: bool
    sends: bool
    src: int
    dst: int
    cnt: int
    waits: tuple[tuple[int, int], ...]
    posts: int
    step: int


class Block(NamedTuple):
    """A thread block: its row in the control area, its two rings or -1, its steps."""

    number: int
    inbound: int
    outbound: int
    ops: tuple[Op, ...]


class Ring(NamedTuple):
    """A connection: ``slots`` slots of ``width`` elements from address ``base`` on."""

    sender: int
    receiver: int
    base: int
    width: int
    slots: int


@dataclass(frozen=True, slots=True)
class Job:
    """Everything that the processes must know.

    Attributes
    ----------
    chunk, piece, iterations, per_message
        Elements of a chunk; elements of a chunk that one loop iteration moves; loop iterations; chunks per message.
    elements
        Elements of the shared memory, behind the control area.
    timeout
        Seconds.
    """

    dtype: str
    op: str
    chunk: int
    piece: int
    iterations: int
    per_message: int
    elements: int
    timeout: float
    rings: tuple[Ring, ...]
    ranks: tuple[tuple[Block, ...], ...]

    def to_bytes(self) -> bytes:
        """Plain tuples and numbers only: the reader knows these classes under another name."""
        plain: dict[str, Any] = {field.name: getattr(self, field.name) for field in fields(self)}
        plain["rings"] = [tuple(ring) for ring in self.rings]
        plain["ranks"] = [[(*block[:3], [tuple(op) for op in block.ops]) for block in blocks] for blocks in self.ranks]
        return marshal.dumps(plain)

    @staticmethod
    def from_bytes(data: bytes) -> Job:
        """Inverse of ``to_bytes``."""
        plain: dict[str, Any] = marshal.loads(data)
        plain["rings"] = tuple(Ring(*ring) for ring in plain["rings"])
        plain["ranks"] = tuple(tuple(_block(*block) for block in blocks) for blocks in plain["ranks"])
        return Job(**plain)

    @property
    def blocks(self) -> int:
        """Thread blocks of all ranks."""
        return sum(len(blocks) for blocks in self.ranks)


def _block(number: int, inbound: int, outbound: int, ops: list[Any]) -> Block:
    return Block(number, inbound, outbound, tuple(Op(*op) for op in ops))


@dataclass(frozen=True, slots=True)
class Control:
    """Counters at the start of the shared memory; every cell has one writer.

    Attributes
    ----------
    passive
        Per rank: 0 working, ``PASSIVE`` (all its blocks wait for another rank), ``FINISHED``.
    received, steps
        Per rank: events taken from its inbox, steps done.
    sent
        (sender, receiver): events put into the receiver's inbox.
    moved, put, got
        Per ring: elements sent, messages sent, messages received.
    blocks
        Per block: state, what it waits for, op, iteration. Valid where the rank is passive.
    """

    passive: Ints
    received: Ints
    steps: Ints
    sent: Ints
    moved: Ints
    put: Ints
    got: Ints
    blocks: Ints

    @staticmethod
    def size(ranks: int, rings: int, blocks: int) -> int:
        """Bytes of the control area, a multiple of 4,096 so that the elements behind it are aligned."""
        cells = 3 * ranks + ranks * ranks + 3 * rings + 4 * blocks
        return -(-8 * cells // 4096) * 4096

    @staticmethod
    def of(memory: Any, job: Job) -> Control:
        """View of the control area at the start of a buffer."""
        n, rings, blocks = len(job.ranks), len(job.rings), job.blocks
        shapes = [(n,), (n,), (n,), (n, n), (rings,), (rings,), (rings,), (blocks, 4)]
        views, at = [], 0
        for shape in shapes:
            count = int(np.prod(shape))
            # An empty view at the very end of a buffer would be refused.
            flat = np.frombuffer(memory, np.int64, count, at) if count else np.zeros(0, np.int64)
            views.append(flat.reshape(shape))
            at += 8 * count
        return Control(*views)


def elements_of(memory: Any, job: Job) -> NDArray[Any]:
    """Element space behind the control area: buffers and FIFO slots of all ranks."""
    offset = Control.size(len(job.ranks), len(job.rings), job.blocks)
    return np.frombuffer(memory, np.dtype(job.dtype), job.elements, offset)


def memory_size(job: Job) -> int:
    """Bytes of the whole shared memory."""
    return Control.size(len(job.ranks), len(job.rings), job.blocks) + job.elements * np.dtype(job.dtype).itemsize
