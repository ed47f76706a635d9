"""Which algorithm has which form: trees or paths per collective, on the ranks of a machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from synth.demand.model import Demand
from synth.errors import InvalidInputError
from synth.rivals.baselines.rings import find_rings
from synth.rivals.baselines.trees import (
    Edge,
    Tree,
    binary_trees,
    bruck_path,
    bruck_tree,
    direct_tree,
    doubling_tree,
    grid_path,
    grid_tree,
    hierarchical_path,
    hierarchical_tree,
    ring_tree,
)
from synth.schedule.paths import GpuPaths, Path
from synth.topology.model import Topology

SYMMETRIC: Final = ("allgather", "reducescatter", "allreduce")
ROOTED: Final = ("broadcast", "reduce")
PAIRS: Final = ("alltoall", "alltoallv", "gather", "scatter", "sendrecv")


@dataclass(frozen=True)
class Recipe:
    """One algorithm on one machine, over ranks.

    Attributes
    ----------
    trees
        Per variant (part of every shard), root rank -> edges of its out-tree. Empty for paths.
    back
        The out-trees that reductions take backwards; empty: the same.
    path
        (source, destination) -> edges.
    rooted
        All-reduce with roots of its own: per variant (root, edges); otherwise every rank is the root of a part.
    stepped
        Whether what goes over a hop in one step is one message.
    paths
        Links of the hops of a variant that are fixed beforehand: (variant, from, to) -> links.
    """

    trees: tuple[Tree, ...] = ()
    back: tuple[Tree, ...] = ()
    path: Callable[[int, int], list[Edge]] | None = None
    rooted: tuple[tuple[int, list[Edge]], ...] = ()
    stepped: bool = False
    paths: dict[tuple[int, int, int], Path] = field(default_factory=dict)

    @property
    def variants(self) -> int:
        """Parts of every shard."""
        return max(1, len(self.trees), len(self.rooted))


def _over(ranks: Sequence[int], tree: Tree) -> Tree:
    """A tree over positions as a tree over ranks."""
    place = {rank: k for k, rank in enumerate(ranks)}
    return lambda root: [(ranks[a], ranks[b], step) for a, b, step in tree(place[root])]


def _path_over(ranks: Sequence[int], path: Callable[[int, int], list[Edge]]) -> Callable[[int, int], list[Edge]]:
    place = {rank: k for k, rank in enumerate(ranks)}
    return lambda a, b: [(ranks[x], ranks[y], step) for x, y, step in path(place[a], place[b])]


def _rings(topology: Topology, demand: Demand, most: int) -> list[Recipe]:
    finder = GpuPaths(topology, _message(demand), relays=False)
    found = find_rings(finder, demand.ranks, most)
    n = len(demand.ranks)
    if not found:
        # No ring over hops that pass no GPU: the ranks in order, through whoever relays.
        turned = _over(demand.ranks[::-1], ring_tree(n))
        return [Recipe((_over(demand.ranks, ring_tree(n)),), (turned,))] if most == 1 else []
    trees = tuple(_over(ring.ranks, ring_tree(n)) for ring in found)
    paths = {
        (k, a, b): path
        for k, ring in enumerate(found)
        for a, b, path in zip(ring.ranks, (*ring.ranks[1:], ring.ranks[0]), ring.paths, strict=True)
    }
    # Sums go round the same way as data: backwards along the chain of the ring turned round.
    back = tuple(_over(ring.ranks[::-1], ring_tree(n)) for ring in found)
    return [Recipe(trees, back, paths=paths)]


def _ring(topology: Topology, demand: Demand) -> list[Recipe]:
    return _rings(topology, demand, 1)


def _many_rings(topology: Topology, demand: Demand) -> list[Recipe]:
    made = _rings(topology, demand, 24)
    if not made or made[0].variants < 2:
        raise InvalidInputError("rings: there is no second ring that shares no link with the first")
    return made


def _message(demand: Demand) -> float:
    return max(item.size for item in demand.commodities)


def _direct(topology: Topology, demand: Demand) -> list[Recipe]:
    if demand.pattern == "unicast":
        return [Recipe(path=lambda a, b: [(a, b, 0)])]
    return [Recipe((_over(demand.ranks, direct_tree(len(demand.ranks))),))]


def _doubling(topology: Topology, demand: Demand) -> list[Recipe]:
    n = len(demand.ranks)
    if n & (n - 1):
        raise InvalidInputError(f"recursive-doubling needs a power of two of ranks, there are {n}")
    return [Recipe((_over(demand.ranks, doubling_tree(n)),), stepped=True)]


def _bruck(topology: Topology, demand: Demand) -> list[Recipe]:
    n = len(demand.ranks)
    if demand.pattern == "unicast":
        return [Recipe(path=_path_over(demand.ranks, bruck_path(n)), stepped=True)]
    return [Recipe((_over(demand.ranks, bruck_tree(n)),), stepped=True)]


def _binary(topology: Topology, demand: Demand) -> list[Recipe]:
    ranks = demand.ranks
    place = None if demand.root is None else ranks.index(demand.root)
    trees = binary_trees(len(ranks), place)
    rooted = tuple((ranks[root], [(ranks[a], ranks[b], step) for a, b, step in edges]) for root, edges in trees)
    return [Recipe(rooted=rooted)]


def _boxes(topology: Topology, demand: Demand) -> list[list[int]]:
    """Ranks by host, hosts in order."""
    boxes: dict[str, list[int]] = {}
    for rank in demand.ranks:
        boxes.setdefault(topology.nodes[topology.gpus[rank]].host, []).append(rank)
    return list(boxes.values())


def _hierarchical(topology: Topology, demand: Demand) -> list[Recipe]:
    boxes = _boxes(topology, demand)
    if len(boxes) < 2 or len({len(box) for box in boxes}) > 1 or len(boxes[0]) < 2:
        raise InvalidInputError("hierarchical needs two or more hosts with equally many ranks, two or more on each")
    if demand.pattern == "unicast":
        return [Recipe(path=hierarchical_path(boxes))]
    return [Recipe((hierarchical_tree(boxes),))]


def _grid(topology: Topology, demand: Demand) -> list[Recipe]:
    n = len(demand.ranks)
    boxes = _boxes(topology, demand)
    ranks = [rank for box in boxes for rank in box]
    shapes = [(rows, n // rows) for rows in range(2, n // 2 + 1) if n % rows == 0]
    if len(boxes) > 1 and len({len(box) for box in boxes}) == 1:
        shapes = [(rows, columns) for rows, columns in shapes if rows == len(boxes)]
    if not shapes:
        raise InvalidInputError(f"2d needs ranks that fill a grid of two or more rows and columns, there are {n}")
    if demand.pattern == "unicast":
        return [Recipe(path=_path_over(ranks, grid_path(columns))) for _, columns in shapes]
    ways = [(first, back) for first in (False, True) for back in (False, True)]
    return [
        Recipe(tuple(_over(ranks, grid_tree(rows, columns, first, back)) for first, back in ways))
        for rows, columns in shapes
    ]


@dataclass(frozen=True, slots=True)
class Kind:
    """An algorithm: for which collectives, how it is made, and in words."""

    collectives: tuple[str, ...]
    make: Callable[[Topology, Demand], list[Recipe]]
    summary: str


KINDS: Final = MappingProxyType(
    {
        "ring": Kind((*SYMMETRIC, *ROOTED), _ring, "one ring through all ranks, one way"),
        "rings": Kind((*SYMMETRIC, *ROOTED), _many_rings, "as many rings as share no link, both ways"),
        "double-binary-tree": Kind(("allreduce", *ROOTED), _binary, "two trees, each for half of the data"),
        "recursive-doubling": Kind(
            (*SYMMETRIC, *ROOTED), _doubling, "log2 n steps at doubling (reductions: halving) distances"
        ),
        "bruck": Kind((*SYMMETRIC, "alltoall"), _bruck, "ceil(log2 n) steps, any number of ranks"),
        "direct": Kind((*SYMMETRIC, *ROOTED, *PAIRS), _direct, "everybody to everybody at once (all pairs)"),
        "hierarchical": Kind((*SYMMETRIC, *ROOTED, "alltoall"), _hierarchical, "between hosts, then inside each"),
        "2d": Kind((*SYMMETRIC, *ROOTED, "alltoall"), _grid, "rings along the rows, then along the columns"),
    }
)


def recipes(name: str, topology: Topology, demand: Demand) -> list[Recipe]:
    """Forms of an algorithm for a demand, of which the fastest is to be taken.

    Raises
    ------
    InvalidInputError
        When there is none.
    """
    kind = KINDS[name]
    if demand.collective not in kind.collectives:
        raise InvalidInputError(f"{name} has no {demand.collective}: it has {', '.join(kind.collectives)}")
    stiff = [r for r in demand.ranks if not topology.nodes[topology.gpus[r]].relay]
    if stiff and name != "direct":
        raise InvalidInputError(f"{name} passes data on, but rank {stiff[0]} may not relay")
    return kind.make(topology, demand)
