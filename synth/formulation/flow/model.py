"""The master as a PuLP model, for printing, writing and solving with any engine that PuLP knows."""

from __future__ import annotations

from collections.abc import Sequence

import pulp

from synth.demand.model import Demand
from synth.formulation.flow.network import Network
from synth.formulation.flow.routes import Route
from synth.formulation.flow.symmetry import Symmetry


def master_model(symmetry: Symmetry, demand: Demand, columns: Sequence[Route], scale: float) -> pulp.LpProblem:
    """Build ``min T`` over the shares of the given columns.

    Variables and rows are numbered (``x_12``, ``serve_3``, ``use_7``): names of users never reach a solver.

    Parameters
    ----------
    symmetry
        Group of the instance: columns stand for their images, and one row for each orbit of resources. The trivial
        group gives the whole master.
    demand
        What is served.
    columns
        Routes; for all-reduce they are halves (in-trees and out-trees), tied by one share per meeting point.
    scale
        Seconds that one unit of the model's T stands for, so that coefficients are about 1.

    Returns
    -------
    pulp.LpProblem
        ``T`` is the variable of that name, in units of ``scale`` seconds.
    """
    model = pulp.LpProblem("synth_master", pulp.LpMinimize)
    span = model.add_variable("T", lowBound=0)
    share = [model.add_variable(f"x_{k}", lowBound=0) for k in range(len(columns))]
    model += span
    for name, served, need in _service_rows(model, demand, columns):
        model += pulp.lpSum(share[k] for k in served) - need >= 0, name
    full = Network(symmetry.topology).capacity[symmetry.first] * scale
    terms: list[list[tuple[int, float]]] = [[] for _ in full]
    for k, column in enumerate(columns):
        for row, load in zip(*symmetry.route_bytes(demand, column), strict=True):
            terms[row].append((k, float(load / full[row])))
    for row, used in enumerate(terms):
        if used:
            model += pulp.lpSum(value * share[k] for k, value in used) - span <= 0, f"use_{row}"
    return model


def _service_rows(
    model: pulp.LpProblem, demand: Demand, columns: Sequence[Route]
) -> list[tuple[str, list[int], pulp.LpVariable | float]]:
    rows: list[tuple[str, list[int], pulp.LpVariable | float]] = []
    if demand.pattern != "allreduce":
        served: dict[int, list[int]] = {}
        for k, column in enumerate(columns):
            served.setdefault(column.commodity, []).append(k)
        rows += [(f"serve_{c}", ks, 1.0) for c, ks in sorted(served.items())]
        return rows
    points = sorted({column.root for column in columns})
    meet = [model.add_variable(f"z_{k}", lowBound=0) for k in range(len(points))]
    for k, point in enumerate(points):
        halves = [(j, column) for j, column in enumerate(columns) if column.root == point]
        rows.append((f"in_{k}", [j for j, column in halves if column.reduce_hops], meet[k]))
        rows.append((f"out_{k}", [j for j, column in halves if column.copy_hops], meet[k]))
    model += pulp.lpSum(meet) >= 1, "meet"
    return rows
