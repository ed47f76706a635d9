"""``synth simulate``, ``calibrate`` and ``baselines`` as a user meets them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import synth
from synth.errors import InvalidInputError
from synth.program.msccl.xml import read_xml, to_xml
from synth.schedule import BlockCosts
from synth.timing.image import timed
from synth.timing.programs import program_time
from synth.timing.simulation import parse_sizes
from synth.topology import resolve
from tests.cli.test_solve import run
from tests.program.msccl.xml.test_xml import PAIR

MESH = "fullmesh:4,bandwidth=25 GB/s,latency=1 us"


@pytest.fixture(scope="module")
def xml(tmp_path_factory: pytest.TempPathFactory) -> Path:
    topology = resolve(MESH)
    program = synth.baseline("direct", topology, synth.make_demand(topology, "allgather", 1e6), chunks=1).lower()
    path = tmp_path_factory.mktemp("xml") / "direct.xml"
    path.write_text(to_xml(program))
    return path


def test_sizes() -> None:
    assert parse_sizes("1KiB:8KiB") == [1024, 2048, 4096, 8192]
    assert parse_sizes("1KiB:7KiB") == [1024, 2048, 4096]
    assert parse_sizes("3, 1MB") == [3, 10**6]
    for bad in ("8KiB:1KiB", "0", "0:1KiB", "x"):
        with pytest.raises(InvalidInputError):
            parse_sizes(bad)


def test_simulate(xml: Path) -> None:
    """Direct all-gather of 100 kB on a mesh of 4: 25 kB over a link of 25 GB/s + 1 us = 2 us, which is the bound."""
    got = run("simulate", str(xml), MESH, "--size", "100kB,200kB", "--json")
    assert got.returncode == 0, got.stderr
    result = json.loads(got.stdout)
    assert result["format"] == "synth-simulation/1"
    assert [row["time_us"] for row in result["sizes"]] == pytest.approx([2.0, 3.0])
    assert [row["bound_us"] for row in result["sizes"]] == pytest.approx([2.0, 3.0])
    assert result["sizes"][0]["busbw_GBps"] == pytest.approx(50 * 3 / 4)
    more = run(
        *("simulate", str(xml), MESH, "--size", "100kB", "--json", "--certify", "--start", "5 us"),
        *("--hop-latency", "1 us", "--overhead", "2 us", "--alpha-mode", "blocking"),
    )
    (row,) = json.loads(more.stdout)["sizes"]
    assert row["time_us"] == pytest.approx(10.0)
    assert row["bound_us"] == pytest.approx(10.0)
    text = run("simulate", str(xml), MESH, "--size", "1KiB:1MiB").stdout
    assert "time_us" in text
    assert len(text.splitlines()) == 2 + 11 + 1
    assert text.splitlines()[-1].endswith("1048576 B is outside the range of the file, 1..1048575 B")


def test_sizes_that_the_runtime_never_gives_to_the_program(xml: Path) -> None:
    """The file is for less than 1 MiB and has 4 chunks: 16 bytes of floats, 8 of halves."""

    def rows(size: str, *more: str) -> tuple[int, list[bool]]:
        got = run("simulate", str(xml), MESH, "--size", size, "--json", *more)
        return got.returncode, [row["served"] for row in json.loads(got.stdout)["sizes"]]

    assert rows("160") == (0, [True])
    assert rows("168") == (5, [False])
    assert rows("168", "--dtype", "float16") == (0, [True])
    assert rows("160,168") == (5, [True, False])
    assert rows("2MiB") == (5, [False])
    assert rows("512KiB:2MiB") == (0, [True, False, False])
    assert rows("2MiB:8MiB") == (5, [False, False, False])
    assert rows("1002:2004") == (0, [False, False])  # no multiples of 16, but of a range that does not matter
    got = run("simulate", str(xml), MESH, "--size", "168", "--json")
    (row,) = json.loads(got.stdout)["sizes"]
    assert row["time_us"] > 0
    assert "nearest served: 160 B and 176 B" in row["reasons"][0]
    assert json.loads(got.stdout)["selection"]["size_bytes"] == [1, (1 << 20) - 1]


def test_a_file_that_the_runtime_refuses(xml: Path, tmp_path: Path) -> None:
    """RCCL asks for minBytes, and does not launch rrcs steps."""
    path = tmp_path / "a.xml"
    path.write_text(xml.read_text().replace(' minBytes="0"', ""))
    got = run("simulate", str(path), MESH, "--size", "160", "--target", "rccl")
    assert got.returncode == 5
    assert "rccl rejects the file: first element <algo>: attribute minBytes not found" in got.stdout
    path.write_text(PAIR)
    got = run("simulate", str(path), "fullmesh:2", "--size", "160", "--target", "rccl")
    assert got.returncode == 5
    assert "rccl refuses rrcs steps at launch" in got.stdout
    assert run("simulate", str(path), "fullmesh:2", "--size", "160").returncode == 0


def test_calibrate_then_simulate(xml: Path, tmp_path: Path) -> None:
    program = timed(read_xml(xml), resolve(MESH))
    costs = BlockCosts(5e-6, 1e-6, 0.5e-6, 0.0, 20e9, 20e9)
    sizes = [1 << k for k in range(14, 27, 2)]
    rows = [f"{size},{program_time(program, size, costs).seconds * 1e6}" for size in sizes]
    data = tmp_path / "direct.run1.csv"
    data.write_text("\n".join(["size,time", *rows]) + "\n")
    out = tmp_path / "constants.json"
    command = ("calibrate", str(data), "--topology", MESH, "--programs", str(xml.parent), "-o", str(out))
    got = run(*command, "--json")
    assert got.returncode == 0, got.stderr
    report = json.loads(got.stdout)
    assert report["median_absolute_error"]["Simple"]["fitted"] < 0.01
    assert report["constants"]["Simple"]["copy_GBps"] == pytest.approx(20, rel=0.05)
    first = out.read_bytes()
    assert "fitted" in run(*command).stdout
    assert out.read_bytes() == first
    shown = run("simulate", str(xml), MESH, "--size", "64MiB", "--constants", str(out), "--json")
    assert json.loads(shown.stdout)["sizes"][0]["time_us"] == pytest.approx(
        program_time(program, 1 << 26, costs).seconds * 1e6, rel=0.02
    )
    wrong = run("simulate", str(xml), MESH, "--constants", str(out), "--protocol", "LL")
    assert wrong.returncode == 2
    assert "no protocol LL" in wrong.stderr


def test_bad_input_leaves_no_file(xml: Path, tmp_path: Path) -> None:
    data = tmp_path / "other.csv"
    data.write_text("size,time\n1024,1\n")
    out = tmp_path / "constants.json"
    got = run("calibrate", str(data), "--topology", MESH, "-o", str(out))
    assert got.returncode == 2
    assert "no XML file whose name" in got.stderr
    assert not out.exists()
    assert run("simulate", str(xml), "ring:5").returncode == 2
    assert run("simulate", str(xml), MESH, "--alpha-mode", "x").returncode == 2
    assert run("baselines", "nowhere", "allgather").returncode == 2


def test_baselines() -> None:
    got = run("baselines", "ring:4,bandwidth=25 GB/s,latency=0.7 us", "allgather", "--size", "1MB", "--json")
    rings = json.loads(got.stdout)
    assert rings["baselines"]["rings"]["time_us"] == pytest.approx(17.1 - 1.4)
    assert rings["bound_us"] <= rings["baselines"]["rings"]["time_us"]
    text = run(*("baselines", "ring:4", "allgather", "--alpha-mode", "blocking", "--sharing", "fifo")).stdout
    assert text.splitlines()[2].split()[0] == "rings"
