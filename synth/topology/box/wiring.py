"""Nodes, links and shared wires of a topology while it is built from boxes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from synth.topology.box.hardware import Rate
from synth.topology.elements import Link, LinkKind, Node, Resource


@dataclass(frozen=True, slots=True)
class Wire:
    """Something that links share: a resource in the making."""

    id: str
    rate: Rate


class Wiring:
    """Nodes, links and wires of the topology that grows."""

    def __init__(self, achievable: bool) -> None:
        self.achievable = achievable
        self.nodes: list[Node] = []
        self.links: list[Link] = []
        self._wires: dict[Wire, dict[str, float]] = {}
        self._fabric: dict[str, None] = {}

    def link(
        self,
        name: str,
        ends: tuple[str, str],
        rate: Rate,
        kind: LinkKind,
        latency: float = 0.0,
        uses: Sequence[tuple[Wire, float]] = (),
    ) -> None:
        """Add a directed link; on each wire a byte counts as often as ``uses`` says."""
        efficiency = rate.efficiency if self.achievable else 1.0
        self.links.append(Link(name, *ends, rate.nominal, latency, kind, efficiency))
        for wire, times in uses:
            self._wires.setdefault(wire, {})[name] = times

    def fabric_switch(self, name: str) -> str:
        """Name of a switch outside the boxes, which is there once however often it is asked for."""
        self._fabric[name] = None
        return name

    def finish_fabric(self) -> None:
        """Add the switches outside the boxes, behind all boxes."""
        self.nodes += (Node(name, "switch", "fabric") for name in self._fabric)

    def resources(self) -> tuple[Resource, ...]:
        """One resource per wire that says more than the capacity of its only link."""
        capacity = {link.id: link.capacity for link in self.links}
        out = []
        for wire, uses in self._wires.items():
            rate = wire.rate.achievable if self.achievable else wire.rate.nominal
            alone = len(uses) == 1 and next(iter(uses.values())) == 1.0
            # The tolerance is for efficiency, a quotient: bandwidth times efficiency is not achievable to the last bit.
            if not (alone and capacity[next(iter(uses))] <= rate * (1 + 1e-12)):
                out.append(Resource(wire.id, rate, tuple(uses.items())))
        return tuple(out)
