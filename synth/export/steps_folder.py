"""Files of step-optimal schedules: facts, transfers, the program, and pictures of a single one."""

from __future__ import annotations

import json
from typing import Any

from synth.export.paths_json import dump_paths, paths_name
from synth.export.plots.figures import figure_files
from synth.export.schedule_json import dump_schedule
from synth.program.runtime import runtime_named
from synth.schedule import Schedule
from synth.solver.send_times.solution import SendTimes
from synth.solver.steps.optimum import StepFrontier
from synth.solver.steps.solution import StepSolution


def solution_files(solution: StepSolution | SendTimes, target: str) -> dict[str, bytes]:
    """``steps.json``, ``schedule.json``, the verified program, its side-car, ``summary.txt`` and the plots."""
    schedule = solution.schedule()
    facts = solution.to_dict() | {"schedule": solution.sends_to_dict()}
    return {
        "steps.json": _json(facts),
        "schedule.json": dump_schedule(schedule).encode(),
        **_program_files(schedule, target),
        "summary.txt": (solution.summary() + "\n").encode(),
        **figure_files(schedule),
    }


def frontier_files(frontier: StepFrontier, target: str) -> dict[str, bytes]:
    """``frontier.json``, and per point its steps, schedule and program with its numbers in front of their names."""
    facts = frontier.to_dict()
    for point_facts in facts["points"]:
        del point_facts["solve_s"]
    files = {"frontier.json": _json(facts)}
    for point in frontier.points:
        schedule = point.schedule()
        before = f"c{point.chunks}-s{point.steps}-r{point.rounds}."
        files[before + "steps.json"] = _json(point.to_dict() | {"schedule": point.sends_to_dict()})
        files[before + "schedule.json"] = dump_schedule(schedule).encode()
        files |= _program_files(schedule, target, before)
    return files


def _program_files(schedule: Schedule, target: str, before: str = "") -> dict[str, bytes]:
    """The verified program, and which path each of its channels stands for; ``before`` stands before both names."""
    runtime = runtime_named(target)
    kind, text = runtime.file(runtime.program(runtime.draft(schedule)))
    name = before + kind
    return {name: text.encode(), paths_name(name): dump_paths(runtime.paths(schedule), name).encode()}


def _json(facts: dict[str, Any]) -> bytes:
    """JSON text without the time it took, so that the same input gives the same bytes."""
    facts = {key: value for key, value in facts.items() if key != "solve_s"}
    return (json.dumps(facts, ensure_ascii=False, indent=1) + "\n").encode()
