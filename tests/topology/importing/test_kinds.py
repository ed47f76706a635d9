"""Which kind of topology a text has, and where in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from synth.errors import InvalidInputError
from synth.topology import import_topology
from tests.topology.importing.samples import (
    PASTED,
    SAMPLES,
    between,
    given_file,
    matrix,
    noted,
)

# Which kind it is


def test_several_kinds_need_a_word(tmp_path: Path) -> None:
    path = given_file(tmp_path, matrix("NV4", 2) + (PASTED / "mi250.txt").read_text())
    with pytest.raises(InvalidInputError, match=r"nvidia-smi \(line 1\), rocm-smi \(line 4\); --kind says which"):
        import_topology(path, gpu="a100", assume="gen4")
    assert between(import_topology(path, "rocm-smi", gpu="mi250", assume="gen4"))


def test_two_topologies_of_one_kind_are_refused(tmp_path: Path) -> None:
    text = (SAMPLES / "nvswitch.xml").read_text()
    with pytest.raises(InvalidInputError, match="a second <system> begins in line"):
        import_topology(given_file(tmp_path, f"rank 0\n{text}rank 1\n{text}"))
    twice = (PASTED / "mi250.txt").read_text() * 2
    with pytest.raises(InvalidInputError, match="a second time"):
        import_topology(given_file(tmp_path, twice), gpu="mi250", assume="gen4")


def test_lines_keep_their_numbers(tmp_path: Path) -> None:
    text = "Hello,\n\n```\n" + (SAMPLES / "rails.xml").read_text().replace('link_width="16"', 'link_width="x"', 1)
    path = given_file(tmp_path, text)
    line = text[: text.index('link_width="x"')].count("\n") + 1
    with pytest.raises(InvalidInputError, match=f"smi.txt:{line}: pci link_width='x'"):
        import_topology(path)


WIDE = (PASTED / "smi_wide.txt").read_text()


def test_pdsh_output_names_the_hosts(tmp_path: Path) -> None:
    lines = [f"{host}: {line}" for line in WIDE.split("\n") for host in ("node1", "node2")]
    topology = import_topology(given_file(tmp_path, "\n".join(lines)), gpu="h100", assume="gen5")
    assert len(topology.gpus) == 16
    assert noted(topology, "node1, node2")
