"""``nvidia-smi topo -m``: a matrix of how GPUs and NICs reach each other. It has counts of NVLinks and no speeds."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import networkx as nx

from synth.errors import InvalidInputError
from synth.topology.box.hardware import NVLINK_LATENCY
from synth.topology.box.parts import Box, Cable, Gpu, Nic, Numa, PcieSwitch, Port, Socket
from synth.topology.importing.dumps.described import Described

_ESCAPES = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_CELL = re.compile(r"X|NV[0-9]{1,3}|PIX|PXB|PHB|NODE|SYS|SOC")
_GPU = re.compile(r"GPU[0-9]{1,4}")
#: Cells by how near the two devices are; SOC is the old word for SYS.
_SAME_SWITCH = ("PIX",)
_SAME_TREE = ("PIX", "PXB")
_SAME_NUMA = ("PIX", "PXB", "PHB", "NODE")
#: Links that a GPU of some generation has: all of them to one switch, or shared out over peers.
_FULL_PORTS = (6, 8, 12, 18)


@dataclass
class _Matrix:
    """The matrix: device names, their rows of cells, and the NUMA column or CPU list of GPUs."""

    names: list[str] = field(default_factory=list)
    cells: dict[str, list[str]] = field(default_factory=dict)
    places: dict[str, str] = field(default_factory=dict)
    lines: dict[str, str] = field(default_factory=dict)

    def cell(self, a: str, b: str) -> str:
        return self.cells[a][self.names.index(b)]


def read_nvidia_smi(text: str, path: Path) -> Described:
    """The machine of a matrix as a box; PCIe switches and NUMA nodes are told from the cells.

    Raises
    ------
    InvalidInputError
        A broken matrix, all faults at once.
    """
    faults: list[str] = []
    matrix = _read(text, path, faults)
    if faults:
        raise InvalidInputError(faults)
    _check(matrix, faults)
    if faults:
        raise InvalidInputError(faults)
    gpus = [name for name in matrix.names if _GPU.fullmatch(name)]
    notes: list[str] = []
    cables, ports = _scale_up(matrix, gpus, notes)
    return Described("nvidia-smi topo -m", (_box(matrix, gpus, cables, ports, notes, _legend(text)),), tuple(notes))


def _read(text: str, path: Path, faults: list[str]) -> _Matrix:
    matrix = _Matrix()
    for number, line in enumerate(text.split("\n"), start=1):
        tokens = _ESCAPES.sub("", line).split()
        at = f"{path}:{number}"
        if not matrix.names:
            if tokens[:1] == ["GPU0"] and "X" not in tokens:
                # The titles of the columns behind the devices have blanks inside; the first begins with CPU.
                end = tokens.index("CPU") if "CPU" in tokens else len(tokens)
                matrix.names = tokens[:end]
            continue
        if not tokens or tokens[0] not in matrix.names or tokens[0] in matrix.cells:
            if len(matrix.cells) == len(matrix.names):
                break
            continue
        _read_row(matrix, tokens, at, faults)
    if not matrix.names:
        faults.append(f"{path}: no heading GPU0 GPU1 ...; is it the output of nvidia-smi topo -m?")
    for name, times in ((name, matrix.names.count(name)) for name in dict.fromkeys(matrix.names)):
        if times > 1:
            faults.append(f"{path}: the heading has {name} {times} times")
    missing = [name for name in dict.fromkeys(matrix.names) if name not in matrix.cells]
    if missing and not faults:
        faults.append(f"{path}: the heading has {', '.join(missing)}, but there is no such row")
    return matrix


def _read_row(matrix: _Matrix, tokens: list[str], at: str, faults: list[str]) -> None:
    name, n = tokens[0], len(matrix.names)
    cells, rest = tokens[1 : n + 1], tokens[n + 1 :]
    wrong = [cell for cell in cells if not _CELL.fullmatch(cell)]
    if len(cells) < n or wrong:
        what = (
            f"{', '.join(wrong[:4])} is no connection" if wrong else f"{len(cells)} cells, the heading has {n} devices"
        )
        faults.append(f"{at}: row {name}: {what}; expected X, NV#, PIX, PXB, PHB, NODE, SYS or SOC per device")
        return
    matrix.cells[name] = cells
    matrix.lines[name] = at
    if rest:
        # NUMA affinity if it is there and a number, else the CPU list: equal lists are one NUMA node.
        matrix.places[name] = f"numa {rest[1]}" if len(rest) > 1 and rest[1].isdigit() else f"cpus {rest[0]}"


def _check(matrix: _Matrix, faults: list[str]) -> None:
    """The diagonal is X, nothing else is, and both halves agree."""
    for i, a in enumerate(matrix.names):
        for j, b in enumerate(matrix.names[: i + 1]):
            there, back = matrix.cell(a, b), matrix.cell(b, a)
            if (there == "X") != (i == j):
                faults.append(f"{matrix.lines[a]}: {a} to {b} is {there}; X stands on the diagonal and nowhere else")
            elif there != back:
                faults.append(f"{matrix.lines[a]}: {a} to {b} is {there}, but {b} to {a} is {back}; they must agree")
    if not any(_GPU.fullmatch(name) for name in matrix.names):
        faults.append("no GPU in the matrix")


def _scale_up(matrix: _Matrix, gpus: list[str], notes: list[str]) -> tuple[list[Cable], list[Port]]:
    """Cables, or ports on a switch where every pair has all the links that a GPU can have."""
    counts = {
        (a, b): int(matrix.cell(a, b).removeprefix("NV"))
        for i, a in enumerate(gpus)
        for b in gpus[i + 1 :]
        if matrix.cell(a, b).startswith("NV")
    }
    at = {name: f"{matrix.lines[name]}: {name}" for name in gpus}
    linked = sorted({name for pair in counts for name in pair}, key=gpus.index)
    same = set(counts.values())
    if len(linked) > 2 and len(same) == 1 and len(counts) == len(linked) * (len(linked) - 1) // 2:
        count = same.pop()
        if count in _FULL_PORTS and (len(linked) - 1) * count > max(_FULL_PORTS):
            notes.append(f"NV{count} between any two of {len(linked)} GPUs is one switch with {count} links per GPU")
            half = NVLINK_LATENCY / 2
            return [], [
                Port(f"nv-g{gpus.index(n)}", n, at[n], f"g{gpus.index(n)}", count, latency=half) for n in linked
            ]
    cables = [
        Cable(f"nv{gpus.index(a)}-{gpus.index(b)}", f"{a}-{b}", at[a], f"g{gpus.index(a)}", f"g{gpus.index(b)}", count)
        for (a, b), count in counts.items()
    ]
    return [Cable(c.id, c.name, c.at, c.src, c.dst, c.count, latency=NVLINK_LATENCY) for c in cables], []


def _groups(matrix: _Matrix, cells: tuple[str, ...]) -> list[list[str]]:
    """Devices joined by such cells, in heading order."""
    graph: nx.Graph[str] = nx.Graph()
    graph.add_nodes_from(matrix.names)
    pairs = ((a, b) for i, a in enumerate(matrix.names) for b in matrix.names[:i])
    graph.add_edges_from((a, b) for a, b in pairs if matrix.cell(a, b) in cells)
    order = matrix.names.index
    return sorted((sorted(group, key=order) for group in nx.connected_components(graph)), key=lambda g: order(g[0]))


def _numa_groups(matrix: _Matrix) -> list[list[str]]:
    """Devices by NUMA node: those with one affinity, and what is nearer to them than SYS."""
    graph: nx.Graph[str] = nx.Graph()
    for group in _groups(matrix, _SAME_NUMA):
        nx.add_path(graph, group)
        graph.add_node(group[0])
    by_place: dict[str, list[str]] = {}
    for name, place in matrix.places.items():
        by_place.setdefault(place, []).append(name)
    for group in by_place.values():
        nx.add_path(graph, group)
    order = matrix.names.index
    return sorted((sorted(group, key=order) for group in nx.connected_components(graph)), key=lambda g: order(g[0]))


def _box(
    matrix: _Matrix,
    gpus: list[str],
    cables: list[Cable],
    ports: list[Port],
    notes: list[str],
    devices: dict[str, str],
) -> Box:
    numas = _numa_groups(matrix)
    numa_of = {name: f"cpu{k}" for k, group in enumerate(numas) for name in group}
    at = {name: f"{matrix.lines[name]}: {name}" for name in matrix.names}
    switches = list(_switches(matrix, numa_of, at))
    parent = dict(numa_of)
    for switch, group in switches:
        parent.update((name, switch.id) for name in group)
    nics = [name for name in matrix.names if name not in gpus]
    lone = [name for name in nics if len(numas[int(numa_of[name].removeprefix("cpu"))]) == 1 and len(numas) > 1]
    if lone:
        notes.append(f"no GPU is near (SYS to all), a NUMA node of their own: {', '.join(lone)}")
    notes.append("PCIe switches and NUMA nodes are told from PIX, PXB, PHB, NODE and SYS; the CPU's make is not known")
    ids = [f"cpu{k}" for k in range(len(numas))]
    return Box(
        tuple(Gpu(f"g{i}", name, at[name], parent[name]) for i, name in enumerate(gpus)),
        tuple(
            Numa(name, f"numa {name.removeprefix('cpu')}", at[group[0]]) for name, group in zip(ids, numas, strict=True)
        ),
        tuple(switch for switch, _ in switches),
        tuple(
            Nic(f"nic{k}", devices.get(name, name), at[name], parent[name], devices.get(name, name))
            for k, name in enumerate(nics)
        ),
        tuple(Socket(f"{a}-{b}", f"{a}-{b}", at[numas[j][0]], (a, b)) for j, b in enumerate(ids) for a in ids[:j]),
        tuple(cables),
        tuple(ports),
    )


def _switches(matrix: _Matrix, numa_of: dict[str, str], at: dict[str, str]) -> Iterator[tuple[PcieSwitch, list[str]]]:
    """Switches, upper ones (PXB) before those below them (PIX), with the devices under each."""
    upper: dict[str, str] = {}
    for group in _several(_groups(matrix, _SAME_TREE)):
        if any(matrix.cell(a, b) == "PXB" for a in group for b in group if a != b):
            name = f"pxb{len(set(upper.values()))}"
            upper.update((device, name) for device in group)
            yield PcieSwitch(name, name, at[group[0]], numa_of[group[0]]), group
    for k, group in enumerate(_several(_groups(matrix, _SAME_SWITCH))):
        yield PcieSwitch(f"pix{k}", f"pix{k}", at[group[0]], upper.get(group[0], numa_of[group[0]])), group


def _several(groups: Iterable[list[str]]) -> Iterator[list[str]]:
    return (group for group in groups if len(group) > 1)


def _legend(text: str) -> dict[str, str]:
    """Device names of ``NIC Legend:``."""
    return dict(re.findall(r"^\s*(NIC[0-9]+):\s*(\S+)\s*$", text, re.MULTILINE))
