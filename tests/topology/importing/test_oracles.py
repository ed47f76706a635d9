"""Oracles T10, T14, T15 and T28, derived by hand, on files as machines and other tools write them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from synth.demand import make_demand
from synth.errors import InfeasibleError
from synth.line.api import synthesize
from synth.solver.flow import solve
from synth.topology import Topology, import_topology
from tests.topology.importing.samples import SAMPLES


def seconds(topology: Topology, collective: str, size: float, ranks: list[int] | None = None) -> float:
    return solve(topology, make_demand(topology, collective, size, ranks=ranks)).time


def test_t10_shared_nic() -> None:
    """2 x 2 GB cross a NIC of 10 GB/s; an all-gather's 2 shards cross it once."""
    topology = import_topology(SAMPLES / "two_hosts_one_nic.xml")
    assert seconds(topology, "alltoall", 4e9) == pytest.approx(0.4, rel=1e-5)
    assert seconds(topology, "allgather", 4e9) == pytest.approx(0.2, rel=1e-5)


def test_t10_as_copies_of_one_host(tmp_path: Path) -> None:
    """The same from one host, copied and joined by one switch."""
    text = (SAMPLES / "two_hosts_one_nic.xml").read_text()
    path = tmp_path / "one.xml"
    path.write_text(text[: text.index('<cpu host_hash="0xb"')] + "</system>\n")
    topology = import_topology(path, hosts=2)
    assert seconds(topology, "alltoall", 4e9) == pytest.approx(0.4, rel=1e-5)
    assert seconds(topology, "allgather", 4e9) == pytest.approx(0.2, rel=1e-5)


def test_t14_rail_only_without_relay() -> None:
    """4 GB per direction over two rails of 25 GB/s; without GPUs that relay no rail leads to the other."""
    topology = import_topology(SAMPLES / "rails.xml", hosts=2, fabric="rail", paths=["nvlink", "nic"], peer="switch")
    assert seconds(topology, "alltoall", 4e9) == pytest.approx(0.08, rel=1e-5)
    still = replace(topology, nodes=tuple(replace(n, relay=n.kind != "gpu") for n in topology.nodes))
    with pytest.raises(InfeasibleError, match="4 ordered pairs have no path"):
        seconds(still, "alltoall", 4e9)
    # With the CPUs' PCIe on the way, a GPU reaches the other rail's NIC itself.
    whole = import_topology(SAMPLES / "rails.xml", hosts=2, fabric="rail")
    fixed = replace(whole, nodes=tuple(replace(n, relay=n.kind != "gpu") for n in whole.nodes))
    assert seconds(fixed, "alltoall", 4e9) >= 0.08 - 1e-9


@pytest.mark.parametrize(
    ("chunks", "quantised"), [(1, 0.3333), (2, 0.3333), (3, 0.3333), (4, 0.25), (5, 0.2667), (8, 0.25), (10, 0.2667)]
)
def test_t15_split_rounding(chunks: int, quantised: float) -> None:
    """3 GB/s direct and 1 GB/s by way of GPU 2: 3/4 and 1/4; whole chunks cost what they cost."""
    topology = import_topology(SAMPLES / "split.simai")
    result = synthesize(topology, "sendrecv", 1e9, root=0, chunks=chunks)
    assert result.plan.time == pytest.approx(0.25, rel=1e-5)
    assert result.schedule.quantized == pytest.approx(quantised, abs=1e-4)


def test_t28_shared_uplink_without_peer_to_peer(tmp_path: Path) -> None:
    """12 GB each way between two GPUs: under one switch both flows cross its uplink, under two each has its own."""
    table = tmp_path / "speeds.json"
    table.write_text('{"format": "synth-speeds/1", "memory": "1000 GB/s"}')
    staged = import_topology(SAMPLES / "no_peer.xml", gpu="rtx4090", assume=table, capacities="achievable")
    assert seconds(staged, "alltoall", 24e9, [0, 1]) == pytest.approx(2.0, rel=1e-5)
    assert seconds(staged, "alltoall", 24e9, [0, 2]) == pytest.approx(1.0, rel=1e-5)
    # GPUs that reach each other turn round inside the switch.
    peers = import_topology(SAMPLES / "no_peer.xml", assume=table, paths=["pcie"], capacities="achievable")
    assert seconds(peers, "alltoall", 24e9, [0, 1]) == pytest.approx(1.0, rel=1e-5)


def test_a_staged_copy_uses_host_memory_twice(tmp_path: Path) -> None:
    """12 GB each way are 24 GB written and 24 GB read: 48 GB of a pool of 12 GB/s take 4 s, whatever the switches."""
    table = tmp_path / "speeds.json"
    table.write_text('{"format": "synth-speeds/1", "memory": "12 GB/s"}')
    staged = import_topology(SAMPLES / "no_peer.xml", gpu="rtx4090", assume=table, capacities="achievable")
    assert seconds(staged, "alltoall", 24e9, [0, 2]) == pytest.approx(4.0, rel=1e-5)


def test_a_gpus_nic_and_host_paths_share_its_port(tmp_path: Path) -> None:
    """Two GPUs behind x16 ports of 31.5 GB/s: PCIe, host memory and a 25 GB/s NIC add up to the port only."""
    table = tmp_path / "speeds.json"
    table.write_text('{"format": "synth-speeds/1", "memory": "1000 GB/s"}')
    every = import_topology(SAMPLES / "rails.xml", assume=table, paths=["pcie", "host", "nic"])
    port = 16e9 * 16 * (128 / 130) / 8
    assert seconds(every, "alltoall", 2e9) == pytest.approx(1e9 / port, rel=1e-5)
    # The hairpin alone is as fast as the NIC.
    hairpin = import_topology(SAMPLES / "rails.xml", assume=table, paths=["nic"], peer="switch")
    assert seconds(hairpin, "alltoall", 2e9) == pytest.approx(1e9 / 25e9, rel=1e-5)


def test_intel_peer_traffic_between_sockets() -> None:
    """22 GB/s between the sockets, 1.2 uses per byte: 18.33 GB/s; on AMD the whole 16 GB/s."""
    topology = import_topology(SAMPLES / "rails.xml", paths=["pcie"])
    assert seconds(topology, "alltoall", 2e9) == pytest.approx(1.2e9 / 22e9, rel=1e-5)
    amd = import_topology(SAMPLES / "rings.xml", paths=["pcie"])
    assert seconds(amd, "alltoall", 2e9, [0, 2]) == pytest.approx(1e9 / 16e9, rel=1e-5)
