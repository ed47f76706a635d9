"""``synth steps``: step-optimal schedules, their frontier, and optimal send times."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console

from synth.cli.support import matrix_from, parse_ranks, say
from synth.errors import InvalidInputError


def steps(
    topology: Annotated[str, typer.Argument(help="A topology file, or a built-in such as dgx1-v100.")],
    collective: Annotated[str, typer.Argument(help="allgather, reducescatter, allreduce, alltoall, broadcast, ...")],
    chunks: Annotated[int, typer.Option(help="Chunks per shard.")] = 1,
    steps: Annotated[int | None, typer.Option(help="Synchronous steps; default: as few as possible.")] = None,
    rounds: Annotated[int | None, typer.Option(help="Rounds that will do; default: as few as possible.")] = None,
    frontier: Annotated[bool, typer.Option("--frontier", help="All of (chunks, steps, rounds) that pay.")] = False,
    max_steps: Annotated[int | None, typer.Option(help="Most steps of the frontier; default: the fewest + 1.")] = None,
    max_chunks: Annotated[int, typer.Option(help="Most chunks per shard of the frontier.")] = 6,
    asynchronous: Annotated[
        bool, typer.Option("--asynchronous", help="Send times instead of steps, for a few GPUs with uneven links.")
    ] = False,
    alpha_mode: Annotated[str, typer.Option(help="Send times: pipelined or blocking links.")] = "pipelined",
    size: Annotated[str | None, typer.Option(help="nccl-tests size of the schedule; default 1 GB.")] = None,
    ranks: Annotated[str | None, typer.Option(help="Ranks that take part, such as 0-3,7; others may relay.")] = None,
    root: Annotated[int | None, typer.Option(help="Root rank (broadcast, reduce, gather, scatter).")] = None,
    demand: Annotated[Path | None, typer.Option(help="CSV matrix of bytes for alltoallv, row = source.")] = None,
    round_bandwidth: Annotated[
        str | None, typer.Option(help="Link that sends one chunk per round, such as 25GB/s; default: the slowest.")
    ] = None,
    symmetry: Annotated[str, typer.Option(help="auto or off: try schedules equal under automorphisms first.")] = "auto",
    engine: Annotated[str, typer.Option(help="Any MILP engine that PuLP finds.")] = "HiGHS",
    time_limit: Annotated[str, typer.Option(help="Wall-clock limit, such as 60s.")] = "60s",
    target: Annotated[str, typer.Option(help="Runtime of the program in --out.")] = "msccl",
    out: Annotated[Path | None, typer.Option(help="Folder for steps, schedule, program and plots.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Fewest steps and rounds by MILP, with a proof: schedules for small sizes and small machines."""
    from synth.ground.units import parse_bandwidth, parse_time

    options: dict[str, Any] = {
        "ranks": parse_ranks(ranks),
        "root": root,
        "matrix": matrix_from(demand),
        "engine": engine,
        "time_limit": parse_time(time_limit),
    }
    if not asynchronous:
        options["symmetry"] = symmetry
        options["round_bandwidth"] = None if round_bandwidth is None else parse_bandwidth(round_bandwidth)
    _check_combination(frontier, asynchronous, chunks, steps, rounds, max_steps, round_bandwidth)
    with _progress() as options["progress"]:
        if frontier:
            _frontier(topology, collective, size, max_steps, max_chunks, options, target, out, as_json)
        elif asynchronous:
            _single(
                "send_times",
                topology,
                collective,
                size,
                {"chunks": chunks, "alpha_mode": alpha_mode} | options,
                target,
                out,
                as_json,
            )
        else:
            _single(
                "steps",
                topology,
                collective,
                size,
                {"chunks": chunks, "steps": steps, "rounds": rounds} | options,
                target,
                out,
                as_json,
            )


def _check_combination(
    frontier: bool,
    asynchronous: bool,
    chunks: int,
    steps: int | None,
    rounds: int | None,
    max_steps: int | None,
    round_bandwidth: str | None,
) -> None:
    faults = []
    if frontier and asynchronous:
        faults.append("--frontier is of steps: leave --asynchronous out")
    if frontier and (chunks != 1 or steps is not None or rounds is not None):
        faults.append("--frontier takes --max-chunks and --max-steps, not --chunks, --steps or --rounds")
    if asynchronous and (steps is not None or rounds is not None or round_bandwidth is not None):
        faults.append("--asynchronous has no steps: leave --steps, --rounds and --round-bandwidth out")
    if max_steps is not None and not frontier:
        faults.append("--max-steps belongs to --frontier")
    if faults:
        raise InvalidInputError(faults)


def _single(
    kind: Literal["steps", "send_times"],
    topology: str,
    collective: str,
    size: str | None,
    options: dict[str, Any],
    target: str,
    out: Path | None,
    as_json: bool,
) -> None:
    from synth.export.steps_folder import solution_files
    from synth.line.steps import send_time_optimum, step_optimum
    from synth.solver.send_times.solution import SendTimes
    from synth.solver.steps.solution import StepSolution

    solution: StepSolution | SendTimes
    if kind == "steps":
        solution = step_optimum(topology, collective, size, **options)
    else:
        solution = send_time_optimum(topology, collective, size, **options)
    written = _write(out, lambda: solution_files(solution, target))
    _tell(solution.to_dict(), solution.summary(), written, as_json)


def _frontier(
    topology: str,
    collective: str,
    size: str | None,
    max_steps: int | None,
    max_chunks: int,
    options: dict[str, Any],
    target: str,
    out: Path | None,
    as_json: bool,
) -> None:
    from synth.export.steps_folder import frontier_files
    from synth.line.steps import step_frontier

    found = step_frontier(topology, collective, size, max_steps=max_steps, max_chunks=max_chunks, **options)
    written = _write(out, lambda: frontier_files(found, target))
    _tell(found.to_dict(), found.summary(), written, as_json)


def _write(out: Path | None, files: Callable[[], dict[str, bytes]]) -> list[Path]:
    from synth.files.writing import write_files

    return [] if out is None else write_files(out, files())


def _tell(facts: dict[str, Any], summary: str, written: list[Path], as_json: bool) -> None:
    if as_json:
        say(facts | {"files": {path.name: str(path) for path in written}})
        return
    say(summary)
    for path in written:
        say(str(path))


@contextlib.contextmanager
def _progress() -> Iterator[Callable[[str], None] | None]:
    """A status line on stderr while it is a terminal."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    with console.status("counting") as status:
        yield status.update
