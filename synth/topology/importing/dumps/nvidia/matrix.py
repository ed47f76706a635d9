"""``nvidia-smi topo -m``: a matrix of how GPUs and NICs reach each other. It has counts of NVLinks and no speeds."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import networkx as nx

from synth.errors import InvalidInputError
from synth.topology.box.gpus import GpuModel
from synth.topology.box.hardware import exactly
from synth.topology.box.parts import Box, Gpu, Nic, Numa, PcieSwitch
from synth.topology.importing.dumps.described import Described
from synth.topology.importing.dumps.linked import Limit, linked
from synth.topology.importing.dumps.nvidia.hosts import hides_nvlink, machine_tables
from synth.topology.importing.dumps.nvidia.places import Place, places_of
from synth.topology.importing.dumps.nvidia.status import Status, printed_model, statuses
from synth.topology.importing.dumps.nvidia.table import Table, read_tables
from synth.topology.importing.dumps.sockets import joined
from synth.topology.importing.pasted import Pasted

#: Cells by how near the two devices are; SOC is the old word for SYS.
_SAME_SWITCH = ("PIX",)
_SAME_TREE = ("PIX", "PXB")
_SAME_NUMA = ("PIX", "PXB", "PHB", "NODE")
_LEGEND = re.compile(r"\s*(NIC[0-9]+):\s*(\S+)\s*")
#: Lines of the legend below a matrix, which say nothing of this machine.
_FIXED_LEGEND = re.compile(r"\s*(?:(?:NIC )?Legend:|(?:X|SYS|SOC|NODE|PHB|PXB|PIX|NV#|OK|CNS|GNS|TNS|NS|U)\s+= .*)\s*")


@dataclass
class _Faults:
    """What is wrong and what should be said, over all hosts of the text."""

    faults: list[str]
    notes: list[str]

    def stop(self) -> None:
        if self.faults:
            raise InvalidInputError(dict.fromkeys(self.faults))


def read_nvidia_smi(pasted: Pasted, model: GpuModel | None) -> Described:
    """Hosts of the matrices as boxes; PCIe switches and NUMA nodes are told from the cells.

    Parameters
    ----------
    model
        The GPU of ``--gpu``: how many NVLinks it has tells a switch from a mesh.

    Raises
    ------
    InvalidInputError
        No matrix, a broken or wrapped one that cannot be joined, rows or cells left over, NVLinks that the GPU does
        not have: all faults at once.
    """
    said = _Faults([], list(pasted.notes))
    every = read_tables(pasted, said.faults)
    tables = machine_tables(every, said.faults, said.notes)
    if not tables:
        said.faults.append(f"{pasted.path}: no heading GPU0 GPU1 ...; is it the output of nvidia-smi topo -m?")
    said.stop()
    used = _lines_of(every)
    found = statuses(pasted, used, said.faults)
    named = printed_model(found, said.notes)
    for table in tables:
        _check(table, said.faults)
    said.stop()
    hidden = [hides_nvlink(table) for table in tables]
    if any(hidden):
        said.notes.append("the matrix is of topo -mp, which does not show NVLink: what --gpu has of it is added")
    boxes = tuple(_host(table, pasted, found, model or named, said, used) for table in tables)
    said.stop()
    used.update(line.number for line in pasted.lines if _FIXED_LEGEND.fullmatch(line.text))
    notes = (*said.notes, *pasted.skipped(used))
    return Described("nvidia-smi topo -m", boxes, tuple(dict.fromkeys(notes)), stated=not any(hidden), gpu=named)


def _lines_of(tables: Sequence[Table]) -> set[int]:
    return {line.number for table in tables for line in table.lines} | {
        line.number for table in tables for row in table.rows.values() for line in row.lines
    }


def _check(table: Table, faults: list[str]) -> None:
    """The diagonal is X, nothing else is, and both halves agree."""
    for i, a in enumerate(table.names):
        for j, b in enumerate(table.names[: i + 1]):
            there, back = table.cell(a, b), table.cell(b, a)
            at = table.rows[a].at
            if (there == "X") != (i == j):
                faults.append(f"{at}: {a} to {b} is {there}; X stands on the diagonal and nowhere else")
            elif there != back:
                faults.append(f"{at}: {a} to {b} is {there}, but {b} to {a} is {back}; they must agree")


def _host(
    table: Table, pasted: Pasted, found: dict[int, Status], model: GpuModel | None, said: _Faults, used: set[int]
) -> Box:
    places = places_of(table, said.faults, said.notes)
    numas = _numa_groups(table, places, said.faults)
    numa_of = {name: f"cpu{k}" for k, group in enumerate(numas) for name in group}
    host = f"{table.host} " if table.host else ""
    at = {name: f"{table.rows[name].at}: {host}{name}" for name in table.names}
    switches = list(_switches(table, numa_of, at))
    parent = dict(numa_of)
    for switch, group in switches:
        parent.update((name, switch.id) for name in group)
    gpus = tuple(Gpu(f"g{i}", name, at[name], parent[name]) for i, name in enumerate(table.gpus))
    devices = _legend(table, pasted, used)
    nics = tuple(
        Nic(f"nic{k}", devices.get(name, name), at[name], parent[name], devices.get(name, name))
        for k, name in enumerate(name for name in table.names if name not in table.gpus)
    )
    nodes = tuple(Numa(f"cpu{k}", f"numa {k}", at[group[0]]) for k, group in enumerate(numas))
    _say_places(table, places, numas, said.notes)
    sockets = joined(nodes, said.notes, numbers=_numbers(numas, places))
    box = Box(gpus, nodes, tuple(switch for switch, _ in switches), nics, sockets)
    return _with_nvlink(box, table, found, model, said)


def _with_nvlink(box: Box, table: Table, found: dict[int, Status], model: GpuModel | None, said: _Faults) -> Box:
    """The box with the NVLinks of its matrix."""
    numbers = [int(name.removeprefix("GPU")) for name in table.gpus]
    counts = {
        (i, j): int(cell.removeprefix("NV"))
        for j, b in enumerate(table.gpus)
        for i, a in enumerate(table.gpus[:j])
        if (cell := table.cell(a, b)).startswith("NV")
    }
    limit = Limit(model.links, f"the {model.name}") if model is not None and model.links else None
    listed = [found[n] for n in numbers if n in found and found[n].listed]
    if listed and counts:
        if len(listed) < len(numbers):
            said.faults.append(f"{listed[0].at}: NVLinks are listed of {len(listed)} of {len(numbers)} GPUs; take all")
        links = max(status.active for status in listed)
        if limit is None or links < limit.links:
            limit = Limit(links, "each GPU, by nvlink -s,")
    rates = {status.rate for status in listed if status.rate}
    rate = exactly(rates.pop()) if len(rates) == 1 and (model is None or model.link is None) else None
    if model is not None and not model.links and counts:
        said.faults.append(f"{table.at}: the matrix has NVLinks, and the {model.name} has none; is --gpu right?")
        return box
    cables, ports = linked(box.gpus, counts, limit, said.faults, said.notes, rate)
    return Box(box.gpus, box.numas, box.switches, box.nics, box.sockets, tuple(cables), tuple(ports))


def _groups(table: Table, cells: tuple[str, ...]) -> list[list[str]]:
    """Devices joined by such cells, in heading order."""
    graph: nx.Graph[str] = nx.Graph()
    graph.add_nodes_from(table.names)
    pairs = ((a, b) for i, a in enumerate(table.names) for b in table.names[:i])
    graph.add_edges_from((a, b) for a, b in pairs if table.cell(a, b) in cells)
    return _in_order(graph, table)


def _in_order(graph: nx.Graph[str], table: Table) -> list[list[str]]:
    order = table.names.index
    return sorted((sorted(group, key=order) for group in nx.connected_components(graph)), key=lambda g: order(g[0]))


def _numa_groups(table: Table, places: dict[str, Place], faults: list[str]) -> list[list[str]]:
    """Devices by NUMA node: those with one affinity, and what is nearer to them than SYS."""
    graph: nx.Graph[str] = nx.Graph()
    for group in _groups(table, _SAME_NUMA):
        nx.add_path(graph, group)
        graph.add_node(group[0])
        keys = {places[name].key: name for name in reversed(group) if name in places}
        if len(keys) > 1:
            (one, a), (other, b), *_ = keys.items()
            what = f"{a} ({one}) and {b} ({other}) are nearer than SYS, which only devices of one NUMA node are"
            faults.append(f"{table.rows[b].at}: {what}")
    by_place: dict[str, list[str]] = {}
    for name, place in places.items():
        by_place.setdefault(place.key, []).append(name)
    for group in by_place.values():
        nx.add_path(graph, group)
    return _in_order(graph, table)


def _numbers(numas: Sequence[Sequence[str]], places: dict[str, Place]) -> list[int] | None:
    """Number of each NUMA node, if the file has all of them."""
    found = [next((places[name].numa for name in group if name in places), "") for group in numas]
    return [int(text) for text in found] if all(text.isdigit() for text in found) else None


def _say_places(table: Table, places: dict[str, Place], numas: Sequence[Sequence[str]], notes: list[str]) -> None:
    lone = [name for group in numas if not set(group) & set(table.gpus) for name in group]
    if lone:
        notes.append(f"no GPU is near (SYS to all), NUMA nodes of their own: {', '.join(lone)}")
    if any(len(row.lines) > 1 for row in table.rows.values()):
        notes.append(f"{table.at}: rows that are wrapped over several lines were joined")
    unknown = [name for name in table.gpus if name not in places]
    if unknown:
        names = ", ".join(unknown)
        notes.append(f"CPU and NUMA affinity are not in the file, NUMA nodes are told from the cells: {names}")
        alone = [group[0] for group in numas if len(group) == 1 and group[0] in unknown]
        if any(table.cell(a, b).startswith("NV") for a in alone for b in table.gpus):
            notes.append(f"NV# hides how near GPUs are over PCIe, a NUMA node each is taken: {', '.join(alone)}")
    notes.append("PCIe switches and NUMA nodes are told from PIX, PXB, PHB, NODE and SYS; the CPU's make is not known")


def _switches(table: Table, numa_of: dict[str, str], at: dict[str, str]) -> Iterator[tuple[PcieSwitch, list[str]]]:
    """Switches, upper ones (PXB) before those below them (PIX), with the devices under each."""
    upper: dict[str, str] = {}
    for group in _several(_groups(table, _SAME_TREE)):
        if any(table.cell(a, b) == "PXB" for a in group for b in group if a != b):
            name = f"pxb{len(set(upper.values()))}"
            upper.update((device, name) for device in group)
            yield PcieSwitch(name, name, at[group[0]], numa_of[group[0]]), group
    for k, group in enumerate(_several(_groups(table, _SAME_SWITCH))):
        yield PcieSwitch(f"pix{k}", f"pix{k}", at[group[0]], upper.get(group[0], numa_of[group[0]])), group


def _several(groups: Iterable[list[str]]) -> Iterator[list[str]]:
    return (group for group in groups if len(group) > 1)


def _legend(table: Table, pasted: Pasted, used: set[int]) -> dict[str, str]:
    """Device names of the ``NIC Legend:`` below a matrix: the first with its names that follows the heading."""
    out: dict[str, str] = {}
    begun = False
    for line in pasted.lines:
        begun = begun or line is table.heading
        match = _LEGEND.fullmatch(line.text)
        if begun and match is not None and match[1] in table.names and match[1] not in out:
            out[match[1]] = match[2]
            used.add(line.number)
    return out
