"""``synth compare`` and the options of rented parts on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from synth.cli.app import main
from synth.export.plots.compare import compare_file, plot_compare
from synth.study.multipath.gains import COLUMNS, compare


def run(*arguments: object) -> int:
    try:
        main([str(argument) for argument in arguments])
    except SystemExit as stop:
        return int(stop.code or 0)
    return 0


def test_one_object_on_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("compare", "mi50-8-box", "allgather", "--size", "1GB", "--no-simulate", "--band", "23-54", "--json")
    assert run(*arguments) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["format"] == "synth-compare/1"
    assert [row["paths"] for row in found["rows"]] == ["scale-up", "+pcie/host", "+nic", "all"]
    assert found["rows"][0]["plan_us"] is None
    assert found["rows"][1]["gain_percent"] is None
    assert found["in_band"] == []
    assert list(found["rows"][0]) == list(COLUMNS)


def test_table_files_and_band(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    csv, png = tmp_path / "new" / "a.csv", tmp_path / "new" / "a.png"
    what = ("compare", "a40-box", "allgather", "--size", "64MB", "--ranks", "0,1", "--no-relay")
    assert run(*what, "--band", "23-54", "--csv", csv, "--plot", png) == 0
    said = capsys.readouterr()
    assert "+44.4 %" in said.out
    assert "others idle" in said.out
    assert "gains of 23 to 54 %:\n  a40-box ranks 0-1, others idle: +nic +44.4 %" in said.out
    assert said.err == ""
    table = pd.read_csv(csv)
    assert table["gain_percent"].round(1).tolist() == [0.0, 55.1, 44.4, 55.1]
    assert png.read_bytes()[:4] == b"\x89PNG"
    first = csv.read_bytes()
    assert run(*what, "--csv", csv) == 0
    assert csv.read_bytes() == first


@pytest.mark.parametrize(
    ("arguments", "code", "reason"),
    [
        (("compare", "allgather", "--size", "1GB"), 2, "TOPOLOGY and COLLECTIVE"),
        (("compare", "--catalogue", "h100-box", "allgather", "--size", "1GB"), 2, "COLLECTIVE alone"),
        (("compare", "--catalogue", "allgather", "--size", "1GB", "--ranks", "0,1"), 2, "one topology"),
        (("compare", "h100-box", "allgather", "--size", "1GB", "--band", "54-23"), 2, "low before high"),
        (("compare", "h100-box", "allgather", "--size", "1GB", "--capacities", "peak"), 2, "nominal or achievable"),
        (("solve", "a40-box", "allgather", "--size", "1GB", "--paths", "nvlink"), 3, "no path"),
        (("solve", "h100-box", "allgather", "--size", "1GB", "--paths", "usb"), 2, "unknown path kind"),
    ],
)
def test_errors(arguments: tuple[str, ...], code: int, reason: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*arguments) == code
    said = capsys.readouterr()
    assert reason in said.err
    assert said.out == ""


def test_solve_on_a_rented_part(capsys: pytest.CaptureFixture[str]) -> None:
    part = ("--ranks", "0,3", "--no-relay", "--paths", "nvlink", "--capacities", "achievable", "--json")
    assert run("solve", "mi300x-box", "allgather", "--size", "96MB", *part) == 0
    # 48 MB each way over one link of 48 GB/s.
    assert json.loads(capsys.readouterr().out)["plan_us"] == pytest.approx(1000.0)


def test_machines_are_listed_and_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("topology", "machines") == 0
    assert "gb200-nvl72-box" in capsys.readouterr().out
    assert run("topology", "machines", "-o", tmp_path / "m") == 0
    assert (tmp_path / "m" / "h100-box-achievable.json").exists()
    assert run("topology", "show", "h100-box", "--capacities", "achievable", "--json") == 0
    capsys.readouterr()
    assert run("topology", "check", tmp_path / "m" / "a100-box.json") == 0
    assert "every GPU reaches every other" in capsys.readouterr().out


def test_bars() -> None:
    """A bar per set of paths and machine with a gain; a machine without says why."""
    tables = [
        compare("h800-box", "allgather", "1 GB", simulate=False),
        compare("mi50-8-box", "allgather", "1 GB", simulate=False),
        compare("mi300x-box", "allgather", "1 GB", ranks=[0, 1], relay=False, simulate=False),
    ]
    table = pd.concat(tables, ignore_index=True)
    figure = Figure()
    FigureCanvasAgg(figure)
    ax = figure.subplots()
    assert plot_compare(table, ax) is ax
    widths = [patch.get_width() for patch in ax.patches]  # type: ignore[attr-defined]
    assert widths == pytest.approx([29.44, 25.0, 31.5, 98.44, 78.125, 98.44], abs=0.01)
    assert [text.get_text().strip() for text in ax.texts] == ["not feasible on scale-up alone"]
    names = [tick.get_text() for tick in ax.get_yticklabels()]
    assert names == ["h800-box [0-7]", "mi50-8-box [0-7]", "mi300x-box [0-1], others idle"]
    assert compare_file(table) == compare_file(table)
