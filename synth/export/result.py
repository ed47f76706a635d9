"""What a run of the line made: its stages, what it says of them, and its files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from synth.errors import InvalidInputError
from synth.export.judgement import Judgement
from synth.export.paths_json import dump_paths, paths_name
from synth.export.schedule_json import dump_schedule
from synth.files.writing import write_files
from synth.ground.text import aligned, html_table
from synth.ground.units import format_size, format_time
from synth.program.channel_paths import ChannelPaths
from synth.program.meaning.semantics import is_standard
from synth.program.msccl import Program
from synth.program.msccl.selection import Served
from synth.program.runtime import AnyProgram, Facts, Runtime, runtime_named
from synth.schedule import Schedule
from synth.solver.flow import Plan
from synth.solver.flow.plan import facts as plan_facts
from synth.solver.flow.plan_file import dump_plan

FORMAT = "synth-result/1"
# What is known after the plan: times, then the program.
TIMES_AFTER_PLAN = ("chunks_per_shard", "quantized_us", "schedule_us", "simulated_us")
OF_PROGRAM = ("program", "target", "active_bytes", "served", "unserved_reasons")


@dataclass(frozen=True)
class Result:
    """Everything that one run of the line made.

    Attributes
    ----------
    plan, schedule, program
        The three stages; the program is verified.
    timings
        Seconds per stage: formulate, solve, schedule, lower, verify, total.
    files
        Written files by kind (see :meth:`write`).
    runtime
        Target with the options of the lowering.
    judgement
        What the program takes at its size, and where its time goes; None when nobody timed it.
    """

    plan: Plan
    schedule: Schedule
    program: AnyProgram
    timings: Mapping[str, float] = field(default_factory=dict, compare=False)
    files: Mapping[str, str] = field(default_factory=dict, compare=False)
    runtime: Runtime = field(default_factory=lambda: runtime_named("msccl"), compare=False)
    judgement: Judgement | None = field(default=None, compare=False)

    @cached_property
    def paths(self) -> ChannelPaths:
        """Which path each channel stands for: its kind and links, and settings that lead there."""
        return self.runtime.paths(self.schedule)

    @cached_property
    def text(self) -> str:
        """The file that the runtime loads: MSCCL XML, or MSCCL++ JSON."""
        return self.runtime.file(self.program)[1]

    @property
    def xml_program(self) -> Program:
        """The program of an XML runtime.

        Raises
        ------
        InvalidInputError
            When the target is mscclpp, whose plans are JSON.
        """
        if not isinstance(self.program, Program):
            raise InvalidInputError("an mscclpp plan is JSON, not XML: use .program and .text")
        return self.program

    @property
    def xml(self) -> str:
        """The program as MSCCL XML; the same error for mscclpp."""
        self.xml_program  # noqa: B018 - refuses mscclpp
        return self.text

    @property
    def simulated(self) -> float:
        """Seconds of the program at its size; of the schedule alone when nobody timed the program."""
        return self.schedule.simulated if self.judgement is None else self.judgement.seconds

    @cached_property
    def facts(self) -> Facts:
        """What the runtime says of its program: sizes that it serves, blocks, steps."""
        return self.runtime.facts(self.program)

    @cached_property
    def served(self) -> Served:
        """Whether the runtime gives a call of the asked size, of 4-byte elements, to the program."""
        claim, size = self.program.draft.semantics, self.plan.demand.size_bytes
        if claim is not None and not is_standard(claim):
            # The size of an uneven call is that of its largest buffer.
            size = self.schedule.chunk_bytes * claim.nchunks
        return self.runtime.served(self.program, round(size))

    def to_dict(self) -> dict[str, Any]:
        """The ``synth-result/1`` object of the CLI's ``--json``."""
        schedule, facts = self.schedule, self.facts
        after = {
            "chunks_per_shard": schedule.chunks_per_shard,
            "quantized_us": schedule.quantized * 1e6,
            "schedule_us": schedule.simulated * 1e6,
            "simulated_us": self.simulated * 1e6,
            "program": None if self.judgement is None else self.judgement.to_dict(),
            "target": facts.target,
            "active_bytes": [facts.low, facts.high],
            "served": self.served.ok,
            "unserved_reasons": list(self.served.reasons),
        }
        return result_dict(self.plan, after, self.timings, self.files)

    def summary(self) -> str:
        """A few aligned lines for a person."""
        return aligned(self._facts())

    def _repr_html_(self) -> str:
        return html_table(self._facts())

    def _facts(self) -> list[tuple[str, str]]:
        """The plan's facts, then schedule and program, as (label, text)."""
        schedule, facts = self.schedule, self.facts
        whole = "" if schedule.proven else " (not proven the best split)"
        size = self.plan.demand.size_bytes
        over = schedule.quantized / self.plan.time - 1 if self.plan.time > 0 else 0.0
        timed = [] if self.judgement is None else self.judgement.facts(self.plan.time, size, facts.counts)
        return [
            *plan_facts(self.plan),
            ("quantised", f"{format_time(schedule.quantized)}, {100 * max(0.0, over):.2f} % over the plan{whole}"),
            ("as schedule", f"{format_time(schedule.simulated)} with latency"),
            *timed,
            ("chunks", f"{schedule.chunks_per_shard} per shard of {format_size(schedule.chunk_bytes)}"),
            ("program", f"for {facts.target}: {facts.size}, verified"),
            ("runs when", f"message of {facts.low} to {facts.high} bytes, {facts.counts}"),
            *(("not at", text) for text in self.served.reasons),
        ]

    def write(self, folder: str | Path) -> Result:
        """Write plan.json, schedule.json, the program, summary.txt and the plots; returns a result with ``files``.

        All files are made before the first one appears under its name.

        Raises
        ------
        InvalidInputError
            When the folder or a file cannot be written; then no file has changed.
        """
        from synth.export.plots.figures import figure_files  # matplotlib is slow to import

        name, text = self.runtime.file(self.program)
        contents = {
            "plan": ("plan.json", dump_plan(self.plan).encode()),
            "schedule": ("schedule.json", dump_schedule(self.schedule).encode()),
            "summary": ("summary.txt", (self.summary() + "\n").encode()),
            **{Path(plot).stem: (plot, data) for plot, data in figure_files(self.schedule).items()},
            "program": (name, text.encode()),
            "paths": (paths_name(name), dump_paths(self.paths, name).encode()),
        }
        return replace(self, files=_written(folder, contents))


@dataclass(frozen=True)
class Planned:
    """A plan as the result of a command; large clusters have no schedule that one file could hold.

    Attributes
    ----------
    plan
        The plan.
    timings
        Seconds: formulate, solve, total.
    files
        Written files by kind (see :meth:`write`).
    """

    plan: Plan
    timings: Mapping[str, float] = field(default_factory=dict, compare=False)
    files: Mapping[str, str] = field(default_factory=dict, compare=False)

    def to_dict(self) -> dict[str, Any]:
        """The ``synth-result/1`` object of ``synth solve --plan-only --json``: null where there is no schedule."""
        after = dict.fromkeys((*TIMES_AFTER_PLAN, *OF_PROGRAM))
        return result_dict(self.plan, after, self.timings, self.files)

    def summary(self) -> str:
        """A few aligned lines for a person."""
        return aligned(plan_facts(self.plan))

    def write(self, folder: str | Path) -> Planned:
        """Write plan.json, summary.txt and the plan's plots; returns a result with ``files``."""
        from synth.export.plots.figures import plan_files  # matplotlib is slow to import

        contents = {
            "plan": ("plan.json", dump_plan(self.plan).encode()),
            "summary": ("summary.txt", (self.summary() + "\n").encode()),
            **{Path(plot).stem: (plot, data) for plot, data in plan_files(self.plan).items()},
        }
        return replace(self, files=_written(folder, contents))


def _written(folder: str | Path, contents: Mapping[str, tuple[str, bytes]]) -> dict[str, str]:
    """Write (name, data) by kind of file into a folder, all or none; the paths by kind."""
    write_files(Path(folder), dict(contents.values()))
    return {kind: str(Path(folder) / name) for kind, (name, _) in contents.items()}


def result_dict(
    plan: Plan, after: Mapping[str, Any], timings: Mapping[str, float], files: Mapping[str, str]
) -> dict[str, Any]:
    """The ``synth-result/1`` object; ``after`` holds what comes after the plan."""
    return {
        "format": FORMAT,
        "topology": plan.topology.name,
        "collective": plan.demand.collective,
        "ranks": list(plan.demand.ranks),
        "size_bytes": plan.demand.size_bytes,
        "status": plan.status,
        "bound_us": plan.bound * 1e6,
        "plan_us": plan.time * 1e6,
        "gap": plan.gap,
        "method": plan.method,
        "alternatives_us": {name: span * 1e6 for name, span in plan.alternatives.items()},
        "bottleneck": list(plan.bottleneck),
        "routes": len(plan.routes),
        "depth": plan.depth,
        **{name: after[name] for name in TIMES_AFTER_PLAN},
        "algbw_GBps": plan.algbw / 1e9,
        "busbw_GBps": None if plan.busbw is None else plan.busbw / 1e9,
        **{name: after[name] for name in OF_PROGRAM},
        "timings_s": dict(timings),
        "solver": {
            "engine": plan.solver.engine,
            "version": plan.solver.version,
            "iterations": plan.solver.iterations,
            "columns": plan.solver.columns,
        },
        "files": dict(files),
    }
