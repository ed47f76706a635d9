"""Which of MSCCL++'s channels a transfer goes over."""

from __future__ import annotations

from typing import Final, Literal

from synth.schedule.model import Transfer
from synth.topology.model import Topology
from synth.topology.paths import path_kind

ChannelType = Literal["memory", "port"]
#: Order in which a plan lists them; the executor connects memory channels first.
CHANNEL_TYPES: Final[tuple[ChannelType, ...]] = ("memory", "port")


def channel_type(topology: Topology, transfer: Transfer) -> ChannelType:
    """Type of the channel that a transfer needs.

    Memory channels are what threads of the sender write through: between GPUs of one host. Port channels are served
    by a proxy: between hosts, and for paths through a NIC wherever they lead.
    """
    hosts = {topology.nodes[transfer.src].host, topology.nodes[transfer.dst].host}
    return "port" if len(hosts) > 1 or path_kind(topology, transfer.links) == "nic" else "memory"
