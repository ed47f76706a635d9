"""The driver: topology + demand -> certified plan."""

from __future__ import annotations

import importlib.metadata
import math
import time
from collections.abc import Callable
from dataclasses import replace

from synth.demand.build import make_demand
from synth.demand.model import Demand
from synth.errors import InfeasibleError, InvalidInputError, LimitReachedError
from synth.formulation.network import Floats, Network
from synth.formulation.routes import Route, join_halves, link_bytes
from synth.solver.certificate import certified_bound
from synth.solver.colgen import ColumnGeneration, Progress, Relaxation
from synth.solver.plan import Plan, SolverInfo
from synth.solver.polish import polish, used
from synth.topology.model import Topology
from synth.topology.reachability import check_reachable, unreachable_pairs

# Relative difference of two all-reduce times that counts as a tie.
TIE = 1e-6


def solve(
    topology: Topology,
    demand: Demand,
    *,
    gap: float = 1e-6,
    time_limit: float = 60.0,
    progress: Callable[[Progress], None] | None = None,
) -> Plan:
    """Find certified traffic splits.

    Parameters
    ----------
    topology, demand
        Instance (see :func:`synth.demand.make_demand`).
    gap
        Relative gap (time - bound) / time at which to stop.
    time_limit
        Wall-clock seconds for the whole solve; HiGHS is given what is left at each call. With a first plan in hand the
        best so far is returned as ``feasible`` with its gap.
    progress
        Called after each pricing round.

    Returns
    -------
    Plan

    Raises
    ------
    InfeasibleError
        When data cannot get where it is demanded; the pairs are named. Checked before any solver runs.
    LimitReachedError
        When the time limit strikes before there is any plan.
    """
    if not (math.isfinite(gap) and gap >= 0):
        raise InvalidInputError(f"gap {gap} must be a finite number, 0 or more")
    if math.isnan(time_limit) or time_limit < 0:
        raise InvalidInputError(f"time limit {time_limit} s must be 0 or more")
    began = time.monotonic()
    check_demand(topology, demand)
    if demand.empty:
        return _nothing(topology, demand, gap)
    solver = _Solve(topology, demand, gap, began + time_limit, progress)
    plan = solver.allreduce() if demand.pattern == "allreduce" else solver.single()
    return replace(
        plan, timings={"formulate": solver.formulated - began, "solve": time.monotonic() - solver.formulated}
    )


def check_demand(topology: Topology, demand: Demand) -> None:
    """Raise InfeasibleError when some demanded pair has no path; all-reduce needs one meeting point."""
    if demand.pattern != "allreduce":
        check_reachable(topology, demand.pairs)
        return
    missing = unreachable_pairs(topology, demand.pairs)
    if not any(all(point not in pair for pair in missing) for point in demand.ranks):
        check_reachable(topology, demand.pairs)


def _nothing(topology: Topology, demand: Demand, gap: float) -> Plan:
    """Nothing has to move: T = 0, no solver call."""
    network = Network(topology)
    rows = len(network.row_ids)
    prices = tuple(1.0 / (rows * c) for c in network.capacity)
    return Plan(topology, demand, (), 0.0, 0.0, prices, gap, "nothing to do", _info(0, 0))


def _info(iterations: int, columns: int) -> SolverInfo:
    return SolverInfo("HiGHS (highspy), column generation", importlib.metadata.version("highspy"), iterations, columns)


class _Solve:
    def __init__(
        self,
        topology: Topology,
        demand: Demand,
        gap: float,
        deadline: float,
        progress: Callable[[Progress], None] | None,
    ) -> None:
        self.topology, self.demand, self.gap = topology, demand, gap
        self.deadline, self.progress = deadline, progress
        self.network = Network(topology)
        self.formulated = time.monotonic()

    def _relax(self, demand: Demand) -> tuple[Relaxation, tuple[Route, ...]]:
        # The asked gap is also to cover the room of the second LP and the price floor.
        loop = ColumnGeneration(self.network, demand, 0.5 * self.gap, self.deadline, self.progress)
        relaxation = loop.run()
        return relaxation, polish(self.network, demand, relaxation, self.deadline)

    def _time(self, demand: Demand, routes: tuple[Route, ...]) -> float:
        """Time of the splits from their loads, not from the LP's word."""
        load = self.network.row_bytes(link_bytes(self.network, demand, routes))
        return float((load / self.network.capacity).max())

    def _plan(self, columns: tuple[Route, ...], span: float, prices: Floats, method: str, effort: SolverInfo) -> Plan:
        named = dict(zip(self.network.row_ids, map(float, prices), strict=True))
        bound = certified_bound(self.topology, self.demand, named)
        # Rounding can put the bound of an exact optimum a few ulps over it; a smaller bound is always valid.
        return Plan(
            self.topology,
            self.demand,
            columns,
            span,
            min(bound, span),
            tuple(named.values()),
            self.gap,
            method,
            effort,
        )

    def single(self) -> Plan:
        relaxation, columns = self._relax(self.demand)
        span = self._time(self.demand, used(columns))
        method = "paths" if self.demand.pattern == "unicast" else "trees"
        effort = _info(relaxation.iterations, len(relaxation.columns))
        return self._plan(columns, span, relaxation.prices, method, effort)

    def allreduce(self) -> Plan:
        """Free-root trees, and reduce-scatter + all-gather; the better one, a tie goes to the latter (equal shards)."""
        relaxation, columns = self._relax(self.demand)
        span = self._time(self.demand, join_halves(columns))
        effort = _info(relaxation.iterations, len(relaxation.columns))
        plan = self._plan(columns, span, relaxation.prices, "tree", effort)
        composed = self._composed()
        if composed is None:
            return replace(plan, alternatives={"tree": span})
        halves, total, effort = composed
        times = {"tree": span, "reducescatter+allgather": total}
        if total <= span * (1 + TIE):
            # Both phases share the links in one pipeline, so this is at most the sum of their times.
            merged = self._time(self.demand, join_halves(halves))
            plan = self._plan(halves, merged, relaxation.prices, "reducescatter+allgather", effort)
        return replace(plan, alternatives=times)

    def _composed(self) -> tuple[tuple[Route, ...], float, SolverInfo] | None:
        """Reduce-scatter then all-gather with equal shards: halves, total time, effort; None if out of time."""
        ranks, size = self.demand.ranks, self.demand.size_bytes
        halves: list[Route] = []
        total, iterations, columns = 0.0, 0, 0
        for collective in ("reducescatter", "allgather"):
            part = make_demand(self.topology, collective, size, ranks=ranks)
            try:
                check_reachable(self.topology, part.pairs)
                relaxation, routes = self._relax(part)
            except (LimitReachedError, InfeasibleError):
                return None
            total += self._time(part, used(routes))
            iterations += relaxation.iterations
            columns += len(relaxation.columns)
            halves += [replace(r, commodity=0, share=r.share / len(ranks)) for r in routes]
        return tuple(halves), total, _info(iterations, columns)
