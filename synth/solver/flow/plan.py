"""The plan: splits, the loads they make, and the prices that prove how close they are to the optimum."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np
import pulp

from synth.demand.model import Demand
from synth.formulation.flow.model import master_model
from synth.formulation.flow.network import Network
from synth.formulation.flow.orbits import OrbitRoutes, row_bytes_of
from synth.formulation.flow.routes import Route, join_halves
from synth.formulation.flow.symmetry import trivial
from synth.ground.arrays import Floats
from synth.ground.onward import onward
from synth.ground.text import aligned, html_table
from synth.ground.units import format_size, format_time
from synth.solver.flow.certificate import certified_bound
from synth.solver.flow.cuts import Cut, tightest_cut
from synth.solver.flow.polish import used
from synth.solver.flow.tables import loads_table, splits_table
from synth.topology.model import Topology

if TYPE_CHECKING:
    import pandas as pd

    from synth.schedule.model import Schedule

Status = Literal["optimal", "feasible"]
# A resource whose load is this close to capacity x T is called binding.
BINDING = 1e-6


@dataclass(frozen=True, slots=True)
class SolverInfo:
    """Which engine solved, and how much work it was."""

    engine: str
    version: str
    iterations: int
    columns: int


@dataclass(frozen=True)
class Plan:
    """Traffic splits of a demand on a topology with their certificate.

    Attributes
    ----------
    topology, demand
        Instance.
    columns
        Columns of the finished master with their shares, candidates with share 0 included. For an all-reduce they
        are halves: in-trees and out-trees of meeting points. A solved plan's are ``OrbitRoutes``: kept by one route
        per orbit of the machine's symmetry, the others made when they are asked for.
    time, bound
        Time of the splits and certified lower bound, seconds, bandwidth only; ``bound <= time``.
    prices
        Seconds per byte of each row of ``Network.row_ids``, with sum(capacity x price) = 1.
    asked_gap
        Gap up to which the plan counts as optimal.
    method
        ``trees``, ``paths``, or for all-reduce ``tree`` or ``reducescatter+allgather``.
    alternatives
        Time in seconds per all-reduce method that was tried.
    solver
        Engine and effort.
    """

    topology: Topology
    demand: Demand
    columns: Sequence[Route]
    time: float
    bound: float
    prices: tuple[float, ...]
    asked_gap: float
    method: str
    solver: SolverInfo
    alternatives: Mapping[str, float] = field(default_factory=dict)
    timings: Mapping[str, float] = field(default_factory=dict, compare=False)

    @cached_property
    def network(self) -> Network:
        """Index view of the topology."""
        return Network(self.topology)

    @cached_property
    def routes(self) -> Sequence[Route]:
        """The splits: routes with a share, whole (an all-reduce's halves are joined)."""
        choose = join_halves if self.demand.pattern == "allreduce" else used
        return self.columns.of(choose) if isinstance(self.columns, OrbitRoutes) else choose(self.columns)

    @cached_property
    def depth(self) -> int:
        """Most hops one after the other on any route; 0 when nothing moves."""
        routes = self.routes.representatives if isinstance(self.routes, OrbitRoutes) else self.routes
        return max((route.depth for route in routes), default=0)

    @property
    def symmetry(self) -> tuple[tuple[int, ...], ...]:
        """Automorphisms that keep the plan: per generator, the number of the node that each node goes to."""
        return self.columns.symmetry.generators if isinstance(self.columns, OrbitRoutes) else ()

    @property
    def gap(self) -> float:
        """(time - bound) / time; 0 when there is nothing to do."""
        return (self.time - self.bound) / self.time if self.time > 0 else 0.0

    @property
    def status(self) -> Status:
        """``optimal`` when the gap is within the asked one."""
        return "optimal" if self.gap <= self.asked_gap else "feasible"

    @cached_property
    def row_bytes(self) -> Floats:
        """Bytes on each resource."""
        return row_bytes_of(self.network, self.demand, self.routes)

    @cached_property
    def bottleneck(self) -> tuple[str, ...]:
        """Ids of the binding resources that carry a price, dearest first."""
        if self.time <= 0:
            return ()
        weight = np.array(self.prices) * self.network.capacity
        full = self.row_bytes / (self.network.capacity * self.time) >= 1 - BINDING
        order = np.argsort(-weight, kind="stable")
        return tuple(self.network.row_ids[k] for k in order if full[k] and weight[k] > 1e-6)

    @property
    def algbw(self) -> float:
        """Algorithm bandwidth of the plan in bytes/second: size / time (0 when nothing moves)."""
        return self.demand.size_bytes / self.time if self.time > 0 else 0.0

    @property
    def busbw(self) -> float | None:
        """Bus bandwidth in bytes/second as nccl-tests defines it; None for a single rank."""
        return self.algbw * self.demand.bus_factor if self.demand.bus_factor else None

    @cached_property
    def slowest_cut(self) -> Cut | None:
        """The slowest cut and its bound, by maximum flows; None for unicast and all-reduce."""
        return tightest_cut(self.topology, self.demand)

    def recheck(self) -> float:
        """Lower bound in seconds, recomputed from the prices without any LP (see ``solver/certificate.py``)."""
        prices = dict(zip(self.network.row_ids, self.prices, strict=True))
        return certified_bound(self.topology, self.demand, prices, self.symmetry)

    def to_pulp(self) -> pulp.LpProblem:
        """The finished master as a PuLP model; its variable ``T`` is in units of ``self.time`` seconds.

        With symmetry it is the reduced one: a column per orbit of routes, a row per orbit of resources.
        """
        if isinstance(self.columns, OrbitRoutes):
            kept = self.columns
            return master_model(kept.symmetry, self.demand, kept.representatives, self.time or 1.0)
        return master_model(trivial(self.topology), self.demand, self.columns, self.time or 1.0)

    def schedule(self, chunks: int | None = None, max_loss: float = 0.02) -> Schedule:
        """Round to chunks and order the transfers (see :func:`synth.schedule.make_schedule`)."""
        made: Schedule = onward("Plan.schedule")(self, chunks=chunks, max_loss=max_loss)
        return made

    @property
    def splits(self) -> pd.DataFrame:
        """One row per route: shard, share, bytes, depth and the links it takes."""
        return splits_table(self.topology, self.demand, self.routes)

    @property
    def loads(self) -> pd.DataFrame:
        """One row per resource: capacity, bytes, utilisation, price."""
        return loads_table(self.network, self.time, self.row_bytes, self.prices)

    @property
    def bottlenecks(self) -> pd.DataFrame:
        """The binding resources, dearest first: why the plan cannot be faster."""
        return self.loads.set_index("resource", drop=False).loc[list(self.bottleneck)].reset_index(drop=True)

    def summary(self) -> str:
        """A few lines for a person."""
        return aligned(facts(self))

    def _repr_html_(self) -> str:
        return html_table(facts(self))

    def save(self, path: str) -> None:
        """Write the plan as JSON; :meth:`load` gives an equal plan."""
        onward("Plan.save")(self, path)

    @staticmethod
    def load(path: str) -> Plan:
        """Read a plan written by :meth:`save`."""
        plan: Plan = onward("Plan.load")(path)
        return plan


def facts(plan: Plan) -> list[tuple[str, str]]:
    """What a summary says, as (label, text)."""
    demand = plan.demand
    busbw = "n/a" if plan.busbw is None else f"{plan.busbw / 1e9:.2f} GB/s"
    out = [
        ("topology", f"{plan.topology.name} ({len(plan.topology.gpus)} GPUs, {len(plan.topology.links)} links)"),
        ("collective", f"{demand.collective}, {len(demand.ranks)} ranks, {format_size(demand.size_bytes)}"),
        ("status", f"{plan.status}, gap {plan.gap:.1e}"),
        ("time", f"{format_time(plan.time)} (bound {format_time(plan.bound)}), bandwidth only"),
        ("bandwidth", f"algorithm {plan.algbw / 1e9:.2f} GB/s, bus {busbw}"),
        ("routes", f"{len(plan.routes)} ({plan.method}), at most {plan.depth} hops deep"),
    ]
    out += [(f"as {method}", format_time(span)) for method, span in plan.alternatives.items()]
    if plan.bottleneck:
        out.append(("cannot be faster", _why(plan)))
    return out


def _why(plan: Plan) -> str:
    names = plan.bottleneck
    more = f" and {len(names) - 6} more" if len(names) > 6 else ""
    index = {row: k for k, row in enumerate(plan.network.row_ids)}
    weight = sum(plan.prices[index[name]] * float(plan.network.capacity[index[name]]) for name in names)
    return f"{', '.join(names[:6])}{more} are full and carry {100 * weight:.0f} % of the proof"
