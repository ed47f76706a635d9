"""``synth sweep``: every message size."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from synth.cli.calibrate import AsJson, TargetName
from synth.cli.simulate import Alpha, time_model
from synth.cli.support import number_text, parse_ranks, print_table, say

if TYPE_CHECKING:
    from synth.choice.sweep.result import Sweep


def sweep(
    topology: Annotated[str, typer.Argument(help="A topology file or a built-in name.")],
    collective: Annotated[str, typer.Argument(help="allgather, reducescatter, allreduce, alltoall, broadcast, ...")],
    sizes: Annotated[str, typer.Option(help="1KiB:4GiB, or a list with commas.")] = "1KiB:4GiB",
    points_per_octave: Annotated[int, typer.Option(help="Points from one size to its double.")] = 1,
    target: TargetName = "msccl",
    most_files: Annotated[int, typer.Option(help="Most files.")] = 4,
    tolerance: Annotated[float, typer.Option(help="What a file may cost over the best at a size: 0.02 = 2 %.")] = 0.02,
    ranks: Annotated[str | None, typer.Option(help="Ranks that take part, such as 0-3,7.")] = None,
    root: Annotated[int | None, typer.Option(help="Root rank (broadcast, reduce).")] = None,
    alpha_mode: Alpha = "pipelined",
    start: Annotated[str, typer.Option(help="Fixed cost of a call.")] = "0 us",
    hop_latency: Annotated[str, typer.Option(help="Latency of each hop beyond the links' own.")] = "0 us",
    overhead: Annotated[str, typer.Option(help="Time that a message takes its first link before its bytes.")] = "0 us",
    constants: Annotated[
        Path | None, typer.Option(help="Costs of thread blocks (synth calibrate): time programs, choose protocols.")
    ] = None,
    protocol: Annotated[str, typer.Option(help="Without --constants: Simple, LL or LL128.")] = "Simple",
    inplace: Annotated[bool, typer.Option("--inplace/--out-of-place", help="One buffer for both sides?")] = False,
    element_bytes: Annotated[
        int, typer.Option(help="Bytes per element: files serve counts that their chunks divide; 0 = any.")
    ] = 4,
    out: Annotated[Path | None, typer.Option(help="Folder for the files, their index, the table and plots.")] = None,
    csv: Annotated[Path | None, typer.Option(help="Write the table.")] = None,
    as_json: AsJson = False,
) -> None:
    """Fastest schedule at every message size, merged into few files with size ranges, against bound and baselines."""
    from synth.choice.sweep.sweep import sweep as run
    from synth.timing.constants import load_constants

    model = time_model(alpha_mode, "order", start, hop_latency, overhead)
    with _status() as report:
        found = run(
            topology,
            collective,
            sizes,
            target=target,
            points_per_octave=points_per_octave,
            most_files=most_files,
            tolerance=tolerance,
            model=model,
            costs=None if constants is None else load_constants(constants),
            protocol=protocol,
            inplace=inplace,
            element_bytes=element_bytes,
            ranks=parse_ranks(ranks),
            root=root,
            progress=report,
        )
    if out is not None:
        found = found.write(out)
    if csv is not None:
        from synth.choice.sweep.folder import table_csv
        from synth.files.writing import write_text

        write_text(csv, table_csv(found))
    if as_json:
        say({**found.to_dict(), "written": dict(found.files)})
        return
    say(found.summary())
    _print(found)
    for name in found.files.values():
        say(name)


def _print(found: Sweep) -> None:
    from synth.ground.units import format_size

    print_table(
        (
            "size",
            "file",
            "time_us",
            "bound_us",
            "over bound",
            "busbw_GBps",
            "over best",
            "library_us",
            "speedup",
            "best",
        ),
        [
            (
                format_size(row["size_bytes"]),
                str(row["file"]),
                number_text(row["time_us"]),
                number_text(row["bound_us"]),
                f"{row['over_bound']:.3f}",
                number_text(row["busbw_GBps"]),
                f"{100 * row['excess']:.1f} %",
                number_text(row["library_us"]),
                "-" if row["speedup"] is None else f"{row['speedup']:.2f}",
                row["best"],
            )
            for row in found.rows
        ],
    )


@contextlib.contextmanager
def _status() -> Iterator[Callable[[str], None] | None]:
    """A status line on stderr while it is a terminal."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    with console.status("reading") as status:
        yield status.update
