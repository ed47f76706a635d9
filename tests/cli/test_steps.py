"""``synth steps`` as a user meets it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.test_solve import FILES, run


def test_frontier_as_json() -> None:
    done = run("steps", "ring:4", "allgather", "--frontier", "--max-chunks", "2", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    facts = json.loads(done.stdout)
    assert [(p["chunks"], p["steps"], p["rounds"], p["fastest"]) for p in facts["points"]] == [
        (1, 2, 2, False),
        (2, 2, 3, True),
    ]
    assert facts["complete"] is True


def test_frontier_as_table_and_files(tmp_path: Path) -> None:
    done = run("steps", "ring:4", "allgather", "--frontier", "--max-chunks", "2", "--out", str(tmp_path))
    assert done.returncode == 0
    assert "everything else is proven to be beaten" in done.stdout
    assert {path.name for path in tmp_path.iterdir()} == {
        "frontier.json",
        *(
            f"{point}.{name}"
            for point in ("c1-s2-r2", "c2-s2-r3")
            for name in ("steps.json", "schedule.json", "msccl.xml", "msccl.paths.json")
        ),
    }
    assert run("verify", str(tmp_path / "c2-s2-r3.msccl.xml")).returncode == 0


def test_files_are_complete_and_the_same_every_time(tmp_path: Path) -> None:
    for name in ("one", "two"):
        done = run("steps", "ring:4", "allgather", "--chunks", "2", "--steps", "2", "--out", str(tmp_path / name))
        assert (done.returncode, done.stderr) == (0, "")
    names = {path.name for path in (tmp_path / "one").iterdir()}
    assert names == FILES - {"plan.json"} | {"steps.json"}
    for name in names:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


def test_send_times_for_another_target(tmp_path: Path) -> None:
    done = run("steps", "ring:3", "allgather", "--asynchronous", "--target", "mscclpp", "--out", str(tmp_path))
    assert done.returncode == 0
    assert all("start_us" in send for send in json.loads((tmp_path / "steps.json").read_text())["schedule"])
    assert (tmp_path / "mscclpp.json").exists()


def test_infeasible_says_why() -> None:
    far = run("steps", "ring:4,both_ways=false", "allgather", "--steps", "2")
    assert (far.returncode, far.stdout) == (3, "")
    assert "rank 0 to rank 3 needs 3 hops, 2 steps are allowed" in far.stderr
    few = run("steps", "dgx1-v100", "alltoall", "--chunks", "3", "--steps", "2", "--rounds", "7", "--json")
    assert (few.returncode, few.stdout) == (3, "")
    assert "needs at least 8 rounds, 7 are allowed" in few.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--frontier", "--steps", "2"), "--max-steps"),
        (("--asynchronous", "--rounds", "2"), "has no steps"),
        (("--max-steps", "2"), "belongs to --frontier"),
        (("--engine", "NONE"), "not available"),
        (("--chunks", "0"), "chunks 0 must be 1 or more"),
    ],
)
def test_bad_options(tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    done = run("steps", "ring:4", "allgather", *arguments, "--out", str(tmp_path / "out"))
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert not (tmp_path / "out").exists()


def test_time_limit_has_its_own_exit_code() -> None:
    assert run("steps", "dgx1-v100", "allgather", "--chunks", "2", "--time-limit", "0s").returncode == 4
