"""Memory of all ranks for the plan simulator: what every cell holds, and who touched it last without being ordered."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from synth.program.meaning.multisets import UNDEFINED, Multisets, describe_difference
from synth.program.meaning.semantics import Semantics, Tokens, expected_output, input_tokens, layout
from synth.program.mscclpp.model import MscclppDraft
from synth.program.mscclpp.verifying.concrete import Move, Range

# Two rows: events whose writes are visible, and events that are over (a relaxed signal says only the latter).
Clock = NDArray[np.int32]
VISIBLE: Final = 0
ORDERED: Final = 1
_SHOWN: Final = 12
# An access: component and its event number.
Access = tuple[int, int]


class Memory:
    """Contents and access history, cell by cell.

    Parameters
    ----------
    draft
        The plan.
    claim
        What it computes, in the plan's chunks.
    cells
        Cells per chunk.
    """

    def __init__(self, draft: MscclppDraft, claim: Semantics, cells: int) -> None:
        self.cells = cells
        self.claim = replace(claim, nchunks=claim.nchunks * cells, counts=tuple(c * cells for c in claim.counts))
        self.layouts = [
            layout(
                self.claim,
                g.id,
                (g.input_chunks * cells, g.output_chunks * cells, g.scratch_chunks * cells),
                draft.inplace,
            )
            for g in draft.gpus
        ]
        self.sizes = [(g.input_chunks * cells, g.output_chunks * cells) for g in draft.gpus]
        self.sets = Multisets(self.claim.ngpus * self.claim.nchunks)
        self.contents: list[Tokens] = [np.full(at.total, UNDEFINED, dtype=np.int64) for at in self.layouts]
        self.writer: list[list[Access | None]] = [[None] * at.total for at in self.layouts]
        self.readers: list[list[dict[int, int]]] = [[{} for _ in range(at.total)] for at in self.layouts]
        self.labels: dict[Access, str] = {}
        self.races: dict[tuple[str, str], str] = {}
        self.data: dict[str, None] = {}
        self.wrong = 0
        self.input_writes = 0

    def user_cells(self, rank: int) -> Iterator[int]:
        """Addresses of the input and the output, each once."""
        at, (i, o) = self.layouts[rank], self.sizes[rank]
        return iter(dict.fromkeys((*range(at.i, at.i + i), *range(at.o, at.o + o))))

    def user_writes(self, rank: int, who: Access, clock: Clock, label: str) -> None:
        """Before a launch the caller fills its input and may use its output for anything."""
        self.labels[who] = label
        cells = list(self.user_cells(rank))
        self._check(rank, cells, who, clock, writes=True)
        self._note_write(rank, cells, who)
        at, tokens = self.layouts[rank], input_tokens(self.claim, rank)
        self.contents[rank][cells] = UNDEFINED
        self.contents[rank][at.i : at.i + len(tokens)] = tokens

    def user_reads(self, rank: int, who: Access, clock: Clock, label: str) -> None:
        """After a launch the caller reads what it wanted."""
        self.labels[who] = label
        cells = list(self.user_cells(rank))
        self._check(rank, cells, who, clock, writes=False)
        self._note_read(rank, cells, who)
        terms = expected_output(self.claim, rank)
        if not terms:
            return
        want = terms[0]
        for term in terms[1:]:
            want = self.sets.add(want, term)
        at = self.layouts[rank].o
        have = self.contents[rank][at : at + len(want)]
        bad = np.flatnonzero(want != have)
        self.wrong += bad.size
        for k in bad[:2].tolist():
            text = describe_difference(self.sets, int(want[k]), int(have[k]), self.claim.nchunks)
            self.data.setdefault(f"output {self._chunk(k)} of rank {rank} is wrong: {text}")

    def move(self, move: Move, who: Access, clock: Clock, label: str) -> None:
        """Sum the sources into every destination. A thread reads an element before it writes the same one."""
        self.labels[who] = label
        reads = [(r.rank, self._cells(r)) for r in move.reads]
        writes = [(r.rank, self._cells(r)) for r in move.writes]
        for rank, cells in reads:
            self._check(rank, cells, who, clock, writes=False)
        for rank, cells in writes:
            self._check(rank, cells, who, clock, writes=True)
            if any(r == rank and cells[0] != c[0] and set(cells) & set(c) for r, c in reads):
                self.races.setdefault((label, label), f"{label}: source and destination overlap")
        value = self.contents[reads[0][0]][reads[0][1]]
        for rank, cells in reads[1:]:
            value = self.sets.add(value, self.contents[rank][cells])
        if (value == UNDEFINED).any():
            self.data.setdefault(f"{label} reads what nothing was written to")
        for rank, cells in reads:
            self._note_read(rank, cells, who)
        for rank, cells in writes:
            self._note_write(rank, cells, who)
            self.contents[rank][cells] = value
            at, (i, o) = self.layouts[rank], self.sizes[rank]
            if at.i <= cells[0] < at.i + i and not at.o <= cells[0] < at.o + o:
                self.input_writes += 1

    def faults(self) -> tuple[list[str], list[str]]:
        """Data faults and races, the first ones in full."""
        return _shown(self.data), _shown(self.races.values())

    def _cells(self, r: Range) -> Sequence[int]:
        begin = self.layouts[r.rank].at(r.buffer, r.start)
        return range(begin, begin + r.size)

    def _check(self, rank: int, cells: Sequence[int], who: Access, clock: Clock, writes: bool) -> None:
        visible, ordered = clock[VISIBLE].tolist(), clock[ORDERED].tolist()
        writer, readers = self.writer[rank], self.readers[rank]
        for cell in cells:
            last = writer[cell]
            if last is not None and visible[last[0]] < last[1]:
                self._race(rank, cell, last, who)
            if writes:
                for component, event in readers[cell].items():
                    if ordered[component] < event:
                        self._race(rank, cell, (component, event), who)

    def _race(self, rank: int, cell: int, first: Access, second: Access) -> None:
        if len(self.races) > 4 * _SHOWN:
            return
        pair = (self.labels[first], self.labels[second])
        at = self.layouts[rank]
        buffer, begin = max(
            ((b, p) for b, p in (("i", at.i), ("o", at.o), ("s", at.s)) if p <= cell), key=lambda x: x[1]
        )
        where = f"{self._chunk(cell - begin)} of rank {rank}'s {buffer}"
        self.races.setdefault(pair, f"{pair[1]} is not ordered after {pair[0]}: both touch {where}")

    def _chunk(self, cell: int) -> str:
        chunk, part = divmod(cell, self.cells)
        return f"chunk {chunk}" + (f" part {part}" if self.cells > 1 else "")

    def _note_read(self, rank: int, cells: Sequence[int], who: Access) -> None:
        for cell in cells:
            self.readers[rank][cell][who[0]] = who[1]

    def _note_write(self, rank: int, cells: Sequence[int], who: Access) -> None:
        for cell in cells:
            self.writer[rank][cell] = who
            self.readers[rank][cell] = {}


def _shown(texts: Iterable[str]) -> list[str]:
    everything = list(texts)
    hidden = len(everything) - _SHOWN
    return everything[:_SHOWN] + ([f"and {hidden} more"] if hidden > 0 else [])
