"""``rocm-smi --showtopo``: link types and weights between GPUs and their NUMA nodes. It has no counts and no speeds."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from synth.errors import InvalidInputError
from synth.topology.box.gpus import GpuModel
from synth.topology.importing.dumps.amd.pairs import Pairs, box_of, symmetry_faults
from synth.topology.importing.dumps.described import Described
from synth.topology.importing.pasted import Line, Pasted

_TITLE = re.compile(r"=+ *([^=]+?) *=+\s*")
TYPES, HOPS, WEIGHTS = (f"{what} between two GPUs" for what in ("Link Type", "Hops", "Weight"))
_NUMA_TITLE = "Numa Nodes"
_BANNER, _END = "ROCm System Management Interface", "End of ROCm SMI Log"
_CELLS = {TYPES: re.compile("0|XGMI|PCIE"), HOPS: re.compile("[0-9]{1,3}|N/A"), WEIGHTS: re.compile("[0-9]{1,4}|N/A")}
_GPU = re.compile("GPU([0-9]{1,4})")
_NUMA = re.compile(r"\s*GPU *\[?([0-9]{1,4})\]?\s*: *\(Topology\) Numa (Node|Affinity): *(-?[0-9]{1,4})\s*")


@dataclass
class _Section:
    """A titled part: its lines, and the matrix in them."""

    at: Line
    lines: list[Line] = field(default_factory=list)


def rocm_line(pasted: Pasted) -> Line | None:
    """First title of a section that says how GPUs are linked; None if the text has none."""
    titles = (line for line in pasted.lines if _title(line) in (TYPES, HOPS, WEIGHTS, _BANNER))
    return next(titles, None)


def read_rocm_smi(pasted: Pasted, model: GpuModel | None) -> Described:
    """The machine as a box: one xGMI link between GPUs of type XGMI whose weight is that of one hop.

    Raises
    ------
    InvalidInputError
        The matrix of link types is missing, the output is cut or there twice, a matrix is incomplete or not symmetric.
    """
    faults: list[str] = []
    sections, ends = _sections(pasted, faults)
    if TYPES not in sections:
        raise InvalidInputError(
            f"{pasted.path}: the section '{TYPES}' is missing, so XGMI and PCIe cannot be told apart; take the whole "
            "output of rocm-smi --showtopo"
        )
    faults += _cut(sections, ends, pasted)
    used = {line.number for line in ends.values()}
    types = _matrix(sections[TYPES], pasted, TYPES, used, faults)
    if faults:
        raise InvalidInputError(faults)
    gpus = sorted({gpu for gpu, _ in types})
    more = {
        title: _matrix(sections[title], pasted, title, used, faults) for title in (HOPS, WEIGHTS) if title in sections
    }
    for title, cells in more.items():
        if not faults and set(cells) != set(types):
            faults.append(f"{pasted.at(sections[title].at)}: {title}: other GPUs than in '{TYPES}'")
    notes = list(pasted.notes)
    numa, packages = _numa(sections.get(_NUMA_TITLE), gpus, pasted, used, faults, notes)
    if faults:
        raise InvalidInputError(faults)
    pairs = _pairs(gpus, types, more, sections, pasted, numa, packages)
    faults += _diagonal_faults(types, gpus, pasted, sections) + symmetry_faults(pairs)
    if faults:
        raise InvalidInputError(faults)
    box = box_of(pairs, model, faults, notes)
    if faults:
        raise InvalidInputError(faults)
    notes += pasted.skipped(used)
    return Described("rocm-smi --showtopo", (box,), tuple(notes))


def _title(line: Line) -> str:
    match = _TITLE.fullmatch(line.text.strip())
    return match[1] if match is not None else ""


def _sections(pasted: Pasted, faults: list[str]) -> tuple[dict[str, _Section], dict[str, Line]]:
    """Sections by title, and the lines that begin and end the output."""
    out: dict[str, _Section] = {}
    ends: dict[str, Line] = {}
    current: _Section | None = None
    for line in pasted.lines:
        title = _title(line)
        if title in (_BANNER, _END):
            if title in ends:
                faults.append(
                    f"{pasted.at(line)}: {title!r} a second time (the first: {pasted.at(ends[title])}); {_ONE}"
                )
            ends.setdefault(title, line)
            current = None
        elif title and title in out:
            first = pasted.at(out[title].at)
            faults.append(f"{pasted.at(line)}: section {title!r} a second time (the first: {first}); {_ONE}")
            current = None
        elif title:
            current = out[title] = _Section(line)
        elif current is not None and not line.blank:
            current.lines.append(line)
    return out, ends


_ONE = "keep one machine's output (--hosts makes copies)"


def _cut(sections: Mapping[str, _Section], ends: Mapping[str, Line], pasted: Pasted) -> list[str]:
    """Faults of an output whose beginning or end is missing."""
    if _BANNER in ends and _END not in ends:
        return [f"{pasted.at(ends[_BANNER])}: the line '{_END}' is missing: the output is cut; take the whole"]
    missing = [title for title in (WEIGHTS, HOPS, TYPES, _NUMA_TITLE) if title not in sections]
    if _END in ends and _BANNER not in ends and missing:
        lost = ", ".join(missing)
        return [f"{pasted.at(ends[_END])}: the beginning of the output is missing ({lost}); take the whole"]
    return []


def _matrix(
    section: _Section, pasted: Pasted, title: str, used: set[int], faults: list[str]
) -> dict[tuple[int, int], str]:
    """Cells by pair of GPUs; wrapped rows are joined, lines that are no rows (warnings, errors) are passed over."""
    heading: list[int] = []
    rows: dict[int, tuple[str, list[str]]] = {}
    open_row: list[str] | None = None
    used.add(section.at.number)
    for line in section.lines:
        words = line.text.split()
        names = [_GPU.fullmatch(word) for word in words]
        if all(names) and not rows:
            heading += (int(name[1]) for name in names if name is not None)
        elif names[0] is not None and heading:
            if int(names[0][1]) in rows:
                faults.append(f"{pasted.at(line)}: {title}: row {words[0]} is there a second time")
            open_row = words[1:]
            rows[int(names[0][1])] = (pasted.at(line), open_row)
        elif open_row is not None and len(open_row) < len(heading) and all(map(_CELLS[title].fullmatch, words)):
            open_row += words
        elif heading and all(map(_CELLS[title].fullmatch, words)):
            faults.append(f"{pasted.at(line)}: {title}: {' '.join(words[:6])}: more cells than the row has columns")
        else:
            continue
        used.add(line.number)
    return _checked(heading, rows, pasted.at(section.at), title, faults)


def _checked(
    heading: Sequence[int], rows: Mapping[int, tuple[str, list[str]]], at: str, title: str, faults: list[str]
) -> dict[tuple[int, int], str]:
    """Cells of rows that fit the heading."""
    out: dict[tuple[int, int], str] = {}
    if not heading or len(set(heading)) < len(heading):
        faults.append(f"{at}: {title}: no heading with each GPU once")
        return out
    for name, (where, cells) in rows.items():
        wrong = [cell for cell in cells if not _CELLS[title].fullmatch(cell)]
        if wrong or len(cells) != len(heading) or name not in heading:
            what = f"{wrong[0]!r} is not understood" if wrong else f"{len(cells)} cells for {len(heading)} GPUs"
            what = what if name in heading else "the heading has no such GPU"
            faults.append(f"{where}: {title}: row GPU{name}: {what}")
        else:
            out.update(((name, other), cell) for other, cell in zip(heading, cells, strict=True))
    missing = [f"GPU{gpu}" for gpu in heading if gpu not in rows]
    if missing:
        faults.append(f"{at}: {title}: the heading has {', '.join(missing)}, but there is no such row")
    return out


def _diagonal_faults(
    types: Mapping[tuple[int, int], str], gpus: Sequence[int], pasted: Pasted, sections: Mapping[str, _Section]
) -> list[str]:
    at = pasted.at(sections[TYPES].at)
    return [
        f"{at}: {TYPES}: GPU{a} to GPU{b} is {types[a, b]}; 0 stands on the diagonal and nowhere else"
        for a in gpus
        for b in gpus
        if (types[a, b] == "0") != (a == b)
    ]


def _numa(
    section: _Section | None,
    gpus: Sequence[int],
    pasted: Pasted,
    used: set[int],
    faults: list[str],
    notes: list[str],
) -> tuple[dict[int, int], dict[int, int]]:
    """NUMA node of each GPU by its position, and socket of each node if several nodes have one affinity."""
    if section is None:
        return {}, {}
    found: dict[str, dict[int, int]] = {"Node": {}, "Affinity": {}}
    used.add(section.at.number)
    for line in section.lines:
        match = _NUMA.fullmatch(line.text)
        if match is not None:
            found[match[2]][int(match[1])] = int(match[3])
            used.add(line.number)
    nodes, affinities = found["Node"], found["Affinity"]
    missing = [f"GPU{gpu}" for gpu in gpus if gpu not in nodes]
    if missing:
        faults.append(
            f"{pasted.at(section.at)}: {_NUMA_TITLE}: no NUMA node of {', '.join(missing)}; is the output cut?"
        )
        return {}, {}
    if any(nodes[gpu] < 0 for gpu in gpus):
        notes.append("a NUMA node of -1 means that the machine does not tell it: taken as node 0")
    numa = {i: max(0, nodes[gpu]) for i, gpu in enumerate(gpus)}
    homes = {(max(0, nodes[gpu]), affinities.get(gpu, -1)) for gpu in gpus}
    packages = dict(homes)
    several = len(set(packages.values())) < len(packages) == len(homes) and min(packages.values()) >= 0
    return numa, packages if several else {}


def _pairs(
    gpus: Sequence[int],
    types: Mapping[tuple[int, int], str],
    more: Mapping[str, Mapping[tuple[int, int], str]],
    sections: Mapping[str, _Section],
    pasted: Pasted,
    numa: Mapping[int, int],
    packages: Mapping[int, int],
) -> Pairs:
    place = {gpu: i for i, gpu in enumerate(gpus)}

    def numbers(title: str) -> dict[tuple[int, int], int]:
        cells = more.get(title, {})
        return {(place[a], place[b]): int(cell) for (a, b), cell in cells.items() if a != b and cell.isdigit()}

    at = pasted.at(sections[TYPES].at)
    return Pairs(
        [f"GPU{gpu}" for gpu in gpus],
        [f"{at}: GPU{gpu}" for gpu in gpus],
        {(place[a], place[b]): cell for (a, b), cell in types.items() if a != b},
        numbers(WEIGHTS),
        numbers(HOPS),
        numa=numa,
        packages=packages,
    )
