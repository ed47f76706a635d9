"""The replay catches what is broken: single mutations of good step schedules."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import synth
from synth.solver.steps.check import step_faults
from synth.solver.steps.solution import StepSend, StepSolution

CASES = (
    ("dgx1-v100", "allgather", 2, None),
    ("dgx1-v100", "reducescatter", 2, None),
    ("ring:4", "allreduce", 2, None),
    ("ring:4", "alltoall", 2, None),
    ("mesh2d:2x3", "reduce", 2, [0, 2, 4]),
    ("switch:4", "broadcast", 2, None),
)
GOOD = {case[:2]: synth.step_optimum(case[0], case[1], chunks=case[2], ranks=case[3]) for case in CASES}


def with_send(solution: StepSolution, number: int, *sends: StepSend) -> StepSolution:
    """A solution with one send replaced."""
    return replace(solution, sends=(*solution.sends[:number], *sends, *solution.sends[number + 1 :]))


@pytest.mark.parametrize("case", GOOD)
def test_good_schedules_have_no_faults(case: tuple[str, str]) -> None:
    assert step_faults(GOOD[case]) == []


@given(st.sampled_from(sorted(GOOD)), st.data())
def test_single_mutations_are_caught(case: tuple[str, str], data: st.DataObject) -> None:
    solution = GOOD[case]
    number = data.draw(st.integers(0, len(solution.sends) - 1))
    send = solution.sends[number]
    kind = data.draw(st.sampled_from(("drop", "last", "reduce", "ends", "twice", "chunk", "link", "late", "alien")))
    others = [s for s in solution.sends if (s.src, s.dst) != (send.src, send.dst)]
    links = data.draw(st.sampled_from(others)).links
    broken = {
        "drop": with_send(solution, number),
        "last": replace(solution, sends=tuple(s for s in solution.sends if s.step < solution.steps - 1)),
        "reduce": with_send(solution, number, replace(send, reduce=not send.reduce)),
        "ends": with_send(solution, number, replace(send, src=send.dst, dst=send.src)),
        "twice": with_send(solution, number, send, send),
        "chunk": with_send(solution, number, replace(send, chunk=solution.shard_chunks[send.shard])),
        "link": with_send(solution, number, replace(send, links=links)),
        "late": with_send(solution, number, replace(send, step=solution.steps)),
        "alien": with_send(solution, number, replace(send, shard=len(solution.shard_chunks))),
    }[kind]
    assert step_faults(broken), kind


@pytest.mark.parametrize("case", GOOD)
def test_fewer_rounds_overload_a_link(case: tuple[str, str]) -> None:
    """Least rounds: one less in any step is either none at all, or too little for some link."""
    solution = GOOD[case]
    for step, rounds in enumerate(solution.rounds_per_step):
        less = (*solution.rounds_per_step[:step], rounds - 1, *solution.rounds_per_step[step + 1 :])
        faults = step_faults(replace(solution, rounds_per_step=less))
        assert any("rounds" in fault for fault in faults)


def test_everything_at_once_is_refused_for_what_is_not_there_yet() -> None:
    solution = GOOD["dgx1-v100", "allgather"]
    rounds = (solution.rounds, *(1 for _ in range(solution.steps - 1)))
    early = replace(solution, rounds_per_step=rounds, sends=tuple(replace(s, step=0) for s in solution.sends))
    assert any("does not hold it" in fault for fault in step_faults(early))


def test_unfinished_sums_are_no_results() -> None:
    solution = GOOD["ring:4", "allreduce"]
    first = next(k for k, s in enumerate(solution.sends) if not s.reduce)
    early = replace(solution.sends[first], step=0)
    assert any("as final" in fault for fault in step_faults(with_send(solution, first, early)))


def test_a_contribution_is_not_added_twice() -> None:
    solution = GOOD["dgx1-v100", "reducescatter"]
    again = replace(solution.sends[0], step=1)
    wide = replace(solution, rounds_per_step=tuple(9 for _ in solution.rounds_per_step))
    faults = step_faults(replace(wide, sends=(*wide.sends, again)))
    assert any("added twice" in fault or "without" in fault for fault in faults)


def test_gpus_that_do_not_relay_are_watched() -> None:
    solution = GOOD["dgx1-v100", "allgather"]
    topology = solution.topology
    forwarder = next(s for s in solution.sends if s.step == 1).src
    nodes = tuple(
        replace(node, relay=False) if k == topology.gpus[forwarder] else node for k, node in enumerate(topology.nodes)
    )
    rigid = replace(solution, topology=replace(topology, nodes=nodes))
    assert any(f"rank {forwarder} does not relay" in fault for fault in step_faults(rigid))
