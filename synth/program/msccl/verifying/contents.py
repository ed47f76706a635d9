"""The symbolic execution that says what every chunk holds in the end."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from synth.program.meaning.multisets import UNDEFINED, Multisets, describe_difference
from synth.program.meaning.semantics import Semantics, input_tokens
from synth.program.msccl.columns import Ints
from synth.program.msccl.opcodes import STEP_ORDER
from synth.program.msccl.verifying.image import Image

__all__ = ["UNDEFINED", "Contents", "Multisets", "UndefinedRead", "describe_difference", "execute"]


@dataclass(frozen=True, slots=True)
class UndefinedRead:
    """A read of chunks that nobody has written: ``op``, its address, and which of its chunks are undefined."""

    op: int
    address: int
    chunks: tuple[int, ...]

    def text(self, image: Image) -> str:
        """The read in words."""
        rank = int(image.rank[image.unit[self.op]])
        chunk = image.chunk(rank, self.address + self.chunks[0])
        return f"{image.name(self.op)}: {image.kind_name(self.op)} reads {chunk} before anything was written there"


@dataclass(frozen=True, slots=True, eq=False)
class Contents:
    """Contents of all memories after the program has run.

    Attributes
    ----------
    memory
        Per rank, the multiset number of every address.
    undefined_reads
        Local reads of chunks that nobody has written, in the order of execution.
    input_written
        Ops that wrote into an input buffer.
    """

    sets: Multisets
    memory: tuple[list[int], ...]
    undefined_reads: tuple[UndefinedRead, ...]
    input_written: tuple[int, ...]


def execute(image: Image, semantics: Semantics, order: Ints) -> Contents:
    """Fill the memories of all ranks by running the first loop iteration in the given order.

    Other iterations work on other slices of the same chunks with the same steps, hence hold the same contents; a
    program without races gives the same contents in every order.
    """
    engine = _Engine(image, semantics)
    engine.run(order)
    return Contents(engine.sets, tuple(engine.memory), tuple(engine.undefined), tuple(engine.input_written))


class _Engine:
    """Plain lists and integers: most steps move a single chunk, for which numpy arrays cost more than they save."""

    def __init__(self, image: Image, semantics: Semantics) -> None:
        self.image = image
        self.sets = Multisets(semantics.ngpus * semantics.nchunks)
        self.memory = [[UNDEFINED] * at.total for at in image.layouts]
        self.inputs: list[tuple[int, int]] = []
        for rank, at in enumerate(image.layouts):
            tokens = input_tokens(semantics, rank).tolist()
            self.memory[rank][at.i : at.i + len(tokens)] = tokens
            self.inputs.append((at.i, at.i + len(tokens)))
        self.queues: list[deque[list[int]]] = [deque() for _ in image.sender]
        self.undefined: list[UndefinedRead] = []
        self.input_written: list[int] = []

    def run(self, order: Ints) -> None:
        """Execute ops one after the other."""
        image = self.image
        unit = image.unit[order]
        steps = zip(
            order.tolist(),
            image.rank[unit].tolist(),
            image.src[order].tolist(),
            image.dst[order].tolist(),
            image.cnt[order].tolist(),
            image.inbound[unit].tolist(),
            image.outbound[unit].tolist(),
            image.receives[order].tolist(),
            image.sends[order].tolist(),
            (image.kind == STEP_ORDER.index("re"))[order].tolist(),
            strict=True,
        )
        for op, rank, src, dst, cnt, inbound, outbound, receives, sends, accumulates in steps:
            value = self.queues[inbound].popleft() if receives else None
            if src >= 0:
                local = self.read(op, rank, src, cnt)
                value = local if value is None else self.add(value, local)
            if accumulates and value is not None:
                value = self.add(value, self.read(op, rank, dst, cnt))
            if dst >= 0 and value is not None:
                self.write(op, rank, dst, cnt, value)
            if sends and value is not None:
                self.queues[outbound].append(value)

    def add(self, first: list[int], second: list[int]) -> list[int]:
        return [self.sets.plus(a, b) for a, b in zip(first, second, strict=True)]

    def read(self, op: int, rank: int, address: int, cnt: int) -> list[int]:
        value = self.memory[rank][address : address + cnt]
        if UNDEFINED in value:
            chunks = tuple(k for k, held in enumerate(value) if held == UNDEFINED)
            self.undefined.append(UndefinedRead(op, address, chunks))
        return value

    def write(self, op: int, rank: int, address: int, cnt: int, value: list[int]) -> None:
        self.memory[rank][address : address + cnt] = value
        low, high = self.inputs[rank]
        if address < high and address + cnt > low:
            self.input_written.append(op)
