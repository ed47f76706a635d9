"""Matrices of ``nvidia-smi topo`` in a text: headings, rows that may be wrapped, and what belongs to no matrix.

A heading names the devices; each row gives a cell per device, then what the heading's titles say. A row that is broken
over lines is joined; a row that fits no heading, a cell that fits no column or a heading that is cut is a fault.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from synth.topology.importing.pasted import Line, Pasted

CELL = re.compile(r"X|NV[0-9]{1,3}|PIX|PXB|PHB|NODE|SYS|SOC")
GPU = re.compile(r"GPU[0-9]{1,4}")
TITLES = ("CPU Affinity", "NUMA Affinity", "GPU NUMA ID")
#: Cells of the matrices of ``topo -p2p``: whether two GPUs may access each other.
_PEER_CELL = re.compile(r"X|OK|CNS|GNS|TNS|NS|U")
_AFFINITY = re.compile(r"N/A|[0-9]+(?:-[0-9]+)?(?:,[0-9]+(?:-[0-9]+)?)*")
_DEVICE = re.compile(r"[A-Za-z][\w.:-]*")
_TITLE_WORDS = ("CPU", "NUMA", "GPU")
_ALL_TITLE_WORDS = {word for title in TITLES for word in title.split()}
_EXPECTED = "expected X, NV#, PIX, PXB, PHB, NODE, SYS or SOC per device"


@dataclass
class Row:
    """A device's row: its words behind the name, and the lines that they stand in."""

    name: str
    at: str
    words: list[str]
    lines: list[Line]


@dataclass
class Table:
    """A matrix: devices of its heading and the words behind them, its rows by device, the lines that it takes.

    ``above`` are the lines between the matrix before (or the text's beginning) and the heading; ``host`` is the host's
    name if the text has several.
    """

    at: str
    heading: Line
    names: list[str]
    title_words: list[str]
    above: list[Line]
    rows: dict[str, Row] = field(default_factory=dict)
    lines: list[Line] = field(default_factory=list)
    host: str = ""

    @property
    def titles(self) -> list[str]:
        """Titles of the columns behind the devices; none if the words are none."""
        return _titles(self.title_words) or []

    @property
    def peer(self) -> bool:
        """Whether it says which GPUs may access each other, and not how they are wired."""
        cells = {word for row in self.rows.values() for word in row.words}
        return bool(cells) and cells != {"X"} and all(_PEER_CELL.fullmatch(cell) for cell in cells)

    def cell(self, a: str, b: str) -> str:
        """Cell in row ``a``, column ``b``."""
        return self.rows[a].words[self.names.index(b)]

    def rest(self, name: str) -> list[str]:
        """Words of a row behind its cells."""
        return self.rows[name].words[len(self.names) :]

    @property
    def gpus(self) -> list[str]:
        """Devices that are GPUs."""
        return [name for name in self.names if GPU.fullmatch(name)]


def has_matrix(pasted: Pasted) -> Line | None:
    """Heading of the first matrix of how devices are wired (``topo -m``); None if the text has none."""
    tables = (table for table in _tables(pasted, []) if not table.peer)
    return next((table.heading for table in tables if any(_wired(row) for row in table.rows.values())), None)


def read_tables(pasted: Pasted, faults: list[str]) -> list[Table]:
    """All matrices of a text, those of ``topo -p2p`` too; ``faults`` grows by everything that is out of place."""
    tables = _tables(pasted, faults)
    for table in tables:
        if not table.peer:
            _check_rows(table, faults)
    return tables


def _wired(row: Row) -> bool:
    return bool(row.words) and CELL.fullmatch(row.words[0]) is not None


def _tables(pasted: Pasted, faults: list[str]) -> list[Table]:
    reader = _Reader(pasted, faults)
    for line in pasted.lines:
        reader.take(line)
    return [table for table in reader.tables if table.rows or len(table.names) > 1 or table.titles]


class _Reader:
    """Puts line after line where it belongs."""

    def __init__(self, pasted: Pasted, faults: list[str]) -> None:
        self.pasted = pasted
        self.faults = faults
        self.tables: list[Table] = []
        self._between: list[Line] = []
        self._open: Row | None = None
        self._stream: str | None = None

    def take(self, line: Line) -> None:
        words = line.text.split()
        if line.blank or not words:
            return
        table = self._table(line)
        heading = _heading(words)
        if table is not None and not table.rows and _continues(words, table):
            _extend(table, line, words)
        elif heading is not None:
            self._begin(line, *heading)
        elif self._is_row(words, table):
            self._row(line, words, table)
        elif table is not None and all(CELL.fullmatch(word) or _AFFINITY.fullmatch(word) for word in words):
            self._rest_of_row(line, words, table)
        else:
            self._between.append(line)

    def _table(self, line: Line) -> Table | None:
        """Matrix that the line may belong to: the last one, if it is from the same process."""
        if line.stream != self._stream:
            self._stream, self._open, self._between = line.stream, None, []
            return None
        return self.tables[-1] if self.tables else None

    def _begin(self, line: Line, names: list[str], rest: list[str]) -> None:
        self.tables.append(Table(self.pasted.at(line), line, names, rest, self._between, lines=[line]))
        self._between, self._open = [], None

    def _is_row(self, words: Sequence[str], table: Table | None) -> bool:
        if len(words) < 2 or CELL.fullmatch(words[0]) or not _DEVICE.fullmatch(words[0]):
            return False
        cell = CELL.fullmatch(words[1]) or _PEER_CELL.fullmatch(words[1])
        known = table is not None and words[0] in table.names
        if known and table is not None and words[0] not in table.rows:
            return True
        return cell is not None and (
            known or re.fullmatch("(?:GPU|NIC)[0-9]+", words[0]) is not None or _all_cells(words)
        )

    def _row(self, line: Line, words: list[str], table: Table | None) -> None:
        name, at = words[0], self.pasted.at(line)
        self._open = None
        if table is None:
            self.faults.append(f"{at}: row {name} stands under no heading GPU0 GPU1 ...; take the whole table")
        elif name not in table.names:
            self.faults.append(f"{at}: row {name}: the heading ({table.at}) has no such column; is it cut?")
        elif name in table.rows:
            self.faults.append(f"{at}: row {name} is there a second time (the first: {table.rows[name].at})")
        else:
            self._open = table.rows[name] = Row(name, at, words[1:], [line])
            table.lines.append(line)

    def _rest_of_row(self, line: Line, words: list[str], table: Table) -> None:
        """Words that continue a wrapped row: cells that it lacks, then what stands behind them."""
        row = self._open
        lacking = 0 if row is None else len(table.names) - len(row.words)
        cells = [word for word in words if CELL.fullmatch(word)]
        # A value that is broken within itself cannot be told from two; N/A says nothing, whatever was broken.
        told = lacking >= 0 or all(word == "N/A" for word in words)
        if row is None or not told or (lacking <= 0 and cells):
            behind = f"row {row.name}" if row is not None else "the table"
            self.faults.append(f"{self.pasted.at(line)}: {' '.join(words[:6])}: more cells than {behind} has columns")
            return
        row.words += words
        row.lines.append(line)
        table.lines.append(line)


def _heading(words: Sequence[str]) -> tuple[list[str], list[str]] | None:
    """Devices of a heading and the words of its titles."""
    if not GPU.fullmatch(words[0]):
        return None
    end = _devices(words)
    names = list(words[:end])
    if any(CELL.fullmatch(name) or _PEER_CELL.fullmatch(name) or not _DEVICE.fullmatch(name) for name in names):
        return None
    # Prose may begin with a GPU's name; a heading is nothing but names of devices, which have a number in them.
    return (names, list(words[end:])) if all(re.search("[0-9]", name) for name in names) else None


def _devices(words: Sequence[str]) -> int:
    """Number of words before the first title."""
    return next((k for k, word in enumerate(words) if word in _TITLE_WORDS), len(words))


def _titles(words: Sequence[str]) -> list[str] | None:
    """Titles that the words are; None if they are none."""
    out, text = [], " ".join(words)
    while text:
        title = next((title for title in TITLES if text == title or text.startswith(title + " ")), None)
        if title is None or title in out:
            return None
        out.append(title)
        text = text.removeprefix(title).lstrip()
    return out


def _continues(words: Sequence[str], table: Table) -> bool:
    """Whether words are the rest of a wrapped heading: devices that it does not have yet, then words of titles."""
    end = 0 if table.title_words else _devices(words)
    names, rest = words[:end], words[end:]
    if words[0] in table.names:
        return False
    devices = (_DEVICE.fullmatch(name) and re.search("[0-9]", name) and not CELL.fullmatch(name) for name in names)
    return all(devices) and all(word in _ALL_TITLE_WORDS for word in rest)


def _extend(table: Table, line: Line, words: Sequence[str]) -> None:
    end = 0 if table.title_words else _devices(words)
    table.names += words[:end]
    table.title_words += words[end:]
    table.lines.append(line)


def _all_cells(words: Sequence[str]) -> bool:
    return len(words) > 2 and all(CELL.fullmatch(word) for word in words[1:])


def _check_rows(table: Table, faults: list[str]) -> None:
    """Every device once, every row with a cell per device and no more words than titles."""
    for name, times in ((name, table.names.count(name)) for name in dict.fromkeys(table.names)):
        if times > 1:
            faults.append(f"{table.at}: the heading has {name} {times} times")
    if _titles(table.title_words) is None:
        said = " ".join(table.title_words)
        faults.append(f"{table.at}: the heading ends with {said!r}; is it cut? {', '.join(TITLES)} are known")
    elif TITLES[0] not in table.titles:
        faults.append(
            f"{table.at}: the heading has no column {TITLES[0]!r}, which nvidia-smi always prints; is it cut?"
        )
    missing = [name for name in dict.fromkeys(table.names) if name not in table.rows]
    if missing:
        faults.append(f"{table.at}: the heading has {', '.join(missing)}, but there is no such row")
    for row in table.rows.values():
        faults.extend(_row_faults(row, table))


def _row_faults(row: Row, table: Table) -> Iterator[str]:
    n = len(table.names)
    cells, rest = row.words[:n], row.words[n:]
    wrong = [cell for cell in cells if not CELL.fullmatch(cell)]
    if wrong or len(cells) < n:
        few = f"{len(cells)} cells, the heading has {n} devices"
        what = f"{', '.join(wrong[:4])} is no connection" if wrong else few
        yield f"{row.at}: row {row.name}: {what}; {_EXPECTED}"
        return
    extra = [word for word in rest if not _AFFINITY.fullmatch(word)]
    if extra or len(rest) > len(table.titles):
        have = ", ".join(table.titles) or "none"
        shown = " ".join((extra or rest)[:6])
        yield f"{row.at}: row {row.name}: {shown}: behind the {n} devices the heading has these columns: {have}"
