"""Routes kept by representatives: the images under the symmetry and the strands of parallel links on demand."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from typing import overload

import numpy as np

from synth.demand.model import Demand
from synth.formulation.flow.network import Network
from synth.formulation.flow.parallel import Bundles
from synth.formulation.flow.routes import Route, link_bytes
from synth.formulation.flow.symmetry import Symmetry
from synth.ground.arrays import Floats

# A sequence of at most so many routes is kept once it was asked for.
KEPT = 300_000


@dataclass(frozen=True, eq=False)
class OrbitRoutes(Sequence[Route]):
    """All routes of a plan as an immutable sequence that stores one route per orbit.

    Attributes
    ----------
    demand
        What the routes serve.
    representatives
        One route per orbit, over the links of ``bundles.bundled``.
    symmetry
        Group whose elements make the others.
    bundles
        Tells the parallel links of a bundle apart.
    """

    demand: Demand
    representatives: tuple[Route, ...]
    symmetry: Symmetry
    bundles: Bundles

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, OrbitRoutes):
            return NotImplemented
        mine = (self.demand, self.representatives, self.symmetry.generators, self.bundles.strands)
        return mine == (other.demand, other.representatives, other.symmetry.generators, other.bundles.strands)

    def __hash__(self) -> int:
        return hash((self.representatives, self.symmetry.generators))

    def of(self, choose: Callable[[Sequence[Route]], Sequence[Route]]) -> OrbitRoutes:
        """The sequence whose representatives are what a function makes of these."""
        return replace(self, representatives=tuple(choose(self.representatives)))

    @property
    def strands(self) -> bool:
        """Whether routes are cut to tell parallel links apart."""
        return len(self.bundles.strands) < len(self.bundles.topology.links)

    @cached_property
    def _whole(self) -> tuple[Route, ...]:
        return self.bundles.split(self.demand, tuple(self.symmetry.expand(self.demand, self.representatives)))

    @cached_property
    def _count(self) -> int:
        if self.strands:
            return len(self._whole)
        order = self.symmetry.order
        return sum(
            order if self.symmetry.orbit_size[r.root] == order else sum(1 for _ in self.symmetry.images(self.demand, r))
            for r in self.representatives
        )

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Route]:
        if self.strands or self._count <= KEPT:
            return iter(self._whole)
        return self.symmetry.expand(self.demand, self.representatives)

    @overload
    def __getitem__(self, index: int) -> Route: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Route]: ...
    def __getitem__(self, index: int | slice) -> Route | Sequence[Route]:
        if isinstance(index, slice) or self.strands or self._count <= KEPT:
            return self._whole[index]
        return next(islice(self, range(self._count)[index], None))

    def row_bytes(self) -> Floats:
        """Bytes on each row (links, then resources) of the original topology."""
        meeting = self.demand.pattern == "allreduce"
        sizes = self.symmetry.orbit_size
        scaled = [r if meeting else replace(r, share=r.share * int(sizes[r.root])) for r in self.representatives]
        network = Network(self.bundles.bundled)
        load = self.symmetry.average(network.row_bytes(link_bytes(network, self.demand, scaled)))
        return self.bundles.strand_bytes(load)


def row_bytes_of(network: Network, demand: Demand, routes: Sequence[Route]) -> Floats:
    """Bytes that routes put on each row of a network (length: rows)."""
    if isinstance(routes, OrbitRoutes):
        return routes.row_bytes()
    return np.asarray(network.row_bytes(link_bytes(network, demand, routes)))
