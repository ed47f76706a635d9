"""Plan -> schedule: chunks, transfers, and the best of a few list-scheduling orders."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from synth.errors import LimitReachedError
from synth.formulation.flow.routes import Route
from synth.schedule.chunks.quantise import Split, integer_routes, quantise
from synth.schedule.model import Schedule, Transfer
from synth.schedule.simulate.compiled import Timeline
from synth.schedule.simulate.run import simulate
from synth.solver.flow.plan import Plan

# Above this many transfers only one order is tried, and consecutive chunks of a route travel together.
MANY_TRANSFERS = 20_000
# Without an asked chunk count, chunks are halved while that shortens the simulation by this part, up to so many
# transfers.
FINER_GAIN = 0.03
FINE_TRANSFERS = 4_000
# More transfers than this on one path, or at one GPU, travel together too.
LONG_PATH = 1_000
LONG_RANK = 3_000
# Chunks that one step may move in MSCCL (cnt < 72).
MOST_TOGETHER = 71


def make_schedule(
    plan: Plan,
    *,
    chunks: int | None = None,
    max_loss: float = 0.02,
    max_steps: int | None = None,
    finest: int | None = None,
) -> Schedule:
    """Turn a plan into chunked, ordered transfers.

    Parameters
    ----------
    plan
        Splits.
    chunks
        Chunks per shard (an all-reduce's shard is its buffer / ranks). None takes the smallest count within
        ``max_loss`` of the plan's time, then halves the chunks while that shortens the simulated pipeline.
    max_loss
        Loss that the search for a chunk count accepts.
    max_steps
        Most synchronous rounds that the schedule may take.
    finest
        With a free chunk count, most pieces into which a chunk of the smallest count may be cut.

    Returns
    -------
    Schedule

    Raises
    ------
    InvalidInputError
        Bad chunk count or loss.
    LimitReachedError
        When the schedule takes more than ``max_steps`` rounds.
    """
    began = time.monotonic()
    if plan.demand.empty:
        local = max((*plan.demand.local, plan.demand.size_bytes / len(plan.demand.ranks)))
        return Schedule(plan, chunks or 1, local / (chunks or 1), (), (), (), (), (), (), 0.0, 0.0)
    split = quantise(plan, chunks, max_loss)
    schedule = _ordered(plan, split, 1)
    while chunks is None and 2 * len(schedule.transfers) <= FINE_TRANSFERS:
        if finest is not None and 2 * schedule.refined > finest:
            break
        finer = _ordered(plan, split := split.refined(2), 2 * schedule.refined)
        if finer.simulated > schedule.simulated * (1 - FINER_GAIN):
            break
        schedule = finer
    if max_steps is not None and schedule.steps > max_steps:
        raise LimitReachedError(
            f"this schedule takes {schedule.steps} steps, {max_steps} are allowed: fewer chunks take fewer steps"
        )
    return replace(schedule, timings={"schedule": time.monotonic() - began})


def _ordered(plan: Plan, split: Split, refined: int) -> Schedule:
    """Transfers of a split in the best order found."""
    return order_routes(plan, split, integer_routes(plan, split), refined)


def order_routes(plan: Plan, split: Split, pairs: Sequence[tuple[Route, int]], refined: int = 1) -> Schedule:
    """Transfers of whole routes with their chunks, in the best order found."""
    transfers = transfers_of(plan, pairs)
    order, timeline = _best_order(plan, transfers, split.chunk_bytes)
    return Schedule(
        plan,
        split.chunks,
        split.chunk_bytes,
        split.shard_chunks,
        tuple(route for route, _ in pairs),
        tuple(n for _, n in pairs),
        reordered(transfers, order),
        tuple(timeline.starts[order].tolist()),
        tuple(timeline.arrivals[order].tolist()),
        split.time,
        # Every resource serves one transfer at a time, so the simulation beats the busiest one by rounding at most.
        max(timeline.end, split.time),
        split.proven or split.time <= plan.time * (1 + 1e-9),
        refined,
    )


def transfers_of(plan: Plan, pairs: Sequence[tuple[Route, int]]) -> list[Transfer]:
    """Transfers of all routes; chunks of a shard are given out to its routes in order."""
    together = _together(pairs)
    relays = frozenset(plan.topology.gpus)
    if plan.demand.pattern != "unicast":
        relays -= {plan.topology.gpus[rank] for rank in plan.demand.ranks}
    given = [0] * len(plan.demand.commodities)
    out: list[Transfer] = []
    for k, (route, n) in enumerate(pairs):
        for first in range(0, n, together):
            _add_route(out, k, route, given[route.commodity] + first, min(together, n - first), relays)
        given[route.commodity] += n
    return out


def _together(pairs: Sequence[tuple[Route, int]]) -> int:
    """Chunks of a route that travel together: 1 unless there are so many that blocks or files would overflow."""
    used: Counter[tuple[int, ...]] = Counter()
    at: Counter[int] = Counter()
    for route, n in pairs:
        for hop in route.hops:
            used[hop.links] += n
            at[hop.src] += n
            at[hop.dst] += n
    need = max(used.total() / MANY_TRANSFERS, max(used.values()) / LONG_PATH, max(at.values()) / LONG_RANK)
    return max(1, min(MOST_TOGETHER, math.ceil(need)))


def _add_route(out: list[Transfer], k: int, route: Route, first: int, count: int, relays: frozenset[int]) -> None:
    """Append the hops of one route for some chunks; a hop waits for what its source has to receive first.

    A relay passes on what the hop just before brought it (the pieces of a path are neighbours in a route); a member
    waits for all partial sums, or for its copy.
    """
    received: dict[int, tuple[int, ...]] = {}
    begin = len(out)
    for hop in route.hops:
        inward = len(out) - begin < len(route.reduce_hops)
        relayed = hop.src in relays and len(out) > begin and out[-1].dst == hop.src
        deps = (len(out) - 1,) if relayed else received.get(hop.src, ())
        adds = inward and hop.dst not in relays
        if hop.dst not in relays:
            received[hop.dst] = (*received.get(hop.dst, ()), len(out)) if adds else (len(out),)
        out.append(Transfer(route.commodity, first, count, k, hop.src, hop.dst, hop.links, adds, deps))


def _best_order(plan: Plan, transfers: list[Transfer], chunk_bytes: float) -> tuple[list[int], Timeline]:
    tail = _tails(plan, transfers, chunk_bytes)
    # Every source starts with its next neighbour, so that they do not all hit the same destination at once.
    rank, n = plan.topology.rank_of, len(plan.topology.gpus)
    turn = [(rank[t.dst] - rank[t.src]) % n for t in transfers]
    rules = [[-tail[k] for k in range(len(transfers))]]
    if len(transfers) <= MANY_TRANSFERS:
        span = max(tail) or 1.0
        rules.append([t.first + (1 - tail[k] / span) for k, t in enumerate(transfers)])
        rules.append([float(k) for k in range(len(transfers))])
    best: tuple[Timeline, list[float]] | None = None
    for rule in rules:
        ranked = sorted(range(len(transfers)), key=lambda k: (rule[k], transfers[k].first, turn[k], k))
        place = [0.0] * len(transfers)
        for position, k in enumerate(ranked):
            place[k] = float(position)
        timeline = simulate(plan.topology, transfers, chunk_bytes, place)
        if best is None or timeline.end < best[0].end * (1 - 1e-9):
            best = (timeline, place)
    timeline, place = best if best is not None else (simulate(plan.topology, (), chunk_bytes), [])
    depth, starts = _depths(transfers), timeline.starts.tolist()
    order = sorted(range(len(transfers)), key=lambda k: (starts[k], depth[k], place[k]))
    return order, timeline


def _tails(plan: Plan, transfers: list[Transfer], chunk_bytes: float) -> list[float]:
    """Seconds from the start of a transfer to the end of the longest chain that waits for it."""
    links = plan.topology.links
    tail = [
        max(t.count * chunk_bytes / links[k].capacity for k in t.links) + sum(links[k].latency for k in t.links)
        for t in transfers
    ]
    rest = [0.0] * len(transfers)
    for k in range(len(transfers) - 1, -1, -1):
        tail[k] += rest[k]
        for d in transfers[k].deps:
            rest[d] = max(rest[d], tail[k])
    return tail


def _depths(transfers: list[Transfer]) -> list[int]:
    depth: list[int] = []
    for t in transfers:
        depth.append(1 + max((depth[d] for d in t.deps), default=0))
    return depth


def reordered(transfers: list[Transfer], order: list[int]) -> tuple[Transfer, ...]:
    """Transfers in another order, in which dependencies still point backwards."""
    position = {k: p for p, k in enumerate(order)}
    return tuple(replace(transfers[k], deps=tuple(sorted(position[d] for d in transfers[k].deps))) for k in order)
