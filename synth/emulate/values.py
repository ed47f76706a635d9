"""Numbers to send: different everywhere, and such that every order of reduction gives the same bits."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from synth.errors import InvalidInputError

DTYPES: Final = (
    "float16",
    "float32",
    "float64",
    "int8",
    "uint8",
    "int16",
    "uint16",
    "int32",
    "uint32",
    "int64",
    "uint64",
)
# A prime, so that no two chunks of any size start at the same place of the pattern.
_PERIOD: Final = 1_048_573
_LARGEST: Final = 1 << 20
_TURNS: Final = 64


def as_dtype(name: str) -> np.dtype[Any]:
    """The numpy type of that name.

    Raises
    ------
    InvalidInputError
        When it is none of ``DTYPES``.
    """
    if name not in DTYPES:
        raise InvalidInputError(f"dtype {name!r} is not supported: use one of {', '.join(DTYPES)}")
    return np.dtype(name)


def write_input(out: NDArray[Any], rank: int, op: str, ranks: int) -> None:
    """A rank's contribution: a pattern of its own, repeated, with each repetition shifted in value where there is room.

    Sums over all ranks stay exact integers in floating point; products are products of signs and powers of two.
    Integers wrap around, which is associative.

    Parameters
    ----------
    out
        Where to write; its length and type say how much of what.
    rank, ranks, op
        Whose numbers, of how many ranks, reduced by which operation.
    """
    random, dtype = np.random.default_rng([7, rank]), out.dtype
    length = min(out.size, _PERIOD)
    largest = _largest(dtype, ranks)
    shift = 1
    if op == "prod" and dtype.kind == "f":
        pattern = _powers(random, length, dtype, ranks)
    elif op == "prod":
        # Odd numbers: a product of even ones would soon be 0 modulo 2^k, whatever was missing in it.
        pattern = 2 * random.integers(0, 60, length) + 1
    else:
        shift = _TURNS if largest > 2 * _TURNS else 1
        pattern = random.integers(1, largest - shift + 2, length)
    pattern = pattern.astype(dtype)
    for turn, start in enumerate(range(0, out.size, _PERIOD)):
        part = out[start : start + _PERIOD]
        np.add(pattern[: part.size], dtype.type(turn % shift), out=part)


def unwritten(dtype: np.dtype[Any]) -> Any:
    """What a buffer holds before anyone has written to it."""
    return dtype.type(np.nan) if dtype.kind == "f" else dtype.type(np.iinfo(dtype).max - 17)


def _largest(dtype: np.dtype[Any], ranks: int) -> int:
    if dtype.kind != "f":
        return int(min(_LARGEST, np.iinfo(dtype).max))
    return int(max(1, min(_LARGEST, 2 ** (np.finfo(dtype).nmant + 1) // ranks)))


def _powers(random: np.random.Generator, length: int, dtype: np.dtype[Any], ranks: int) -> NDArray[Any]:
    highest = min(3, (int(np.finfo(dtype).maxexp) - 2) // ranks)
    signs = random.integers(0, 2, length) * 2.0 - 1.0
    return np.asarray(np.ldexp(signs, random.integers(-highest, highest + 1, length)))
