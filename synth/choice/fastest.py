"""The fastest schedule at a size: all rivals judged by one simulator, against a lower bound with latency."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Unpack

from synth.demand import Demand
from synth.demand.instance import Given, Instance, make_instance
from synth.errors import InvalidInputError, LimitReachedError, NotExpressibleError
from synth.export.result import Result
from synth.program.runtime import AnyProgram, Runtime, runtime_named
from synth.rivals.at_size import RIVALS, Candidate, Rival, Search
from synth.schedule import Schedule, TimeModel, make_schedule
from synth.schedule.simulate.bounds import LatencyBound, plan_bound
from synth.solver.flow import solve
from synth.topology import Topology

if TYPE_CHECKING:
    import pandas as pd

FORMAT = "synth-fastest/1"


@dataclass(frozen=True)
class Choice:
    """The fastest schedule that was found, and what its rivals take.

    Attributes
    ----------
    winner
        The candidate that is taken: the fastest that the target can express.
    bound
        Below it nothing can be.
    rivals
        The candidates, fastest first.
    program
        The verified program; None without a target.
    runtime
        The target.
    refused
        Why faster candidates were not taken.
    timings
        Seconds: solve, one per rival function, lower, total.
    """

    winner: Candidate
    bound: LatencyBound
    rivals: tuple[Candidate, ...]
    program: AnyProgram | None
    runtime: Runtime | None = None
    refused: tuple[str, ...] = ()
    timings: Mapping[str, float] = field(default_factory=dict, compare=False)

    @property
    def schedule(self) -> Schedule:
        """The winner's."""
        return self.winner.schedule

    @property
    def seconds(self) -> float:
        """Simulated time of the winner."""
        return self.winner.seconds

    @property
    def gap(self) -> float:
        """(time - bound) / time, 0 or more."""
        return max(0.0, 1.0 - self.bound.seconds / self.seconds) if self.seconds > 0 else 0.0

    @property
    def table(self) -> pd.DataFrame:
        """One row per candidate: rival, chunks per shard, time_us, bandwidth_us, over_bound, transfers."""
        import pandas as pd  # slow to import, and most runs make no table

        return pd.DataFrame([self._row(candidate) for candidate in self.rivals])

    def _row(self, candidate: Candidate) -> dict[str, Any]:
        return {
            "rival": candidate.rival,
            "chunks_per_shard": candidate.schedule.chunks_per_shard,
            "time_us": candidate.seconds * 1e6,
            "bandwidth_us": candidate.schedule.quantized * 1e6,
            "over_bound": candidate.seconds / self.bound.seconds if self.bound.seconds > 0 else 1.0,
            "transfers": len(candidate.schedule.transfers),
        }

    @property
    def result(self) -> Result:
        """The winner as the result of a run, which can be written.

        Raises
        ------
        InvalidInputError
            When no target was asked for.
        """
        if self.program is None or self.runtime is None:
            raise InvalidInputError("there is no program: ask for a target")
        return Result(self.schedule.plan, self.schedule, self.program, self.timings, runtime=self.runtime)

    def to_dict(self) -> dict[str, Any]:
        """The ``synth-fastest/1`` object of the CLI's ``--json``."""
        plan = self.schedule.plan
        return {
            "format": FORMAT,
            "topology": plan.topology.name,
            "collective": plan.demand.collective,
            "size_bytes": plan.demand.size_bytes,
            "winner": self._row(self.winner),
            "bound_us": self.bound.seconds * 1e6,
            "bound_reason": self.bound.reason,
            "gap": self.gap,
            "rivals": [self._row(candidate) for candidate in self.rivals],
            "refused": list(self.refused),
            "timings_s": dict(self.timings),
        }


def fastest(
    topology: Topology | str | Instance,
    collective: str | Demand | None = None,
    size: float | str | None = None,
    *,
    model: TimeModel | None = None,
    time_limit: float = 60.0,
    seeds: int = 8,
    target: str | None = "msccl",
    rivals: Sequence[Rival] = RIVALS,
    progress: Callable[[Candidate], None] | None = None,
    **given: Unpack[Given],
) -> Choice:
    """Fastest schedule that any rival finds at a size.

    Parameters
    ----------
    topology, collective, size
        As for :func:`synth.solve`, which explains what else may be ``given``.
    model
        Time model that judges; default: the topology's latencies, pipelined.
    time_limit
        Seconds for the search; a choice that was not cut short by it is the same in every run.
    seeds
        Tie-breaks that the matching tries per chunk count, 1 or more.
    target
        Runtime for which the winner is lowered and verified; None leaves that out.
    rivals
        Who takes part.
    progress
        Is told of every candidate.

    Raises
    ------
    InvalidInputError
        Bad numbers, or an unknown target.
    NotExpressibleError
        When the target can express none of the candidates.
    LimitReachedError
        When the time limit strikes before there is any schedule.

    Examples
    --------
    >>> import synth
    >>> choice = synth.fastest("ring:4", "allgather", "1 MB")
    >>> choice.bound.seconds <= choice.seconds
    True
    """
    if isinstance(seeds, bool) or seeds != int(seeds) or seeds < 1:
        raise InvalidInputError(f"seeds {seeds!r} must be a whole number, 1 or more")
    if not (math.isfinite(time_limit) and time_limit >= 0):
        raise InvalidInputError(f"time limit {time_limit!r} s must be a finite number, 0 or more")
    runtime = None if target is None else runtime_named(target)
    began, judge = time.monotonic(), model or TimeModel()
    asked = make_instance(topology, collective, size, **given)
    plan = solve(asked.topology, asked.demand, time_limit=time_limit)
    bound = plan_bound(plan, None, judge)
    timings = {"solve": time.monotonic() - began}
    if asked.demand.empty:
        found = [Candidate("nothing to do", 0.0, make_schedule(plan))]
    else:
        search = Search(asked.topology, asked.demand, plan, judge, int(seeds), bound.seconds, 0.0)
        found = _compete(search, rivals, began + time_limit, timings, progress)
    lowering = time.monotonic()
    winner, program, refused = _expressible(found, runtime)
    timings |= {"lower": time.monotonic() - lowering, "total": time.monotonic() - began}
    return Choice(winner, bound, tuple(found), program, runtime, tuple(refused), timings)


def _compete(
    search: Search,
    rivals: Sequence[Rival],
    end: float,
    timings: dict[str, float],
    progress: Callable[[Candidate], None] | None,
) -> list[Candidate]:
    """All candidates, fastest first; of equally fast ones that with fewer transfers."""
    found: list[Candidate] = []
    for k, rival in enumerate(rivals):
        now = time.monotonic()
        search.deadline = now + max(end - now, 0.0) / (len(rivals) - k)
        for candidate in rival(search):
            found.append(candidate)
            if progress is not None:
                progress(candidate)
        timings[rival.__name__] = time.monotonic() - now
    if not found:
        raise LimitReachedError("no schedule within the time limit: give --time-limit more seconds")
    return sorted(found, key=lambda c: (float(f"{c.seconds:.9e}"), len(c.schedule.transfers), c.rival))


def _expressible(found: Sequence[Candidate], runtime: Runtime | None) -> tuple[Candidate, AnyProgram | None, list[str]]:
    """The first candidate that the target can express, its program, and why those before it were refused."""
    if runtime is None:
        return found[0], None, []
    refused = list[str]()
    for candidate in found:
        try:
            return candidate, runtime.program(runtime.draft(candidate.schedule)), refused
        except NotExpressibleError as error:
            chunks = candidate.schedule.chunks_per_shard
            refused.append(f"{candidate.rival} with {chunks} chunks per shard: {error.faults[0]}")
    raise NotExpressibleError(refused)
