"""A demand: which bytes must go from which ranks to which, or be reduced where.

``size`` is the nccl-tests size: all-gather = the gathered output, reduce-scatter = the input,
all-reduce/broadcast/reduce = the buffer, all-to-all = one rank's send buffer, gather/scatter = the root's buffer,
send/recv = the message.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, overload

import numpy as np
import numpy.typing as npt

Pattern = Literal["multicast", "reduction", "unicast", "allreduce"]

COLLECTIVES = (
    "allgather",
    "reducescatter",
    "allreduce",
    "alltoall",
    "alltoallv",
    "broadcast",
    "reduce",
    "gather",
    "scatter",
    "sendrecv",
)
ROOTED = ("broadcast", "reduce", "gather", "scatter")
UNICAST = ("alltoall", "alltoallv", "gather", "scatter", "sendrecv")


@dataclass(frozen=True, slots=True)
class Commodity:
    """One shard: ``size`` bytes that one tree or path serves.

    Attributes
    ----------
    root
        Rank that owns (multicast, unicast) or receives (reduction) the shard; -1 for all-reduce, where any rank may
        be the meeting point.
    dest
        Destination rank of a unicast shard, otherwise None.
    size
        Bytes.
    """

    root: int
    dest: int | None
    size: float


@dataclass(frozen=True)
class EvenPairs(Sequence[Commodity]):
    """The shards of an all-to-all, each made when it is asked for: n ranks have n (n - 1) of them.

    Attributes
    ----------
    ranks
        Members; shards are ordered by source, then by destination.
    size
        Bytes of each shard.
    """

    ranks: tuple[int, ...]
    size: float

    def __len__(self) -> int:
        return len(self.ranks) * (len(self.ranks) - 1)

    @overload
    def __getitem__(self, index: int) -> Commodity: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Commodity, ...]: ...
    def __getitem__(self, index: int | slice) -> Commodity | tuple[Commodity, ...]:
        if isinstance(index, slice):
            return tuple(self[k] for k in range(*index.indices(len(self))))
        source, other = divmod(range(len(self))[index], len(self.ranks) - 1)
        return Commodity(self.ranks[source], self.ranks[other + (other >= source)], self.size)

    def __iter__(self) -> Iterator[Commodity]:
        return (Commodity(s, d, self.size) for s in self.ranks for d in self.ranks if s != d)

    @cached_property
    def place(self) -> dict[int, int]:
        """Rank to its position among the members."""
        return {rank: k for k, rank in enumerate(self.ranks)}

    def position(self, root: int, dest: int) -> int:
        """Number of the shard from one rank to another."""
        source, other = self.place[root], self.place[dest]
        return source * (len(self.ranks) - 1) + other - (other > source)

    def of_source(self, source: int) -> range:
        """Numbers of the shards of the source at a position among the members."""
        width = len(self.ranks) - 1
        return range(source * width, (source + 1) * width)


@dataclass(frozen=True)
class Demand:
    """A collective on some ranks of a topology (see :func:`synth.demand.make_demand`).

    Attributes
    ----------
    collective
        One of ``COLLECTIVES``.
    ranks
        Ranks that take part, in the collective's own order; other GPUs may only relay.
    size_bytes
        nccl-tests size.
    commodities
        The shards of more than 0 bytes, in a fixed order.
    root
        Root rank of broadcast, reduce, gather, scatter.
    local
        Unicast: bytes that each of ``ranks`` sends to itself, a copy that takes no link. Empty when there is none.
    """

    collective: str
    ranks: tuple[int, ...]
    size_bytes: float
    commodities: Sequence[Commodity]
    root: int | None = None
    local: tuple[float, ...] = ()

    @property
    def pattern(self) -> Pattern:
        """What one way to serve a root looks like: an out-tree, an in-tree, a path, or an in-tree and an out-tree."""
        if self.collective in UNICAST:
            return "unicast"
        if self.collective in ("reducescatter", "reduce"):
            return "reduction"
        return "allreduce" if self.collective == "allreduce" else "multicast"

    @property
    def empty(self) -> bool:
        """Whether nothing has to move."""
        return len(self.commodities) == 0

    @property
    def uniform(self) -> bool:
        """Whether any permutation of the ranks keeps the demand."""
        if isinstance(self.commodities, EvenPairs) or self.collective == "allreduce":
            return True
        sizes = [item.size for item in self.commodities]
        whole = self.collective in ("allgather", "reducescatter") and len(sizes) == len(self.ranks)
        return whole and len(set(sizes)) == 1

    @cached_property
    def largest(self) -> float:
        """Bytes of the largest shard."""
        if isinstance(self.commodities, EvenPairs):
            return self.commodities.size
        return max(item.size for item in self.commodities)

    def sizes(self, numbers: Sequence[int]) -> npt.NDArray[np.float64]:
        """Bytes of the shards with these numbers."""
        if isinstance(self.commodities, EvenPairs):
            return np.full(len(numbers), self.commodities.size)
        return np.array([self.commodities[k].size for k in numbers])

    def position(self, root: int, dest: int | None) -> int:
        """Index in ``commodities`` of the shard of a root (unicast: and of a destination)."""
        if isinstance(self.commodities, EvenPairs) and dest is not None:
            return self.commodities.position(root, dest)
        return self._positions[root, dest]

    @cached_property
    def _positions(self) -> dict[tuple[int, int | None], int]:
        return {(item.root, item.dest): k for k, item in enumerate(self.commodities)}

    @cached_property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        """Ordered rank pairs (source, destination) between which data has to flow, each once."""
        out: dict[tuple[int, int], None] = {}
        for item in self.commodities:
            if item.dest is not None:
                out[item.root, item.dest] = None
                continue
            roots = self.ranks if item.root < 0 else (item.root,)
            for root in roots:
                others = [rank for rank in self.ranks if rank != root]
                out.update(dict.fromkeys((r, root) if self.pattern == "reduction" else (root, r) for r in others))
        return tuple(out)

    @property
    def bus_factor(self) -> float:
        """nccl-tests factor from algorithm bandwidth to bus bandwidth; 0 for a single rank.

        Source: NVIDIA/nccl-tests doc/PERFORMANCE.md (all-reduce 2(n-1)/n; all-gather, reduce-scatter, all-to-all,
        gather and scatter (n-1)/n; broadcast, reduce and send/recv 1).
        """
        n = len(self.ranks)
        if n < 2:
            return 0.0
        if self.collective == "allreduce":
            return 2 * (n - 1) / n
        return 1.0 if self.collective in ("broadcast", "reduce", "sendrecv") else (n - 1) / n
