"""What every chunk holds: multisets of input chunks with multiplicity, and the symbolic execution that fills them."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from synth.program.image import Image, Op, Unit
from synth.program.model import Semantics
from synth.program.semantics import Tokens, input_tokens

UNDEFINED = -1
_SHIFT = 32


class Multisets:
    """Interned multisets of tokens; id ``t`` below ``tokens`` is the single token ``t``.

    Equal multisets have equal ids however they were summed, so a comparison of ids is exact.
    """

    def __init__(self, tokens: int) -> None:
        self._tokens = tokens
        self._sums: list[tuple[tuple[int, int], ...]] = []
        self._ids: dict[tuple[tuple[int, int], ...], int] = {}
        self._memo: dict[int, int] = {}

    def items(self, content: int) -> tuple[tuple[int, int], ...]:
        """(token, multiplicity) pairs in token order; empty for undefined contents."""
        if content == UNDEFINED:
            return ()
        return ((content, 1),) if content < self._tokens else self._sums[content - self._tokens]

    def add(self, a: Tokens, b: Tokens) -> Tokens:
        """Elementwise sum of two arrays of ids; undefined plus anything is undefined."""
        keys = (np.minimum(a, b) << _SHIFT | np.maximum(a, b)).tolist()
        memo = self._memo
        for key in keys:
            if key not in memo:
                memo[key] = self._sum(key)
        return np.array([memo[key] for key in keys], dtype=np.int64)

    def _sum(self, key: int) -> int:
        if key < 0:
            return UNDEFINED
        low, high = self.items(key >> _SHIFT), self.items(key & ((1 << _SHIFT) - 1))
        counts = dict(low)
        for token, times in high:
            counts[token] = counts.get(token, 0) + times
        total = tuple(sorted(counts.items()))
        known = self._ids.setdefault(total, self._tokens + len(self._sums))
        if known == self._tokens + len(self._sums):
            self._sums.append(total)
        return known


@dataclass(frozen=True, slots=True)
class Contents:
    """Result of a symbolic execution.

    Attributes
    ----------
    memory
        Per rank, the multiset id of every address.
    input_written
        Ops (unit, op) that wrote into an input buffer.
    """

    sets: Multisets
    memory: tuple[Tokens, ...]
    faults: tuple[str, ...]
    input_written: tuple[tuple[int, int], ...]


def execute(image: Image, semantics: Semantics, order: Sequence[tuple[int, int, int]]) -> Contents:
    """Fill the memories of all ranks by running the first loop iteration in the given order.

    Other iterations work on other slices of the same chunks with the same steps, hence hold the same contents; a
    program without races gives the same contents in every order.
    """
    engine = _Engine(image, semantics)
    for u, index, iteration in order:
        if iteration == 0:
            engine.step(u, index)
    return Contents(engine.sets, tuple(engine.memory), tuple(engine.faults), tuple(engine.input_written))


class _Engine:
    def __init__(self, image: Image, semantics: Semantics) -> None:
        self.image = image
        self.sets = Multisets(semantics.ngpus * semantics.nchunks)
        self.memory = [np.full(at.total, UNDEFINED, dtype=np.int64) for at in image.layouts]
        self.inputs: list[tuple[int, int]] = []
        for rank, at in enumerate(image.layouts):
            tokens = input_tokens(semantics, rank)
            self.memory[rank][at.i : at.i + len(tokens)] = tokens
            self.inputs.append((at.i, at.i + len(tokens)))
        self.queues: list[deque[Tokens]] = [deque() for _ in image.sender]
        self.faults: list[str] = []
        self.input_written: list[tuple[int, int]] = []

    def step(self, u: int, index: int) -> None:
        unit = self.image.units[u]
        op, memory = unit.ops[index], self.memory[unit.rank]
        value = self.queues[unit.inbound].popleft() if op.receives else None
        if op.src >= 0:
            local = self.read(unit, index, op.src)
            value = local if value is None else self.sets.add(value, local)
        if op.kind == "re" and value is not None:
            value = self.sets.add(value, self.read(unit, index, op.dst))
        if value is None:
            return
        if op.kind not in ("s", "rrs"):
            memory[op.dst : op.dst + op.cnt] = value
            self.note_write(u, index, op)
        if op.sends:
            self.queues[unit.outbound].append(value.copy())

    def read(self, unit: Unit, index: int, address: int) -> Tokens:
        op = unit.ops[index]
        value = self.memory[unit.rank][address : address + op.cnt]
        missing = np.flatnonzero(value == UNDEFINED)
        if missing.size:
            chunk = self.image.chunk(unit.rank, address + int(missing[0]))
            self.faults.append(f"{unit.name(index)}: {op.kind} reads {chunk} before anything was written there")
        return value.copy()

    def note_write(self, u: int, index: int, op: Op) -> None:
        low, high = self.inputs[self.image.units[u].rank]
        if op.dst < high and op.dst + op.cnt > low:
            self.input_written.append((u, index))


def describe_difference(sets: Multisets, want: int, have: int, chunks: int) -> str:
    """Say in words which contributions are missing or extra in one chunk."""
    if have == UNDEFINED:
        return "never written (or made from undefined data)"
    wanted, got = dict(sets.items(want)), dict(sets.items(have))
    parts = []
    for token in sorted({*wanted, *got}):
        need, found = wanted.get(token, 0), got.get(token, 0)
        if need != found:
            rank, chunk = divmod(token, chunks)
            parts.append(f"chunk {chunk} of rank {rank} {found} times instead of {need}")
    return "; ".join(parts[:4]) + (f"; and {len(parts) - 4} more" if len(parts) > 4 else "")
