"""CPU and NUMA columns of ``nvidia-smi topo -m``, which containers leave blank."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import combinations

from synth.topology.importing.dumps.nvidia.table import TITLES, Row, Table

_CPUS, _NUMA, _OWN = TITLES
#: The largest CPU number that is believed.
_MOST_CPUS = 1 << 20


@dataclass(frozen=True, slots=True)
class Place:
    """CPUs and NUMA node next to a device, as the file writes them; "" where it does not say."""

    cpus: str = ""
    numa: str = ""

    @property
    def key(self) -> str:
        """Equal for devices of one NUMA node; "" if nothing is known."""
        return f"numa {self.numa}" if self.numa else f"cpus {self.cpus}" if self.cpus else ""


def places_of(table: Table, faults: list[str], notes: list[str]) -> dict[str, Place]:
    """Place of each device that has one.

    Parameters
    ----------
    faults
        Grows by CPU lists and NUMA nodes that contradict each other, as in a table that is cut.
    notes
        Grows by values whose column cannot be told.
    """
    out = {name: _place(table.rows[name], table, faults, notes) for name in table.names}
    known = {name: place for name, place in out.items() if place.key}
    _check_columns(table, out, faults)
    _check_agreement(table, known, faults)
    return known


def _place(row: Row, table: Table, faults: list[str], notes: list[str]) -> Place:
    values = _columns(row, table)
    if values is None:
        notes.append(f"{row.at}: the column of {' '.join(table.rest(row.name))} cannot be told: affinity not known")
        return Place()
    cpus, numa = (values.get(title, "") for title in (_CPUS, _NUMA))
    if cpus and _cpus(cpus) is None:
        faults.append(f"{row.at}: row {row.name}: {cpus} is no list of CPUs; is the row cut?")
        return Place()
    return Place(cpus, numa)


def _columns(row: Row, table: Table) -> dict[str, str] | None:
    """Values by title, without N/A; None if a value could stand in several columns."""
    words, titles = table.rest(row.name), table.titles
    if len(words) == len(titles):
        return {title: word for title, word in zip(titles, words, strict=True) if word != "N/A"}
    words = [word for word in words if word != "N/A"]
    lists = [word for word in words if not word.isdigit()]
    if not words:
        return {}
    if len(words) == 1:
        title = _CPUS if lists and _CPUS in titles else _title_above(words[0], row, table)
        return None if title is None else {title: words[0]}
    if len(words) == 2 and words[0] in lists and titles[:2] == [_CPUS, _NUMA]:
        return {_CPUS: words[0], _NUMA: words[1]}
    return None


def _title_above(word: str, row: Row, table: Table) -> str | None:
    """Title of the only value of a row, by tabs or by position; None if it cannot be told."""
    if len(row.lines) > 1 or len(table.lines) > 1 + len(table.rows):
        return None  # wrapped: positions mean nothing
    line, heading = row.lines[0].text, table.heading.text
    if "\t" in line and "\t" in heading:
        fields = [part.strip() for part in line.split("\t")]
        behind = fields[1 + len(table.names) :]
        return table.titles[behind.index(word)] if word in behind[: len(table.titles) - 1] else None
    at = line.expandtabs().rindex(word)
    starts = {title: heading.expandtabs().find(title) for title in table.titles}
    before = [title for title in table.titles if 0 <= starts[title] <= at]
    return before[-1] if before else None


def _cpus(text: str) -> list[tuple[int, int]] | None:
    """Ranges of a list such as ``0-23,48-71``; None if it is none."""
    out = []
    for part in text.split(","):
        match = re.fullmatch("([0-9]{1,7})(?:-([0-9]{1,7}))?", part)
        if match is None:
            return None
        low, high = int(match[1]), int(match[2] or match[1])
        if low > high or high > _MOST_CPUS:
            return None
        out.append((low, high))
    return out


def _check_columns(table: Table, places: dict[str, Place], faults: list[str]) -> None:
    """All GPUs have the same columns filled: one that has fewer is cut."""
    for title in (_CPUS, _NUMA):
        filled = {name for name in table.gpus if (places[name].cpus if title == _CPUS else places[name].numa)}
        without = [name for name in table.gpus if name not in filled]
        if without and len(without) < len(table.gpus):
            rows = ", ".join(without)
            faults.append(
                f"{table.rows[without[0]].at}: row {rows}: no {title}, other GPUs have one; is the table cut?"
            )


def _check_agreement(table: Table, places: dict[str, Place], faults: list[str]) -> None:
    """One CPU list per NUMA node and the other way round; lists that differ have no CPU in common."""
    ranges = {place.cpus: _cpus(place.cpus) or [] for place in places.values() if place.cpus}
    seen: set[frozenset[Place]] = set()
    for a, b in combinations(places, 2):
        x, y = places[a], places[b]
        pair = frozenset((x, y))
        if x == y or pair in seen:
            continue
        seen.add(pair)
        both = bool(x.numa and y.numa and x.cpus and y.cpus)
        if both and (x.numa == y.numa) != (x.cpus == y.cpus):
            what = f"{a} has CPUs {x.cpus} on NUMA node {x.numa}, {b} has CPUs {y.cpus} on NUMA node {y.numa}"
            faults.append(f"{table.rows[b].at}: {what}; is the table cut?")
        elif x.cpus and y.cpus and x.cpus != y.cpus and _overlap(ranges[x.cpus], ranges[y.cpus]):
            what = f"CPUs {x.cpus} of {a} and {y.cpus} of {b} overlap and differ"
            faults.append(f"{table.rows[b].at}: {what}; is the table cut?")


def _overlap(a: list[tuple[int, int]], b: list[tuple[int, int]]) -> bool:
    return any(low <= high_b and low_b <= high for low, high in a for low_b, high_b in b)
