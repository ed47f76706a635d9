"""Races: accesses of different thread blocks of one rank that nothing orders, found by happens-before.

Order comes from program order, waits, and messages from send to receive; not from back-pressure, which depends on the
FIFO's size. Messages are taken one chunk at a time, the weakest order that any message size gives. As in FastTrack
(Flanagan, Freund, PLDI 2009), it is enough to compare each access with the last write, and each write with the reads
since the write before it, in any one order that the program allows; those comparisons are the *questions*. Most are
settled by the waits within the rank, and the rest by ``ordering``.

Within a loop iteration every iteration has the same order, and different iterations work on different slices, so the
first iteration is enough.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from synth.program.msccl.columns import Flags, Ints
from synth.program.msccl.verifying.image import Image
from synth.program.msccl.verifying.races.ordering import Order, Questions

# With the line that counts the rest, as many as a report shows of one kind.
_MAX_REPORTS = 11
# Questions that turn out to be races are worded one by one; beyond this many, one more says nothing new.
_MAX_WORDED = 2000


class _Key(NamedTuple):
    """One race as reported, whatever chunk it was seen on."""

    kind: str
    first: str
    second: str


@dataclass(frozen=True, slots=True, eq=False)
class Accesses:
    """Accesses of one rank to its cells, sorted by cell and then by time; only cells that can have races.

    A cell is a run of chunks that every access covers whole or not at all.
    """

    cell: Ints
    op: Ints
    writes: Flags
    chunk: Ints
    address: Ints
    length: Ints


class RaceCheck:
    """The races of one program in one mode.

    Parameters
    ----------
    image
        The program in one mode.
    order
        Ops of a replay that did not hang, in the order of their completion.
    defined
        Per rank, which addresses hold data before the program starts.

    Attributes
    ----------
    happens, position
        What comes before what; the place of each op in ``order``.
    late
        The pairs that nothing orders.
    """

    def __init__(self, image: Image, order: Ints, defined: Sequence[Flags]) -> None:
        self.image, self.order, self.defined = image, order, defined
        self.position = np.empty(image.ops, dtype=np.int64)
        self.position[order] = np.arange(image.ops)
        self.happens = Order(image, order)
        questions = [
            self.happens.open_questions(rank, _questions(accesses, defined[rank])) for rank, accesses in self.accesses()
        ]
        self.late = self.happens.unordered(Questions.join(questions))

    def accesses(self) -> Iterator[tuple[int, Accesses]]:
        """Accesses of each rank that has cells which several blocks access and at least one of them writes."""
        return _by_rank(self.image, self.position)

    def worded(self, late: Questions) -> list[str]:
        """Races in words, one message per pair of steps, in the order in which the second steps completed."""
        found: dict[_Key, str] = {}
        for k in np.argsort(self.position[late.second], kind="stable").tolist()[:_MAX_WORDED]:
            _report(self.image, late, k, found)
        messages = list(found.values())
        hidden = len(messages) - _MAX_REPORTS
        more = "at least " if len(late) > _MAX_WORDED else ""
        return messages[:_MAX_REPORTS] + ([f"and {more}{hidden} more races"] if hidden > 0 else [])


def races(image: Image, order: Ints, defined: Sequence[Flags]) -> list[str]:
    """Every race, one message per pair of steps, whether or not an output depends on it (see :class:`RaceCheck`)."""
    check = RaceCheck(image, order, defined)
    return check.worded(check.late)


def _by_rank(image: Image, position: Ints) -> Iterator[tuple[int, Accesses]]:
    ops, addresses, writes = image.accesses()
    rank = image.rank[image.unit[ops]]
    by_rank = np.argsort(rank, kind="stable")
    bounds = np.searchsorted(rank[by_rank], np.arange(len(image.layouts) + 1))
    for r in range(len(image.layouts)):
        mine = by_rank[bounds[r] : bounds[r + 1]]
        accesses = _cells(image, position, ops[mine], addresses[mine], writes[mine])
        if len(accesses.cell):
            yield r, accesses


def _cells(image: Image, position: Ints, ops: Ints, addresses: Ints, writes: Flags) -> Accesses:
    ends = addresses + image.cnt[ops]
    bounds = np.unique(np.concatenate([addresses, ends]))
    low, high = np.searchsorted(bounds, addresses), np.searchsorted(bounds, ends)
    source = np.repeat(np.arange(len(ops)), high - low)
    cell = np.arange(len(source)) - np.repeat(np.cumsum(high - low) - (high - low), high - low) + low[source]
    unit = image.unit[ops][source]
    least, most = np.full(len(bounds), np.iinfo(np.int64).max), np.full(len(bounds), -1)
    np.minimum.at(least, cell, unit)
    np.maximum.at(most, cell, unit)
    risky = least < most
    risky &= np.bincount(cell, weights=writes[source], minlength=len(bounds)) > 0
    keep = np.flatnonzero(risky[cell])
    source, cell = source[keep], cell[keep]
    # In one op the reads come before the write, as in ``accesses``, which the sort keeps.
    at = np.lexsort((writes[source], position[ops[source]], cell))
    source, cell = source[at], cell[at]
    length = np.append(bounds[1:], bounds[-1:]) - bounds
    return Accesses(
        cell=cell,
        op=ops[source],
        writes=writes[source],
        chunk=bounds[cell] - addresses[source],
        address=bounds[cell],
        length=length[cell],
    )


def _questions(a: Accesses, defined: Flags) -> Questions:
    """Pairs that must be ordered: (last write, access) and (read, next write)."""
    n = len(a.cell)
    index = np.arange(n)
    before = np.maximum.accumulate(np.where(a.writes, index, -1))
    before = np.append(-1, before[:-1])
    after = np.minimum.accumulate(np.where(a.writes, index, n)[::-1])[::-1]
    after = np.append(after[1:], n)
    written = before >= 0
    written[written] = a.cell[before[written]] == a.cell[written]
    read = ~a.writes & (after < n)
    read[read] = a.cell[after[read]] == a.cell[read]
    first = np.concatenate([before[written], index[read]])
    second = np.concatenate([index[written], after[read]])
    # A write that follows a read of a chunk nobody has written should come first.
    has_data = defined[a.address] | written
    return Questions(
        first=a.op[first],
        second=a.op[second],
        first_chunk=a.chunk[first],
        second_chunk=a.chunk[second],
        length=a.length[first],
        address=a.address[first],
        first_writes=a.writes[first],
        second_writes=a.writes[second],
        defined=has_data[first],
    )


def _report(image: Image, late: Questions, k: int, found: dict[_Key, str]) -> None:
    """Add one race in words."""
    first, second = image.name(int(late.first[k])), image.name(int(late.second[k]))
    if late.first_writes[k]:
        kind = "write-after-write" if late.second_writes[k] else "read-before-write"
    elif late.defined[k]:
        kind = "write-after-read"
    else:
        kind, first, second = "read-before-write", second, first
    rank = int(image.rank[image.unit[late.first[k]]])
    chunk = image.chunk(rank, int(late.address[k]))
    text = {
        "write-after-write": f"{first} and {second} both write {chunk} in no fixed order",
        "write-after-read": f"{second} may overwrite {chunk} before {first} reads it",
        "read-before-write": f"{second} may read {chunk} before {first} writes it",
    }[kind]
    found.setdefault(_Key(kind, first, second), f"race ({kind}): {text}")
