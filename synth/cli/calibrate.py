"""``synth calibrate``: costs of thread blocks from measured times."""

from __future__ import annotations

import fnmatch
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from synth.cli.support import number_text, print_table, say
from synth.errors import InvalidInputError

if TYPE_CHECKING:
    from synth.timing.calibration import Calibration, Point, Prediction

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
TargetName = Annotated[str, typer.Option(help="Runtime: msccl, msccl-executor or rccl.")]


def calibrate(
    files: Annotated[list[Path], typer.Argument(help="Measured times: nccl-tests output or CSV, named like the XML.")],
    topology: Annotated[str, typer.Option(help="Where they were measured: a topology file or a built-in name.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="File of constants to write.")],
    programs: Annotated[Path | None, typer.Option(help="Folder of the XML files; default: beside, or ../xml.")] = None,
    holdout: Annotated[str | None, typer.Option(help="Programs (such as '*_2') to predict, not to fit.")] = None,
    size: Annotated[str, typer.Option(help="Sizes that count, from:to.")] = "16KiB:1GiB",
    target: TargetName = "msccl",
    as_json: AsJson = False,
) -> None:
    """Fit what thread blocks cost, per protocol, to measured times; report the error on held-out programs."""
    from synth.timing.calibration import calibrate as fit
    from synth.timing.calibration import predict_all
    from synth.timing.constants import save_constants

    points = _points(files, topology, programs, size, target)
    held = [p for p in points if holdout is not None and fnmatch.fnmatchcase(p.name, holdout)]
    kept = [p for p in points if holdout is None or not fnmatch.fnmatchcase(p.name, holdout)]
    console = Console(stderr=True)
    if console.is_terminal:
        with console.status("simulating") as status:
            fitted = fit(kept, progress=lambda text: status.update(text))
    else:
        fitted = fit(kept)
    predicted = predict_all(held, fitted.costs)
    save_constants(
        out, fitted.costs, topology, f"fitted to {len(kept)} points of {len({p.name for p in kept})} programs"
    )
    report = _report(fitted, predicted)
    if as_json:
        say(report)
        return
    _print_report(report)
    say(str(out))


def _points(files: list[Path], topology: str, programs: Path | None, size: str, target: str) -> list[Point]:
    from synth.program.msccl import target_named
    from synth.program.msccl.xml.foreign import read_foreign
    from synth.timing.calibration import points_of
    from synth.timing.image import timed
    from synth.timing.measurements import read_measurements
    from synth.timing.simulation import parse_sizes
    from synth.topology import resolve

    machine, runtime, sizes = resolve(topology), target_named(target), parse_sizes(size)
    out: list[Point] = []
    faults: list[str] = []
    for file in files:
        xml = _program_of(file, programs)
        if xml is None:
            faults.append(f"{file}: no XML file whose name is the beginning of this one's; say where with --programs")
            continue
        put = timed(read_foreign(xml, runtime), machine, runtime)
        out += points_of(put, read_measurements(file), min(sizes), max(sizes))
    if faults:
        raise InvalidInputError(faults)
    return out


def _program_of(file: Path, programs: Path | None) -> Path | None:
    """The XML file with the longest name that the measurement's begins with."""
    folders = [programs] if programs is not None else [file.parent, file.parent.parent / "xml"]
    found = [
        xml
        for folder in folders
        for xml in sorted(folder.glob("*.xml"))
        if file.stem == xml.stem or file.stem.startswith((xml.stem + "_", xml.stem + "."))
    ]
    return max(found, key=lambda xml: len(xml.stem), default=None)


def _report(fitted: Calibration, predicted: tuple[Prediction, ...]) -> dict[str, Any]:
    from synth.timing.calibration import median_error, ranking
    from synth.timing.constants import constants_dict

    everything = (*fitted.fitted, *predicted)
    rank = ranking(everything)
    by_name: dict[str, list[Prediction]] = {}
    for p in everything:
        by_name.setdefault(p.point.name, []).append(p)
    held = {p.point.name for p in predicted}
    errors = {
        proto: {
            "fitted": _finite(median_error(p for p in fitted.fitted if p.point.protocol == proto)),
            "held_out": _finite(median_error(p for p in predicted if p.point.protocol == proto)),
        }
        for proto in fitted.costs
    }
    programs = {
        name: {
            "held_out": name in held,
            "median": _finite(median_error(points)),
            "worst": max((p.error for p in points if p.error is not None), key=abs, default=None),
            "at_bytes": max(
                (p for p in points if p.error is not None), key=lambda p: abs(p.error or 0.0)
            ).point.size_bytes
            if any(p.error is not None for p in points)
            else None,
            "hangs_measured": [p.point.size_bytes for p in points if p.point.measured is None],
            "hangs_predicted": [p.point.size_bytes for p in points if p.predicted is None],
        }
        for name, points in sorted(by_name.items())
    }
    return {
        "format": "synth-calibration/1",
        "constants": constants_dict(fitted.costs)["protocols"],
        "median_absolute_error": errors,
        "programs": programs,
        "ranking": {"pairs": rank.pairs, "wrong": [list(item) for item in rank.wrong]},
    }


def _finite(value: float) -> float | None:
    return None if math.isnan(value) else value


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f} %"


def _print_report(report: dict[str, Any]) -> None:
    names = ("start_us", "latency_us", "overhead_us", "wait_us", "copy_GBps", "local_GBps")
    errors = report["median_absolute_error"]
    print_table(
        ("protocol", *names, "fitted", "held out"),
        [
            (
                proto,
                *(number_text(costs[name]) for name in names),
                _percent(errors[proto]["fitted"]),
                _percent(errors[proto]["held_out"]),
            )
            for proto, costs in report["constants"].items()
        ],
    )
    print_table(
        ("program", "held out", "median", "worst", "at_bytes", "hangs measured", "hangs in the model"),
        [
            (
                name,
                "yes" if p["held_out"] else "",
                _percent(p["median"]),
                _percent(p["worst"]),
                str(p["at_bytes"] or "-"),
                *(" ".join(map(str, p[key])) for key in ("hangs_measured", "hangs_predicted")),
            )
            for name, p in report["programs"].items()
        ],
    )
    rank = report["ranking"]
    say(f"ranking: {rank['pairs'] - len(rank['wrong'])} of {rank['pairs']} pairs that differ by more than 30 % agree")
    for size, fast, slow in rank["wrong"]:
        say(f"  {fast} is faster than {slow} at {size} bytes, the model says otherwise")
