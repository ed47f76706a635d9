"""Processes and memory: nothing is left behind however a run ends; and the command line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import pytest

import synth
from synth.emulate import run_program
from synth.emulate.machine.job import Job
from synth.errors import VerificationError
from synth.program.msccl.model import Draft
from tests import places
from tests.cli.test_solve import run, spawn
from tests.emulate.programs import program, size_of
from tests.program.msccl.builders import ring_allgather, ring_allreduce, without_step

# A shell without job control starts processes with SIGINT ignored, hence the handler.
SCRIPT = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from dataclasses import replace
from synth.emulate import run_program
from tests.program.msccl.builders import ring_allgather
print("ready", flush=True)
run_program(replace(ring_allgather(3), proto="LL"), 24 << 20, dtype="int8", timeout=300)
print("done", flush=True)
"""
ROOT = places.ROOT


def descendants(pid: int) -> set[int]:
    """Processes below one, from /proc."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
            except (OSError, IndexError):
                continue
    found: set[int] = {pid}
    while True:
        more = {child for child, parent in parents.items() if parent in found} - found
        if not more:
            return found - {pid}
        found |= more


def alive(pids: set[int]) -> set[int]:
    """Those that still run; a zombie that its adopted parent has not reaped holds nothing any more."""
    running = set()
    for pid in pids:
        try:
            state = (Path("/proc") / str(pid) / "stat").read_text().rsplit(")", 1)[1].split()[0]
        except OSError:
            continue
        if state != "Z":
            running.add(pid)
    return running


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_nothing_survives_the_user_process(how: signal.Signals) -> None:
    user = subprocess.Popen(
        [sys.executable, "-c", SCRIPT],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=ROOT,
    )
    with user:
        family: set[int] = set()
        deadline = time.monotonic() + 60
        while len(family) < 4 and time.monotonic() < deadline:
            family = descendants(user.pid)
            time.sleep(0.02)
        assert len(family) == 4
        user.send_signal(how)
        out, err = user.communicate(timeout=30)
        assert b"done" not in out
        assert b"leaked" not in err
        while alive(family) and time.monotonic() < deadline:
            time.sleep(0.02)
        assert alive(family) == set()


@pytest.mark.parametrize("outcome", ["right", "wrong", "hangs"])
def test_nothing_is_left_in_this_process(outcome: str) -> None:
    """File descriptors and children are the same before and after; no warnings, no names in shared memory."""
    good = ring_allreduce(3)
    made: Draft = good if outcome == "right" else without_step(good, 0, 0, 0 if outcome == "hangs" else 4)
    folder = Path("/dev/fd")
    before = sorted(os.listdir(folder))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            run_program(made, 12)
        except VerificationError:
            assert outcome != "right"
        else:
            assert outcome == "right"
    assert sorted(os.listdir(folder)) == before
    if Path("/proc/self/stat").exists():
        assert alive(descendants(os.getpid())) == set()


def test_runs_from_a_thread() -> None:
    """As in a notebook or a server: no signal handlers, no fork of this process."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(2) as pool:
        reports = list(pool.map(lambda n: run_program(ring_allgather(n), 4 * n), (2, 3)))
    assert all(report.ok for report in reports)


def test_job_survives_the_trip() -> None:
    from synth.emulate.build import build_job, cut_size
    from synth.emulate.values import as_dtype
    from synth.program.msccl.targets import MSCCL

    made, dtype = ring_allreduce(3), as_dtype("int32")
    job = build_job(made, cut_size(made, 24, dtype, MSCCL, None), dtype, "max", True, 5.0).job
    assert Job.from_bytes(job.to_bytes()) == job


def test_sixteen_ranks_and_thousands_of_steps() -> None:
    made = program("torus2d:4x4", "alltoall")
    report = run_program(made, size_of(made, 16))
    assert report.steps > 2000
    assert report.wall_s < 20


def test_command_line(tmp_path: Path) -> None:
    text = synth.synthesize("ring:4", "allreduce", "1MiB").xml
    (tmp_path / "msccl.xml").write_text(text, encoding="utf-8")
    file = str(tmp_path / "msccl.xml")
    done = spawn(
        "run", file, "--size", "1MiB", "--ranks", "4", "--json", "--op", "max", "--dtype", "int32", cwd=tmp_path
    )
    assert (done.returncode, done.stderr) == (0, "")
    facts = json.loads(done.stdout)
    assert (facts["format"], facts["ok"], facts["op"], facts["dtype"]) == ("synth-run/1", True, "max", "int32")
    done = run("run", file, "--size", "1MiB", "--out-of-place", "--timeout", "30s")
    assert done.returncode == 0
    assert "every number right" in done.stdout
    for arguments, words in (
        (("--size", "1MiB", "--ranks", "5"), "is for 4 ranks, not for 5"),
        (("--size", "1000001"), "nearest valid"),
        (("--size", "1 parsec"), "parsec"),
        (("--size", "1MiB", "--inplace"), "out of place only"),
        (("--size", "1MiB", "--op", "avg"), "avg"),
        (("--size", "1MiB", "--timeout", "60"), "60"),
    ):
        done = run("run", file, *arguments)
        assert (done.returncode, done.stdout) == (2, "")
        assert words in done.stderr
    assert text.count('type="rrc"') > 0
    (tmp_path / "wrong.xml").write_text(text.replace('type="rrc"', 'type="r"', 1), encoding="utf-8")
    done = run("run", str(tmp_path / "wrong.xml"), "--size", "1MiB", "--json")
    assert done.returncode == 5
    assert json.loads(done.stdout)["ok"] is False


def test_calls_that_the_runtime_never_gives_to_the_program(tmp_path: Path) -> None:
    """They run here, with right numbers, and the exit code says that they never do there."""
    text = synth.synthesize("ring:4", "allreduce", "1MiB", lowering={"max_bytes": 2048}).xml
    path = tmp_path / "msccl.xml"
    path.write_text(text, encoding="utf-8")

    def served(*arguments: str) -> tuple[int, bool, bool]:
        done = run("run", str(path), "--json", *arguments)
        facts = json.loads(done.stdout)
        return done.returncode, facts["ok"], facts["served"]

    assert served("--size", "1024") == (0, True, True)
    assert served("--size", "2048") == (5, True, False)  # maxBytes itself is not served by the legacy runtime
    assert served("--size", "2048", "--target", "msccl-executor") == (0, True, True)
    done = run("run", str(path), "--size", "1024", "--target", "rccl")
    assert done.returncode == 5
    assert "rccl refuses" in done.stdout
    assert "every number right" in done.stdout
