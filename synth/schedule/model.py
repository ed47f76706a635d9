"""The schedule: integer chunks, transfers with dependencies, and an order that a pipelined runtime can follow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from synth.formulation.flow.routes import Route
from synth.ground.onward import onward
from synth.solver.flow.plan import Plan

if TYPE_CHECKING:
    import pandas as pd

    from synth.program.msccl.program import Program


@dataclass(frozen=True, slots=True)
class Transfer:
    """Some consecutive chunks of a shard moved over one hop.

    Attributes
    ----------
    shard
        Index into ``Demand.commodities``.
    first, count
        Chunks ``first .. first + count - 1`` of the shard.
    route
        Index into ``Schedule.routes``.
    src, dst
        GPU node indices.
    links
        Links of the hop, in order.
    reduce
        Whether the destination adds what arrives to what it has (its own input or a partial sum).
    deps
        Transfers (positions in ``Schedule.transfers``, all smaller) that must have arrived first.
    """

    shard: int
    first: int
    count: int
    route: int
    src: int
    dst: int
    links: tuple[int, ...]
    reduce: bool
    deps: tuple[int, ...]


@dataclass(frozen=True)
class Schedule:
    """Chunked transfers of a plan, in an order in which every connection and every GPU can process them.

    Attributes
    ----------
    plan
        What it realises.
    chunks_per_shard
        Chunks of the largest shard; for an all-reduce the shard is the buffer divided by the number of ranks.
    chunk_bytes
        Bytes of one chunk; the last chunk of a shard may be padded.
    shard_chunks
        Chunks of each commodity of the demand.
    routes
        Routes that carry chunks; ``counts`` says how many chunks of their shard.
    transfers
        In start order of the simulation; dependencies point backwards.
    starts, arrivals
        Seconds per transfer in the simulation.
    quantized
        Time in seconds of the busiest resource with whole chunks, without latency.
    simulated
        Seconds until the last arrival in the alpha-beta simulation.
    proven
        Whether no integer split over the plan's columns is better.
    refined
        Into how many pieces the chunks of the chosen split were cut to shorten the pipeline.
    messages
        A number per transfer: those with the same number (same hop, one after the other on its links) go together,
        start when all are ready, pay latency and overhead once and arrive together. Empty: each on its own.
    """

    plan: Plan
    chunks_per_shard: int
    chunk_bytes: float
    shard_chunks: tuple[int, ...]
    routes: tuple[Route, ...]
    counts: tuple[int, ...]
    transfers: tuple[Transfer, ...]
    starts: tuple[float, ...]
    arrivals: tuple[float, ...]
    quantized: float
    simulated: float
    proven: bool = True
    refined: int = 1
    messages: tuple[int, ...] = ()
    timings: Mapping[str, float] = field(default_factory=dict, compare=False)

    @property
    def loss(self) -> float:
        """What whole chunks cost: quantised time over plan time, minus 1."""
        return self.quantized / self.plan.time - 1.0 if self.plan.time > 0 else 0.0

    @cached_property
    def steps(self) -> int:
        """Least number of synchronous rounds in which each link carries one transfer at a time."""
        done: list[int] = []
        busy: dict[int, int] = {}
        for transfer in self.transfers:
            ready = max((done[d] for d in transfer.deps), default=0)
            step = 1 + max([ready, *(busy.get(link, 0) for link in transfer.links)])
            busy.update(dict.fromkeys(transfer.links, step))
            done.append(step)
        return max(done, default=0)

    @property
    def table(self) -> pd.DataFrame:
        """One row per transfer: shard, first chunk, count, ranks, links, reduce, start_us, arrival_us."""
        import pandas as pd  # slow to import, and most runs make no table

        topology = self.plan.topology
        return pd.DataFrame(
            {
                "shard": [t.shard for t in self.transfers],
                "first": [t.first for t in self.transfers],
                "count": [t.count for t in self.transfers],
                "src": [topology.rank_of[t.src] for t in self.transfers],
                "dst": [topology.rank_of[t.dst] for t in self.transfers],
                "links": [" ".join(topology.links[k].id for k in t.links) for t in self.transfers],
                "reduce": [t.reduce for t in self.transfers],
                "start_us": [s * 1e6 for s in self.starts],
                "arrival_us": [a * 1e6 for a in self.arrivals],
            }
        )

    def lower(self, target: str = "msccl", **options: Any) -> Program:
        """Lower to thread blocks for a target and verify (see :func:`synth.program.msccl.lower`)."""
        program: Program = onward("Schedule.lower")(self, target, **options)
        return program
