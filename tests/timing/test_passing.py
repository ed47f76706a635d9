"""Programs that send where there is no link: GPUs that pass traffic on in hardware, or an error that says so."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import synth
from synth.errors import InvalidInputError
from synth.program.meaning.semantics import Semantics
from synth.program.msccl import Draft, Program
from synth.program.msccl.targets import RCCL
from synth.program.msccl.xml import to_xml
from synth.schedule import BlockCosts, TimeModel
from synth.schedule.paths import PeerPaths
from synth.timing.image import timed
from synth.timing.programs import program_time
from synth.timing.simulation import simulate_program
from synth.topology import Link, Node, Topology, dump_topology, load_topology, resolve
from synth.topology.elements import LinkKind
from tests.cli.test_solve import run
from tests.program.msccl.builders import block, direct_alltoall, draft, gpu, step

RATE, LATENCY = 10e9, 1e-6


def line(n: int, passes: bool = True, kind: LinkKind = "xgmi") -> Topology:
    """GPUs in a row."""
    nodes = tuple(Node(f"g{k}", "gpu", passes=passes) for k in range(n))
    ends = [(a, b) for k in range(n - 1) for a, b in ((k, k + 1), (k + 1, k))]
    return Topology("line", nodes, tuple(Link(f"{a}-{b}", f"g{a}", f"g{b}", RATE, LATENCY, kind) for a, b in ends))


def to_last(n: int, *sources: int) -> Draft:
    """One chunk from each source to the last GPU."""
    counts = [0] * (n * n)
    for source in sources:
        counts[source * n + n - 1] = 1
    claim = Semantics("alltoallv", n, len(sources), None, (), tuple(counts))
    goal = [block(k, -1, s, [step("r", dst=("o", k))]) for k, s in enumerate(sources)]
    sends = [[block(0, n - 1, -1, [step("s", ("i", 0))])] if r in sources else [] for r in range(n - 1)]
    return draft(claim, [gpu(claim, r, blocks) for r, blocks in enumerate([*sends, goal])], max_bytes=1 << 40)


def test_a_message_over_two_hops_by_hand() -> None:
    """1 MB over 10 GB/s is 100 us, behind two links' latencies of 1 us; the second link is entered cut-through."""
    put = timed(to_last(3, 0), line(3))
    assert [put.topology.links[k].id for k in put.paths[0]] == ["0-1", "1-2"]
    assert program_time(put, 1e6).seconds == pytest.approx(102e-6)


def test_hops_share_their_links() -> None:
    """Both messages of 1 MB cross 1-2: 200 us there, one latency at least before and after."""
    both = program_time(timed(to_last(3, 0, 1), line(3)), 2e6).seconds
    assert 201e-6 <= both <= 202e-6 + 1e-9
    apart = program_time(timed(to_last(3, 1), line(3)), 1e6).seconds
    assert apart == pytest.approx(101e-6)


def test_without_the_mark_the_error_says_what_would_help() -> None:
    with pytest.raises(InvalidInputError) as caught:
        timed(to_last(3, 0), line(3, passes=False))
    assert caught.value.faults == (
        'g0 sends to g2: no path without a GPU on it (mark the GPUs with "passes": true in the topology file if they '
        "pass traffic on in hardware)",
    )


def test_only_scale_up_links_are_passed_between() -> None:
    with pytest.raises(InvalidInputError, match="nor one through GPUs that pass traffic on in hardware"):
        timed(to_last(3, 0), line(3, kind="pcie"))


def test_one_gpu_on_the_way_that_does_not_pass() -> None:
    machine = line(4)
    nodes = tuple(Node(n.id, "gpu", passes=n.id != "g1") for n in machine.nodes)
    with pytest.raises(InvalidInputError, match="g0 sends to g3"):
        timed(to_last(4, 0), Topology("line", nodes, machine.links))


@pytest.mark.parametrize("name", ["mi250-16", "mi250-16-box", "mi250-8-box", "mi300x-8", "mi300x-box", "mi355x-box"])
def test_the_catalogue_sets_it_and_every_pair_takes_a_shortest_way(name: str) -> None:
    """Second method: hop counts of networkx on the graph of the xGMI links alone."""
    machine = resolve(name)
    assert all(machine.nodes[k].passes for k in machine.gpus)
    graph: nx.DiGraph[int] = nx.DiGraph(
        [ends for ends, link in zip(machine.ends, machine.links, strict=True) if link.kind == "xgmi"]
    )
    finder = PeerPaths(machine, 1 << 20)
    for src in machine.gpus:
        for dst in machine.gpus:
            if src == dst:
                continue
            for way in finder.between(src, dst):
                assert {machine.links[k].kind for k in way} == {"xgmi"}
                assert all(machine.ends[a][1] == machine.ends[b][0] for a, b in pairwise(way))
                assert (machine.ends[way[0]][0], machine.ends[way[-1]][1]) == (src, dst)
                assert len(way) == nx.shortest_path_length(graph, src, dst)


@pytest.mark.parametrize("name", ["dgx1-v100", "h100-box", "a100-box"])
def test_other_machines_do_not_pass(name: str) -> None:
    assert not any(node.passes for node in resolve(name).nodes)


def test_the_file_keeps_it_and_old_files_are_without(tmp_path: Path) -> None:
    path = tmp_path / "line.json"
    path.write_text(dump_topology(line(3)))
    assert load_topology(path) == line(3)
    assert path.read_text().count('"passes": true') == 3
    assert "passes" not in dump_topology(line(3, passes=False))
    path.write_text(dump_topology(line(3)).replace('"kind": "gpu", "passes"', '"kind": "switch", "passes"', 1))
    with pytest.raises(InvalidInputError, match="true is for nodes of kind gpu only; this one is a switch"):
        load_topology(path)
    with pytest.raises(InvalidInputError, match="true is for nodes of kind gpu only"):
        Topology("x", (Node("g", "gpu"), Node("s", "switch", passes=True)), ())


def test_sixteen_gcds_all_pairs_on_the_command_line(tmp_path: Path) -> None:
    """What RCCL's all-pairs programs do: everyone sends to everyone, though a GCD has 4 neighbours at most."""
    path = tmp_path / "pairs.xml"
    path.write_text(to_xml(Program(direct_alltoall(16), RCCL)))
    done = run("simulate", str(path), "mi250-16", "--size", "1MB", "--target", "rccl", "--json")
    assert done.returncode == 0, done.stderr


@settings(deadline=None, max_examples=40)
@given(
    hop=st.sampled_from([0.0, 1e-6, 5e-6]),
    overhead=st.sampled_from([0.0, 2e-6]),
    costs=st.sampled_from([BlockCosts(), BlockCosts(1e-6, 2e-6, 0.5e-6, 1e-6, 20e9, 20e9)]),
    size=st.sampled_from([64, 4096, 1 << 20]),
    n=st.integers(3, 5),
    passes=st.booleans(),
)
def test_the_bound_holds_where_hardware_saves_hops(
    hop: float, overhead: float, costs: BlockCosts, size: int, n: int, passes: bool
) -> None:
    """A message that GPUs pass on pays once for a hop; a plan's bound must not charge it for each."""
    machine = line(n, passes=True) if passes else resolve(f"fullmesh:{n}")
    model = TimeModel(hop_latency=hop, overhead=overhead)
    program = direct_alltoall(n)
    reference = synth.solve(machine, "alltoall", float(1 << 20))
    for plan in (None, reference):
        (row,) = simulate_program(program, machine, [size * n], costs=costs, model=model, reference=plan)
        assert row.seconds is not None
        assert row.bound is not None
        assert row.bound <= row.seconds * (1 + 1e-9)
