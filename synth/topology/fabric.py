"""Clusters: copies of one box, joined through NICs to one switch or to one switch per rail."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from synth.errors import InvalidInputError
from synth.topology.elements import Link, Node, Resource
from synth.topology.model import Topology
from synth.topology.shapes import both_ways

Fabric = Literal["switch", "rail"]
#: TACCL and TE-CCL both use 2.6 us from GPU to GPU over InfiniBand (NCCL's LL ring hop: 2.7): half on each side.
NIC_LATENCY = 1.3e-6


@dataclass(frozen=True, slots=True)
class Joint:
    """How each GPU reaches the fabric; bytes/second per direction and seconds.

    Attributes
    ----------
    nic_latency
        Of the link between a NIC and its fabric switch; it stands for GPU, PCIe, NIC and cable of one side.
    """

    nic_bandwidth: float
    pcie_bandwidth: float
    gpus_per_nic: int = 1
    nic_latency: float = NIC_LATENCY
    nic_efficiency: float = 1.0
    pcie_efficiency: float = 1.0
    source: str = ""


def join_hosts(name: str, box: Topology, hosts: int, fabric: Fabric, joint: Joint) -> Topology:
    """Join copies of a box through their GPUs' NICs by a fabric.

    Ids of copy ``i`` get the prefix ``h{i}.`` and its host is ``h{i}``. NIC ``h{i}.nic{k}`` serves the GPUs
    ``k * gpus_per_nic`` and following of its box. Fabric switches are non-blocking vertices: ``fabric``, or
    ``rail{k}`` which joins the k-th NIC of every host; there are no links between rails.

    Parameters
    ----------
    name, hosts
        Name of the cluster and number of copies.
    box
        One host, without NICs to the outside.
    fabric, joint
        ``"switch"`` or ``"rail"``, and the rates between GPU, NIC and fabric.

    Raises
    ------
    InvalidInputError
        The box's GPUs cannot be shared out evenly over NICs.
    """
    if len(box.gpus) % joint.gpus_per_nic:
        raise InvalidInputError(
            f"cluster: gpus_per_nic {joint.gpus_per_nic} does not divide the {len(box.gpus)} GPUs of {box.name!r}"
        )
    rails = len(box.gpus) // joint.gpus_per_nic if fabric == "rail" else 1
    switches = [f"rail{k}" for k in range(rails)] if fabric == "rail" else ["fabric"]
    nodes: list[Node] = []
    links: list[Link] = []
    resources: list[Resource] = []
    for i in range(hosts):
        host = f"h{i}"
        nodes += _copied_nodes(box, host, joint)
        links += (replace(k, id=f"{host}.{k.id}", src=f"{host}.{k.src}", dst=f"{host}.{k.dst}") for k in box.links)
        links += _joint_links(box, host, switches, joint)
        resources += _copied_resources(box, host)
    nodes += (Node(switch, "switch", "fabric") for switch in switches)
    source = f"{hosts} x ({box.source}); {joint.source}"
    return Topology(name, tuple(nodes), tuple(links), tuple(resources), source=source)


def _copied_nodes(box: Topology, host: str, joint: Joint) -> Iterator[Node]:
    for node in box.nodes:
        yield replace(node, id=f"{host}.{node.id}", host=host)
    for k in range(len(box.gpus) // joint.gpus_per_nic):
        yield Node(f"{host}.nic{k}", "nic", host)


def _copied_resources(box: Topology, host: str) -> Iterator[Resource]:
    for pool in box.resources:
        uses = tuple((f"{host}.{link}", times) for link, times in pool.uses)
        yield Resource(f"{host}.{pool.id}", pool.bandwidth, uses)


def _joint_links(box: Topology, host: str, switches: list[str], joint: Joint) -> Iterator[Link]:
    for rank in range(len(box.gpus)):
        gpu, nic = box.gpu_name(rank), f"nic{rank // joint.gpus_per_nic}"
        yield from both_ways(
            f"{host}.{gpu}-{nic}",
            f"{host}.{gpu}",
            f"{host}.{nic}",
            joint.pcie_bandwidth,
            0.0,  # counted in nic_latency
            "pcie",
            joint.pcie_efficiency,
        )
    for k in range(len(box.gpus) // joint.gpus_per_nic):
        switch = switches[k % len(switches)]
        yield from both_ways(
            f"{host}.nic{k}-{switch}",
            f"{host}.nic{k}",
            switch,
            joint.nic_bandwidth,
            joint.nic_latency,
            "nic",
            joint.nic_efficiency,
        )
