"""``synth verify``: exit codes, what it says, and its JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from synth.cli import app as cli
from synth.program.msccl.program import Program
from synth.program.msccl.targets import MSCCL_EXECUTOR, RCCL
from synth.program.msccl.xml import to_xml
from tests.program.msccl.builders import scratch_allreduce
from tests.program.msccl.xml.test_xml import PAIR


def verify(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        cli.main(["verify", *arguments])
    printed = capsys.readouterr()
    return int(ended.value.code or 0), printed.out, printed.err


@pytest.fixture
def pair(tmp_path: Path) -> str:
    (tmp_path / "pair.xml").write_text(PAIR, encoding="utf-8")
    return str(tmp_path / "pair.xml")


def test_accepted_and_right(pair: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = verify(capsys, pair)
    assert code == 0
    assert "msccl accepts the file" in out
    assert "data checked in place" in out
    assert "cannot hang up to 1048576 bytes" in out
    assert verify(capsys, pair, "--target", "msccl-executor", "--ranks", "2", "--protocol", "LL")[0] == 0


def test_refused_at_launch(pair: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = verify(capsys, pair, "--target", "rccl")
    assert code == 5
    assert "rccl accepts the file" in out
    assert "launch: g0.tb0.step1: rccl refuses rrcs steps" in out


def test_json(pair: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = verify(capsys, pair, "--target", "rccl", "--json")
    report = json.loads(out)
    assert code == 5
    assert report["format"] == "synth-verify/1"
    assert (report["accepted"], report["ok"], report["reject_reasons"]) == (True, False, [])
    assert len(report["launch_reasons"]) == 1
    assert report["deadlock_free_max_bytes"] == 1 << 20
    assert report["hazards"] == report["launch_reasons"] == report["limits"]


def test_files_that_cannot_be_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert verify(capsys, str(tmp_path / "none.xml"))[0] == 2
    assert verify(capsys, str(tmp_path))[0] == 2
    (tmp_path / "empty.xml").write_text("", encoding="utf-8")
    code, out, _ = verify(capsys, str(tmp_path / "empty.xml"))
    assert code == 5
    assert "there is no <algo> element" in out


def test_wrong_options(pair: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "known ones are msccl, msccl-executor, rccl" in verify(capsys, pair, "--target", "nccl")[2]
    assert verify(capsys, pair, "--protocol", "LL256")[0] == 2
    assert verify(capsys, pair, "--sms", "0")[0] == 2


def test_jobs_of_another_size(pair: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The legacy runtime refuses such a file; the others load it and never select it."""
    for target, words in (("msccl", "reject: "), ("msccl-executor", "launch: ")):
        code, out, _ = verify(capsys, pair, "--ranks", "4", "--target", target)
        assert code == 5
        assert words + "the program is for 2 ranks, the job has 4" in out


def test_too_few_multiprocessors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.xml"
    path.write_text(to_xml(Program(scratch_allreduce(4), RCCL)), encoding="utf-8")
    assert verify(capsys, str(path), "--target", MSCCL_EXECUTOR.name)[0] == 0
    code, out, _ = verify(capsys, str(path), "--sms", "3")
    assert code == 5
    assert "4 thread blocks hang on a GPU with 3 SMs" in out


def test_strict_refuses_races_on_dead_data(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A block copies the input, while the other overwrites it, into scratch that nobody reads."""
    path = tmp_path / "dead.xml"
    steps = (
        '<step s="0" type="cpy" srcbuf="i" srcoff="0" dstbuf="s" dstoff="0" cnt="1" depid="-1" deps="-1" hasdep="0"/>'
    )
    block = f'<tb id="1" send="-1" recv="-1" chan="0">{steps}</tb></gpu>'
    path.write_text(PAIR.replace('s_chunks="0"', 's_chunks="1"').replace("</gpu>", block, 1), encoding="utf-8")
    code, out, _ = verify(capsys, str(path))
    assert code == 0
    assert "hazard: in place: race (write-after-read)" in out
    assert "with --strict" in out
    code, out, _ = verify(capsys, str(path), "--strict")
    assert code == 5
    assert "1 faults" in out
    code, out, _ = verify(capsys, str(path), "--strict", "--json")
    report = json.loads(out)
    assert code == 5
    assert (report["ok"], report["strict_ok"], report["strict"]) == (True, False, True)
    assert report["faults"] == []
    assert report["strict_faults"] == report["dead"]
    live = path.read_text().replace(
        steps, steps.replace('dstbuf="s"', 'dstbuf="o"').replace('dstoff="0"', 'dstoff="1"')
    )
    path.write_text(live, encoding="utf-8")
    code, out, _ = verify(capsys, str(path))
    assert code == 5
