"""The topology: nodes, directed links with ids, and resources that links share.

All quantities are bytes, seconds and bytes/second. Capacities are per direction.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from synth.errors import InvalidInputError
from synth.topology.check import model_faults
from synth.topology.elements import Link, Node, Resource


@dataclass(frozen=True)
class Topology:
    """An immutable machine description. Ranks are the GPU nodes in order.

    Raises
    ------
    InvalidInputError
        On duplicate ids, links to undeclared nodes or self-loops, non-positive or infinite numbers: all at once.
    """

    name: str
    nodes: tuple[Node, ...]
    links: tuple[Link, ...]
    resources: tuple[Resource, ...] = ()
    source: str = ""
    notes: tuple[str, ...] = field(default=(), compare=False)
    symmetry: tuple[tuple[tuple[str, str], ...], ...] = ()

    def __post_init__(self) -> None:
        faults = model_faults(self)
        if faults:
            raise InvalidInputError(faults)

    @cached_property
    def node_index(self) -> dict[str, int]:
        """Node id to its position in ``nodes``."""
        return {node.id: i for i, node in enumerate(self.nodes)}

    @cached_property
    def link_index(self) -> dict[str, int]:
        """Link id to its position in ``links``."""
        return {link.id: i for i, link in enumerate(self.links)}

    @cached_property
    def gpus(self) -> tuple[int, ...]:
        """Node index of every rank, in rank order."""
        return tuple(i for i, node in enumerate(self.nodes) if node.kind == "gpu")

    @cached_property
    def rank_of(self) -> dict[int, int]:
        """Node index of a GPU to its rank."""
        return {node: rank for rank, node in enumerate(self.gpus)}

    @cached_property
    def ends(self) -> tuple[tuple[int, int], ...]:
        """Per link, the node indices (source, destination)."""
        index = self.node_index
        return tuple((index[link.src], index[link.dst]) for link in self.links)

    def gpu_name(self, rank: int) -> str:
        """Id of the GPU node of a rank."""
        return self.nodes[self.gpus[rank]].id
