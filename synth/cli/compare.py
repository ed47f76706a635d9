"""``synth compare``: what each kind of path adds to a collective, on one machine or the whole catalogue."""

from __future__ import annotations

import contextlib
import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer
from rich.console import Console
from rich.table import Table

from synth.cli.support import parse_ranks, say
from synth.errors import InvalidInputError

if TYPE_CHECKING:
    import pandas as pd

    from synth.schedule.simulate.time_model import Sharing

FORMAT = "synth-compare/1"


def compare_command(
    what: Annotated[list[str], typer.Argument(help="TOPOLOGY COLLECTIVE, or COLLECTIVE with --catalogue.")],
    size: Annotated[str, typer.Option(help="nccl-tests size, such as 1GiB.")],
    catalogue: Annotated[bool, typer.Option("--catalogue", help="Every machine of the catalogue.")] = False,
    ranks: Annotated[str | None, typer.Option(help="Ranks that take part, such as 0-3,7.")] = None,
    root: Annotated[int | None, typer.Option(help="Root rank (broadcast, reduce, gather, scatter).")] = None,
    relay: Annotated[
        bool | None,
        typer.Option(
            "--relay/--no-relay", help="May GPUs that take no part forward? Default: yes, in rented parts no."
        ),
    ] = None,
    capacities: Annotated[str | None, typer.Option(help="nominal or achievable, of built-in machines.")] = None,
    gap: Annotated[float, typer.Option(help="Relative gap at which a plan counts as optimal.")] = 1e-6,
    time_limit: Annotated[str, typer.Option(help="Wall-clock limit of each solve.")] = "60s",
    simulate: Annotated[
        bool | None,
        typer.Option("--simulate/--no-simulate", help="Simulate too? Default: one topology yes, the catalogue no."),
    ] = None,
    sharing: Annotated[str, typer.Option(help="Simulated messages share links by order, fifo or fair.")] = "order",
    band: Annotated[
        str | None, typer.Option(help="Say which machines gain between two percentages, such as 23-54.")
    ] = None,
    as_csv: Annotated[Path | None, typer.Option("--csv", help="Write the table as CSV.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Write the bars as PNG.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Compare a collective on scale-up links alone, with PCIe and host memory, with NICs, and with all paths."""
    from synth.export.plots.compare import compare_file
    from synth.files.writing import write_files
    from synth.ground.units import parse_time
    from synth.study.multipath.gains import compare, in_band

    topology, collective = _what(what, catalogue)
    limits = None if band is None else _band(band)
    with _status() as report:
        table = compare(
            topology,
            collective,
            size,
            ranks=parse_ranks(ranks),
            root=root,
            relay=relay,
            capacities=capacities,
            gap=gap,
            time_limit=parse_time(time_limit),
            simulate=simulate,
            sharing=cast("Sharing", sharing),
            progress=report,
        )
    found = None if limits is None else in_band(table, *limits)
    if as_csv is not None:
        write_files(as_csv.parent, {as_csv.name: table.to_csv(index=False, lineterminator="\n").encode()})
    if plot is not None:
        write_files(plot.parent, {plot.name: compare_file(table)})
    if as_json:
        answer: dict[str, Any] = {"format": FORMAT, "rows": _records(table)}
        say(answer if found is None else {**answer, "in_band": _records(found)})
        return
    Console(width=None if sys.stdout.isatty() else 160).print(_rich(table))
    if found is not None and limits is not None:
        say("\n".join(_band_lines(found, *limits)))
    for path in (as_csv, plot):
        if path is not None:
            say(str(path))


def _what(words: list[str], catalogue: bool) -> tuple[str | None, str]:
    if len(words) != (1 if catalogue else 2):
        wanted = "COLLECTIVE alone with --catalogue" if catalogue else "TOPOLOGY and COLLECTIVE, or --catalogue"
        raise InvalidInputError(f"compare {' '.join(words)!r}: give {wanted}")
    return (None, words[0]) if catalogue else (words[0], words[1])


def _band(text: str) -> tuple[float, float]:
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*-\s*(\d+(?:\.\d+)?)\s*", text)
    if match is None or float(match[1]) > float(match[2]):
        raise InvalidInputError(f"--band {text!r} is not two percentages, low before high, such as 23-54")
    return float(match[1]), float(match[2])


def _records(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows with null where there is no number."""
    rows: list[dict[str, Any]] = json.loads(table.to_json(orient="records", double_precision=15))
    return rows


def _rich(table: pd.DataFrame) -> Table:
    out = Table("machine", "ranks", "paths", "bound", "plan", "simulated", "gain", "simulated gain", "bytes per path")
    last = None
    for row in table.to_dict("records"):
        case = (row["machine"], row["ranks"], row["relay"])
        if last not in (None, case):
            out.add_section()
        names = (str(row["machine"]), f"{row['ranks']}{'' if row['relay'] else ' (others idle)'}")
        times = [_microseconds(row[name]) for name in ("bound_us", "plan_us", "simulated_us")]
        gains = [_gain(row[name]) for name in ("gain_percent", "simulated_gain_percent")]
        shown = names if last != case else ("", "")
        said = _shares(row) if row["status"] in ("optimal", "feasible") else str(row["status"])
        out.add_row(*shown, str(row["paths"]), *times, *gains, said)
        last = case
    return out


def _microseconds(value: float) -> str:
    return "-" if value != value else f"{value:.1f} us"


def _gain(value: float) -> str:
    return "-" if value != value else f"{value:+.1f} %"


def _shares(row: dict[Any, Any]) -> str:
    from synth.study.multipath.shares import KINDS

    parts = ((kind, row[f"share_{kind}"]) for kind in KINDS)
    return ", ".join(f"{kind} {100 * share:.1f} %" for kind, share in parts if share > 5e-4)


def _band_lines(found: pd.DataFrame, low: float, high: float) -> Iterator[str]:
    yield f"gains of {low:g} to {high:g} %:"
    for (machine, ranks, relay), rows in found.groupby(["machine", "ranks", "relay"], sort=False):
        gains = ", ".join(f"{row.paths} {row.gain_percent:+.1f} %" for row in rows.itertuples())
        yield f"  {machine} ranks {ranks}{'' if relay else ', others idle'}: {gains}"


@contextlib.contextmanager
def _status() -> Iterator[Callable[[str], None] | None]:
    """A line on stderr that says what is being solved, while it is a terminal."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    with console.status("reading") as status:
        yield lambda name: status.update(f"solving {name}")
