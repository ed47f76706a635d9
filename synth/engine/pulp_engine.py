"""Running a step model with any engine that PuLP knows, within a time limit, stopping at Ctrl-C."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any, Literal

import pulp

from synth.engine.highs import clean_stdout
from synth.errors import InvalidInputError

Verdict = Literal["optimal", "infeasible", "stopped"]
DEFAULT_ENGINE = "HiGHS"
# Relative gap at which HiGHS stops: small enough that whole rounds are proven.
GAP = 1e-7


class _HighsInThread(pulp.HiGHS):
    """PuLP's HiGHS, run beside the main thread so that Ctrl-C is heard while it works."""

    def callSolver(self, lp: Any) -> None:  # noqa: N802 (PuLP's name)
        model = lp.solverModel
        model.HandleKeyboardInterrupt = True
        thread = model.startSolve()
        try:
            while thread.is_alive():
                thread.join(0.5)
        except BaseException:
            model.cancelSolve()
            thread.join()
            raise


@dataclass(frozen=True)
class Engine:
    """A named engine and the moment at which it must have ended.

    Raises
    ------
    InvalidInputError
        When PuLP does not know the engine or it is not installed.
    """

    name: str
    deadline: float

    def __post_init__(self) -> None:
        if self.name != DEFAULT_ENGINE and self.name not in (ready := pulp.listSolvers(onlyAvailable=True)):
            raise InvalidInputError(f"engine {self.name!r} is not available: PuLP finds {', '.join(ready)}")

    @property
    def left(self) -> float:
        """Seconds left."""
        return self.deadline - time.monotonic()

    def run(self, problem: pulp.LpProblem, seconds: float = math.inf) -> Verdict:
        """Solve; after ``stopped`` the variables may hold a solution, or anything else."""
        limit = min(seconds, self.left)
        if limit <= 0:
            return "stopped"
        with clean_stdout():
            outcome = problem.solve(self._solver(limit))
        if outcome.status == pulp.LpSolveStatus.Optimal:
            return "optimal"
        return "infeasible" if outcome.status == pulp.LpSolveStatus.Infeasible else "stopped"

    def _solver(self, limit: float) -> Any:
        timed: dict[str, Any] = {} if limit == math.inf else {"timeLimit": limit}
        if self.name == DEFAULT_ENGINE:
            return _HighsInThread(msg=False, threads=1, random_seed=0, gapRel=GAP, **timed)
        return pulp.getSolver(self.name, msg=False, **timed)

    def lower_bound(self, problem: pulp.LpProblem) -> float:
        """What a stopped engine has proven about a minimum; PuLP passes it on for HiGHS only, -inf otherwise."""
        model = getattr(problem, "solverModel", None)
        if self.name != DEFAULT_ENGINE or model is None:
            return -math.inf
        return float(model.getInfo().mip_dual_bound)


def check_time_limit(seconds: float) -> None:
    """Refuse a time limit that is not a number of seconds, 0 or more."""
    if math.isnan(seconds) or seconds < 0:
        raise InvalidInputError(f"time limit {seconds} s must be 0 or more")


def check_counts(**counts: int | None) -> None:
    """Refuse chunks, steps or rounds that are not 1 or more: all at once."""
    faults = [f"{name} {value} must be 1 or more" for name, value in counts.items() if value is not None and value < 1]
    if faults:
        raise InvalidInputError(faults)
