"""The command line as a user meets it: exit codes, clean stdout, whole files or none, the same bytes every time."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import synth
from synth.cli.app import main
from synth.cli.support import parse_ranks
from synth.errors import InvalidInputError

FILES = {
    "plan.json",
    "schedule.json",
    "msccl.xml",
    "msccl.paths.json",
    "summary.txt",
    "overview.png",
    "topology.png",
    "splits.png",
    "utilisation.png",
    "timeline.png",
}


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """The command in this process: what it printed and its exit code."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), pytest.raises(SystemExit) as ended:
        main(list(arguments))
    return subprocess.CompletedProcess(arguments, int(ended.value.code or 0), out.getvalue(), err.getvalue())


def spawn(*arguments: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "synth", *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
        env={**os.environ, **environment},
    )


def test_solve_writes_everything_and_says_so(tmp_path: Path) -> None:
    done = run("solve", "ring:4", "allgather", "--size", "4 GB", "--out", str(tmp_path / "new" / "out"))
    assert (done.returncode, done.stderr) == (0, "")
    assert {path.name for path in (tmp_path / "new" / "out").iterdir()} == FILES
    assert "cannot be faster" in done.stdout
    checked = run("verify", str(tmp_path / "new" / "out" / "msccl.xml"), "--json")
    assert checked.returncode == 0
    assert json.loads(checked.stdout)["ok"] is True


def test_json_is_one_object_and_nothing_else(tmp_path: Path) -> None:
    """In a process of its own, since highspy prints its banner past Python's stdout."""
    done = spawn("solve", "dgx-a100", "allreduce", "--size", "1GiB", "--json", cwd=tmp_path)
    assert done.returncode == 0
    result = json.loads(done.stdout)
    assert result["format"] == "synth-result/1"
    assert result["status"] == "optimal"
    assert result["bound_us"] <= result["plan_us"] <= result["quantized_us"] <= result["simulated_us"]
    assert set(result["timings_s"]) == {"formulate", "solve", "schedule", "lower", "verify", "total"}
    assert result["ranks"] == list(range(8))


def test_same_bytes_in_another_process(tmp_path: Path) -> None:
    """Other hash seed, locale and folder: every file is the same to the byte."""
    command = ("solve", "dgx1-v100", "allgather", "--size", "1GiB", "--out")
    first = spawn(*command, "a", cwd=tmp_path, PYTHONHASHSEED="1", LC_ALL="C")
    second = spawn(*command, "b", cwd=tmp_path, PYTHONHASHSEED="2", LC_ALL="de_DE.UTF-8")
    assert first.returncode == second.returncode == 0
    for name in FILES:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes(), name


GOOD = '{"id": "g0", "kind": "gpu"}, {"id": "g1", "kind": "gpu"}'
LINK = '{"id": "a", "src": "g0", "dst": "g1", "bandwidth": "25 GB/s", "both_ways": true}'


def topology_text(nodes: str = GOOD, links: str = LINK, more: str = "") -> str:
    return f'{{"format": "synth-topology/1", "name": "t", "nodes": [{nodes}], "links": [{links}]{more}}}'


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (topology_text(links=LINK.replace("25 GB/s", "25")), "links[0]"),
        (topology_text(links=LINK.replace("25 GB/s", "NaN GB/s")), "bandwidth"),
        (topology_text(links=LINK.replace("25 GB/s", "-25 GB/s")), "bandwidth"),
        (topology_text(links=LINK.replace("25 GB/s", "25 parsec")), "parsec"),
        (topology_text(more=', "colour": 1'), "colour"),
        (topology_text(nodes=GOOD + ', {"id": "g0", "kind": "gpu"}'), "g0"),
        (topology_text(links=LINK.replace('"g1"', '"g7"')), "g7"),
        ("{", "not JSON"),
    ],
)
def test_bad_topology_files(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "t.json"
    path.write_text(text, encoding="utf-8")
    done = run("solve", str(path), "allgather", "--size", "1GB", "--out", str(tmp_path / "out"))
    assert done.returncode == 2
    assert words in done.stderr
    assert "t.json" in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("ring:4", "allgathr", "--size", "1GB"), 2, "unknown collective"),
        (("rung:4", "allgather", "--size", "1GB"), 2, "ring"),
        (("none.json", "allgather", "--size", "1GB"), 2, "none.json"),
        (("ring:4", "allgather", "--size", "1 parsec"), 2, "parsec"),
        (("ring:4", "allgather"), 2, "needs a size"),
        (("ring:4", "allgather", "--size", "1GB", "--ranks", "0-4"), 2, "out of range"),
        (("ring:4", "allgather", "--size", "1GB", "--ranks", "0;1"), 2, "--ranks"),
        (("ring:4", "allgather", "--size", "1GB", "--chunks", "0"), 2, "chunks"),
        (("ring:4", "allgather", "--size", "1GB", "--target", "nccl"), 2, "unknown target"),
        (("ring:4", "allgather", "--size", "1GB", "--time-limit", "60"), 2, "60"),
        (("ring:4", "alltoall", "--size", "1GB", "--inplace"), 2, "no in-place form"),
        (("ring:n=4,both_ways=false", "allgather", "--size", "1GB", "--max-steps", "2"), 3, "needs 3 hops"),
        (("ring:4", "allgather", "--size", "1GB", "--time-limit", "0s"), 4, "no solution within the time limit"),
        (("fullmesh:8", "alltoall", "--size", "1GB", "--chunks", "4200"), 6, "32767"),
    ],
)
def test_errors_have_a_message_a_code_and_no_files(
    tmp_path: Path, arguments: tuple[str, ...], code: int, words: str
) -> None:
    done = run("solve", *arguments, "--out", str(tmp_path / "out"), "--json")
    assert done.returncode == code
    assert words in done.stderr
    assert done.stderr.startswith("error: ")
    assert done.stdout == ""
    assert not (tmp_path / "out").exists()


def test_the_same_limit_on_every_gpu_is_said_briefly() -> None:
    done = run("solve", "switch:40", "alltoall", "--size", "1GB", "--sms", "60")
    assert done.returncode == 6
    lines = done.stderr.splitlines()
    assert len(lines) == 8
    assert "60 SMs" in lines[0]
    assert "more like these" in lines[6]


def test_unreachable_pairs_are_named(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text(topology_text(nodes=GOOD + ', {"id": "lonely", "kind": "gpu"}'), encoding="utf-8")
    done = run("solve", str(path), "alltoall", "--size", "1GB")
    assert done.returncode == 3
    assert "lonely" in done.stderr
    assert "4 " in done.stderr
    assert run("topology", "check", str(path)).returncode == 3


def test_bad_matrix_shape(tmp_path: Path) -> None:
    path = tmp_path / "m.csv"
    path.write_text("1,2\n3,4\n", encoding="utf-8")
    done = run("solve", "ring:4", "alltoallv", "--demand", str(path))
    assert done.returncode == 2
    assert "2 x 2; 4 ranks need 4 x 4" in done.stderr


def test_matrix_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "m.csv"
    path.write_text("0,10 MB,0\n0,0,5 MB\n1 MB,0,0\n", encoding="utf-8")
    done = run("solve", "ring:n=3,bandwidth=10 GB/s", "alltoallv", "--demand", str(path), "--json")
    assert json.loads(done.stdout)["status"] == "optimal"


def test_broken_xml_is_exit_5(tmp_path: Path) -> None:
    good = synth.synthesize("ring:3", "allgather", 3e9, chunks=1).xml
    path = tmp_path / "bad.xml"
    path.write_text(good.replace('type="r" srcbuf="i" srcoff="0" dstbuf="o" dstoff="0"', "", 1), encoding="utf-8")
    refused = run("verify", str(path))
    assert refused.returncode == 5
    assert "msccl rejects the file" in refused.stdout
    path.write_text(good.replace('dstbuf="o" dstoff="1"', 'dstbuf="o" dstoff="2"', 1), encoding="utf-8")
    done = run("verify", str(path))
    assert done.returncode == 5
    assert "wrong" in done.stdout or "race" in done.stdout
    path.write_text(good, encoding="utf-8")
    assert run("verify", str(path), "--ranks", "4").returncode == 5
    assert run("verify", str(path), "--ranks", "3").returncode == 0


def test_unwritable_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x", encoding="utf-8")
    done = run("solve", "ring:3", "allgather", "--size", "1GB", "--out", str(tmp_path / "file"))
    assert done.returncode == 2
    assert "file" in done.stderr


def test_write_lp_and_solve_it_again(tmp_path: Path) -> None:
    path = tmp_path / "master.lp"
    assert run("solve", "ring:4", "allgather", "--size", "4GB", "--write-lp", str(path)).returncode == 0
    assert "Minimize" in path.read_text(encoding="utf-8")


def test_topology_commands(tmp_path: Path) -> None:
    listed = run("topology", "list")
    assert "dgx1-v100" in listed.stdout
    shown = run("topology", "show", "ring:3", "--json")
    path = tmp_path / "ring.json"
    path.write_text(shown.stdout, encoding="utf-8")
    assert synth.load_topology(path) == synth.resolve("ring:3")
    assert "6 net links" in run("topology", "show", "ring:3").stdout.replace("nvlink", "net")
    assert run("topology", "check", str(path)).returncode == 0


def test_plot(tmp_path: Path) -> None:
    run("solve", "ring:4", "allgather", "--size", "4GB", "--out", str(tmp_path / "out"))
    done = run("plot", str(tmp_path / "out" / "plan.json"), "--kind", "splits", "--out", str(tmp_path / "p"))
    assert done.returncode == 0
    assert [path.name for path in (tmp_path / "p").iterdir()] == ["splits.png"]
    assert run("plot", str(tmp_path / "out" / "msccl.xml")).returncode == 2


def test_ranks_text() -> None:
    assert parse_ranks("0-2,7") == [0, 1, 2, 7]
    for bad in ("", "a", "3-1", "1-", "-1", "1,,2"):
        with pytest.raises(InvalidInputError):
            parse_ranks(bad)


def test_ctrl_c_stops_cleanly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("synth.line.api.synthesize", interrupted)
    done = run("solve", "ring:3", "allgather", "--size", "1GB", "--out", str(tmp_path / "out"))
    assert done.returncode == 130
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out").exists()


def test_a_size_that_the_file_never_serves_is_said(tmp_path: Path) -> None:
    """100 kB are no whole floats in 16 chunks; 1 GB is above a maxBytes of 1 MB, where no file would be of use."""
    done = run("solve", "ring:4", "allreduce", "--size", "100kB", "--json")
    result = json.loads(done.stdout)
    assert done.returncode == 0
    assert result["served"] is False
    assert "nearest served: " in result["unserved_reasons"][0]
    done = run("solve", "ring:4", "allreduce", "--size", "1MiB", "--json")
    assert json.loads(done.stdout)["served"] is True
    out = tmp_path / "out"
    for target in ("msccl", "mscclpp"):
        done = run(
            *("solve", "ring:4", "allreduce", "--size", "1GB", "--max-bytes", "1MB", "--target", target),
            *("--out", str(out), "--json"),
        )
        assert done.returncode == 5
        assert "no file is written: 1000000000 B is outside the range" in done.stderr
        assert json.loads(done.stdout)["served"] is False
        assert not out.exists()
