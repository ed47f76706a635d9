"""A live HiGHS linear program that grows by columns, with stdout kept clean."""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import highspy
import numpy as np
import numpy.typing as npt

from synth.ground.arrays import Floats, Ints

INFINITE = 1e30


@contextlib.contextmanager
def clean_stdout() -> Iterator[None]:
    """Send what C code prints on stdout to nowhere (highspy 1.16.0 prints a banner when a model is made)."""
    sys.stdout.flush()
    try:
        saved = os.dup(1)
    except OSError:  # no stdout at all: nothing to keep clean
        yield
        return
    libc = ctypes.CDLL(None) if os.name == "posix" else None
    try:
        if libc is not None:
            libc.fflush(None)
        with open(os.devnull, "wb") as sink:
            os.dup2(sink.fileno(), 1)
        yield
    finally:
        if libc is not None:
            libc.fflush(None)  # the banner sits in C's own buffer until now
        os.dup2(saved, 1)
        os.close(saved)


def new_highs() -> highspy.Highs:
    """A silent, deterministic HiGHS instance with tight tolerances."""
    with clean_stdout():
        model = highspy.Highs()  # type: ignore[no-untyped-call]
        model.setOptionValue("output_flag", False)
    for name, value in (
        ("threads", 1),
        ("random_seed", 0),
        ("primal_feasibility_tolerance", 1e-9),
        ("dual_feasibility_tolerance", 1e-9),
    ):
        model.setOptionValue(name, value)
    return model


@dataclass(frozen=True, slots=True)
class LpSolution:
    """Values and row duals of an optimal LP, in the order of its columns and rows."""

    objective: float
    values: Floats
    duals: Floats


class GrowingLp:
    """min c x, rows given first, columns added later; hot-started by the primal simplex."""

    def __init__(self, lower: Floats, upper: Floats) -> None:
        self.model = new_highs()
        self.model.setOptionValue("solver", "simplex")
        none = np.zeros(0, dtype=np.int32)
        self.model.addRows(len(lower), lower, upper, 0, np.zeros(len(lower), dtype=np.int32), none, np.zeros(0))
        self.columns = 0

    def add(self, costs: Sequence[float], entries: Sequence[tuple[np.ndarray, np.ndarray]]) -> None:
        """Add columns x >= 0 given as (row indices, values)."""
        if not entries:
            return
        starts = np.cumsum([0] + [len(rows) for rows, _ in entries[:-1]]).astype(np.int32)
        rows = np.concatenate([rows for rows, _ in entries]).astype(np.int32)
        values = np.concatenate([values for _, values in entries]).astype(float)
        n = len(entries)
        self.model.addCols(
            n, np.array(costs, dtype=float), np.zeros(n), np.full(n, INFINITE), len(rows), starts, rows, values
        )
        self.columns += n

    def drop(self, numbers: Ints) -> None:
        """Remove columns with these numbers, which must not be basic; later ones move up. The basis is kept."""
        self.model.deleteCols(len(numbers), numbers.astype(np.int32))
        self.columns -= len(numbers)

    def basic(self) -> npt.NDArray[np.bool_]:
        """Whether each column is in the basis of the last solve."""
        status = self.model.getBasis().col_status
        return np.array([state == highspy.HighsBasisStatus.kBasic for state in status])

    def set_costs(self, costs: Floats) -> None:
        """Replace the objective."""
        self.model.changeColsCost(self.columns, np.arange(self.columns, dtype=np.int32), costs)

    def set_row(self, row: int, lower: float, upper: float) -> None:
        """Replace the bounds of a row."""
        self.model.changeRowBounds(row, lower, upper)

    def solve(self, seconds: float) -> LpSolution | None:
        """Solve within a wall-clock limit; None when the limit was reached or no optimum was proven."""
        # HiGHS counts its clock from the instance's first run, so each call's limit is on top of what has passed.
        self.model.setOptionValue("time_limit", self.model.getRunTime() + max(seconds, 0.0))
        self.model.run()
        if self.model.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            return None
        solution = self.model.getSolution()
        return LpSolution(
            float(self.model.getInfo().objective_function_value),
            np.array(solution.col_value),
            np.array(solution.row_dual),
        )
