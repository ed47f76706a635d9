"""``synth fastest``: the fastest schedule at a size, of all rivals."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from synth.cli_calibrate import AsJson, TargetName
from synth.cli_simulate import Alpha, time_model
from synth.cli_support import number_text, print_table, say

# Rows of the table that are printed.
SHOWN = 12


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(fastest)


def fastest(
    topology: Annotated[str, typer.Argument(help="A topology file or a built-in name.")],
    collective: Annotated[str, typer.Argument(help="allgather, reducescatter, allreduce, alltoall, broadcast, ...")],
    size: Annotated[str, typer.Option(help="nccl-tests size.")] = "1MB",
    root: Annotated[int | None, typer.Option(help="Root rank.")] = None,
    alpha_mode: Alpha = "pipelined",
    start: Annotated[str, typer.Option(help="Fixed cost of a call.")] = "0 us",
    hop_latency: Annotated[str, typer.Option(help="Latency of each hop beyond the links' own.")] = "0 us",
    overhead: Annotated[str, typer.Option(help="Time that a message takes its first link before its bytes.")] = "0 us",
    seeds: Annotated[int, typer.Option(help="Tie-breaks that the matching tries per chunk count.")] = 8,
    time_limit: Annotated[float, typer.Option(help="Seconds for the search.")] = 60.0,
    target: TargetName = "msccl",
    out: Annotated[Path | None, typer.Option(help="Folder for the winner's files.")] = None,
    as_json: AsJson = False,
) -> None:
    """The fastest schedule at a size: matching, LP with and without a price on depth, and libraries' algorithms."""
    from synth.choice import fastest as search

    model = time_model(alpha_mode, "order", start, hop_latency, overhead)
    choice = search(
        topology, collective, size, root=root, model=model, seeds=seeds, time_limit=time_limit, target=target
    )
    files = {} if out is None else dict(choice.result.write(out).files)
    if as_json:
        say({**choice.to_dict(), "alpha_mode": alpha_mode, "files": files})
        return
    facts = choice.to_dict()
    say(
        f"{collective} of {size} on {facts['topology']}: {choice.winner.rival}, "
        f"{choice.schedule.chunks_per_shard} chunks per shard, {number_text(choice.seconds * 1e6, 3)} us; "
        f"at least {number_text(choice.bound.seconds * 1e6, 3)} us ({choice.bound.reason}), gap {choice.gap:.2%}"
    )
    print_table(
        ("rival", "chunks", "time_us", "over bound", "bandwidth_us", "transfers"),
        [
            (
                row["rival"],
                str(row["chunks_per_shard"]),
                number_text(row["time_us"], 3),
                f"{row['over_bound']:.3f}",
                number_text(row["bandwidth_us"], 3),
                str(row["transfers"]),
            )
            for row in facts["rivals"][:SHOWN]
        ],
    )
    for line in choice.refused:
        say(f"not expressible for {target}: {line}")
    for kind, name in files.items():
        say(f"{kind}: {name}")
