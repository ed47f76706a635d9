"""Measurements, constants and calibration: hand-made files, costs found again, and the measured MI300X."""

from __future__ import annotations

import math
import os
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

import synth
from synth.errors import InvalidInputError
from synth.program.msccl import RCCL
from synth.program.msccl.xml.foreign import read_foreign
from synth.schedule import BlockCosts
from synth.timing import calibration
from synth.timing.calibration import Point, Prediction, calibrate, median_error, points_of, predict_all, ranking
from synth.timing.constants import load_constants, save_constants
from synth.timing.image import TimedProgram, timed
from synth.timing.measurements import Measurement, read_measurements
from synth.timing.programs import program_time
from synth.topology import resolve
from tests.program.msccl.builders import DATA

OUTPUT = """\
# nThread 1 nGpus 8 minBytes 1048576 maxBytes 4194304 step: 2(factor)
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
           0             0     float     sum      -1     0.19    0.00    0.00      0     0.20    0.00    0.00      0
     1048576        262144     float     sum      -1    36.63   28.63   50.09      0    35.73   29.35   51.36    N/A
     4194304       1048576     float     sum      -1    1e+03    4.19    7.34    N/A    72.00   58.25  101.94      0
# Out of bounds values : 0 OK
"""
CSV = (
    "size,count,type,redop,root,time,algbw,busbw,wrong\n0,0,float,none,-1,0.2,0,0,0\n1024,32,float,none,-1,7.5,0,0,0\n"
)


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_output_of_nccl_tests(tmp_path: Path) -> None:
    got = read_measurements(written(tmp_path, "log.txt", OUTPUT))
    assert [(m.size_bytes, m.inplace) for m in got] == [
        (1 << 20, False),
        (1 << 20, True),
        (1 << 22, False),
        (1 << 22, True),
    ]
    assert [m.seconds for m in got] == pytest.approx([36.63e-6, 35.73e-6, 1e-3, 72e-6])


def test_csv(tmp_path: Path) -> None:
    assert read_measurements(written(tmp_path, "x_in_place.csv", CSV)) == (Measurement(1024, 7.5e-6, True),)
    assert read_measurements(written(tmp_path, "x_out_of_place.csv", CSV))[0].inplace is False
    assert read_measurements(written(tmp_path, "x.csv", CSV))[0].inplace is None
    flagged = read_measurements(written(tmp_path, "y.csv", "size,time,inplace\n8,1,0\n8,2,1\n"))
    assert [m.inplace for m in flagged] == [False, True]
    hang = CSV + "2048,64,float,sum,-1,Test,timeout,(1000s),\n"
    assert read_measurements(written(tmp_path, "z.csv", hang))[1] == Measurement(2048, None, None)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no row of measurements"),
        ("hello\nworld\n", "no row of measurements"),
        ("size,algbw\n1,2\n", "header lacks time"),
        ("size,time\n1,2\nx,3\n4,-1\n", "line 3: size 'x'"),
        ("size,time\n4,nan\n", "line 2: time 'nan'"),
        ("size,time\n4,0\n", "line 2: time '0'"),
        ("size,time,inplace\n4,1,yes\n", "line 2: inplace 'yes'"),
    ],
)
def test_bad_measurements(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(InvalidInputError, match=why):
        read_measurements(written(tmp_path, "bad.csv", text))
    with pytest.raises(InvalidInputError, match="cannot be read"):
        read_measurements(tmp_path / "absent.csv")


COSTS = BlockCosts(5e-6, 2e-6, 0.5e-6, 1e-6, 20e9, 15e9)


def test_constants_come_back(tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    free = BlockCosts()
    save_constants(path, {"Simple": COSTS, "LL": free}, "ring:4", "here")
    got = load_constants(path)
    assert got["LL"] == free
    for name in ("start", "latency", "overhead", "wait", "copy_rate", "local_rate"):
        assert getattr(got["Simple"], name) == pytest.approx(getattr(COSTS, name))
    assert os.listdir(tmp_path) == ["c.json"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "Invalid JSON"),
        ('{"format": "synth-constants/2", "protocols": {}}', "format"),
        ('{"format": "synth-constants/1", "protocols": {"LL": {"start_us": -1, "copy_GBps": 0}}}', "start_us"),
        ('{"format": "synth-constants/1", "protocols": {"LL": {"alpha": 1}}}', "alpha"),
    ],
)
def test_bad_constants(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(InvalidInputError, match=why):
        load_constants(written(tmp_path, "c.json", text))


@cache
def programs() -> tuple[TimedProgram, ...]:
    """Ring, direct and a reduction on a full mesh of 4, all Simple."""
    topology = resolve("fullmesh:4,bandwidth=48 GB/s,latency=0 us")
    out = []
    for collective, name in (("allgather", "ring"), ("allgather", "direct"), ("allreduce", "direct")):
        demand = synth.make_demand(topology, collective, 1e6)
        draft = synth.baseline(name, topology, demand, chunks=1).lower("rccl", inplace=True).draft
        out.append(timed(replace(draft, name=f"{collective}-{name}"), topology, RCCL))
    return tuple(out)


def measured(costs: BlockCosts, noise: float = 0.0) -> list[Point]:
    sizes = [1 << k for k in range(14, 29, 2)]
    return [
        Point(p, size, program_time(p, size, costs).seconds * (1 + noise * (-1) ** k))
        for p in programs()
        for k, size in enumerate(sizes)
    ]


def test_costs_are_found_again() -> None:
    """Times made with known costs; the fit must predict others within a percent, and the rates to a few."""
    fitted = calibrate(measured(COSTS, 0.01))
    assert median_error(fitted.fitted) < 0.015
    got = fitted.costs["Simple"]
    assert got.copy_rate == pytest.approx(COSTS.copy_rate, rel=0.05)
    assert got.start + 3 * got.latency == pytest.approx(COSTS.start + 3 * COSTS.latency, rel=0.2)
    other = [p for p in measured(COSTS) if p.size_bytes != 1 << 14]
    assert median_error(predict_all(other, fitted.costs)) < 0.02


def test_a_wrong_model_is_seen_to_be_wrong() -> None:
    slow = replace(COSTS, copy_rate=5e9)
    assert median_error(predict_all(measured(COSTS), {"Simple": slow})) > 0.3
    with pytest.raises(InvalidInputError, match="no constants for protocol Simple"):
        predict_all(measured(COSTS), {"LL": COSTS})
    with pytest.raises(InvalidInputError, match="no measured time to fit"):
        calibrate([replace(p, measured=None) for p in measured(COSTS)])


def test_ranking_counts_what_is_ordered_the_other_way() -> None:
    ring, direct, other = (Point(p, 1024, t) for p, t in zip(programs(), (2.0, 1.0, 9.0), strict=True))
    right = ranking([Prediction(ring, 3.0), Prediction(direct, 2.0), Prediction(other, 1.0)])
    assert (right.pairs, right.wrong) == (1, ())
    wrong = ranking([Prediction(ring, 2.0), Prediction(direct, 3.0)])
    assert wrong.wrong == ((1024, "allgather-direct", "allgather-ring"),)
    near = ranking([Prediction(replace(ring, measured=1.2), 2.0), Prediction(direct, 3.0)])
    assert near.pairs == 0


def test_calls_of_the_other_mode_are_left_out() -> None:
    rows = [Measurement(1024, 1.0, True), Measurement(1024, 2.0, False), Measurement(4096, 3.0, None)]
    assert [p.measured for p in points_of(programs()[0], rows, 1, 2048)] == [1.0]
    assert [p.measured for p in points_of(programs()[0], rows, 1, 4096)] == [1.0, 3.0]


MEASURED = DATA / "measured_mi300x"
#: What ``synth calibrate`` fits to the files with one instance (README).
MI300X = {
    "LL": BlockCosts(5.82e-6, 0.54e-6, 0.0, 1.77e-6, 3.09e9, 387e9),
    "LL128": BlockCosts(212.87e-6, 1.28e-6, 0.0, 0.0, 4.44e9, 10.26e9),
    "Simple": BlockCosts(6.61e-6, 0.0, 1.70e-6, 2.12e-6, 21.52e9, 19.20e9),
}


def mi300x(pattern: str) -> list[Point]:
    folder = MEASURED
    if not folder.is_dir():
        pytest.skip("the shared data are absent")
    out: list[Point] = []
    for path in sorted((folder / "time").glob(f"{pattern}_in_place.csv")):
        draft = read_foreign(folder / "xml" / (path.stem.removesuffix("_in_place") + ".xml"), RCCL)
        out += points_of(timed(draft, resolve("mi300x-8"), RCCL), read_measurements(path), 1 << 14, 1 << 30)
    return out


@pytest.mark.parametrize("proto", ["LL", "LL128", "Simple"])
def test_held_out_files_of_the_mi300x_within_20_percent(proto: str) -> None:
    # LL and LL128 take many loop iterations: every other size is enough for them.
    step = 1 if proto == "Simple" else 2
    points = [p for p in mi300x("*_2") if p.protocol == proto and p.size_bytes.bit_length() % step == 0]
    held = predict_all(points, MI300X)
    assert len(held) > 25
    assert median_error(held) <= 0.2
    assert median_error(held) <= 0.06  # what is reached; the target is 0.2
    assert not ranking(held).wrong
    # What hung on the hardware hangs in the model, and nothing else does.
    assert [p.point.size_bytes for p in held if p.predicted is None] == [
        p.size_bytes for p in (q.point for q in held) if p.measured is None
    ]


def test_the_fit_of_the_mi300x_is_what_the_readme_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few sizes of one protocol, to be quick."""
    monkeypatch.setattr(calibration, "MOST_SIZES", 4)
    fitted = calibrate([p for p in mi300x("ag_*_1") if p.protocol == "LL"])
    held = predict_all([p for p in mi300x("*_2") if p.protocol == "LL"], fitted.costs)
    assert median_error(held) <= 0.1
    assert not math.isnan(median_error(fitted.fitted))


def test_out_of_place_rows_measure_the_librarys_own_algorithm() -> None:
    """Files for in-place calls: none of the out-of-place rows is about them (all XMLs have the same times there)."""
    if not MEASURED.is_dir():
        pytest.skip("the shared data are absent")
    data = MEASURED / "time"
    rows = [read_measurements(data / f"ag_{n}_out_of_place.csv") for n in ("ring_ll_1_1", "allpair_simple_x_1")]
    large = [{m.size_bytes: m.seconds or 0.0 for m in row}[1 << 30] for row in rows]
    assert large[0] == pytest.approx(large[1], rel=0.02)
    draft = read_foreign(MEASURED / "xml" / "ag_ring_ll_1_1.xml", RCCL)
    assert not points_of(timed(draft, resolve("mi300x-8"), RCCL), rows[0], 1, 1 << 40)
