"""The command line: ``synth solve | verify | run | simulate | fastest | sweep | steps | topology | study | plot ...``.

The exit code says how it ended (see errors.py).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from synth.cli.compare import compare_command
from synth.cli.fastest import register as register_fastest
from synth.cli.run import run
from synth.cli.simulate import register
from synth.cli.steps import steps
from synth.cli.study import study_app
from synth.cli.support import matrix_from, parse_ranks, progress, say, shortened, write_lp_file
from synth.cli.sweep import sweep
from synth.cli.topology import topology_app
from synth.cli.verify import verify
from synth.errors import InvalidInputError, SynthError, VerificationError

if TYPE_CHECKING:
    from synth.export.result import Result
    from synth.topology import Topology

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
app.add_typer(topology_app, name="topology")
register(app)
register_fastest(app)
app.command()(sweep)
app.command("compare")(compare_command)
app.add_typer(study_app, name="study")
app.command()(steps)
app.command()(verify)
app.command()(run)

PLOTS = ("topology", "splits", "utilisation", "timeline", "overview")
INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point: run the CLI (default: the process's arguments) and turn errors into messages and exit codes."""
    try:
        app(arguments)
    except SynthError as error:
        for fault in shortened(error):
            sys.stderr.write(f"error: {fault}\n")
        raise SystemExit(error.exit_code) from None
    except KeyboardInterrupt:
        sys.stderr.write("interrupted: nothing was written\n")
        raise SystemExit(INTERRUPTED) from None


@app.callback()
def _about() -> None:
    """synth: certified collective-communication schedules by linear programming."""


@app.command()
def solve(
    topology: Annotated[str, typer.Argument(help="A topology file, or a built-in such as dgx1-v100 or torus2d:4x4.")],
    collective: Annotated[str, typer.Argument(help="allgather, reducescatter, allreduce, alltoall, alltoallv, ...")],
    size: Annotated[str | None, typer.Option(help="nccl-tests size, such as 1GiB.")] = None,
    ranks: Annotated[str | None, typer.Option(help="Ranks that take part, such as 0-3,7; others may relay.")] = None,
    root: Annotated[int | None, typer.Option(help="Root rank (broadcast, reduce, gather, scatter).")] = None,
    demand: Annotated[Path | None, typer.Option(help="CSV matrix of bytes for alltoallv, row = source.")] = None,
    shards: Annotated[str | None, typer.Option(help="Uneven shards, such as 1GB,2GB,1GB (one per rank).")] = None,
    relay: Annotated[bool, typer.Option("--relay/--no-relay", help="May GPUs that take no part forward?")] = True,
    paths: Annotated[str | None, typer.Option(help="Path kinds to use, of nvlink,pcie,host,nic; default: all.")] = None,
    capacities: Annotated[str | None, typer.Option(help="nominal or achievable, of a built-in machine.")] = None,
    chunks: Annotated[int | None, typer.Option(help="Chunks per shard; default: as few as --max-loss allows.")] = None,
    max_loss: Annotated[float, typer.Option(help="Loss that whole chunks may cost, 0.02 = 2 %.")] = 0.02,
    max_steps: Annotated[int | None, typer.Option(help="Most synchronous rounds.")] = None,
    target: Annotated[str, typer.Option(help="Runtime: msccl, msccl-executor, rccl or mscclpp.")] = "msccl",
    inplace: Annotated[bool, typer.Option("--inplace/--out-of-place", help="One buffer for both sides?")] = False,
    min_bytes: Annotated[str, typer.Option(help="Size from which on the file is active.")] = "0",
    max_bytes: Annotated[str | None, typer.Option(help="Size up to which the file is active.")] = None,
    protocol: Annotated[str, typer.Option(help="Simple, LL or LL128.")] = "Simple",
    instances: Annotated[int, typer.Option(help="Least number of channels per path.")] = 1,
    max_channels: Annotated[int | None, typer.Option(help="Most channels that the program may use.")] = None,
    sms: Annotated[int | None, typer.Option(help="SMs or CUs of the GPU: blocks that it holds at once.")] = None,
    symmetry: Annotated[
        str, typer.Option(help="auto or off: solve one root per orbit of the machine's automorphisms, or all.")
    ] = "auto",
    gap: Annotated[float, typer.Option(help="Relative gap at which a plan counts as optimal.")] = 1e-6,
    time_limit: Annotated[str, typer.Option(help="Wall-clock limit of the solve, such as 60s.")] = "60s",
    out: Annotated[Path | None, typer.Option(help="Folder for plan, schedule, XML and plots.")] = None,
    search: Annotated[
        bool, typer.Option("--search", help="Time programs of matchings, baselines and the plan; write the fastest.")
    ] = False,
    constants: Annotated[
        str, typer.Option(help="With --search: costs of blocks, a file of synth calibrate or ideal.")
    ] = "ideal",
    blocks: Annotated[int | None, typer.Option(help="With --search: most thread blocks on a GPU.")] = None,
    element_bytes: Annotated[
        int, typer.Option(help="With --search: element size for which the file shall run; 0: any chunks.")
    ] = 4,
    thresholds: Annotated[
        bool, typer.Option("--thresholds", help="Leave out path kinds that do not pay at this size (synth study).")
    ] = False,
    plan_only: Annotated[bool, typer.Option("--plan-only", help="Stop at the plan: no schedule, no program.")] = False,
    write_lp: Annotated[Path | None, typer.Option(help="Write the finished master as an LP file.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Split a collective over all paths, with a proof, and turn it into a verified MSCCL program."""
    from synth.export.result import Planned
    from synth.ground.units import parse_size, parse_time
    from synth.line.api import plan_only as only_plan
    from synth.line.api import synthesize
    from synth.topology.paths import parse_groups

    if symmetry not in ("auto", "off"):
        raise InvalidInputError(f"symmetry {symmetry!r} must be auto or off")
    with progress() as report:
        what: dict[str, Any] = {
            "ranks": parse_ranks(ranks),
            "root": root,
            "matrix": matrix_from(demand),
            "shards": None if shards is None else [parse_size(part) for part in shards.split(",")],
            "relay": relay,
            "paths": None if paths is None else parse_groups(paths),
            "capacities": capacities,
            "gap": gap,
            "time_limit": parse_time(time_limit),
            "progress": report,
            "symmetry": symmetry,
        }
        lowering = {
            "inplace": inplace,
            "min_bytes": int(parse_size(min_bytes)),
            "max_bytes": None if max_bytes is None else int(parse_size(max_bytes)),
            "protocol": protocol,
            "instances": instances,
            "max_channels": max_channels,
            "sms": sms,
        }
        machine: Topology | str = topology
        if thresholds:
            from synth.demand.instance import Given, make_instance
            from synth.study.threshold.collectives import paying

            given: Any = {name: what[name] for name in Given.__optional_keys__}
            asked = make_instance(topology, collective, size, **given)
            machine = paying(asked.topology, asked.demand, what["time_limit"])
            what |= {"paths": None, "capacities": None}
        result: Result | Planned
        if plan_only:
            result = only_plan(machine, collective, size, **what)
        else:
            realise: dict[str, Any] = {"chunks": chunks, "max_loss": max_loss, "max_steps": max_steps}
            if search:
                realise |= {"search": True, "constants": constants, "blocks": blocks, "element_bytes": element_bytes}
            result = synthesize(machine, collective, size, target=target, lowering=lowering, **realise, **what)
    if write_lp is not None:
        write_lp_file(result.plan, write_lp)
    outside = () if isinstance(result, Planned) else result.served.out_of_range
    if out is not None and not outside:
        result = result.write(out)
    say(result.to_dict() if as_json else result.summary())
    if not as_json:
        for name in result.files.values():
            say(name)
    if outside:
        raise VerificationError([f"no file is written: {text}" for text in outside])


@app.command()
def plot(
    plan: Annotated[Path, typer.Argument(help="A plan.json that synth solve wrote.")],
    out: Annotated[Path, typer.Option(help="Folder for the PNG files.")] = Path(),
    kind: Annotated[list[str] | None, typer.Option(help="topology, splits, utilisation, timeline or overview.")] = None,
    chunks: Annotated[int | None, typer.Option(help="Chunks per shard of the timeline.")] = None,
) -> None:
    """Draw a saved plan: topology with load, split bars, utilisation heat map, schedule timeline."""
    from synth.export.plots.figures import figure_files
    from synth.files.writing import write_files
    from synth.solver.flow.plan_file import load_plan

    wrong = [name for name in kind or () if name not in PLOTS]
    if wrong:
        raise InvalidInputError(f"unknown plot {', '.join(wrong)}: use {', '.join(PLOTS)}")
    schedule = load_plan(plan).schedule(chunks=chunks)
    files = {name: data for name, data in figure_files(schedule).items() if not kind or Path(name).stem in kind}
    for path in write_files(out, files):
        say(str(path))


@app.command()
def targets() -> None:
    """List the runtimes that programs are written for, with their limits."""
    from synth.program.msccl import describe_targets

    head, *rows = describe_targets()
    table = Table(*head)
    for row in rows:
        table.add_row(*row)
    Console(width=None if sys.stdout.isatty() else 160).print(table)
