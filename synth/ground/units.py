"""Quantities with units: text to bytes, seconds and bytes/second, and back for people.

Decimal by definition (GB = 1e9 bytes); binary only where spelled (GiB = 2**30 bytes). ``b`` is a bit, ``B`` a byte.
Nothing here looks at the locale: the decimal mark is a full stop and there is no mark between thousands.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Context, Decimal
from types import MappingProxyType

from synth.errors import InvalidInputError

_QUANTITY = re.compile(
    r"(?P<number>[+-]?(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?) *(?P<unit>[^0-9 .,+-].*)?"
)
_NOT_FINITE = re.compile(r"[+-]?(nan|inf|infinity)\b.*", re.IGNORECASE)


def _context() -> Context:
    """Enough digits for one correct rounding; without traps an overflow becomes an infinity, which is refused later."""
    return Context(prec=50, traps=[])


def _byte_scales(byte: str, bit: str) -> dict[str, Decimal]:
    """Units from a byte's and a bit's spelling with every decimal and binary prefix (``k`` and ``K`` are both 1000)."""
    scales = {byte: Decimal(1), bit: Decimal(1) / 8}
    for power, letter in enumerate("KMGTP", start=1):
        for spelling in {letter, "k"} if letter == "K" else {letter}:
            scales[spelling + byte] = Decimal(1000) ** power
            scales[spelling + bit] = Decimal(1000) ** power / 8
        scales[f"{letter}i{byte}"] = Decimal(1024) ** power
        scales[f"{letter}i{bit}"] = Decimal(1024) ** power / 8
    return scales


_BANDWIDTHS: Mapping[str, Decimal] = MappingProxyType({**_byte_scales("B/s", "b/s"), **_byte_scales("Bps", "bps")})
_TIMES: Mapping[str, Decimal] = MappingProxyType(
    {
        "ns": Decimal("1e-9"),
        "us": Decimal("1e-6"),
        "\u00b5s": Decimal("1e-6"),  # micro sign
        "\u03bcs": Decimal("1e-6"),  # Greek mu, which keyboards and Unicode normalisation give
        "ms": Decimal("1e-3"),
        "s": Decimal(1),
    }
)
_SIZES: Mapping[str, Decimal] = MappingProxyType(
    {unit: scale for unit, scale in _byte_scales("B", "b").items() if unit.endswith("B")}
)
_BANDWIDTH_HINT = 'write for example "25 GB/s", "25 GiB/s" or "200 Gb/s"'
_TIME_HINT = 'write for example "0.7 us", "500 ns" or "0 us"'
_SIZE_HINT = 'write for example "1GiB", "1 GB", "64 KiB" or "1024" (bytes)'


def _exact(value: object, units: Mapping[str, Decimal], what: str, hint: str, bare: Decimal | None) -> Decimal:
    """Value in the base unit, before rounding to a float; ``bare`` is the scale of a number without a unit."""
    if not isinstance(value, str):
        raise InvalidInputError(f"{value!r} is not a {what}: a text with a unit is needed; {hint}")
    text = value.strip()
    match = _QUANTITY.fullmatch(text)
    if match is None:
        kind = "is not finite, unbounded values are refused" if _NOT_FINITE.fullmatch(text) else f"is not a {what}"
        raise InvalidInputError(f"{value!r} {kind}; {hint}")
    unit = (match["unit"] or "").strip()
    scale = units.get(unit) if unit else bare
    if scale is None:
        raise InvalidInputError(f"{value!r} has {f'an unknown unit {unit!r}' if unit else 'no unit'}; {hint}")
    if match["number"].startswith("-"):
        raise InvalidInputError(f"{value!r} is negative, a {what} is not; {hint}")
    context = _context()
    number = context.multiply(context.create_decimal(match["number"]), scale)
    # float() is asked last: it rounds once, to the nearest double.
    if not number.is_finite() or float(number) == float("inf"):
        raise InvalidInputError(f"{value!r} is too large to be a finite {what} (unbounded); {hint}")
    if float(number) == 0.0 and re.search("[1-9]", re.split("[eE]", match["number"])[0]):
        raise InvalidInputError(f"{value!r} is too small to tell from zero; {hint}")
    return number


def parse_bandwidth(value: object) -> float:
    """Bytes/second of a text such as ``"25 GB/s"``, ``"200 Gb/s"``, ``"200Gbps"`` or ``"25 GiB/s"``.

    Parameters
    ----------
    value
        A text: a number and a unit. Zero is allowed here; who needs a positive value checks that.

    Returns
    -------
    float
        Bytes/second, correctly rounded from the decimal text.

    Raises
    ------
    InvalidInputError
        No text, no number, no unit or an unknown one, negative, not finite.
    """
    return float(_exact(value, _BANDWIDTHS, "bandwidth", _BANDWIDTH_HINT, None))


def parse_time(value: object) -> float:
    """Seconds of a text such as ``"0.7 us"``, ``"500 ns"``, ``"1.5 ms"`` or ``"60s"``.

    Raises
    ------
    InvalidInputError
        No text, no number, no unit or an unknown one, negative, not finite.
    """
    return float(_exact(value, _TIMES, "time", _TIME_HINT, None))


def parse_size(value: object) -> int:
    """Whole bytes of ``"1GiB"``, ``"1 GB"``, ``"64 KiB"``, ``"1024"``, ``"1024 B"`` or of an ``int``.

    Raises
    ------
    InvalidInputError
        No size, a unit of bits, negative, not finite, or not a whole number of bytes.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        if value < 0:
            raise InvalidInputError(f"{value!r} is negative, a size is not; {_SIZE_HINT}")
        return value
    number = _exact(value, _SIZES, "size", _SIZE_HINT, Decimal(1))
    if number != number.to_integral_value():
        raise InvalidInputError(f"{value!r} is {number.normalize()} bytes, not a whole number; {_SIZE_HINT}")
    return int(number)


def exact_bandwidth(value: float) -> str:
    """Text that :func:`parse_bandwidth` reads back as exactly ``value`` bytes/second."""
    return _exact_text(value, 9, "GB/s", "B/s")


def exact_time(value: float) -> str:
    """Text that :func:`parse_time` reads back as exactly ``value`` seconds."""
    return _exact_text(value, -6, "us", "s")


def _exact_text(value: float, shift: int, unit: str, base: str) -> str:
    """Shift the decimal point of the shortest representation: exact, whatever the value."""
    text = repr(float(value) + 0.0)  # -0.0 becomes 0.0
    number = Decimal(text).scaleb(-shift, _context()).normalize(_context())
    if number == 0:
        return f"0 {unit}"
    if -6 <= number.adjusted() < 6:
        return f"{number:f} {unit}"
    return f"{text} {base}"


def format_bandwidth(value: float) -> str:
    """For people, four significant digits: ``25e9`` is ``"25 GB/s"``."""
    return _format(value, (("TB/s", 1e12), ("GB/s", 1e9), ("MB/s", 1e6), ("KB/s", 1e3), ("B/s", 1.0)))


def format_time(value: float) -> str:
    """For people, four significant digits: ``7e-7`` is ``"700 ns"``."""
    return _format(value, (("s", 1.0), ("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9)))


def format_size(value: float) -> str:
    """For people: ``2**30`` is ``"1 GiB"``, ``1e9`` is ``"1 GB"``; binary only where it is exact."""
    for unit, scale in (("TiB", 2**40), ("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if value >= scale and value % scale == 0 and value / scale < 1024:
            return f"{value / scale:.0f} {unit}"
    return _format(value, (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("KB", 1e3), ("B", 1.0)))


def _format(value: float, units: tuple[tuple[str, float], ...]) -> str:
    """Largest unit in which the value, rounded to four digits, is at least one."""
    for unit, scale in units:
        if abs(float(f"{value / scale:.4g}")) >= 1.0:
            return f"{value / scale:.4g} {unit}"
    unit, scale = units[-1]
    return f"{value / scale:.4g} {unit}"
