"""Measured times: the output of nccl-tests and rccl-tests as text, and CSV with the same columns."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from synth.errors import InvalidInputError

# size count type redop root, then per mode time algbw busbw and (with checks) #wrong
_HEAD = 5
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?")
_MODES = (("out_of_place", False), ("out-of-place", False), ("in_place", True), ("in-place", True))
MOST_BYTES = 1 << 26


@dataclass(frozen=True, slots=True)
class Measurement:
    """One measured call.

    Attributes
    ----------
    size_bytes
        nccl-tests size.
    seconds
        Mean time of a call; None when it timed out.
    inplace
        Whether the call passed one buffer for both sides; None when the file does not say.
    """

    size_bytes: int
    seconds: float | None
    inplace: bool | None


def read_measurements(path: str | Path) -> tuple[Measurement, ...]:
    """Read a file of measurements; rows of size 0 are left out.

    Parameters
    ----------
    path
        The stdout of an nccl-tests or rccl-tests program (columns size, count, type, redop, root, then time, algbw,
        busbw, #wrong out of place and again in place; times in microseconds), or a CSV with a header that has at least
        ``size`` and ``time``. A CSV may have a column ``inplace`` (0 or 1); else ``in_place`` or ``out_of_place`` in
        its name says it.

    Raises
    ------
    InvalidInputError
        When the file cannot be read or has no row of measurements; all bad rows at once, with their lines.
    """
    source = Path(path)
    try:
        if source.stat().st_size > MOST_BYTES:
            raise InvalidInputError(f"{source}: more than {MOST_BYTES >> 20} MiB, this is no table of measurements")
        text = source.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise InvalidInputError(f"{source}: cannot be read: {error.strerror}") from error
    lines = text.splitlines()
    faults: list[str] = []
    comma = next((line for line in lines if line.strip()), "").count(",")
    found = list(_csv(source, lines, faults) if comma else _text(lines, faults))
    if not found and not faults:
        faults.append("no row of measurements: size, count, type, redop, root, time, ... are expected")
    if faults:
        raise InvalidInputError([f"{source}: {fault}" for fault in faults[:20]])
    return tuple(found)


def _csv(source: Path, lines: list[str], faults: list[str]) -> Iterator[Measurement]:
    rows = csv.DictReader(lines)
    missing = [name for name in ("size", "time") if name not in (rows.fieldnames or ())]
    if missing:
        faults.append(f"line 1: the header lacks {', '.join(missing)}")
        return
    named = next((mode for text, mode in _MODES if text in source.name), None)
    for row in rows:
        size, time, mode = row["size"] or "", row["time"] or "", named
        if row.get("inplace") is not None:
            if row["inplace"] not in ("0", "1"):
                faults.append(f"line {rows.line_num}: inplace {row['inplace']!r} must be 0 or 1")
            mode = row["inplace"] == "1"
        if time == "Test" and str(row.get("algbw", "")).startswith("timeout"):  # a hang, as benchmark scripts log it
            time = "timeout"
        yield from _measurement(f"line {rows.line_num}", size, time, mode, faults)


def _text(lines: list[str], faults: list[str]) -> Iterator[Measurement]:
    for number, line in enumerate(lines, 1):
        fields = line.split()
        if len(fields) < _HEAD + 3 or not fields[0].isdigit() or not fields[1].isdigit():
            continue
        rest = fields[_HEAD:]
        for mode, columns in zip((False, True), (rest[: len(rest) // 2], rest[len(rest) // 2 :]), strict=True):
            if len(rest) >= 6:
                yield from _measurement(f"line {number}", fields[0], columns[0], mode, faults)
        if len(rest) < 6:
            yield from _measurement(f"line {number}", fields[0], rest[0], None, faults)


def _measurement(where: str, size: str, time: str, mode: bool | None, faults: list[str]) -> Iterator[Measurement]:
    if not size.isdigit():
        faults.append(f"{where}: size {size!r} is not a whole number of bytes")
    elif time == "timeout":
        yield Measurement(int(size), None, mode)
    elif not _NUMBER.fullmatch(time) or (int(size) and not float(time) > 0):
        faults.append(f"{where}: time {time!r} is not a positive number of microseconds")
    elif int(size):
        yield Measurement(int(size), float(time) / 1e6, mode)
