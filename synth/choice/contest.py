"""A contest at one size: schedules of all makers, as programs, in the variants that a runtime allows.

Every choice is one of three: the schedule (who makes it, in how many chunks), the protocol, and the thread blocks that
carry it (instances, sums and copies apart). The program simulator judges; work, not the clock, ends the search, so that
the same input gives the same program.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from synth.choice.judge import Entry, Judge
from synth.errors import NotExpressibleError
from synth.program.runtime import XmlRuntime
from synth.rivals.makers import family_of
from synth.schedule.chunks.justify import justified
from synth.schedule.model import Schedule
from synth.schedule.simulate.time_model import BlockCosts

# A program that is so close to what nothing can beat is good enough.
CLOSE: Final = 1.02
# A variant has to be faster by this part to be worth its blocks.
WORTH: Final = 0.995
# Schedules whose own time is so far from the best program are not lowered: loops shorten a pipeline, but not by more.
PROMISING: Final = 1.6
# Schedules whose order is improved are at most so far from the best.
NEAR: Final = 1.3
# Programs of each kind that are varied.
FINALISTS: Final = 2
# A file that runs at the asked size is taken if it costs no more than this over one that does not.
SERVING: Final = 1.1
# Transfers that are lowered and timed before the search ends with what it has.
EFFORT: Final = 60_000
# Rounds of forward-backward improvement of an order, for schedules alone.
ROUNDS: Final = 8


@dataclass(frozen=True, eq=False)
class Timed:
    """An entry and its time at the size of the contest.

    Attributes
    ----------
    entry
        Schedule, runtime and options.
    seconds
        Its time.
    served
        Whether the runtime gives it a call of that size.
    fits
        Whether it takes no more blocks than it may.
    """

    entry: Entry
    seconds: float
    served: bool
    fits: bool

    @property
    def rival(self) -> str:
        """Who made the schedule."""
        return family_of(self.entry.name)

    @property
    def schedule(self) -> Schedule:
        """What was lowered."""
        return self.entry.schedule

    @property
    def rank(self) -> tuple[bool, float, int, int]:
        """Less is better: within the budget of blocks, then fast, then few blocks and transfers."""
        return not self.fits, float(f"{self.seconds:.9e}"), self.entry.blocks, len(self.schedule.transfers)


@dataclass
class Contest:
    """The search, and what it has seen.

    Attributes
    ----------
    judge
        Who times.
    size
        nccl-tests size in bytes.
    bound
        Seconds that no program can beat.
    report
        Is told of every program.
    effort
        Transfers that may still be lowered and timed.
    deadline
        Time (monotonic) at which the search ends.
    close
        What is no more than this times the bound ends the search.
    finer
        Whether more instances may be tried, for which chunks may have to be cut.
    """

    judge: Judge
    size: float
    bound: float
    report: Callable[[Timed], None] | None = None
    effort: int = EFFORT
    deadline: float = float("inf")
    close: float = CLOSE
    finer: bool = True

    def __post_init__(self) -> None:
        self.seen: list[Timed] = []
        self.refused: dict[str, str] = {}

    @property
    def best(self) -> float:
        """Least seconds of a program that serves the size and fits."""
        return min((t.seconds for t in self.seen if t.served and t.fits), default=float("inf"))

    @property
    def over(self) -> bool:
        """Whether nothing much better can be found, or the work or the time is used up."""
        return self.best <= self.bound * self.close or self.effort <= 0 or time.monotonic() >= self.deadline

    def run(self, schedules: Iterable[tuple[str, Schedule]], always: bool = False) -> None:
        """Time schedules that can still win, until the search is over; ``always`` times one of every kind at least."""
        if self.over and not always:
            return
        kinds: set[str] = set()
        for name, schedule in schedules:
            if always and family_of(name) not in kinds:
                kinds.add(family_of(name))
                self.take(name, schedule)
            elif schedule.quantized < self.best and schedule.simulated <= PROMISING * self.best:
                self.take(name, schedule)
            if self.over and not always:
                return

    def refine(self) -> None:
        """Vary how blocks carry the best programs, unless they are good enough."""
        for found in self._finalists() if not self.over else ():
            self._vary(found)

    def take(self, name: str, schedule: Schedule) -> None:
        """Time one schedule: alone, or as a program with every protocol."""
        runtime = self.judge.runtime
        if runtime is None:
            self._alone(name, schedule)
            return
        for protocol in sorted(self.judge.costs, key=lambda p: p != runtime.options.protocol):
            self._try(name, schedule, protocol=protocol)

    def _alone(self, name: str, schedule: Schedule) -> None:
        """Time a schedule, and its order improved when it is near the best."""
        found = self._try(name, schedule)
        if found is not None and found.seconds <= NEAR * self.best and not self.over:
            better = justified(schedule, self.judge.model, ROUNDS)
            if better is not schedule:
                self._try(name, better)

    def _finalists(self) -> list[Timed]:
        """Programs worth varying: the fastest with their blocks as they are, and if blocks cost nothing."""
        usable = [t for t in self.seen if t.served] or self.seen
        as_written = sorted(usable, key=lambda t: t.rank)[:FINALISTS]
        ideal = sorted(usable, key=lambda t: t.entry.seconds(self.size, BlockCosts()))[:FINALISTS]
        return list(dict.fromkeys([*as_written, *ideal]))

    def _vary(self, found: Timed) -> None:
        """Steps that make a program faster: sums and copies apart, then more and more instances."""
        runtime, name, schedule = found.entry.runtime, found.entry.name, found.schedule
        if not isinstance(runtime, XmlRuntime):
            return
        protocol, apart, instances = runtime.options.protocol, runtime.options.pipelined, runtime.options.instances
        if schedule.plan.demand.pattern == "allreduce" and not self.over:
            other = self._try(name, schedule, protocol=protocol, pipelined=True)
            if other is not None and other.fits >= found.fits and other.seconds <= found.seconds * WORTH:
                found, apart = other, True
        while not self.over and self.finer and self.judge.costs[protocol] != BlockCosts():
            instances *= 2
            more = self._try(name, schedule, protocol=protocol, pipelined=apart, instances=instances)
            if more is None or more.seconds > found.seconds * WORTH or not more.fits:
                return
            found = more

    def _try(self, name: str, schedule: Schedule, **options: object) -> Timed | None:
        entry = self.judge.entry(name, schedule, **options)
        schedule = entry.schedule
        self.effort -= len(schedule.transfers)
        if entry.refusal:
            self.refused.setdefault(f"{name} with {schedule.chunks_per_shard} chunks per shard", entry.refusal)
            return None
        served = entry.served(self.size, self.judge.element_bytes)
        timed = Timed(entry, entry.seconds(self.size), served, self.judge.fits(entry))
        self.seen.append(timed)
        if self.report is not None:
            self.report(timed)
        return timed

    def winner(self) -> Timed:
        """The best program: one that runs at the size, unless that costs too much.

        Raises
        ------
        NotExpressibleError
            When the runtime can express none; with the reasons.
        """
        if not self.seen:
            raise NotExpressibleError([f"{what}: {why}" for what, why in self.refused.items()] or ["no schedule"])
        best = min(self.seen, key=lambda t: t.rank)
        serving = [t for t in self.seen if t.served and t.seconds <= SERVING * best.seconds and t.fits >= best.fits]
        return min(serving, key=lambda t: t.rank, default=best)
