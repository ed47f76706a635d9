"""``synth topology import`` on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from synth.cli.app import main
from synth.topology import load_topology
from tests.topology.importing.samples import SAMPLES


def run(*arguments: object) -> int:
    try:
        main([str(argument) for argument in arguments])
    except SystemExit as stop:
        return int(stop.code or 0)
    return 0


def test_assumptions_go_to_stderr_and_into_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "box.json"
    assert run("topology", "import", SAMPLES / "provider.xml", "--gpu", "a100", "--assume", "gen4", "-o", out) == 0
    said = capsys.readouterr()
    assert "note: assumed (gen4) NIC speed 25 GB/s: 0103:00:00.0, 0104:00:00.0" in said.err
    assert said.out.startswith("provider: 3 gpu")
    assert "note:" not in said.out
    assert said.out.rstrip().endswith(str(out))
    assert "assumed (gen4) NIC speed 25 GB/s" in load_topology(out).source


def test_nothing_is_written_on_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "box.json"
    assert run("topology", "import", SAMPLES / "provider.xml", "-o", out) == 2
    assert "0001:00:00.0" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
    assert run("topology", "import", SAMPLES / "provider.xml", "--paths", "usb", "-o", out) == 2
    assert run("topology", "import", SAMPLES / "no-such-file.xml", "-o", out) == 2


def test_rings_are_infeasible_on_scale_up_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "rings.json"
    assert run("topology", "import", SAMPLES / "rings.xml", "--paths", "nvlink", "-o", out) == 0
    assert run("solve", out, "allgather", "--size", "1GB") == 3
    assert "no path" in capsys.readouterr().err
    assert run("topology", "import", SAMPLES / "rings.xml", "--paths", "nvlink,pcie", "-o", out) == 0
    assert run("solve", out, "allgather", "--size", "1GB") == 0


def test_copies_of_a_host_solve(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "two.json"
    rails = SAMPLES / "rails.xml"
    assert run("topology", "import", rails, "--hosts", "2", "--fabric", "rail", "--peer", "switch", "-o", out) == 0
    assert run("topology", "check", out) == 0
    assert "4 GPUs" in capsys.readouterr().out
    assert run("topology", "show", out, "--paths", "nic") == 0
    assert "nvlink" not in capsys.readouterr().out.split("source")[0]
    assert run("solve", out, "alltoall", "--size", "4GB") == 0


def test_names_that_machines_print_are_taken(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "box.json"
    wide = SAMPLES / "pasted" / "smi_wide.txt"
    assert run("topology", "import", wide, "--gpu", "NVIDIA H100 80GB HBM3", "--assume", "gen5", "-o", out) == 0
    said = capsys.readouterr().err
    assert "note: NV18 between any two of 8 GPUs is one switch with 18 links per GPU" in said
    assert "note: numbers of the h100: NCCL topo.h" in said
    assert run("topology", "import", wide, "--gpu", "NVIDIA Z9", "--assume", "gen5", "-o", out) == 2
    assert "gpu 'NVIDIA Z9' is not known" in capsys.readouterr().err


def test_a_cut_table_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (SAMPLES / "pasted" / "smi_wide.txt").read_text()
    cut = tmp_path / "cut.txt"
    cut.write_text("\n".join(line[:40] for line in text.split("\n")))
    assert run("topology", "import", cut, "--gpu", "h100", "--assume", "gen5", "-o", tmp_path / "box.json") == 2
    assert "cut.txt:6: row GPU4: the heading" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["cut.txt"]
