"""Which calls a runtime gives to a program: the one judge of sizes, element counts and modes (formats.md 1.1, 1.7).

A call that a file does not serve falls back to the library's own algorithm without a word. What refuses the file
altogether, when it is loaded or launched, is found elsewhere and handed in (``refused``).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from synth.program.meaning.semantics import SHARDED, Semantics
from synth.program.msccl.model import Draft
from synth.program.msccl.targets import Target

UNLIMITED: Final = (1 << 63) - 1
"""Largest message size that a file can speak of; a range without an end ends there."""
FLOAT_BYTES: Final = 4
"""Bytes of an element when nothing else is said: float, the default of nccl-tests."""


@dataclass(frozen=True, slots=True)
class CountRule:
    """Element counts that a program serves; others fall back to the library's own algorithm without a word.

    The count is the one of the API call: per rank for all-gather, reduce-scatter and all-to-all, else of the buffer.

    Attributes
    ----------
    multiple
        The count must be a multiple of this: (count x ranks) % nchunks == 0 for the sharded collectives (executor since
        2024-09, RCCL; ROCm/rccl#1318).
    older
        What runtimes before that fix want: count % nchunks == 0.
    """

    multiple: int
    older: int

    def serves(self, count: int) -> bool:
        """Whether a call with this count is given to the program."""
        return count > 0 and count % self.multiple == 0

    def serves_older(self, count: int) -> bool:
        """The same for runtimes that test the count alone."""
        return count > 0 and count % self.older == 0


def count_rule(claim: Semantics) -> CountRule:
    """Rule for a program of this meaning."""
    ranks = claim.ngpus if claim.collective in SHARDED else 1
    return CountRule(claim.nchunks // math.gcd(claim.nchunks, ranks), claim.nchunks)


def served_range(min_bytes: int, max_bytes: int, target: Target) -> tuple[int, int] | None:
    """Smallest and largest message size that a file with these limits is active for, in bytes; None when there is none.

    An open end is :data:`UNLIMITED`. A size of 0 is never given to a program, and does not make a range.
    """
    low = max(1, min_bytes)
    if max_bytes == 0 and target.zero_max_is_unlimited:
        high = UNLIMITED
    else:
        high = max_bytes if target.max_is_inclusive else max_bytes - 1
    return (low, high) if low <= high else None


def size_faults(min_bytes: int, max_bytes: int, target: Target) -> Iterator[tuple[bool, str]]:
    """Why limits are wrong or never select the file, each with whether the parser refuses the file for it."""
    low, high = min_bytes, max_bytes
    if low < 0 or high < 0 or max(low, high) > UNLIMITED:
        yield target.checks_sizes and min(low, high) < 0, f"minBytes={low} and maxBytes={high} must be in 0..2^63-1"
    if high == 0 and target.zero_max_is_unlimited:
        return
    if low > high:
        yield target.checks_sizes, f"minBytes={low} is greater than maxBytes={high}"
    elif low == high and not target.max_is_inclusive:
        rule = f"minBytes={low} must be less than maxBytes={high}: {target.name} selects minBytes <= size < maxBytes"
        yield False, f"{rule}, so the file is never selected"


def mode_faults(inplace: bool, outofplace: bool) -> Iterator[str]:
    """Why no call selects a file, whatever its size."""
    if not (inplace or outofplace):
        yield "the file claims neither in place nor out of place, so it is never selected"


@dataclass(frozen=True, slots=True)
class Served:
    """Answer about one call: whether the program runs, and if not, every reason.

    Attributes
    ----------
    size_bytes
        Size of the call.
    reasons
        Why the program does not run.
    out_of_range
        Those of them that are about the range of sizes: no other data type or element count would help.
    odd_count
        Those of them that are about the element count: a few bytes more or less would help.
    """

    size_bytes: int
    reasons: tuple[str, ...] = ()
    out_of_range: tuple[str, ...] = ()
    odd_count: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether the runtime gives the call to the program and runs it."""
        return not self.reasons

    @property
    def nearly_ok(self) -> bool:
        """Whether it does, or would with another element count near by."""
        return self.reasons == self.odd_count


@dataclass(frozen=True, slots=True)
class Selection:
    """Which calls a target gives to a program.

    Attributes
    ----------
    target
        Name of the runtime.
    refused
        Why it refuses the file when it is loaded or launched; then nothing is served.
    never
        Why no call selects it.
    size_range
        Smallest and largest message size in bytes (:data:`UNLIMITED` when open); None when there is no such size.
    chunks
        Chunks per loop: a message must have a multiple of so many elements.
    rule
        The same for the element count of the API call.
    inplace, outofplace
        Calls that are served.
    """

    target: str
    refused: tuple[str, ...]
    never: tuple[str, ...]
    size_range: tuple[int, int] | None
    chunks: int
    rule: CountRule
    inplace: bool
    outofplace: bool

    def at(self, size_bytes: int, element_bytes: int = FLOAT_BYTES, inplace: bool | None = None) -> Served:
        """Judge one call.

        Parameters
        ----------
        size_bytes
            nccl-tests size: the total buffer of the larger side.
        element_bytes
            Size of the data type.
        inplace
            Whether the call is in place; None for a call in whichever mode the file serves.
        """
        outside, odd = tuple(self._outside(size_bytes)), tuple(self._odd_count(size_bytes, element_bytes))
        reasons = (*self.refused, *self.never, *self._other_mode(inplace), *outside, *odd)
        return Served(size_bytes, reasons, outside, odd)

    def in_range(self, size_bytes: int) -> Served:
        """Judge one call whose element count is not known."""
        outside = tuple(self._outside(size_bytes))
        return Served(size_bytes, (*self.refused, *self.never, *outside), outside)

    def _outside(self, size: int) -> Iterator[str]:
        if self.size_range is not None and not self.size_range[0] <= size <= self.size_range[1]:
            yield f"{size} B is outside the range of the file, {self.range_text()}"

    def _other_mode(self, inplace: bool | None) -> Iterator[str]:
        modes = {True: self.inplace, False: self.outofplace}
        if inplace is not None and any(modes.values()) and not modes[inplace]:
            yield f"{self.target} gives it only calls {'out of place' if inplace else 'in place'}"

    def _odd_count(self, size: int, element: int) -> Iterator[str]:
        unit = self.chunks * element
        if self.chunks > 0 and size % unit:
            near = " and ".join(f"{k} B" for k in self._nearest(size, unit)) or "none"
            yield (
                f"{size} B is no multiple of {unit} B ({self.chunks} chunks of elements of {element} B); "
                f"nearest served: {near}"
            )

    def _nearest(self, size: int, unit: int) -> list[int]:
        low, high = self.size_range or (1, 0)
        return [k for k in (size // unit * unit, -(-size // unit) * unit) if max(1, low) <= k <= high]

    def range_text(self) -> str:
        """The sizes in words."""
        if self.size_range is None:
            return "no size at all"
        low, high = self.size_range
        return f"{low} B and more" if high >= UNLIMITED else f"{low}..{high} B"

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready form."""
        return {
            "target": self.target,
            "refused": list(self.refused),
            "never_selected": list(self.never),
            "size_bytes": None if self.size_range is None else list(self.size_range),
            "elements_multiple": self.chunks,
            "count_multiple": self.rule.multiple,
            "inplace": self.inplace,
            "outofplace": self.outofplace,
        }


def selection_of(draft: Draft, target: Target, refused: Iterable[str] = ()) -> Selection:
    """Rules by which a target selects a draft.

    Parameters
    ----------
    draft
        A program as written; its meaning makes sense.
    refused
        Why the runtime does not load or not launch it.
    """
    sizes = served_range(draft.min_bytes, draft.max_bytes, target)
    never = [*mode_faults(draft.inplace, draft.outofplace)]
    if sizes is None:
        texts = [text for _, text in size_faults(draft.min_bytes, draft.max_bytes, target)]
        never += texts or [f"minBytes={draft.min_bytes} and maxBytes={draft.max_bytes} leave no size of 1 B or more"]
    # A runtime that does not read outofplace goes by inplace alone.
    outofplace = draft.outofplace if target.reads_outofplace else not draft.inplace
    rule = count_rule(draft.semantics)
    return Selection(
        target.name, tuple(refused), tuple(never), sizes, draft.semantics.nchunks, rule, draft.inplace, outofplace
    )
