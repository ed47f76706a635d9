"""The three stages of the search one by one, with engines that stop where a time limit would."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace

import pulp
import pytest

import synth
from synth.demand import make_demand
from synth.engine.pulp_engine import Engine, Verdict
from synth.formulation.steps.model import Origin, StepTask
from synth.solver.steps.cases import Setting, Single
from synth.solver.steps.check import step_faults
from synth.solver.steps.search import Bound, Found, least_rounds


@dataclass(frozen=True)
class Hasty(Engine):
    """Reaches its limit in the relaxation (``relaxed``), or right after it has found a schedule (``whole``)."""

    relaxed: bool = True
    whole: bool = False

    def run(self, problem: pulp.LpProblem, seconds: float = math.inf) -> Verdict:
        sends = [v for v in problem.variables() if v.name.startswith("x_")]
        if self.relaxed and any(v.cat == "Continuous" for v in sends):
            return "stopped"
        verdict = super().run(problem, seconds)
        return "stopped" if self.whole and any(v.cat == "Integer" for v in sends) else verdict


def search(engine: Engine, bound: int, most: int | None = None, symmetry: bool = True) -> tuple[Found, Single]:
    """All-gather of 2 chunks in 2 steps on a DGX-1, whose optimum is 3 rounds."""
    topology = synth.resolve("dgx1-v100")
    case = Single(Setting(topology, make_demand(topology, "allgather", 1e9), None, "auto", engine))
    origins = tuple(Origin(r, tuple((q, 2) for q in range(8) if q != r), 2) for r in range(8))
    task = StepTask(case.network, origins, 2, "multicast")
    group = case.group if symmetry else case.group[:1]

    def accept(model: object) -> bool:
        read = Found(Bound(0, ""), model.read_rounds(), model.read_moves())  # type: ignore[attr-defined]
        return read.rounds is not None and not step_faults(case.solution(2, read))

    return least_rounds(task, group, Bound(bound, "given"), engine, most=most, accept=accept), case


@pytest.mark.parametrize("symmetry", [True, False])
def test_without_a_bound_the_search_over_all_schedules_proves_it(symmetry: bool) -> None:
    found, case = search(Hasty("HiGHS", math.inf), 2, symmetry=symmetry)
    assert sum(found.rounds or ()) == found.bound.rounds == 3
    assert "is exhausted" in found.bound.reason
    assert found.symmetry == (4 if symmetry else 1)
    assert step_faults(case.solution(2, found)) == []


@pytest.mark.parametrize("symmetry", [True, False])
def test_exhausted_searches_prove_that_there_is_nothing(symmetry: bool) -> None:
    found, _ = search(Hasty("HiGHS", math.inf), 2, most=2, symmetry=symmetry)
    assert (found.rounds, found.bound.rounds) == (None, 3)
    assert "2 or fewer rounds is exhausted" in found.bound.reason


def test_a_stopped_engine_leaves_a_schedule_with_a_gap() -> None:
    found, case = search(Hasty("HiGHS", math.inf, whole=True), 2)
    assert found.rounds is not None
    assert found.bound == Bound(2, "given")
    solution = case.solution(2, found)
    assert (solution.status, solution.gap) == ("feasible", (solution.rounds - 2) / solution.rounds)
    assert step_faults(solution) == []


def test_what_a_stopped_engine_leaves_is_replayed() -> None:
    """An engine without a solution leaves zeros, which are no schedule."""
    engine = Engine("HiGHS", time.monotonic() - 1.0)
    found, _ = search(engine, 2)
    assert found.rounds is None


def test_a_bound_from_fractional_sends_needs_no_search() -> None:
    found, _ = search(Engine("HiGHS", math.inf), 2)
    assert found.bound.rounds == sum(found.rounds or ()) == 3
    assert "fractional sends need 3 rounds" in found.bound.reason


def test_another_engine_of_pulp_is_asked_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def solver(name: str, **options: object) -> pulp.LpSolver:
        asked.append(name)
        assert options == {"msg": False, "timeLimit": pytest.approx(60.0, abs=60.0)}
        return pulp.HiGHS(msg=False)

    monkeypatch.setattr(pulp, "listSolvers", lambda onlyAvailable: ["OTHER"])
    monkeypatch.setattr(pulp, "getSolver", solver)
    found = synth.step_optimum("ring:4", "allgather", chunks=2, engine="OTHER")
    assert (found.rounds, found.status, found.engine) == (3, "optimal", "OTHER")
    assert set(asked) == {"OTHER"}


def test_broken_solutions_are_never_returned(monkeypatch: pytest.MonkeyPatch) -> None:
    right = Single.solution

    def wrong(self: Single, chunks: int, found: Found) -> object:
        solution = right(self, chunks, found)
        return replace(solution, sends=solution.sends[1:])

    monkeypatch.setattr(Single, "solution", wrong)
    with pytest.raises(synth.VerificationError, match="without"):
        synth.step_optimum("ring:4", "allgather", chunks=2)
