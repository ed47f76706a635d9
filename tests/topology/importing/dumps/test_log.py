"""The topology in a log of NCCL_DEBUG=INFO."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from synth.topology import import_topology
from tests.topology.importing.samples import (
    PASTED,
    attempt,
    given_file,
    noted,
    to_switch,
)

# NCCL's log


def test_nccl_log() -> None:
    """Twelve links of 20 GB/s are 240; PCIe of 24 is x16 of 16 GT/s."""
    topology = import_topology(PASTED / "nccl.log", gpu="a100")
    assert to_switch(topology) == {300.0: 3}
    ends = {(link.src, link.dst): link.bandwidth for link in topology.links}
    assert ends["pcie0", "nic0.tx"] == 25e9
    assert ends["g2", "cpu1"] == pytest.approx(31.5077e9, rel=1e-5)
    assert ends["cpu0", "cpu1"] == 16e9
    assert noted(topology, "GPUs and NICs of its job only", "are 7000, f000, 47000")


def test_without_the_gpus_name_a_log_has_achievable_rates() -> None:
    topology = import_topology(PASTED / "nccl.log")
    assert to_switch(topology) == {240.0: 3}
    assert noted(topology, "240 GB/s is an achievable rate")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.replace("NCCL INFO ====", "NCCL INFO ...."), "is not understood"),
        (lambda t: t[: t.index("NCCL INFO =====")], "no closing line"),
        (lambda t: re.sub("INFO +", "INFO ", t), "with nothing below it; has the log lost its indentation"),
        (lambda t: t.replace("(2)\n", "(2)\nnode1:9:9 [0] NCCL INFO + PCI[24.0] - GPU/1 (3)\n"), "stands below no"),
        (lambda t: t.replace("NVL[240.0] - NVS/0", "NVL[240.0] - GPU/99", 1), "no such GPU or switch"),
        (lambda t: t + t.replace("4744:4763 [0]", "4745:4764 [1]").replace("GPU/47000", "GPU/48000"), "differs from"),
    ],
)
def test_broken_nccl_logs(tmp_path: Path, change: object, message: str) -> None:
    assert callable(change)
    topology, faults = attempt(given_file(tmp_path, change((PASTED / "nccl.log").read_text()), "nccl.log"))
    assert topology is None
    assert any(message in fault for fault in faults), faults


def test_every_rank_prints_the_same_tree(tmp_path: Path) -> None:
    text = (PASTED / "nccl.log").read_text()
    lines = text.split("\n")
    mixed = "\n".join(f"{line}\n{line.replace('4744:4763 [0]', '4745:4764 [1]')}" for line in lines)
    one, two = (import_topology(given_file(tmp_path, t, "nccl.log"), gpu="a100") for t in (text, mixed))
    assert (one.nodes, one.links, one.resources) == (two.nodes, two.links, two.resources)
