"""A step solution as a schedule: the same sends with the dependencies between them, lowered like any other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from synth.demand.model import Demand
from synth.formulation.flow.network import Hop, Network
from synth.formulation.flow.routes import Route, link_bytes
from synth.schedule.model import Schedule, Transfer
from synth.schedule.simulate.compiled import Timeline
from synth.schedule.simulate.run import simulate
from synth.solver.flow.driver import solve
from synth.solver.flow.plan import Plan
from synth.solver.steps.solution import StepSend, StepSolution
from synth.topology.model import Topology

Place = tuple[int, int, int]  # rank, shard, chunk


def step_schedule(solution: StepSolution, size_bytes: float | None = None) -> Schedule:
    """Transfers of a step solution.

    The steps give the order; barriers between them are not needed, as every transfer waits for what it passes on.

    Parameters
    ----------
    solution
        What to run.
    size_bytes
        nccl-tests size; default: that of the solution's demand.

    Returns
    -------
    Schedule
        Its plan has the solution's routes as splits, and the certified bound of the best splits.
    """
    demand = solution.demand if size_bytes is None else _resized(solution.demand, size_bytes)
    solution = replace(solution, demand=demand)
    certified = solve(solution.topology, demand)
    chunk = solution.chunk_bytes
    if demand.empty:
        return Schedule(certified, solution.chunks, chunk, (), (), (), (), (), (), 0.0, 0.0)
    routes, numbers = _routes(solution)
    plan = _plan(certified, routes)
    transfers = list(_transfers(solution, numbers))
    order, timeline = _best_order(solution, transfers)
    place = {k: position for position, k in enumerate(order)}
    quantized = max(plan.time, _busiest(plan.network, transfers, chunk))
    return Schedule(
        plan,
        solution.chunks,
        chunk,
        solution.shard_chunks,
        routes,
        (1,) * len(routes),
        tuple(replace(transfers[k], deps=tuple(sorted(place[d] for d in transfers[k].deps))) for k in order),
        tuple(timeline.starts[k] for k in order),
        tuple(timeline.arrivals[k] for k in order),
        quantized,
        max(timeline.end, quantized),
        quantized <= plan.time * (1 + 1e-9),
    )


def _resized(demand: Demand, size_bytes: float) -> Demand:
    factor = size_bytes / demand.size_bytes
    items = tuple(replace(item, size=item.size * factor) for item in demand.commodities)
    local = tuple(part * factor for part in demand.local)
    return replace(demand, size_bytes=float(size_bytes), commodities=items, local=local)


def _routes(solution: StepSolution) -> tuple[tuple[Route, ...], dict[tuple[int, int], int]]:
    """One route per chunk, and the number of each chunk's."""
    sent: dict[tuple[int, int], list[StepSend]] = defaultdict(list)
    for send in solution.sends:
        sent[send.shard, send.chunk].append(send)
    routes = []
    for (shard, _), sends in sorted(sent.items()):
        up = [send for send in sends if send.reduce]
        down = [send for send in sends if not send.reduce]
        root = solution.demand.commodities[shard].root
        if root < 0:  # where the last partial sum of an all-reduce arrives
            root = max(up).dst
        share = 1.0 / solution.shard_chunks[shard]
        hops = (tuple(_hop(solution.topology, send) for send in half) for half in (up, down))
        routes.append(Route(shard, root, share, *hops))
    return tuple(routes), {key: k for k, key in enumerate(sorted(sent))}


def _hop(topology: Topology, send: StepSend) -> Hop:
    return Hop(topology.gpus[send.src], topology.gpus[send.dst], send.links)


def _plan(certified: Plan, routes: tuple[Route, ...]) -> Plan:
    """The certified plan with other splits."""
    columns = routes
    if certified.demand.pattern == "allreduce":
        ups = tuple(replace(route, copy_hops=()) for route in routes)
        columns = ups + tuple(replace(route, reduce_hops=()) for route in routes)
    network = certified.network
    load = network.row_bytes(link_bytes(network, certified.demand, routes))
    time = max(float((load / network.capacity).max()), certified.bound)
    return replace(certified, columns=columns, time=time, method="steps", alternatives={})


def _transfers(solution: StepSolution, routes: dict[tuple[int, int], int]) -> Iterator[Transfer]:
    """Transfers in the order of the steps; each waits for what its source has received of the chunk by then."""
    topology, members = solution.topology, frozenset(solution.demand.ranks)
    summed: dict[Place, list[int]] = defaultdict(list)
    copied: dict[Place, int] = {}
    number = 0
    for step in range(solution.steps):
        arrivals: list[tuple[StepSend, int]] = []
        for send in sorted(s for s in solution.sends if s.step == step):
            source: Place = (send.src, send.shard, send.chunk)
            if send.reduce and send.src not in members:
                deps: tuple[int, ...] = (summed[source].pop(0),)  # what came first goes first
            elif not send.reduce and source in copied:
                deps = (copied[source],)
            else:
                deps = tuple(summed[source])
            route = routes[send.shard, send.chunk]
            hop = _hop(topology, send)
            adds = send.reduce and send.dst in members
            yield Transfer(send.shard, send.chunk, 1, route, hop.src, hop.dst, hop.links, adds, deps)
            arrivals.append((send, number))
            number += 1
        for send, k in arrivals:
            goal: Place = (send.dst, send.shard, send.chunk)
            if send.reduce:
                summed[goal].append(k)
            else:
                copied[goal] = k


def _best_order(solution: StepSolution, transfers: list[Transfer]) -> tuple[list[int], Timeline]:
    """Within a step: as they come, or every source with its next neighbour first, which spreads a switch's ports."""
    rank, n = solution.topology.rank_of, len(solution.topology.gpus)
    step = [send.step for send in solution.sends]
    turn = [(rank[t.dst] - rank[t.src]) % n for t in transfers]
    numbers = range(len(transfers))
    found: list[tuple[list[int], Timeline]] = []
    for ranked in (sorted(numbers), sorted(numbers, key=lambda k: (step[k], turn[k], k))):
        place = {k: float(position) for position, k in enumerate(ranked)}
        timeline = simulate(solution.topology, transfers, solution.chunk_bytes, [place[k] for k in numbers])
        # What waits for a transfer is in a later step, so it comes later among those that start together.
        order = sorted(numbers, key=lambda k: (timeline.starts[k], place[k]))
        found.append((order, timeline))
    return min(found, key=lambda pair: pair[1].end)


def _busiest(network: Network, transfers: list[Transfer], chunk_bytes: float) -> float:
    """Seconds of the busiest resource with whole chunks."""
    sent = np.zeros(len(network.topology.links))
    for transfer in transfers:
        sent[list(transfer.links)] += chunk_bytes
    return float((network.row_bytes(sent) / network.capacity).max())
