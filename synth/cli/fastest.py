"""``synth fastest``: the fastest schedule at a size, of all rivals."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from synth.cli.calibrate import AsJson, TargetName
from synth.cli.simulate import Alpha, time_model
from synth.cli.support import number_text, print_table, say

if TYPE_CHECKING:
    from synth.rivals.at_size import Candidate

# Rows of the table that are printed.
SHOWN = 12


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(fastest)


@contextlib.contextmanager
def candidates() -> Iterator[Callable[[Candidate], None] | None]:
    """A status line on stderr while it is a terminal: who was last, and the best so far."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    best: list[Candidate] = []
    with console.status("solving") as status:

        def report(now: Candidate) -> None:
            best[:] = [min([*best, now], key=lambda candidate: candidate.seconds)]
            status.update(
                f"{now.rival}, {now.schedule.chunks_per_shard} chunks: {now.seconds * 1e6:.3f} us; "
                f"best {best[0].seconds * 1e6:.3f} us ({best[0].rival})"
            )

        yield report


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
    from synth.choice.fastest import fastest as search

    model = time_model(alpha_mode, "order", start, hop_latency, overhead)
    with candidates() as progress:
        choice = search(
            topology,
            collective,
            size,
            root=root,
            model=model,
            seeds=seeds,
            time_limit=time_limit,
            target=target,
            progress=progress,
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
