"""Matrices that are written from machines are read back as these machines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from synth.errors import InvalidInputError
from synth.topology.box.gpus import find_gpu
from synth.topology.box.parts import Box, Gpu, Nic
from synth.topology.importing.dumps.nvidia.matrix import read_nvidia_smi
from synth.topology.importing.pasted import clean

# A matrix written from a machine is read as that machine


@dataclass(frozen=True)
class Machine:
    """Devices by NUMA node and PCIe switch (-1: none), and NVLinks of pairs of GPUs."""

    gpus: int
    numa: tuple[int, ...]
    switch: tuple[int, ...]
    links: dict[tuple[int, int], int]

    def names(self) -> list[str]:
        nics = range(len(self.numa) - self.gpus)
        return [*(f"GPU{i}" for i in range(self.gpus)), *(f"NIC{i}" for i in nics)]

    def cell(self, a: int, b: int) -> str:
        pair = (min(a, b), max(a, b))
        if a == b:
            return "X"
        if pair in self.links:
            return f"NV{self.links[pair]}"
        if self.numa[a] != self.numa[b]:
            return "SYS"
        return "PIX" if self.switch[a] == self.switch[b] >= 0 else "NODE"


@st.composite
def machines(draw: st.DrawFn) -> Machine:
    gpus, nics = draw(st.integers(1, 8)), draw(st.integers(0, 4))
    # Every NUMA node has a GPU, whose CPU list names it; a NIC has none.
    nodes = draw(st.integers(1, min(gpus, 4)))
    numa = [*range(nodes), *(draw(st.integers(0, nodes - 1)) for _ in range(gpus + nics - nodes))]
    # Switch numbers are those of their node, so that no switch is on two.
    switch = [draw(st.sampled_from((-1, 2 * node, 2 * node + 1))) for node in numa]
    pairs = draw(st.sets(st.sampled_from(list(combinations(range(gpus), 2))))) if gpus > 1 else set()
    return Machine(gpus, tuple(numa), tuple(switch), {pair: draw(st.integers(1, 2)) for pair in sorted(pairs)})


def write(machine: Machine) -> str:
    names = machine.names()
    lines = ["\t" + "\t".join([*names, "CPU Affinity", "NUMA Affinity", "GPU NUMA ID"])]
    for a, name in enumerate(names):
        node = machine.numa[a]
        place = f"{16 * node}-{16 * node + 15}\t{node}\t\tN/A" if a < machine.gpus else "\t\t\t"
        cells = (f"{machine.cell(a, b):^3}" for b in range(len(names)))
        lines.append("\t".join([name, *cells, place]))
    return "\n".join(lines) + "\n"


def homes(box: Box) -> Iterator[tuple[str, str, frozenset[str]]]:
    """Name, NUMA node and switches above of each device."""
    parts: tuple[Gpu | Nic, ...] = (*box.gpus, *box.nics)
    for part in parts:
        yield part.name, box.root_of(part.parent), frozenset(switch.id for switch in box.above(part.parent))


@given(machine=machines())
def test_a_matrix_of_a_machine_is_that_machine(machine: Machine) -> None:
    names = machine.names()
    limit = max((sum(n for pair, n in machine.links.items() if i in pair) for i in range(machine.gpus)), default=0)
    described = read_nvidia_smi(clean(write(machine), Path("smi.txt")), find_gpu("h100"))
    box, found = described.boxes[0], {name: (node, above) for name, node, above in homes(described.boxes[0])}
    assert limit <= 18
    assert list(found) == names
    for a, b in combinations(range(len(names)), 2):
        (node_a, above_a), (node_b, above_b) = found[names[a]], found[names[b]]
        assert (node_a == node_b) == (machine.numa[a] == machine.numa[b])
        shown = machine.cell(a, b) == "PIX"
        joined = nx.has_path(_seen(machine), a, b)
        assert bool(above_a & above_b) == (shown or joined)
    links = {(int(c.src[1:]), int(c.dst[1:])): c.count for c in box.cables}
    assert links == machine.links
    assert not box.ports


def _seen(machine: Machine) -> nx.Graph[int]:
    """Devices that the cells show below one switch; NV# hides it, other devices may still tell."""
    graph: nx.Graph[int] = nx.Graph()
    graph.add_nodes_from(range(len(machine.numa)))
    pairs = combinations(range(len(machine.numa)), 2)
    graph.add_edges_from((a, b) for a, b in pairs if machine.cell(a, b) == "PIX")
    return graph


def test_the_oracle_sees_a_wrong_machine() -> None:
    """A matrix with one cell changed is another machine, or refused."""
    machine = Machine(2, (0, 1), (-1, -1), {})
    text = write(machine)
    box = read_nvidia_smi(clean(text, Path("smi.txt")), None).boxes[0]
    assert len({node for _, node, _ in homes(box)}) == 2
    with pytest.raises(InvalidInputError, match="nearer than SYS"):
        read_nvidia_smi(clean(text.replace("SYS", "PHB"), Path("smi.txt")), None)
