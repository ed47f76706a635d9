"""Matchings as schedules: all-gather as it is, reduce-scatter run backwards, all-reduce as one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from synth.demand.model import Demand
from synth.errors import NotExpressibleError
from synth.formulation.flow.network import Hop
from synth.formulation.flow.routes import Route
from synth.rivals.baselines.build import plan_of_routes
from synth.rivals.matching.arcs import Arc, arcs_of, reversed_topology
from synth.rivals.matching.greedy import Send, least_time, match
from synth.schedule.chunks.build import reordered, transfers_of
from synth.schedule.chunks.quantise import chunk_layout
from synth.schedule.model import Schedule
from synth.schedule.simulate.run import with_times
from synth.schedule.simulate.time_model import TimeModel
from synth.solver.flow.plan import Plan
from synth.topology.model import Topology

Timed = tuple[Hop, float]
"""A hop and the time at which it starts."""


@dataclass(frozen=True)
class Matcher:
    """Matchings of one demand at one chunk count.

    Attributes
    ----------
    topology, demand
        Instance.
    chunks
        Chunks per shard.
    model
        Times of messages.
    reference
        A solved plan of the demand, whose prices certify the bound (see :func:`synth.baseline`).
    out, into
        Connections of the copies, and those of the sums on the reversed machine; None where there is none.
    """

    topology: Topology
    demand: Demand
    chunks: int
    model: TimeModel
    reference: Plan | None
    out: tuple[Arc, ...] | None
    into: tuple[Arc, ...] | None

    @classmethod
    def make(
        cls, topology: Topology, demand: Demand, chunks: int, model: TimeModel, reference: Plan | None = None
    ) -> Matcher:
        """Connections at the size of a chunk.

        Raises
        ------
        NotExpressibleError
            For all-to-all and its like, where a chunk has one place to go to, and for too many connections.
        """
        if demand.pattern == "unicast":
            raise NotExpressibleError(f"{demand.collective}: matching is for collectives that copy or add")
        size, pattern = chunk_layout(demand, chunks)[0], demand.pattern
        out = arcs_of(topology, demand, size, model) if pattern != "reduction" else None
        into = arcs_of(reversed_topology(topology), demand, size, model, adds=True) if pattern != "multicast" else None
        return cls(topology, demand, chunks, model, reference, out, into)

    @property
    def roots(self) -> list[int]:
        """Member at which each chunk begins, or where its sum ends: an all-reduce has equally many at each."""
        layout = chunk_layout(self.demand, self.chunks)[1]
        if self.demand.pattern == "allreduce":
            return [k for k in range(len(self.demand.ranks)) for _ in range(self.chunks)]
        place = {rank: k for k, rank in enumerate(self.demand.ranks)}
        return [place[item.root] for item, n in zip(self.demand.commodities, layout, strict=True) for _ in range(n)]

    @property
    def least(self) -> float:
        """Seconds that no matching at this chunk count can be below."""
        roots, members = self.roots, len(self.demand.ranks)
        ends = (least_time(arcs, roots, members) for arcs in (self.out, self.into) if arcs is not None)
        return self.model.start + max(ends, default=0.0)

    @property
    def transfers(self) -> int:
        """Transfers of a schedule, with direct connections."""
        return len(self.roots) * (len(self.demand.ranks) - 1) * (1 + (self.demand.pattern == "allreduce"))

    def schedule(self, seed: int) -> Schedule | None:
        """Schedule of the matching with a seed; None when some member cannot be reached."""
        ups, downs = self._inward(seed), self._outward(seed)
        if ups is None or downs is None:
            return None
        if self.demand.pattern == "allreduce" and self.into is not None:
            last = max((start for _, start in chain.from_iterable(ups)), default=0.0)
            last += max(arc.seconds for arc in self.into)
            downs = [[(hop, last + start) for hop, start in tree] for tree in downs]
        return self._assembled(ups, downs)

    def _outward(self, seed: int) -> list[list[Timed]] | None:
        roots = self.roots
        trees: list[list[Timed]] = [[] for _ in roots]
        sends = self._match(self.out, seed)
        if sends is None or self.out is None:
            return trees if sends == [] else None
        for send in sends:
            trees[send.chunk] += [(hop, send.start) for hop in self.out[send.arc].hops]
        return trees

    def _inward(self, seed: int) -> list[list[Timed]] | None:
        """The matching on the reversed machine, run backwards: who got a chunk there gives its sum here."""
        trees: list[list[Timed]] = [[] for _ in self.roots]
        sends = self._match(self.into, seed)
        if sends is None or self.into is None:
            return trees if sends == [] else None
        end = max((send.start + self.into[send.arc].seconds for send in sends), default=0.0)
        back = [(end - send.start - self.into[send.arc].seconds, k) for k, send in enumerate(sends)]
        for start, k in sorted(back, key=lambda item: (item[0], -item[1])):
            send = sends[k]
            trees[send.chunk] += [
                (Hop(hop.dst, hop.src, hop.links[::-1]), start) for hop in reversed(self.into[send.arc].hops)
            ]
        return trees

    def _match(self, arcs: Sequence[Arc] | None, seed: int) -> list[Send] | None:
        if arcs is None:
            return []
        nodes, gpus = self.topology.nodes, self.topology.gpus
        rigid = frozenset(k for k, rank in enumerate(self.demand.ranks) if not nodes[gpus[rank]].relay)
        return match(arcs, self.roots, len(self.demand.ranks), rigid, seed, self._prices(arcs))

    def _prices(self, arcs: Sequence[Arc]) -> list[float] | None:
        """The prices that certify the reference's bound."""
        if self.reference is None:
            return None
        prices = self.reference.network.link_prices(np.array(self.reference.prices))
        return [float(sum(prices[link] for hop in arc.hops for link in hop.links)) for arc in arcs]

    def _assembled(self, ups: list[list[Timed]], downs: list[list[Timed]]) -> Schedule:
        chunk_bytes, layout = chunk_layout(self.demand, self.chunks)
        shards = [k for k, n in enumerate(layout) for _ in range(n)]
        routes = [
            Route(
                shard,
                self.demand.ranks[root],
                1.0 / layout[shard],
                tuple(hop for hop, _ in up),
                tuple(hop for hop, _ in down),
            )
            for shard, root, up, down in zip(shards, self.roots, ups, downs, strict=True)
        ]
        plan = plan_of_routes(self.topology, self.demand, routes, self.reference)
        transfers = transfers_of(plan, [(route, 1) for route in routes])
        starts = [start for up, down in zip(ups, downs, strict=True) for _, start in (*up, *down)]
        order = sorted(range(len(transfers)), key=lambda k: (starts[k], k))
        loads = np.zeros(len(self.topology.links))
        for t in transfers:
            loads[list(t.links)] += chunk_bytes
        busiest = max(float((plan.network.row_bytes(loads) / plan.network.capacity).max()), plan.time)
        made = Schedule(
            plan,
            self.chunks,
            chunk_bytes,
            layout,
            tuple(routes),
            (1,) * len(routes),
            reordered(transfers, order),
            (),
            (),
            busiest,
            0.0,
            proven=False,
        )
        return with_times(made)
