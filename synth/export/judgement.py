"""What a program takes, where its time goes, and what a library would take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from synth.ground.units import format_size, format_time


@dataclass(frozen=True)
class Judgement:
    """The verdict on one written program at the size that was asked.

    Attributes
    ----------
    seconds
        Time of the program, by the program simulator, with the costs of its blocks.
    schedule
        Name of the schedule: who made it, and its chunks per shard before any cut for instances.
    options
        What the search chose of the lowering: protocol, instances, pipelined, blocks.
    lost
        Seconds over the plan, by reason, in this order: ``chunks`` (whole ones), ``order`` (links that wait for each
        other), ``latency``, ``blocks``. They add up to ``seconds`` minus the plan's time.
    baseline, baseline_seconds
        The fastest of what libraries run, as a program in the same model; None when there is none.
    runs
        Whether the runtime gives a call of the asked size to the file.
    tried
        Programs that the search timed.
    constants
        Where the costs of blocks are from.
    """

    seconds: float
    schedule: str
    options: Mapping[str, Any] = field(default_factory=dict)
    lost: Mapping[str, float] = field(default_factory=dict)
    baseline: str | None = None
    baseline_seconds: float | None = None
    runs: bool = True
    tried: int = 1
    constants: str = "ideal"

    def to_dict(self) -> dict[str, Any]:
        """Facts for ``--json``."""
        return {
            "schedule": self.schedule,
            **self.options,
            "constants": self.constants,
            "lost_us": {reason: seconds * 1e6 for reason, seconds in self.lost.items()},
            "baseline": self.baseline,
            "baseline_us": None if self.baseline_seconds is None else self.baseline_seconds * 1e6,
            "runs_at_size": self.runs,
            "programs_timed": self.tried,
        }

    def facts(self, plan_seconds: float, size: float, counts: str) -> list[tuple[str, str]]:
        """Lines of a summary."""
        over = f", {100 * (self.seconds / plan_seconds - 1):.1f} % over the plan" if plan_seconds > 0 else ""
        rows = [("program time", f"{format_time(self.seconds)}{over} (blocks: {self.constants})")]
        parts = [f"{reason} {format_time(seconds)}" for reason, seconds in self.lost.items() if seconds > 0]
        if parts:
            rows.append(("lost to", ", ".join(parts)))
        chosen = ", ".join(f"{name} {value}" for name, value in self.options.items())
        rows.append(("chosen", f"{self.schedule}{', ' if chosen else ''}{chosen}; {self.tried} programs timed"))
        if self.baseline is not None and self.baseline_seconds is not None:
            ratio = self.baseline_seconds / self.seconds if self.seconds > 0 else 1.0
            rows.append(("best library", f"{self.baseline}, {format_time(self.baseline_seconds)} ({ratio:.2f} x)"))
        if not self.runs:
            rows.append(("will not run", f"at {format_size(size)}: the runtime passes it over; {counts}"))
        return rows
