"""What topologies are made of: nodes, directed links, and resources that links share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

NodeKind = Literal["gpu", "switch", "nic", "cpu", "memory"]
LinkKind = Literal["nvlink", "xgmi", "c2c", "pcie", "socket", "memory", "nic", "net"]
NODE_KINDS: tuple[str, ...] = get_args(NodeKind)
LINK_KINDS: tuple[str, ...] = get_args(LinkKind)


@dataclass(frozen=True, slots=True)
class Node:
    """A vertex.

    Attributes
    ----------
    relay
        Whether a GPU may forward traffic that is not its own, by a program that runs on it.
    passes
        Whether a GPU passes traffic on in hardware, from one of its links to GPUs to another, without a program: the
        GPUs of an xGMI hive reach each other over several hops as if they were neighbours. It makes no plan faster;
        it says what a program means that sends where there is no link.
    """

    id: str
    kind: NodeKind
    host: str = "host0"
    relay: bool = True
    passes: bool = False


@dataclass(frozen=True, slots=True)
class Link:
    """A directed link.

    Attributes
    ----------
    bandwidth
        Nominal bytes/second in this direction.
    latency
        Seconds from the last byte sent to the last byte received.
    efficiency
        Achievable share of ``bandwidth``, in (0, 1]; ``capacity`` is the product.
    """

    id: str
    src: str
    dst: str
    bandwidth: float
    latency: float = 0.0
    kind: LinkKind = "net"
    efficiency: float = 1.0

    @property
    def capacity(self) -> float:
        """Achievable bytes/second."""
        return self.bandwidth * self.efficiency


@dataclass(frozen=True, slots=True)
class Resource:
    """A capacity that several links share: each byte on link ``l`` uses it ``m`` times for ``(l, m)`` in ``uses``."""

    id: str
    bandwidth: float
    uses: tuple[tuple[str, float], ...]
