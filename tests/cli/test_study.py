"""``synth study`` and its pictures."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from synth.study import Change, Comparison, compare_splits, pair_thresholds
from synth.study.adaptive.plots import (
    adaptive_files,
    binned_rates,
    lost_bytes,
    plot_lost,
    plot_rates,
    plot_shares,
    plot_thresholds,
)
from synth.topology import resolve
from tests.cli.test_solve import run
from tests.study.machines import H800, h800_paths

DROP = ["study", "adaptive", str(H800), "--size", "200MB", "--drop", "nv0:fwd@50%=0.5"]


@pytest.fixture(scope="module")
def compared() -> Comparison:
    return compare_splits(h800_paths(), "200 MB", changes=[Change(4.7e-4, "nv0:fwd", 0.5)])


def new_axes() -> Axes:
    figure = Figure(figsize=(8, 4), layout="constrained")
    FigureCanvasAgg(figure)
    return figure.subplots()


def test_adaptive_says_what_was_lost(tmp_path: Path) -> None:
    done = run(*DROP, "--out", str(tmp_path / "new"))
    assert (done.returncode, done.stderr) == (0, "")
    assert "never behind the scale-up-only run" in done.stdout
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["adaptive.png"]


def test_adaptive_as_json_is_the_same_every_time() -> None:
    done = run(*DROP, "--json")
    facts = json.loads(done.stdout)
    assert facts["format"] == "synth-adaptive/1"
    times = {row["policy"]: row["finish_us"] for row in facts["policies"]}
    assert times["adaptive"] <= 1.05 * times["re-solved LP"]
    assert times["adaptive"] < min(times["equal striping"], times["static LP"], times["scale-up only"])
    assert facts["bound_us"] <= min(times.values())
    assert run(*DROP, "--json").stdout == done.stdout


def test_adaptive_with_drift_and_kinds() -> None:
    more = ["--drift", "0.4", "--every", "50us", "--seed", "3", "--paths", "switch,nic", "--primary", "switch"]
    facts = json.loads(run(*DROP, *more, "--secondary-window", "1MiB", "--json").stdout)
    assert [path["kind"] for path in facts["paths"]] == ["switch", "nic"]
    assert facts["primary_lag_bytes"] <= 1


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (["--drop", "nv0:fwd"], "is not LINK@TIME=FACTOR"),
        (["--drop", "nv0:fwd@1=0.5"], "has no unit"),
        (["--drop", "nv0:fwd@1ms=0"], "dead path"),
        (["--drop", "x@1ms=0.5"], "no link or resource 'x'"),
        (["--pair", "0"], "must be two ranks"),
        (["--paths", "warp"], "unknown path kind"),
        (["--drift", "2"], "drift"),
    ],
)
def test_wrong_options_are_named_and_nothing_is_written(more: list[str], says: str, tmp_path: Path) -> None:
    done = run(*DROP, *more, "--out", str(tmp_path / "out"))
    assert (done.returncode, done.stdout) == (2, "")
    assert says in done.stderr
    assert not (tmp_path / "out").exists()


def test_threshold_of_a_pair_and_of_a_collective(tmp_path: Path) -> None:
    done = run("study", "threshold", str(H800), "--size", "4MB", "--out", str(tmp_path))
    assert "host    from 2.109 MB on" in done.stdout
    assert "for 4 MB: switch, host" in done.stdout
    assert (tmp_path / "threshold.png").stat().st_size > 5000
    facts = json.loads(run("study", "threshold", str(H800), "--opening", "host=50us", "--json").stdout)
    assert [path["from_bytes"] for path in facts["paths"]] == [0, pytest.approx(164.8e9 * 18.1e-6), None]
    saved = tmp_path / "small.json"
    done = run("study", "threshold", str(H800), "allgather", "--size", "1MB", "--save", str(saved))
    assert done.returncode == 0
    assert {link.kind for link in resolve(str(saved)).links} == {"nvlink"}


def test_solve_leaves_out_what_does_not_pay() -> None:
    """By hand (as above): host memory pays from 4.219 MB of an all-gather on, the NIC never."""
    links = {}
    for size in ("1MB", "1GB"):
        done = run("solve", str(H800), "allgather", "--size", size, "--plan-only", "--thresholds", "--json")
        facts = json.loads(done.stdout)
        links[size] = facts["plan_us"]
    whole = json.loads(run("solve", str(H800), "allgather", "--size", "1GB", "--plan-only", "--json").stdout)
    assert links["1MB"] == pytest.approx(0.5e6 / 164.8e9 * 1e6)  # half of 1 MB each way, NVLink alone
    assert links["1GB"] == pytest.approx(whole["plan_us"], rel=0.1)
    assert links["1GB"] < 0.8 * 1000 * links["1MB"]


def test_threshold_errors() -> None:
    assert run("study", "threshold", str(H800), "--opening", "nic").returncode == 2
    assert run("study", "threshold", str(H800), "--save", "x.json").returncode == 2


def test_plots_show_what_the_runs_did(compared: Comparison) -> None:
    adaptive = compared["adaptive"]
    edges, rates = binned_rates(adaptive)
    assert np.diff(edges) @ rates == pytest.approx(adaptive.path_bytes)
    ax = plot_rates(compared, ax=new_axes())
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["switch", "host", "nic", "best split"]  # type: ignore[union-attr]
    assert "lost" in ax.get_title(loc="left")
    shares = plot_shares(compared, new_axes())
    assert len(shares.patches) == 6
    lost = plot_lost(compared, new_axes())
    for line, run_ in zip(lost.get_lines(), compared.runs, strict=True):
        assert np.asarray(line.get_ydata())[-1] * 1e6 == pytest.approx(compared.lost(run_), abs=1.0)
    curve = lost_bytes(compared, adaptive, np.linspace(0, adaptive.sent_end, 50))
    assert (np.diff(curve) >= -1.0).all()


def test_threshold_plot_marks_the_thresholds() -> None:
    found = pair_thresholds(h800_paths())
    ax = plot_thresholds(found, new_axes())
    assert ax.get_xscale() == "log"
    marks = [line for line in ax.get_lines() if len(set(np.asarray(line.get_xdata()).tolist())) == 1]
    assert [np.asarray(line.get_xdata())[0] for line in marks] == [found.starts["host"]]


def test_pictures_have_the_same_bytes_every_time(compared: Comparison) -> None:
    assert adaptive_files(compared) == adaptive_files(compared)
