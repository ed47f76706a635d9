"""The plain edge-flow LP in PuLP, and the finished master on every engine that PuLP finds."""

from __future__ import annotations

import time

import pulp

from synth.demand import Demand
from synth.engine.highs import clean_stdout
from synth.solver.flow import Plan
from synth.topology import Topology

# Variables from which on the edge-flow LP is not tried.
LARGEST = 400_000


def edge_flow_seconds(plan: Plan) -> str:
    """Seconds that the edge-flow LP takes to build and solve with PuLP's HiGHS, or why it was not.

    All-to-all: one flow per source and link. All-gather: per shard, a flow to each other rank under one capacity per
    link and shard (where switches forward only, its optimum can be below ours).
    """
    topology, demand = plan.topology, plan.demand
    flows = len(demand.ranks) * (1 if demand.pattern == "unicast" else len(demand.ranks) - 1)
    if flows * len(topology.links) > LARGEST:
        return f"(skipped: {flows * len(topology.links)} variables)"
    began = time.perf_counter()
    model = _aggregated(topology, demand, plan.time) if demand.pattern == "unicast" else _multicast(topology, demand)
    scale = plan.time if demand.pattern == "unicast" else demand.size_bytes / topology.links[0].capacity
    with clean_stdout():
        model.solve(pulp.HiGHS(msg=False))
    seconds = time.perf_counter() - began
    value = float(pulp.value(model.objective) or 0.0) * scale
    return f"{seconds:.2f} (T {value / plan.time:.6f} of ours)"


def _balance(model: pulp.LpProblem, topology: Topology, flow: list[pulp.LpVariable], need: dict[int, float]) -> None:
    """Flow into each node less the flow out of it is what the node needs (negative at the source)."""
    into: dict[int, list[pulp.LpVariable]] = {k: [] for k in range(len(topology.nodes))}
    out: dict[int, list[pulp.LpVariable]] = {k: [] for k in range(len(topology.nodes))}
    for (a, b), x in zip(topology.ends, flow, strict=True):
        out[a].append(x)
        into[b].append(x)
    for node in into:
        model += pulp.lpSum(into[node]) - pulp.lpSum(out[node]) == need.get(node, 0.0)


def _aggregated(topology: Topology, demand: Demand, unit: float) -> pulp.LpProblem:
    model = pulp.LpProblem("edge_flow", pulp.LpMinimize)
    span = model.add_variable("T", lowBound=0)
    model += span
    total: list[list[pulp.LpVariable]] = [[] for _ in topology.links]
    for source in demand.ranks:
        flow = [model.add_variable(f"f_{source}_{k}", lowBound=0) for k in range(len(topology.links))]
        need = {
            topology.gpus[c.dest]: c.size / demand.size_bytes
            for c in demand.commodities
            if c.root == source and c.dest is not None
        }
        need[topology.gpus[source]] = -sum(need.values())
        _balance(model, topology, flow, need)
        for k, x in enumerate(flow):
            total[k].append(x)
    for link, used in zip(topology.links, total, strict=True):
        model += pulp.lpSum(used) <= link.capacity * unit / demand.size_bytes * span
    return model


def _multicast(topology: Topology, demand: Demand) -> pulp.LpProblem:
    model = pulp.LpProblem("edge_flow", pulp.LpMinimize)
    span = model.add_variable("T", lowBound=0)
    model += span
    total: list[list[pulp.LpAffineExpression]] = [[] for _ in topology.links]
    for number, item in enumerate(demand.commodities):
        carried = [model.add_variable(f"y_{number}_{k}", lowBound=0) for k in range(len(topology.links))]
        for rank in demand.ranks:
            if rank == item.root:
                continue
            flow = [model.add_variable(f"f_{number}_{rank}_{k}", lowBound=0) for k in range(len(topology.links))]
            _balance(model, topology, flow, {topology.gpus[item.root]: -1.0, topology.gpus[rank]: 1.0})
            for x, y in zip(flow, carried, strict=True):
                model += x <= y
        for k, y in enumerate(carried):
            total[k].append(item.size / demand.size_bytes * y)
    for link, used in zip(topology.links, total, strict=True):
        model += pulp.lpSum(used) <= link.capacity / topology.links[0].capacity * span
    return model


def engine_seconds(plan: Plan) -> dict[str, str]:
    """Seconds per installed engine for the finished master, and its T over the plan's."""
    out = {}
    for engine in pulp.listSolvers(onlyAvailable=True):
        model = plan.to_pulp()
        began = time.perf_counter()
        with clean_stdout():
            model.solve(pulp.getSolver(engine, msg=False))
        out[engine] = f"{time.perf_counter() - began:.2f} (T {float(pulp.value(model.objective) or 0.0):.6f})"
    return out
