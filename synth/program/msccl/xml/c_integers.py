"""Numbers as the C library reads them."""

from __future__ import annotations

import re

_NUMBER = re.compile(r"[ \t\n\v\f\r]*([+-]?)(0[xX][0-9a-fA-F]+|0[0-7]*|[1-9][0-9]*)")
# More digits than any 64-bit number has; longer ones saturate just the same, and cost nothing to convert.
_MAX_DIGITS = 30


def c_long(text: str) -> int:
    """Return ``strtol(text, NULL, 0)``: base by prefix, junk is 0 (so "true" is 0 and "010" is 8), saturating."""
    found = _NUMBER.match(text)
    if found is None:
        return 0
    digits = found[2]
    base = 16 if digits[:2] in ("0x", "0X") else 8 if digits[0] == "0" else 10
    digits = (digits[2:] if base == 16 else digits).lstrip("0")
    value = int(digits[:_MAX_DIGITS] or "0", base) if len(digits) <= _MAX_DIGITS else 1 << 64
    return max(-(1 << 63), min((1 << 63) - 1, -value if found[1] == "-" else value))


def c_int(text: str) -> int:
    """Return the same cut to 32 bits, as the runtimes store it."""
    value = c_long(text) & 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value
