"""A demand: which bytes must go from which ranks to which, or be reduced where.

``size`` is the nccl-tests size: all-gather = the gathered output, reduce-scatter = the input,
all-reduce/broadcast/reduce = the buffer, all-to-all = one rank's send buffer, gather/scatter = the root's buffer,
send/recv = the message.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

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
    commodities: tuple[Commodity, ...]
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
        return not self.commodities

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
