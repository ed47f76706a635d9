"""``rocm-smi --showtopo``: link types between GPUs and their NUMA nodes. It has neither link counts nor speeds."""

from __future__ import annotations

import re
from pathlib import Path

from synth.errors import InvalidInputError
from synth.topology.box.hardware import XGMI_LATENCY
from synth.topology.box.parts import Box, Cable, Gpu, Numa, Socket
from synth.topology.importing.dumps.described import Described

_TITLE = re.compile(r"=+ *([^=]+?) *=+\s*")
_TYPES = "Link Type between two GPUs"
_HOPS = "Hops between two GPUs"
_NUMA = re.compile(r"\s*GPU *\[?([0-9]{1,4})\]?\s*: *\(Topology\) Numa (Node|Affinity): *(-?[0-9]{1,4})\s*")

_Section = list[tuple[int, list[str]]]


def read_rocm_smi(text: str, path: Path) -> Described:
    """The machine as a box: one xGMI link between GPUs of type XGMI that are one hop apart.

    Raises
    ------
    InvalidInputError
        The matrix of link types is missing, incomplete or not symmetric.
    """
    faults: list[str] = []
    sections = _sections(text)
    if _TYPES not in sections:
        raise InvalidInputError(
            f"{path}: the section '{_TYPES}' is missing, so XGMI and PCIe cannot be told apart; take the whole output "
            "of rocm-smi --showtopo"
        )
    types = _matrix(sections[_TYPES], path, _TYPES, re.compile("0|XGMI|PCIE"), faults)
    hops = _matrix(sections.get(_HOPS, []), path, _HOPS, re.compile("[0-9]{1,2}"), faults) if _HOPS in sections else {}
    if faults:
        raise InvalidInputError(faults)
    gpus = sorted({gpu for gpu, _ in types})
    faults += _symmetry_faults(types, gpus, path)
    if faults:
        raise InvalidInputError(faults)
    notes = ["the number of xGMI links per pair is not in the file: one link is taken where the type is XGMI"]
    if not hops:
        notes.append("the hops are not in the file: every XGMI pair is taken to be wired directly")
    cables = [
        Cable(f"xgmi{i}-{j}", f"GPU{a}-GPU{b}", str(path), f"g{i}", f"g{j}", 1, None, "xgmi", XGMI_LATENCY)
        for i, a in enumerate(gpus)
        for j, b in enumerate(gpus[i + 1 :], start=i + 1)
        if types[a, b] == "XGMI" and hops.get((a, b), "1") == "1"
    ]
    return Described("rocm-smi --showtopo", (_box(gpus, cables, _numa_of(text), path),), tuple(notes))


def _sections(text: str) -> dict[str, _Section]:
    """Lines of each section as numbered tokens, by its title."""
    out: dict[str, _Section] = {}
    title = ""
    for number, line in enumerate(text.split("\n"), start=1):
        match = _TITLE.fullmatch(line.strip())
        if match is not None:
            title = match[1]
        elif line.split():
            out.setdefault(title, []).append((number, line.split()))
    return out


def _matrix(
    rows: _Section, path: Path, title: str, cell: re.Pattern[str], faults: list[str]
) -> dict[tuple[int, int], str]:
    """Cells by pair of GPUs; lines that are not rows (warnings, errors) are passed over."""
    heading: list[int] = []
    out: dict[tuple[int, int], str] = {}
    for number, tokens in rows:
        if all(re.fullmatch("GPU[0-9]{1,4}", token) for token in tokens) and (len(tokens) > 1 or not heading):
            heading = [int(token.removeprefix("GPU")) for token in tokens]
            continue
        name = re.fullmatch("GPU([0-9]{1,4})", tokens[0])
        if name is None or not heading:
            continue
        wrong = [token for token in tokens[1:] if not cell.fullmatch(token)]
        if wrong or len(tokens) - 1 != len(heading):
            what = f"{wrong[0]!r} is not understood" if wrong else f"{len(tokens) - 1} cells for {len(heading)} GPUs"
            faults.append(f"{path}:{number}: {title}: row {tokens[0]}: {what}")
            continue
        out.update(((int(name[1]), other), token) for other, token in zip(heading, tokens[1:], strict=True))
    missing = [f"GPU{gpu}" for gpu in heading if (gpu, gpu) not in out]
    if not heading or len(set(heading)) < len(heading):
        faults.append(f"{path}: {title}: no heading with each GPU once")
    elif missing and not faults:
        faults.append(f"{path}: {title}: the heading has {', '.join(missing)}, but there is no such row")
    elif len(out) != len(heading) ** 2 and not faults:
        faults.append(f"{path}: {title}: rows and columns are not the same GPUs")
    return out


def _symmetry_faults(types: dict[tuple[int, int], str], gpus: list[int], path: Path) -> list[str]:
    return [
        f"{path}: {_TYPES}: GPU{a} to GPU{b} is {types[a, b]}, GPU{b} to GPU{a} is {types[b, a]}"
        for i, a in enumerate(gpus)
        for b in gpus[: i + 1]
        if types[a, b] != types[b, a] or (types[a, b] == "0") != (a == b)
    ]


def _numa_of(text: str) -> dict[int, int]:
    """NUMA node of each GPU; without one (-1) the GPU is on node 0."""
    found = {}
    for line in text.split("\n"):
        match = _NUMA.fullmatch(line)
        if match is not None and match[2] == "Node":
            found[int(match[1])] = max(0, int(match[3]))
    return found


def _box(gpus: list[int], cables: list[Cable], numa_of: dict[int, int], path: Path) -> Box:
    nodes = sorted({numa_of.get(gpu, 0) for gpu in gpus})
    names = [f"cpu{node}" for node in nodes]
    return Box(
        tuple(
            Gpu(f"g{i}", f"GPU{gpu}", f"{path}: GPU{gpu}", f"cpu{numa_of.get(gpu, 0)}") for i, gpu in enumerate(gpus)
        ),
        tuple(Numa(name, f"numa {node}", str(path)) for name, node in zip(names, nodes, strict=True)),
        sockets=tuple(
            Socket(f"{a}-{b}", f"{a}-{b}", str(path), (a, b)) for j, b in enumerate(names) for a in names[:j]
        ),
        cables=tuple(cables),
    )
