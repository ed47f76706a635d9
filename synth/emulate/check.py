"""Outputs compared with numpy's result, in words."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

_SHOWN: Final = 8


@dataclass(frozen=True, slots=True)
class Verdict:
    """Wrong elements over all ranks, the largest difference, and the first ones in words."""

    wrong: int
    max_difference: float
    faults: tuple[str, ...]


def compare(
    outputs: Sequence[NDArray[Any] | None], wanted: Sequence[NDArray[Any] | None], chunk: int, rounding: float
) -> Verdict:
    """Compare the ranks' outputs with what they must be.

    Parameters
    ----------
    outputs, wanted
        Per rank; None in ``wanted`` where any output will do.
    chunk
        Elements per chunk, for messages.
    rounding
        Relative rounding that is no fault (the order of a reduction is free); 0 for exact numbers.
    """
    total, largest, faults = 0, 0.0, []
    for rank, (have, want) in enumerate(zip(outputs, wanted, strict=True)):
        if want is None or have is None or (have.size == want.size and np.array_equal(have, want)):
            continue
        wrong = _wrong(have, want, rounding)
        total += wrong.size
        largest = max(largest, _largest(have, want))
        if wrong.size:
            at = int(wrong[0])
            place = f"output element {at} (chunk {at // chunk}, element {at % chunk} of it) of rank {rank}"
            value = "nan, probably never written" if have[at] != have[at] else f"{have[at]}"
            count = f"{wrong.size} of {want.size} elements of this rank are wrong"
            faults.append(f"{place}: expected {want[at]}, got {value}; {count}")
    hidden = len(faults) - _SHOWN
    return Verdict(total, largest, (*faults[:_SHOWN], *([f"and {hidden} more ranks"] if hidden > 0 else [])))


def changed(rank: int, before: NDArray[Any], after: NDArray[Any], chunk: int) -> tuple[str, ...]:
    """Whether a call out of place has overwritten a rank's input, which it must leave alone."""
    if np.array_equal(before, after):
        return ()
    at = int(np.flatnonzero(before != after)[0])
    place = f"input element {at} (chunk {at // chunk}) of rank {rank}"
    return (f"{place} was overwritten: {before[at]} became {after[at]}",)


def _wrong(have: NDArray[Any], want: NDArray[Any], rounding: float) -> NDArray[np.int64]:
    if rounding:
        scale = float(np.max(np.abs(want), initial=0.0))
        return np.flatnonzero(~np.isclose(have, want, rtol=rounding, atol=rounding * scale))
    return np.flatnonzero(have != want)


def _largest(have: NDArray[Any], want: NDArray[Any]) -> float:
    with np.errstate(all="ignore"):
        # In double precision: unsigned integers would wrap around.
        difference = float(np.max(np.abs(have.astype(np.float64) - want.astype(np.float64)), initial=0.0))
    return math.inf if math.isnan(difference) else difference
