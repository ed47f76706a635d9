"""The README's section on studies says what its commands print."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from matplotlib import pyplot as plt

from tests import places
from tests.cli.test_solve import run

ROOT = places.ROOT


@pytest.fixture
def section(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(ROOT)
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    return text.split("## Adaptive splitting and thresholds")[1].split("\n## ")[0]


def test_table_is_what_the_command_prints(section: str, tmp_path: Path) -> None:
    command = next(line for line in section.splitlines() if "synth study adaptive" in line)
    words = shlex.split(command)[3:-1]
    done = run(*words, str(tmp_path))
    rows = re.findall(r"^\| (.*?) \| (.*?) \| (.*?) \| (.*?) \|$", section, re.MULTILINE)[1:]
    assert len(rows) == 5
    printed = [line.split("  ", 1)[1].strip() for line in done.stdout.splitlines() if " over the bound, " in line]
    for (_, time, over, lost), line in zip(rows, printed, strict=True):
        assert line.startswith(f"{time}, {over} over the bound, {lost} lost")


def test_python_example_runs(section: str) -> None:
    code = section.split("```python")[1].split("```")[0]
    names: dict[str, Any] = {}
    exec(code, names)
    assert names["study"].table.loc["adaptive", "over_bound"] < 0.01
    assert names["pair_thresholds"](names["paths"], {"host": 20e-6}).used(4e6) == ("switch", "nic")
    plt.close("all")


def test_threshold_is_what_the_command_prints(section: str) -> None:
    stated = re.search(r"host memory from (\d+\.\d+ MB) on", section)
    assert stated is not None
    assert f"host    from {stated[1]} on" in run("study", "threshold", "instances/study/h800-pair.json").stdout
