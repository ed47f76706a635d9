"""``amd-smi topology``, as text and as ``--json``: link types, weights, and bandwidths of one link and of all links."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from synth.errors import InvalidInputError
from synth.files.json_text import Document
from synth.topology.box.gpus import GpuModel
from synth.topology.importing.dumps.amd.pairs import Pair, Pairs, box_of, symmetry_faults
from synth.topology.importing.dumps.described import Described
from synth.topology.importing.pasted import Line, Pasted

_TITLE = re.compile(r"\s*([A-Z][A-Z -]*) TABLE:\s*")
_BUS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_NUMBER = re.compile("[0-9]{1,5}")
_BANDWIDTH = re.compile("([0-9]{1,8})-([0-9]{1,8})")
#: Tables by what their cells may be, and the keys of the two JSON forms: one object per pair, one per GPU.
_CELLS = {
    "ACCESS": re.compile("ENABLED|DISABLED|N/A"),
    "WEIGHT": re.compile(f"{_NUMBER.pattern}|N/A"),
    "HOPS": re.compile(f"{_NUMBER.pattern}|N/A"),
    "LINK TYPE": re.compile("SELF|XGMI|PCIE|UNKNOWN|N/A"),
    "NUMA BW": re.compile(f"{_BANDWIDTH.pattern}|N/A"),
}
_KEYS = {
    "ACCESS": ("link_status", "link_accessibility"),
    "WEIGHT": ("weight", "weight"),
    "HOPS": ("num_hops", "hops"),
    "LINK TYPE": ("link_type", "link_type"),
    "NUMA BW": ("bandwidth", "numa_bandwidth"),
}
_WHOLE = "take the whole output of amd-smi topology"


@dataclass
class _Tables:
    """Cells of each table by pair of GPUs, and the GPUs in order with their places."""

    where: str
    names: list[str] = field(default_factory=list)
    at: dict[str, str] = field(default_factory=dict)
    cells: dict[str, dict[tuple[str, str], str]] = field(default_factory=dict)


def amd_line(pasted: Pasted) -> Line | None:
    """First title of a table; None if the text has none."""
    found = (line for line in pasted.lines if (m := _TITLE.fullmatch(line.text)) is not None and m[1] in _CELLS)
    return next(found, None)


def read_amd_smi(pasted: Pasted, model: GpuModel | None) -> Described:
    """The machine of the tables as a box.

    Raises
    ------
    InvalidInputError
        A table that is missing, there twice, cut or not symmetric.
    """
    faults: list[str] = []
    used: set[int] = set()
    tables = _read(pasted, used, faults)
    if faults:
        raise InvalidInputError(faults)
    return _described(tables, model, [*pasted.notes], list(pasted.skipped(used)))


def read_amd_json(document: Document, model: GpuModel | None) -> Described:
    """The machine of ``amd-smi topology --json`` as a box; errors as :func:`read_amd_smi`."""
    faults: list[str] = []
    tables = _Tables(document.file)
    items = document.value if isinstance(document.value, list) else []
    gpus = [item for item in items if isinstance(item, dict)]
    if not gpus or len(gpus) < len(items):
        raise InvalidInputError(
            f"{document.file}: expected a list with an object per GPU, as amd-smi topology --json has"
        )
    by_pair = any("links" in item for item in gpus)
    for k, item in enumerate(gpus):
        name = str(item.get("bdf") or f"gpu_{item.get('gpu')}")
        if name in tables.at:
            faults.append(f"{document.place(k)}: GPU {name} is there a second time")
        tables.names.append(name)
        tables.at[name] = f"{document.place(k)}: {name}"
        rows = _links(item) if by_pair else _columns(item)
        for title, other, cell in rows:
            if not _CELLS[title].fullmatch(cell):
                faults.append(f"{document.place(k)}: {title.lower()} of {name} to {other}: {cell!r} is not understood")
            tables.cells.setdefault(title, {})[name, other] = cell
    if faults:
        raise InvalidInputError(faults)
    return _described(tables, model, [], [])


def is_amd_json(value: object) -> bool:
    """Whether a JSON value is the list that ``amd-smi topology --json`` prints."""
    first = value[0] if isinstance(value, list) and value else None
    return isinstance(first, dict) and "gpu" in first and bool({"links", "link_type", "weight", "hops"} & set(first))


def _links(item: Mapping[str, object]) -> Iterator[tuple[str, str, str]]:
    links = item.get("links")
    for link in links if isinstance(links, list) else []:
        if isinstance(link, dict):
            other = str(link.get("bdf") or f"gpu_{link.get('gpu')}")
            for title, (key, _) in _KEYS.items():
                if key in link:
                    yield title, other, str(link[key])


def _columns(item: Mapping[str, object]) -> Iterator[tuple[str, str, str]]:
    for title, (_, key) in _KEYS.items():
        row = item.get(key)
        for other, cell in row.items() if isinstance(row, dict) else ():
            yield title, other, str(cell)


def _read(pasted: Pasted, used: set[int], faults: list[str]) -> _Tables:
    """All tables whose cells are understood; others (coherency, atomics, ...) are left to be named as skipped."""
    tables = _Tables(str(pasted.path))
    title, heading, row, lacking = "", list[str](), "", 0
    first: dict[str, str] = {}
    for line in pasted.lines:
        words = line.text.split()
        named = _TITLE.fullmatch(line.text)
        at = pasted.at(line)
        if named is not None:
            title, heading, row, lacking = named[1], [], "", 0
            if title in first:
                faults.append(
                    f"{at}: {title} TABLE a second time (the first: {first[title]}); keep one machine's output"
                )
            first.setdefault(title, at)
        elif title not in _CELLS or not words or line.blank:
            continue
        elif all(map(_BUS.fullmatch, words)) and not any(a in heading for a, _ in tables.cells.get(title, {})):
            heading += words
        elif _BUS.fullmatch(words[0]) or (lacking > 0 and all(map(_CELLS[title].fullmatch, words))):
            if _BUS.fullmatch(words[0]):
                row, lacking, words = words[0], len(heading), words[1:]
                if (row, row) in tables.cells.get(title, {}) or row not in heading:
                    faults.append(f"{at}: {title} TABLE: row {row} is there twice or has no column")
                tables.at.setdefault(row, f"{at}: {row}")
            _take(tables, title, heading, row, words, lacking, at, faults)
            lacking -= len(words)
        else:
            continue
        used.add(line.number)
    tables.names = list(dict.fromkeys(a for a, _ in tables.cells.get("LINK TYPE", {})))
    return tables


def _take(
    tables: _Tables,
    title: str,
    heading: list[str],
    row: str,
    words: list[str],
    lacking: int,
    at: str,
    faults: list[str],
) -> None:
    wrong = [word for word in words if not _CELLS[title].fullmatch(word)]
    if wrong or len(words) > lacking:
        what = f"{wrong[0]!r} is not understood" if wrong else f"more cells than the heading's {len(heading)} GPUs"
        faults.append(f"{at}: {title} TABLE: row {row}: {what}")
        return
    start = len(heading) - lacking
    for other, cell in zip(heading[start : start + len(words)], words, strict=True):
        tables.cells.setdefault(title, {})[row, other] = cell


def _described(tables: _Tables, model: GpuModel | None, notes: list[str], skipped: list[str]) -> Described:
    faults = list(_table_faults(tables))
    if faults:
        raise InvalidInputError(faults)
    pairs = _pairs(tables)
    faults += symmetry_faults(pairs)
    if faults:
        raise InvalidInputError(faults)
    if not pairs.bandwidths and any(kind == "XGMI" for kind in pairs.types.values()):
        notes.append("the NUMA BW table is not in the file")
    box = box_of(pairs, model, faults, notes)
    if faults:
        raise InvalidInputError(faults)
    notes.append(f"GPUs g0 to g{len(tables.names) - 1} are {', '.join(tables.names)}")
    return Described("amd-smi topology", (box,), (*notes, *skipped))


def _table_faults(tables: _Tables) -> Iterator[str]:
    """Every table has a cell for every pair of the same GPUs, and none is missing behind those that are there."""
    cells = tables.cells
    if not cells.get("LINK TYPE"):
        yield f"{tables.where}: the LINK TYPE table is missing, so XGMI and PCIe cannot be told apart; {_WHOLE}"
        return
    if len(cells) > 1 and "NUMA BW" not in cells:
        yield f"{tables.where}: the NUMA BW table is missing, other tables are there: is the output cut? {_WHOLE}"
    wanted = {(a, b) for a in tables.names for b in tables.names}
    for title, found in cells.items():
        missing, strange = sorted(wanted - set(found)), sorted(set(found) - wanted)
        if missing or strange:
            a, b = (missing or strange)[0]
            what = "no cell" if missing else "a cell of a GPU that the LINK TYPE table does not have"
            yield f"{tables.at.get(a, tables.where)}: {title} table: {what}: {a} to {b}; {_WHOLE}"
    for (a, b), kind in cells["LINK TYPE"].items():
        if (kind == "SELF") != (a == b) or kind in ("UNKNOWN", "N/A"):
            yield f"{tables.at[a]}: LINK TYPE table: {a} to {b} is {kind}; expected SELF of itself, else XGMI or PCIE"


def _pairs(tables: _Tables) -> Pairs:
    place = {name: i for i, name in enumerate(tables.names)}

    def of(title: str) -> Iterator[tuple[Pair, str]]:
        cells = tables.cells.get(title, {}).items()
        return (((place[a], place[b]), cell) for (a, b), cell in cells if a != b and cell != "N/A")

    access = dict(of("ACCESS"))
    closed = {j for j in place.values() if access and len(place) > 1}
    closed &= {j for j in place.values() if all(access.get((i, j)) == "DISABLED" for i in place.values() if i != j)}
    bandwidths = {pair: _bandwidth(cell) for pair, cell in of("NUMA BW")}
    return Pairs(
        tables.names,
        [tables.at[name] for name in tables.names],
        dict(of("LINK TYPE")),
        {pair: int(cell) for pair, cell in of("WEIGHT")},
        {pair: int(cell) for pair, cell in of("HOPS")},
        bandwidths,
        no_peer=frozenset(closed),
    )


def _bandwidth(cell: str) -> tuple[int, int]:
    match = _BANDWIDTH.fullmatch(cell)
    return (int(match[1]), int(match[2])) if match is not None else (0, 0)
