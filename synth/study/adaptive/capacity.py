"""Capacities that change during a run: drops and drift, as steps."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from synth.errors import InvalidInputError
from synth.formulation.flow.network import Network
from synth.ground.arrays import Floats


@dataclass(frozen=True, slots=True)
class Change:
    """From ``time`` (seconds) on, a link or pool has ``factor`` of its capacity in the topology; factor > 0."""

    time: float
    resource: str
    factor: float


@dataclass(frozen=True)
class Trace:
    """Capacity of every row of a network over time, constant between changes.

    Attributes
    ----------
    starts
        Seconds, increasing, the first is 0; the last step holds for ever.
    capacities
        Steps x rows, bytes/second.
    """

    starts: tuple[float, ...]
    capacities: tuple[Floats, ...]

    def steps(self) -> Iterator[tuple[float, float, Floats]]:
        """(start, end, capacity) of each step; the last end is infinite."""
        return zip(self.starts, (*self.starts[1:], math.inf), self.capacities, strict=True)


def make_trace(network: Network, changes: Sequence[Change] = ()) -> Trace:
    """Capacities over time.

    Raises
    ------
    InvalidInputError
        Unknown links or pools, times before 0, factors that are not positive: all at once. A path that dies
        altogether is a failure, which needs other routes, not another split.
    """
    rows = {name: k for k, name in enumerate(network.row_ids)}
    faults = [
        f"no link or resource {c.resource!r} in {network.topology.name}" for c in changes if c.resource not in rows
    ]
    faults += [
        f"{c.resource}: time {c.time} s must be finite, 0 or more" for c in changes if not 0 <= c.time < math.inf
    ]
    faults += [
        f"{c.resource}: factor {c.factor} must be a finite number above 0; a dead path needs a new plan"
        for c in changes
        if not 0 < c.factor < math.inf
    ]
    if faults:
        raise InvalidInputError(faults)
    now = network.capacity.copy()
    starts, capacities = [0.0], [now]
    for change in sorted(changes, key=lambda change: change.time):
        now = now.copy()
        now[rows[change.resource]] = network.capacity[rows[change.resource]] * change.factor
        if change.time == starts[-1]:
            capacities[-1] = now
        else:
            starts.append(change.time)
            capacities.append(now)
    return Trace(tuple(starts), tuple(capacities))


def drift(
    resources: Sequence[str], depth: float, every: float, until: float, seed: int = 0, step: float = 0.25
) -> tuple[Change, ...]:
    """Random walks of capacities, one per resource, between ``1 - depth`` and 1 of the topology's.

    Parameters
    ----------
    resources
        Ids of links or pools that drift.
    depth
        Deepest loss, in (0, 1).
    every, until
        Seconds between changes, and when they end.
    seed
        Of the random numbers: same seed, same walk.
    step
        Largest change at a time, as part of ``depth``.

    Raises
    ------
    InvalidInputError
        Numbers out of range, or more than 100,000 changes.
    """
    if not (0 < depth < 1 and every > 0 and 0 <= until < math.inf and 0 < step <= 1):
        raise InvalidInputError(f"drift: depth {depth} must lie in (0, 1), every {every} s and until {until} s above 0")
    if until / every * max(len(resources), 1) > 1e5:
        raise InvalidInputError(f"drift: {until:g} s in steps of {every:g} s is too fine; take longer steps")
    random = np.random.default_rng(seed)
    # The run starts with what the planner was told: full capacity.
    loss = np.zeros(len(resources))
    out: list[Change] = []
    for k in range(1, int(until / every) + 1):
        loss = np.clip(loss + depth * step * random.uniform(-1, 1, len(resources)), 0.0, depth)
        out += [Change(k * every, name, float(1 - lost)) for name, lost in zip(resources, loss, strict=True)]
    return tuple(out)
