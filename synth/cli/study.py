"""``synth study adaptive | threshold``: studies on top of the stages."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from synth.cli.support import parse_ranks, say
from synth.errors import InvalidInputError

if TYPE_CHECKING:
    from synth.study import Change, PathSet

study_app = typer.Typer(no_args_is_help=True, help="Studies: adaptive splitting, thresholds of extra paths.")

TopologyText = Annotated[str, typer.Argument(help="A topology file or a built-in name.")]
PathKinds = Annotated[str | None, typer.Option("--paths", help="Kinds of paths: direct,switch,relay,pcie,host,nic.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]


@study_app.command()
def adaptive(
    topology: TopologyText,
    size: Annotated[str, typer.Option(help="Bytes of the transfer, such as 1GB.")],
    pair: Annotated[str, typer.Option(help="Ranks from,to.")] = "0,1",
    chunk: Annotated[str, typer.Option(help="Bytes of a chunk.")] = "1MiB",
    paths: PathKinds = None,
    primary: Annotated[str | None, typer.Option(help="Kinds of the primary window; default: scale-up.")] = None,
    primary_window: Annotated[str | None, typer.Option(help="Bytes that a primary path may have outstanding.")] = None,
    secondary_window: Annotated[str | None, typer.Option(help="The same for each other path.")] = None,
    drop: Annotated[
        list[str] | None,
        typer.Option(help="LINK@TIME=FACTOR, such as nv0:fwd@40%=0.5 (% of the LP's time) or nic@2ms=0.3; repeatable."),
    ] = None,
    drift: Annotated[float | None, typer.Option(help="Deepest loss of capacities that wander, such as 0.5.")] = None,
    drift_on: Annotated[
        str | None, typer.Option(help="Links or pools that wander; default: all that are used.")
    ] = None,
    every: Annotated[str, typer.Option(help="Time between changes of the drift.")] = "200us",
    seed: Annotated[int, typer.Option(help="Seed of the drift.")] = 0,
    out: Annotated[Path | None, typer.Option(help="Folder for adaptive.png.")] = None,
    as_json: Json = False,
) -> None:
    """Simulate one transfer over several paths: adaptive windows against the LP's split, fixed and re-solved."""
    from synth.files.writing import write_files
    from synth.ground.units import parse_size
    from synth.study import compare_splits, find_paths
    from synth.topology import resolve

    machine = resolve(topology)
    found = find_paths(machine, *_pair(pair), kinds=_names(paths))
    total = parse_size(size)
    changes = _drops(found, total, drop or []) + _drift(found, total, drift, drift_on, every, seed)
    with _status() as report:
        compared = compare_splits(
            found,
            total,
            chunk=parse_size(chunk),
            changes=changes,
            primary=_names(primary),
            primary_window=None if primary_window is None else parse_size(primary_window),
            secondary_window=None if secondary_window is None else parse_size(secondary_window),
            progress=report,
        )
    written: list[Path] = []
    if out is not None:
        from synth.study.adaptive.plots import adaptive_files

        written = write_files(out, adaptive_files(compared))
    say(compared.to_dict() if as_json else "\n".join([compared.summary(), *map(str, written)]))


@study_app.command()
def threshold(
    topology: TopologyText,
    collective: Annotated[str, typer.Argument(help="pair, or a collective such as allgather.")] = "pair",
    pair: Annotated[str, typer.Option(help="Ranks from,to (pair only).")] = "0,1",
    ranks: Annotated[str | None, typer.Option(help="Ranks that take part (collectives only), such as 0-3,7.")] = None,
    root: Annotated[int | None, typer.Option(help="Root rank of a rooted collective.")] = None,
    paths: PathKinds = None,
    opening: Annotated[
        list[str] | None, typer.Option(help="KIND=TIME, cost of opening one more path, such as nic=14us; repeatable.")
    ] = None,
    size: Annotated[str | None, typer.Option(help="Say also what the rule opens for this message size.")] = None,
    save: Annotated[
        Path | None, typer.Option(help="Collectives: file for the topology without what does not pay.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for threshold.png.")] = None,
    as_json: Json = False,
) -> None:
    """Say from which message size each extra path pays, given latency, bandwidth and the cost of opening it."""
    from synth.files.writing import write_files
    from synth.ground.units import format_size, format_time, parse_size
    from synth.study import collective_thresholds, find_paths, pair_thresholds, topology_for
    from synth.topology import resolve, save_topology

    costs = _openings(opening or [])
    machine = resolve(topology)
    if save is not None and (collective == "pair" or size is None):
        raise InvalidInputError("--save needs a collective and --size: it writes the topology to plan that size on")
    with _status() as report:
        if report is not None:
            report("thresholds")
        if collective == "pair":
            found = pair_thresholds(find_paths(machine, *_pair(pair), kinds=_names(paths)), costs)
        else:
            found = collective_thresholds(machine, collective, costs, ranks=parse_ranks(ranks), root=root)
    answer, lines = found.to_dict(), [found.summary()]
    if size is not None:
        asked = parse_size(size)
        used, time = found.used(asked), found.time(asked)
        answer |= {"size_bytes": asked, "used": list(used), "time_us": time * 1e6}
        lines.append(f"for {format_size(asked)}: {', '.join(used) or 'nothing'}, {format_time(time)}")
        if save is not None:
            save_topology(topology_for(machine, found, asked), save)
            lines.append(str(save))
    if out is not None:
        from synth.study.adaptive.plots import threshold_files

        lines += map(str, write_files(out, threshold_files(found)))
    say(answer if as_json else "\n".join(lines))


@contextlib.contextmanager
def _status() -> Iterator[Callable[[str], None] | None]:
    """A line on stderr that says what is being simulated, while it is a terminal."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    with console.status("reading") as status:
        yield lambda name: status.update(f"working on {name}")


def _names(text: str | None) -> list[str] | None:
    return None if text is None else [part.strip() for part in text.split(",")]


def _pair(text: str) -> tuple[int, int]:
    ranks = parse_ranks(text) or []
    if len(ranks) != 2:
        raise InvalidInputError(f"--pair {text!r} must be two ranks such as 0,1")
    return ranks[0], ranks[1]


def _nominal_time(paths: PathSet, size: int) -> float:
    """Seconds of the LP's split at full capacities."""
    from synth.study.sharing import best_rates

    return size / float(best_rates(paths.uses, paths.network.capacity).sum())


def _drops(paths: PathSet, size: int, texts: Sequence[str]) -> list[Change]:
    """``LINK@TIME=FACTOR`` as changes; the link's name may hold both marks."""
    from synth.ground.units import parse_time
    from synth.study import Change

    out: list[Change] = []
    faults: list[str] = []
    for text in texts:
        head, _, factor = text.rpartition("=")
        name, _, when = head.rpartition("@")
        try:
            if not name:
                raise ValueError(text)
            share = float(when[:-1]) / 100 if when.endswith("%") else None
            time = parse_time(when) if share is None else share * _nominal_time(paths, size)
            out.append(Change(time, name, float(factor)))
        except InvalidInputError as error:
            faults += [f"--drop {text!r}: {fault}" for fault in error.faults]
        except ValueError:
            faults.append(f"--drop {text!r} is not LINK@TIME=FACTOR, such as nv0:fwd@40%=0.5")
    if faults:
        raise InvalidInputError(faults)
    return out


def _drift(paths: PathSet, size: int, depth: float | None, names: str | None, every: str, seed: int) -> list[Change]:
    """Random walks for as long as the slowest policy could take: equal striping over the narrowest path."""
    from synth.ground.units import parse_time
    from synth.study import drift

    if depth is None:
        return []
    used = [name for name, row in zip(paths.network.row_ids, paths.uses, strict=True) if row.any()]
    links = [name for name in used if name in paths.topology.link_index]
    return list(drift(_names(names) or links, depth, parse_time(every), 4 * _nominal_time(paths, size), seed))


def _openings(texts: Sequence[str]) -> dict[str, float]:
    """``KIND=TIME`` as seconds per kind."""
    from synth.ground.units import parse_time

    faults = [f"--opening {text!r} is not KIND=TIME, such as nic=14us" for text in texts if "=" not in text]
    if faults:
        raise InvalidInputError(faults)
    return {kind.strip(): parse_time(time) for kind, _, time in (text.partition("=") for text in texts)}
