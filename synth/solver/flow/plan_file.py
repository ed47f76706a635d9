"""Plans as JSON files (``synth-plan/1``), saved and loaded without loss."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from synth.demand.model import Commodity, Demand, EvenPairs
from synth.errors import InvalidInputError
from synth.files.json_text import parse_json
from synth.files.writing import write_text
from synth.formulation.flow.network import Hop
from synth.formulation.flow.orbits import OrbitRoutes
from synth.formulation.flow.parallel import bundle
from synth.formulation.flow.routes import Route
from synth.formulation.flow.symmetry import generated_symmetry
from synth.solver.flow.plan import Plan, SolverInfo
from synth.topology.dump import dump_topology
from synth.topology.elements import Link, Node
from synth.topology.file import topology_of

FORMAT = "synth-plan/1"


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class _Hop(_Strict):
    src: str
    dst: str
    links: list[str]


class _Route(_Strict):
    shard: int
    root: int
    share: float
    reduce_hops: list[_Hop]
    copy_hops: list[_Hop]


class _Shard(_Strict):
    root: int
    dest: int | None
    size_bytes: float


class _Demand(_Strict):
    collective: str
    ranks: list[int]
    size_bytes: float
    root: int | None
    local_bytes: list[float]
    shards: list[_Shard] | None


class _Solver(_Strict):
    engine: str
    version: str
    iterations: int
    columns: int


class _Plan(_Strict):
    format: str
    topology: dict[str, Any]
    demand: _Demand
    status: str
    time_s: float
    bound_s: float
    asked_gap: float
    method: str
    alternatives_s: dict[str, float]
    solver: _Solver
    prices_s_per_byte: dict[str, float]
    symmetry: list[list[int]] | None = None
    columns: list[_Route]


def dump_plan(plan: Plan) -> str:
    """The plan as JSON text; deterministic, without timings.

    A plan with symmetry is written by its representatives: ``symmetry`` lists, per generator, the number of the node
    that each node goes to, and ``columns`` holds one route per orbit over bundles of parallel links, each named after
    its first link. ``symmetry`` null: ``columns`` holds every route. ``shards`` null: the collective's even ones.
    """
    demand, columns = plan.demand, plan.columns
    compact = isinstance(columns, OrbitRoutes)
    kept = columns.representatives if isinstance(columns, OrbitRoutes) else columns
    links = columns.bundles.bundled.links if isinstance(columns, OrbitRoutes) else plan.topology.links
    listed = () if isinstance(demand.commodities, EvenPairs) else demand.commodities
    shards = [{"root": c.root, "dest": c.dest, "size_bytes": c.size} for c in listed]
    out = {
        "format": FORMAT,
        "topology": json.loads(dump_topology(plan.topology)),
        "demand": {
            "collective": demand.collective,
            "ranks": list(demand.ranks),
            "size_bytes": demand.size_bytes,
            "root": demand.root,
            "local_bytes": list(demand.local),
            "shards": shards if listed or demand.empty else None,
        },
        "status": plan.status,
        "time_s": plan.time,
        "bound_s": plan.bound,
        "asked_gap": plan.asked_gap,
        "method": plan.method,
        "alternatives_s": dict(plan.alternatives),
        "solver": {
            "engine": plan.solver.engine,
            "version": plan.solver.version,
            "iterations": plan.solver.iterations,
            "columns": plan.solver.columns,
        },
        "prices_s_per_byte": dict(zip(plan.network.row_ids, plan.prices, strict=True)),
        "symmetry": [list(g) for g in plan.symmetry] if compact else None,
        "columns": [_route_out(plan.topology.nodes, links, route) for route in kept],
    }
    return json.dumps(out, indent=1, ensure_ascii=False) + "\n"


def _route_out(nodes: Sequence[Node], links: Sequence[Link], route: Route) -> dict[str, Any]:
    def hops(group: tuple[Hop, ...]) -> list[dict[str, Any]]:
        return [
            {"src": nodes[h.src].id, "dst": nodes[h.dst].id, "links": [links[k].id for k in h.links]} for h in group
        ]

    return {
        "shard": route.commodity,
        "root": route.root,
        "share": route.share,
        "reduce_hops": hops(route.reduce_hops),
        "copy_hops": hops(route.copy_hops),
    }


def save_plan(plan: Plan, path: str | Path) -> None:
    """Write a plan; the file appears whole or not at all."""
    write_text(path, dump_plan(plan))


def load_plan(path: str | Path) -> Plan:
    """Read a plan written by :func:`save_plan`.

    Raises
    ------
    InvalidInputError
        Unreadable, not a plan, or naming nodes and links that its topology does not have.
    """
    try:
        raw = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInputError(f"{path}: cannot be read: {error}") from error
    try:
        data = _Plan.model_validate_json(raw)
    except ValidationError as error:
        places = (".".join(map(str, item["loc"])) or "file" for item in error.errors())
        whys = (item["msg"] for item in error.errors())
        raise InvalidInputError(f"{path}: {place}: {why}" for place, why in zip(places, whys, strict=True)) from error
    if data.format != FORMAT:
        raise InvalidInputError(f"{path}: format is {data.format!r}, expected {FORMAT!r}")
    try:
        return _build(data, str(path))
    except (KeyError, IndexError) as error:
        raise InvalidInputError(f"{path}: names {error.args[0]!r}, which its topology does not have") from error


def _demand(data: _Demand) -> Demand:
    ranks = tuple(data.ranks)
    shards: Sequence[Commodity] = EvenPairs(ranks, data.size_bytes / max(1, len(ranks)))
    if data.shards is not None:
        shards = tuple(Commodity(c.root, c.dest, c.size_bytes) for c in data.shards)
    return Demand(data.collective, ranks, data.size_bytes, shards, data.root, tuple(data.local_bytes))


def _build(data: _Plan, path: str) -> Plan:
    topology = topology_of(parse_json(json.dumps(data.topology), f"{path}: topology"), "topology")
    demand = _demand(data.demand)
    bundles = bundle(topology)
    compact = data.symmetry is not None
    nodes, links = topology.node_index, (bundles.bundled if compact else topology).link_index

    def hops(group: list[_Hop]) -> tuple[Hop, ...]:
        return tuple(Hop(nodes[h.src], nodes[h.dst], tuple(links[k] for k in h.links)) for h in group)

    columns: Sequence[Route] = tuple(
        Route(c.shard, c.root, c.share, hops(c.reduce_hops), hops(c.copy_hops)) for c in data.columns
    )
    if data.symmetry is not None:
        try:
            symmetry = generated_symmetry(bundles.bundled, demand, [tuple(g) for g in data.symmetry])
        except ValueError as error:
            raise InvalidInputError(f"{path}: symmetry: {error}") from error
        columns = OrbitRoutes(demand, tuple(columns), symmetry, bundles)
    rows = [x.id for x in topology.links] + [x.id for x in topology.resources]
    return Plan(
        topology,
        demand,
        columns,
        data.time_s,
        data.bound_s,
        tuple(data.prices_s_per_byte[row] for row in rows),
        data.asked_gap,
        data.method,
        SolverInfo(**data.solver.model_dump()),
        data.alternatives_s,
    )
