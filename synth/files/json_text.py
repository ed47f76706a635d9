"""Strict reading of JSON files: what ``json`` lets pass is refused, and every value knows its line.

``json`` takes NaN and Infinity, keeps the last of two equal keys, and turns 1e400 into infinity without a word.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from synth.errors import InvalidInputError

#: Keys and positions from the document's root to a value.
Place = tuple[str | int, ...]
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{}:,]|[^\s\[\]{}:,"]+')


@dataclass(frozen=True)
class Document:
    """A parsed JSON file.

    Attributes
    ----------
    file
        Name of the file, as messages show it.
    text
        Its text.
    value
        The parsed value.
    """

    file: str
    text: str
    value: object

    @cached_property
    def _scan(self) -> tuple[dict[Place, int], list[tuple[Place, str]]]:
        """Line of every value, and the faults that ``json`` does not see."""
        lines: dict[Place, int] = {}
        faults: list[tuple[Place, str]] = []
        for path, line, token, again in _walk(self.text):
            if again:
                fault = f"is there twice, in lines {lines[path]} and {line}; keys of an object must differ"
                faults.append((path, fault))
                continue
            lines[path] = line
            if token in ("NaN", "Infinity", "-Infinity"):
                faults.append((path, f"{token} is not JSON and not a finite number; unbounded values are refused"))
            elif token not in ("true", "false", "null") and token[0] not in '"{[' and float(token) in _INFINITIES:
                faults.append((path, f"{token} is too large to be a finite number (unbounded)"))
        return lines, faults

    @property
    def faults(self) -> list[tuple[Place, str]]:
        """Repeated keys and numbers that are not finite: path and reason of each."""
        return self._scan[1]

    def place(self, *path: str | int) -> str:
        """``file:line: links[3].bandwidth``; a value that is missing has the line of what should hold it."""
        known = path
        while known and known not in self._scan[0]:
            known = known[:-1]
        return f"{self.file}:{self._scan[0][known]}: {place_text(path)}"

    def line_of(self, fault: str) -> int:
        """Line that a message begins with, to sort messages as the file goes; 0 if it has none."""
        match = re.match(r":([0-9]+):", fault.removeprefix(self.file))
        return int(match[1]) if match else 0


_INFINITIES = (float("inf"), float("-inf"))


def place_text(path: Place) -> str:
    """``links[3].bandwidth`` of a path; keys that are no plain words are quoted in brackets."""
    text = ""
    for step in path:
        if isinstance(step, str) and re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", step):
            text += f".{step}" if text else step
        else:
            text += f"[{step!r}]"
    return text or "file"


def read_json(path: Path) -> Document:
    """Read a JSON file strictly.

    Raises
    ------
    InvalidInputError
        The file is missing, a directory, unreadable, not UTF-8 or not JSON. Repeated keys and numbers that are not
        finite are in :attr:`Document.faults`, to be reported with everything else.
    """
    return parse_json(read_text(path), str(path))


def parse_json(text: str, name: str) -> Document:
    """Parse JSON text as :func:`read_json` does; ``name`` stands in messages."""
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise InvalidInputError(f"{name}:{error.lineno}: not JSON: {error.msg} (column {error.colno})") from None
    except RecursionError:
        raise InvalidInputError(f"{name}: not a file of this kind: brackets are nested too deep") from None
    except ValueError as error:  # a whole number of more digits than Python reads
        raise InvalidInputError(f"{name}: not JSON that can be read: {error}") from None
    return Document(name, text, value)


def read_text(path: Path) -> str:
    """Text of a UTF-8 file, with or without a byte order mark.

    Raises
    ------
    InvalidInputError
        The file is missing, a directory, unreadable or not UTF-8.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise InvalidInputError(f"{path}: no such file") from None
    except IsADirectoryError:
        raise InvalidInputError(f"{path}: is a directory, a file is needed") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise InvalidInputError(f"{path}: cannot be read: {reason}") from None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InvalidInputError(f"{path}:{line}: not UTF-8 (byte {error.start}); save the file as UTF-8") from None


def _walk(text: str) -> Iterator[tuple[Place, int, str, bool]]:
    """Path, line, first token and "seen before" of every value of a text that ``json`` has accepted."""
    path: list[str | int] = []
    objects: list[set[str] | None] = []  # keys so far of each open object; None for a list
    again: list[bool] = []  # per open bracket: is any key on the way repeated?
    key = True
    line, at = 1, 0
    twice = False
    for match in _TOKEN.finditer(text):
        token = match[0]
        line += text.count("\n", at, match.start())
        at = match.start()
        inside = objects[-1] if objects else None
        if token in "]}":
            objects.pop()
            again.pop()
            path.pop()
        elif token == ",":
            if inside is None:
                path[-1] = int(path[-1]) + 1
            key = inside is not None
        elif token == ":":
            key = False
        elif inside is not None and key:
            name = str(json.loads(token))
            path[-1] = name
            twice = name in inside
            inside.add(name)
        else:
            repeated = inside is not None and twice
            if not any(again):
                yield tuple(path), line, token, repeated
            if token in "[{":
                objects.append(set() if token == "{" else None)
                again.append(repeated)
                path.append("" if token == "{" else 0)
                key = token == "{"
