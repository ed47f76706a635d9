"""The outcome of a run on real memory."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

FORMAT = "synth-run/1"


@dataclass(frozen=True, slots=True)
class Connection:
    """Traffic of one connection, as counted by its sender."""

    src: int
    dst: int
    chan: int
    bytes: int
    messages: int


@dataclass(frozen=True, slots=True)
class RunReport:
    """What happened when a program ran on real memory.

    Attributes
    ----------
    name, collective, ranks, root, inplace
        What was run. A root that the file does not name is the one that fits the result best.
    size_bytes, dtype, op
        nccl-tests size and what the numbers were.
    chunk_bytes, iterations, chunks_per_message, fifo_depth
        How the size was cut up (formats.md 1.6).
    blocks, steps
        Thread blocks; steps done by all ranks over all iterations.
    checked
        Whether the collective says what the outputs must be (``custom`` does not).
    max_difference
        Largest absolute difference from numpy's result; infinite where an output was not even a number.
    connections
        Bytes and messages per connection.
    wall_s
        Seconds from the start of the ranks to the end of the last.
    unserved
        Why the runtime would not run the program for this call; it ran here all the same.
    faults, notes
        Wrong data, overwritten inputs, hangs; and what is worth knowing but no fault.
    """

    name: str
    collective: str
    ranks: int
    root: int | None
    inplace: bool
    size_bytes: int
    dtype: str
    op: str
    chunk_bytes: int
    iterations: int
    chunks_per_message: int
    fifo_depth: int
    blocks: int
    steps: int
    checked: bool
    max_difference: float
    connections: tuple[Connection, ...]
    wall_s: float
    faults: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    unserved: tuple[str, ...] = ()

    @property
    def served(self) -> bool:
        """Whether the runtime gives such a call to the program."""
        return not self.unserved

    @property
    def ok(self) -> bool:
        """Whether everything ended and every number was right."""
        return not self.faults

    @property
    def moved_bytes(self) -> int:
        """Bytes sent over all connections."""
        return sum(c.bytes for c in self.connections)

    def summary(self) -> str:
        """Return a few lines for a person."""
        mode = "in place" if self.inplace else "out of place"
        if self.ok:
            verdict = "ran, every number right" if self.checked else "ran to its end, data not checked"
        else:
            verdict = f"{len(self.faults)} faults"
        lines = [
            f"{self.name}: {self.collective} on {self.ranks} ranks, {mode}: {verdict}",
            f"  {self.size_bytes} bytes of {self.dtype}, {self.op}; chunks of {self.chunk_bytes} bytes, "
            f"{self.iterations} iterations, messages of {self.chunks_per_message} chunks, FIFO depth {self.fifo_depth}",
            f"  {self.steps} steps in {self.blocks} thread blocks, {self.moved_bytes} bytes over "
            f"{len(self.connections)} connections, {self.wall_s:.3f} s, largest difference {self.max_difference:g}",
        ]
        lines += [f"  fault: {text}" for text in self.faults]
        lines += [f"  note: {text}" for text in self.notes]
        lines += [f"  never so in the runtime: {text}" for text in self.unserved]
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready form, with ``ok``, ``served`` and ``moved_bytes``; a difference that is not finite is None."""
        facts = {
            "format": FORMAT,
            "ok": self.ok,
            "served": self.served,
            **asdict(self),
            "moved_bytes": self.moved_bytes,
        }
        if not math.isfinite(self.max_difference):
            facts["max_difference"] = None
        return facts
