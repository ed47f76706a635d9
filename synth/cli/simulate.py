"""``synth simulate | baselines``: the time model on the command line (docs/time-model.md)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from synth.cli.calibrate import AsJson, TargetName, calibrate
from synth.cli.support import number_text, print_table, say
from synth.errors import InvalidInputError, VerificationError

if TYPE_CHECKING:
    from synth.schedule.simulate.time_model import AlphaMode, Sharing, TimeModel
    from synth.timing.simulation import SizeTime

# Reasons why sizes are not served, that the table is followed by.
_SHOWN = 4
Alpha = Annotated[str, typer.Option(help="pipelined or blocking: is a link busy for its latency too?")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    for command in (simulate, baselines, calibrate):
        app.command()(command)


def time_model(
    alpha: str, sharing: str = "order", start: str = "0 us", hop: str = "0 us", overhead: str = "0 us"
) -> TimeModel:
    """The model that the options name."""
    from synth.ground.units import parse_time
    from synth.schedule.simulate.time_model import TimeModel

    return TimeModel(
        cast("AlphaMode", alpha), cast("Sharing", sharing), parse_time(start), parse_time(hop), parse_time(overhead)
    )


def simulate(
    file: Annotated[Path, typer.Argument(help="An MSCCL XML file of any origin.")],
    topology: Annotated[str, typer.Argument(help="A topology file or a built-in name.")],
    size: Annotated[str, typer.Option(help="Sizes: 1KiB:1GiB (doubling), 64KiB, or a list with commas.")] = "1KiB:1GiB",
    constants: Annotated[Path | None, typer.Option(help="Costs of thread blocks, as synth calibrate writes.")] = None,
    target: TargetName = "msccl",
    protocol: Annotated[str | None, typer.Option(help="Simple, LL or LL128; default: the file's.")] = None,
    alpha_mode: Alpha = "pipelined",
    start: Annotated[str, typer.Option(help="Fixed cost of a call.")] = "0 us",
    hop_latency: Annotated[str, typer.Option(help="Latency of each hop beyond the links' own.")] = "0 us",
    overhead: Annotated[str, typer.Option(help="Time that a message takes its first link before its bytes.")] = "0 us",
    dtype: Annotated[
        str, typer.Option(help="Data type of the call: a size must divide into its elements.")
    ] = "float32",
    certify: Annotated[bool, typer.Option(help="Solve the collective for a tighter bound.")] = False,
    as_json: AsJson = False,
) -> None:
    """Time of any MSCCL program at message sizes: blocks, channels, FIFO slots, loop iterations, links.

    The exit code is 5 when the runtime does not run the program at a size that is asked for, or it hangs there. Of a
    range of sizes such as 1KiB:1GiB one size has to do, give or take a few elements.
    """
    from dataclasses import replace

    from synth.emulate.values import as_dtype
    from synth.line.api import solve
    from synth.program.meaning.semantics import EVEN
    from synth.program.msccl import target_named
    from synth.program.msccl.xml import read_selected
    from synth.timing.constants import load_constants
    from synth.timing.simulation import parse_sizes, simulate_program
    from synth.topology import resolve

    runtime, machine, sizes = target_named(target), resolve(topology), parse_sizes(size)
    draft, selection = read_selected(file, runtime)
    if protocol is not None:
        draft = replace(draft, proto=protocol)
    costs = None
    if constants is not None:
        known = load_constants(constants)
        if draft.proto not in known:
            raise InvalidInputError(f"{constants}: no protocol {draft.proto}; there are {', '.join(sorted(known))}")
        costs = known[draft.proto]
    claim = draft.semantics
    reference = None
    if certify and claim.collective in EVEN:
        reference = solve(machine, claim.collective, float(sizes[-1]), root=claim.root)
    model = time_model(alpha_mode, "fifo", start, hop_latency, overhead)
    rows = simulate_program(
        draft,
        machine,
        sizes,
        costs=costs,
        model=model,
        target=runtime,
        reference=reference,
        selection=selection,
        element_bytes=as_dtype(dtype).itemsize,
    )
    heading = {
        "format": "synth-simulation/1",
        "program": draft.name,
        "collective": claim.collective,
        "protocol": draft.proto,
        "topology": machine.name,
        "alpha_mode": alpha_mode,
        "selection": selection.to_dict(),
    }
    if as_json:
        say({**heading, "sizes": [row.to_dict() for row in rows]})
    else:
        _table(heading, rows)
    # The sizes of a range are points of a curve, which need not be whole chunks.
    fine = any(row.nearly_ok for row in rows) if ":" in size else all(row.ok for row in rows)
    if not fine:
        raise typer.Exit(VerificationError.exit_code)


def _table(heading: Mapping[str, Any], rows: Sequence[SizeTime]) -> None:
    """Rows for a person, and under them why some sizes are not served."""
    say("{program}: {collective}, {protocol}, on {topology}".format(**heading))
    facts = [row.to_dict() for row in rows]
    print_table(
        ("size_bytes", "time_us", "bound_us", "algbw_GBps", "busbw_GBps", "iterations", "served"),
        [
            (
                str(f["size_bytes"]),
                "hangs" if f["time_us"] is None else number_text(f["time_us"]),
                *(number_text(f[name]) for name in ("bound_us", "algbw_GBps", "busbw_GBps")),
                str(f["iterations"]),
                "yes" if f["served"] else "no",
            )
            for f in facts
        ],
    )
    target = heading["selection"]["target"]
    reasons = list(dict.fromkeys(text for row in rows for text in row.served.reasons))
    for reason in reasons[:_SHOWN]:
        say(f"  {target} does not run it: {reason}")
    if len(reasons) > _SHOWN:
        say(f"  and {len(reasons) - _SHOWN} more such sizes (--json has all)")


def baselines(
    topology: Annotated[str, typer.Argument(help="A topology file or a built-in name.")],
    collective: Annotated[str, typer.Argument(help="allgather, reducescatter, allreduce, alltoall, broadcast, ...")],
    size: Annotated[str, typer.Option(help="nccl-tests size.")] = "1GB",
    root: Annotated[int | None, typer.Option(help="Root rank.")] = None,
    chunks: Annotated[int | None, typer.Option(help="Chunks per shard; default: the fastest of a few.")] = None,
    alpha_mode: Alpha = "pipelined",
    sharing: Annotated[str, typer.Option(help="order, fifo or fair: how messages share a link.")] = "order",
    start: Annotated[str, typer.Option(help="Fixed cost of a call.")] = "0 us",
    hop_latency: Annotated[str, typer.Option(help="Latency of each hop beyond the links' own.")] = "0 us",
    overhead: Annotated[str, typer.Option(help="Time that a message takes its first link before its bytes.")] = "0 us",
    as_json: AsJson = False,
) -> None:
    """What libraries' algorithms would take: ring, trees, recursive doubling, Bruck, direct, hierarchical, 2D."""
    from synth.demand import make_demand
    from synth.line.api import solve
    from synth.rivals.baselines.textbook import baselines as make
    from synth.schedule import simulate_schedule
    from synth.schedule.simulate.bounds import plan_bound
    from synth.topology import resolve

    machine = resolve(topology)
    demand = make_demand(machine, collective, size, root=root)
    model = time_model(alpha_mode, sharing, start, hop_latency, overhead)
    plan = solve(machine, demand)
    made = make(machine, demand, chunks=chunks, model=model, reference=plan)
    bound = plan_bound(plan, None, model)
    rows = {
        name: {
            "time_us": simulate_schedule(schedule, None, model).end * 1e6,
            "bandwidth_us": schedule.quantized * 1e6,
            "chunks_per_shard": schedule.chunks_per_shard,
            "transfers": len(schedule.transfers),
        }
        for name, schedule in made.items()
    }
    if as_json:
        say(
            {
                "format": "synth-baselines/1",
                "topology": machine.name,
                "collective": collective,
                "size_bytes": demand.size_bytes,
                "bound_us": bound.seconds * 1e6,
                "baselines": rows,
            }
        )
        return
    say(f"{collective} of {size} on {machine.name}: at least {number_text(bound.seconds * 1e6)} us ({bound.reason})")
    print_table(
        ("baseline", "time_us", "over bound", "bandwidth_us", "chunks", "transfers"),
        [
            (
                name,
                number_text(row["time_us"]),
                f"{row['time_us'] / (bound.seconds * 1e6):.2f}",
                number_text(row["bandwidth_us"]),
                str(row["chunks_per_shard"]),
                str(row["transfers"]),
            )
            for name, row in sorted(rows.items(), key=lambda item: item[1]["time_us"])
        ],
    )
