"""Races that an output depends on, told from those on dead data.

A read is live when its value reaches a claimed output (:mod:`synth.program.msccl.verifying.liveness`). It is safe when
it gets the value of the same write in every interleaving: that write comes before it, and every other write of the
chunk comes before that write or after the read. The end of the program counts as a read of every claimed output.

The strict check compares neighbours only, which is enough to find whether *some* pair of a chunk's accesses is
unordered, not to find all of them. Where a race is dismissed as dead it has therefore to be asked again, this time
about every pair of a live access and a write of the chunk; of each block's writes only the nearest one, since a block
is sequential.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np

from synth.program.msccl.columns import Flags, Ints
from synth.program.msccl.verifying.liveness import Liveness
from synth.program.msccl.verifying.races.check import Accesses, RaceCheck
from synth.program.msccl.verifying.races.ordering import Questions

# Unordered chunks, and pairs asked again, beyond which all races count as live: no real program is near them.
_MAX_CHUNKS = 200_000
_MAX_PAIRS = 1_000_000


def split_races(check: RaceCheck, liveness: Liveness) -> tuple[Questions, Questions]:
    """Races on live data, and those that no claimed output depends on.

    Parameters
    ----------
    check
        All races of the program.
    liveness
        Of the same program, from the same order of execution.
    """
    late = check.late
    if int(late.length.sum()) > _MAX_CHUNKS:
        return late, Questions.join([])
    late = check.happens.unordered(late.singles())
    live = _touches_live(late, liveness)
    dead = late.where(~live)
    again = _asked_again(check, dead, liveness)
    if again is None:
        return late, Questions.join([])
    return Questions.join([late.where(live), check.happens.unordered(again)]), dead


def _touches_live(late: Questions, liveness: Liveness) -> Flags:
    """Of single-chunk questions: whether the read is live or, of two writes, either."""
    first, second = (late.first, late.first_chunk), (late.second, late.second_chunk)
    read = np.where(late.first_writes, liveness.read(*second), liveness.read(*first))
    written = liveness.written(*first) | liveness.written(*second)
    found: Flags = np.where(late.first_writes & late.second_writes, written, read)
    return found


def _asked_again(check: RaceCheck, dead: Questions, liveness: Liveness) -> Questions | None:
    """Questions about every live access to the chunks of dead races; None when there are too many."""
    ranks = check.image.rank[check.image.unit[dead.first]]
    parts: list[Questions] = []
    asked = 0
    for rank, accesses in check.accesses() if len(dead) else ():
        pairs = _Pairs()
        for address in np.unique(dead.address[ranks == rank]).tolist():
            pairs.add(check, accesses, address, liveness, bool(check.defined[rank][address]))
            if asked + len(pairs.first) > _MAX_PAIRS:
                return None
        asked += len(pairs.first)
        parts.append(check.happens.open_questions(rank, pairs.questions()))
    return Questions.join(parts)


@dataclass(frozen=True, slots=True)
class _Access:
    """One op's access to one chunk."""

    op: int
    unit: int
    chunk: int
    writes: bool
    live: bool


@dataclass(slots=True)
class _Pairs:
    """Pairs to ask about, column by column."""

    first: list[_Access] = field(default_factory=list)
    second: list[_Access] = field(default_factory=list)
    address: list[int] = field(default_factory=list)
    defined: list[bool] = field(default_factory=list)

    def add(self, check: RaceCheck, accesses: Accesses, address: int, liveness: Liveness, defined: bool) -> None:
        """Add the pairs of one chunk."""
        found = list(_accesses(check, accesses, address, liveness))
        before: dict[int, _Access] = {}
        last: _Access | None = None
        for access in found:
            if access.writes:
                if access.live:
                    self._ask(before.values(), [access], address, True)
                before[access.unit] = last = access
            elif access.live and last is not None:
                self._ask([last], [access], address, True)
        after: dict[int, _Access] = {}
        written = [False]
        for access in found:
            written.append(written[-1] or access.writes)
        for access, has_data in zip(reversed(found), reversed(written[:-1]), strict=True):
            if access.writes:
                after[access.unit] = access
            elif access.live:
                self._ask([access], list(after.values()), address, defined or has_data)

    def _ask(self, first: Iterable[_Access], second: Iterable[_Access], address: int, defined: bool) -> None:
        for a in first:
            for b in second:
                self.first.append(a)
                self.second.append(b)
                self.address.append(address)
                self.defined.append(defined)

    def questions(self) -> Questions:
        """The pairs as questions of one chunk each."""
        return Questions(
            first=_ints([a.op for a in self.first]),
            second=_ints([a.op for a in self.second]),
            first_chunk=_ints([a.chunk for a in self.first]),
            second_chunk=_ints([a.chunk for a in self.second]),
            length=np.ones(len(self.first), dtype=np.int64),
            address=_ints(self.address),
            first_writes=np.array([a.writes for a in self.first], dtype=np.bool_),
            second_writes=np.array([a.writes for a in self.second], dtype=np.bool_),
            defined=np.array(self.defined, dtype=np.bool_),
        )


def _ints(values: list[int]) -> Ints:
    return np.array(values, dtype=np.int64)


def _accesses(check: RaceCheck, accesses: Accesses, address: int, liveness: Liveness) -> Iterator[_Access]:
    """Accesses to one chunk in the order of execution; of one op, the read comes first."""
    mine = np.flatnonzero((accesses.address <= address) & (address < accesses.address + accesses.length))
    for k in mine.tolist():
        op, writes = int(accesses.op[k]), bool(accesses.writes[k])
        chunk = int(accesses.chunk[k]) + address - int(accesses.address[k])
        live = liveness.written(op, chunk) if writes else liveness.read(op, chunk)
        yield _Access(op, int(check.image.unit[op]), chunk, writes, bool(live))
