"""Calibration: the few costs of thread blocks from measured times, and how well they predict others."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np
from scipy.optimize import least_squares

from synth.errors import InvalidInputError, VerificationError
from synth.ground.arrays import Floats
from synth.schedule.simulate.time_model import BlockCosts, TimeModel
from synth.timing.image import TimedProgram
from synth.timing.measurements import Measurement
from synth.timing.programs import program_time

# Units of the fitted numbers (start, latency, overhead, wait in us; copy, local in ns per KB), so that all are near 1.
_UNITS = np.array([1e-6, 1e-6, 1e-6, 1e-6, 1e-12, 1e-12])
# Rate from which fits begin, bytes/second, before the largest sizes correct it.
_FIRST_RATE = 20e9
# Sizes per program that are fitted, evenly picked; more say nothing new and cost time.
MOST_SIZES = 9
# A residual (log of predicted over measured) of this size counts less than quadratically.
_TYPICAL = 0.1
# Two times this far apart have to be ranked right.
APART = 0.3


@dataclass(frozen=True, slots=True)
class Point:
    """A measured call of a program; ``measured`` is None for a hang. Seconds."""

    program: TimedProgram
    size_bytes: int
    measured: float | None

    @property
    def name(self) -> str:
        """Name of the program."""
        return self.program.draft.name

    @property
    def protocol(self) -> str:
        """Its protocol."""
        return self.program.draft.proto


@dataclass(frozen=True, slots=True)
class Prediction:
    """A point and the time that constants give it; None when the program hangs in the model."""

    point: Point
    predicted: float | None

    @property
    def error(self) -> float | None:
        """Predicted over measured, minus 1; None when either hangs."""
        if self.predicted is None or self.point.measured is None:
            return None
        return self.predicted / self.point.measured - 1.0


@dataclass(frozen=True)
class Ranking:
    """How pairs of programs of one collective compare at one size.

    Attributes
    ----------
    pairs
        Pairs whose measured times differ by more than ``APART``.
    wrong
        (size, faster, slower as measured) of those that the predictions order the other way.
    """

    pairs: int
    wrong: tuple[tuple[int, str, str], ...]


@dataclass(frozen=True)
class Calibration:
    """Fitted costs and the points that they were fitted on.

    Attributes
    ----------
    costs
        Per protocol.
    fitted
        Predictions of the points of the fit.
    """

    costs: dict[str, BlockCosts]
    fitted: tuple[Prediction, ...] = field(repr=False)


def points_of(program: TimedProgram, measurements: Iterable[Measurement], low: float, high: float) -> list[Point]:
    """Measurements of the mode that a program serves, with sizes from ``low`` to ``high`` bytes.

    A call of the other mode ran the library's own algorithm, whatever file was loaded (formats.md 1.1), so it says
    nothing about the program.
    """
    draft = program.draft
    serves = {True: draft.inplace, False: (draft.outofplace and program.target.reads_outofplace) or not draft.inplace}
    return [
        Point(program, m.size_bytes, m.seconds)
        for m in measurements
        if low <= m.size_bytes <= high and (m.inplace is None or serves[m.inplace])
    ]


def predict(point: Point, costs: BlockCosts, model: TimeModel | None = None) -> Prediction:
    """Simulate one point."""
    try:
        return Prediction(point, program_time(point.program, point.size_bytes, costs, model).seconds)
    except VerificationError:
        return Prediction(point, None)


def predict_all(
    points: Iterable[Point], costs: dict[str, BlockCosts], model: TimeModel | None = None
) -> tuple[Prediction, ...]:
    """Simulate points, each with the costs of its protocol.

    Raises
    ------
    InvalidInputError
        When there are no costs for a protocol.
    """
    points = list(points)
    missing = sorted({point.protocol for point in points} - set(costs))
    if missing:
        raise InvalidInputError(f"no constants for protocol {', '.join(missing)}: there are {', '.join(sorted(costs))}")
    return tuple(predict(point, costs[point.protocol], model) for point in points)


def calibrate(
    points: Sequence[Point],
    model: TimeModel | None = None,
    progress: Callable[[str], None] | None = None,
) -> Calibration:
    """Fit the costs of each protocol.

    Parameters
    ----------
    points
        At least one that did not time out per protocol.
    model
        What links cost.
    progress
        Told after each simulation of all points of a protocol.

    Returns
    -------
    Calibration

    Notes
    -----
    Least squares of log(predicted / measured) with a soft L1 loss (scipy ``least_squares``), so that sizes over six
    decades count alike and single outliers do not decide. All six numbers are >= 0; one that the points say nothing
    about stays where it began.
    """
    usable = [point for point in points if point.measured is not None]
    if not usable:
        raise InvalidInputError(
            "no measured time to fit: all rows timed out, or none is of the mode the programs serve"
        )
    costs = {}
    for protocol in sorted({point.protocol for point in usable}):
        mine = _thinned([point for point in usable if point.protocol == protocol])
        costs[protocol] = _Fit(mine, model, protocol, progress).best()
    return Calibration(costs, predict_all(points, {**costs}, model))


def _thinned(points: list[Point]) -> list[Point]:
    """At most ``MOST_SIZES`` points of each program, from its smallest to its largest size."""
    groups: dict[str, list[Point]] = {}
    for point in sorted(points, key=lambda point: point.size_bytes):
        groups.setdefault(point.name, []).append(point)
    return [
        group[k]
        for group in groups.values()
        for k in sorted(set(np.linspace(0, len(group) - 1, MOST_SIZES).round().astype(int).tolist()))
    ]


class _Fit:
    def __init__(
        self, points: list[Point], model: TimeModel | None, protocol: str, progress: Callable[[str], None] | None
    ) -> None:
        self.points, self.model, self.protocol, self.progress = points, model, protocol, progress
        self.measured = np.log([point.measured or math.nan for point in points])
        self.least = min(point.measured or math.inf for point in points)
        self.evaluations = 0

    def best(self) -> BlockCosts:
        """Least squares from costs that get the least time and the longest times about right."""
        longest = max(self.points, key=lambda point: point.measured or 0.0)
        guess = predict(longest, BlockCosts(copy_rate=_FIRST_RATE, local_rate=_FIRST_RATE), self.model).predicted
        per_byte = (longest.measured or math.nan) / (guess or math.nan) / _FIRST_RATE
        first = np.array([self.least / 2, 1e-6, 0.5e-6, 0.5e-6, per_byte, 1 / _FIRST_RATE]) / _UNITS
        solved = least_squares(
            self._residuals,
            first,
            bounds=(0.0, np.inf),
            x_scale=np.maximum(first, 1.0),
            loss="soft_l1",
            f_scale=_TYPICAL,
            diff_step=[1e-4] * len(first),
            ftol=1e-3,
            xtol=1e-3,
            max_nfev=20,
        )
        return _costs(solved.x)

    def _residuals(self, x: Floats) -> Floats:
        costs = _costs(x)
        self.evaluations += 1
        if self.progress is not None:
            self.progress(f"{self.protocol}: {len(self.points)} points, simulation {self.evaluations}")
        predictions = [predict(point, costs, self.model).predicted for point in self.points]
        # A program that hangs in the model but not on the hardware is as wrong as a factor of e.
        times = [math.nan if time is None else time for time in predictions]
        residuals: Floats = np.nan_to_num(np.log(times) - self.measured, nan=1.0)
        return residuals


def _costs(x: Floats) -> BlockCosts:
    start, latency, overhead, wait, copy, local = (x * _UNITS).tolist()
    return BlockCosts(start, latency, overhead, wait, *(1 / v if v > 0 else math.inf for v in (copy, local)))


def median_error(predictions: Iterable[Prediction]) -> float:
    """Median of the absolute relative errors; NaN when there is none."""
    errors = [abs(p.error) for p in predictions if p.error is not None]
    return float(np.median(errors)) if errors else math.nan


def ranking(predictions: Iterable[Prediction]) -> Ranking:
    """Compare every two programs of one collective at every size where their measured times are ``APART``."""
    at: dict[tuple[str, int], list[Prediction]] = {}
    for p in predictions:
        if p.error is not None:
            at.setdefault((p.point.program.draft.semantics.collective, p.point.size_bytes), []).append(p)
    pairs, wrong = 0, []
    for (_, size), group in at.items():
        for a, b in combinations(group, 2):
            fast, slow = (a, b) if (a.point.measured or 0) <= (b.point.measured or 0) else (b, a)
            if (slow.point.measured or 0) > (fast.point.measured or 0) * (1 + APART):
                pairs += 1
                if (fast.predicted or 0) >= (slow.predicted or 0):
                    wrong.append((size, fast.point.name, slow.point.name))
    return Ranking(pairs, tuple(wrong))
