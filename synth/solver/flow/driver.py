"""The driver: topology + demand -> certified plan."""

from __future__ import annotations

import importlib.metadata
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal

from synth.demand.build import make_demand
from synth.demand.model import Demand
from synth.errors import InfeasibleError, InvalidInputError, LimitReachedError
from synth.formulation.flow.columns import Column
from synth.formulation.flow.network import Network
from synth.formulation.flow.orbits import OrbitRoutes
from synth.formulation.flow.parallel import bundle
from synth.formulation.flow.routes import Route, join_halves
from synth.formulation.flow.symmetry import find_symmetry, trivial
from synth.ground.arrays import Floats
from synth.solver.flow.certificate import certified_bound
from synth.solver.flow.colgen import ColumnGeneration, Progress, Relaxation, mirrored
from synth.solver.flow.cuts import tightest_cut
from synth.solver.flow.plan import Plan, SolverInfo
from synth.solver.flow.polish import polish, used
from synth.topology.model import Topology
from synth.topology.reachability import all_connected, check_reachable, unreachable_pairs

# Relative difference of two all-reduce times that counts as a tie.
TIE = 1e-6


def solve(
    topology: Topology,
    demand: Demand,
    *,
    gap: float = 1e-6,
    time_limit: float = 60.0,
    progress: Callable[[Progress], None] | None = None,
    symmetry: Literal["auto", "off"] = "auto",
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
    symmetry
        ``auto``: solve one root per orbit of a group of automorphisms (see ``formulation/symmetry.py``) and expand.

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
    solver = _Solve(topology, demand, gap, began + time_limit, progress, symmetry != "off")
    plan = solver.allreduce() if demand.pattern == "allreduce" else solver.single()
    return replace(
        plan, timings={"formulate": solver.formulated - began, "solve": time.monotonic() - solver.formulated}
    )


def check_demand(topology: Topology, demand: Demand) -> None:
    """Raise InfeasibleError when some demanded pair has no path; all-reduce needs one meeting point."""
    if all_connected(topology, demand.ranks):
        return
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
        symmetry: bool,
    ) -> None:
        self.topology, self.demand, self.gap = topology, demand, gap
        self.deadline, self.progress = deadline, progress
        self.bundles = bundle(topology)
        self.network = Network(self.bundles.bundled)
        self.symmetry = find_symmetry(self.bundles.bundled, demand) if symmetry else trivial(self.bundles.bundled)
        self.formulated = time.monotonic()

    def _relax(self, demand: Demand, seeds: Sequence[Column] = (), hints: Sequence[Floats] = ()) -> Relaxation:
        # Half of the asked gap is left for the price floor and the tolerances of the LPs.
        loop = ColumnGeneration(self.network, demand, 0.5 * self.gap, self.deadline, self.progress, self.symmetry)
        return loop.run(seeds, hints)

    def _cut_prices(self, demand: Demand) -> list[Floats]:
        """Prices of the slowest cut, which often is the optimum (none for unicast)."""
        cut = tightest_cut(self.network.topology, demand, self.symmetry)
        return [] if cut is None else [self.symmetry.average(cut.prices(self.network))]

    def _polished(self, demand: Demand, relaxation: Relaxation) -> tuple[Route, ...]:
        return polish(self.network, demand, relaxation, self.deadline, self.symmetry)

    def _orbits(self, routes: Sequence[Route]) -> OrbitRoutes:
        return OrbitRoutes(self.demand, tuple(routes), self.symmetry, self.bundles)

    def _time(self, routes: OrbitRoutes) -> float:
        """Time of the splits from their loads, not from the LP's word."""
        return float((routes.row_bytes() / Network(self.topology).capacity).max())

    def _plan(self, columns: OrbitRoutes, span: float, prices: Floats, method: str, effort: SolverInfo) -> Plan:
        rows = [x.id for x in self.topology.links] + [x.id for x in self.topology.resources]
        named = dict(zip(rows, map(float, self.bundles.prices(prices)), strict=True))
        bound = certified_bound(self.topology, self.demand, named, self.symmetry.generators)
        # Rounding can put the bound of an exact optimum a few ulps over it; a smaller bound is always valid.
        bound = min(bound, span)
        return Plan(self.topology, self.demand, columns, span, bound, tuple(named.values()), self.gap, method, effort)

    def single(self) -> Plan:
        relaxation = self._relax(self.demand, hints=self._cut_prices(self.demand))
        columns = self._orbits(self._polished(self.demand, relaxation))
        span = self._time(columns.of(used))
        method = "paths" if self.demand.pattern == "unicast" else "trees"
        return self._plan(columns, span, relaxation.prices, method, _effort(relaxation))

    def allreduce(self) -> Plan:
        """Free-root trees, and reduce-scatter + all-gather; the better one, a tie goes to the latter (equal shards).

        The latter is solved first, since its trees and prices are a good start for the former.
        """
        halves = self._halves()
        seeds = [column for _, relaxation in halves for column in self._as_halves(relaxation)]
        hints = [relaxation.prices for _, relaxation in halves]
        if len(hints) == 2:
            hints.append((hints[0] + hints[1]) / 2)
        try:
            free = self._relax(self.demand, seeds, hints)
        except LimitReachedError:
            if len(halves) < 2:
                raise
            free = None
        times = {} if free is None else {"tree": free.time}
        if len(halves) == 2:
            times["reducescatter+allgather"] = total = sum(relaxation.time for _, relaxation in halves)
        if free is not None and (len(halves) < 2 or total > free.time * (1 + TIE)):
            columns, method = self._orbits(self._polished(self.demand, free)), "tree"
        else:
            # Both phases share the links in one pipeline, so the time is at most the sum of theirs.
            columns, method = self._orbits(self._composed(halves)), "reducescatter+allgather"
        span = self._time(columns.of(join_halves))
        prices = [free.prices] if free is not None else hints
        effort = _effort(halves[0][1] if free is None else free)
        plans = [self._plan(columns, span, candidate, method, effort) for candidate in prices]
        return replace(max(plans, key=lambda plan: plan.bound), alternatives=times)

    def _composed(self, halves: list[tuple[Demand, Relaxation]]) -> tuple[Route, ...]:
        """Columns of reduce-scatter and all-gather as halves of all-reduce routes with equal shards."""
        part = self.symmetry.orbit_size / len(self.demand.ranks)  # of the buffer meets in the orbit of each rank
        return tuple(
            replace(route, commodity=0, share=route.share * float(part[route.root]))
            for half, relaxation in halves
            for route in self._polished(half, relaxation)
        )

    def _halves(self) -> list[tuple[Demand, Relaxation]]:
        """Reduce-scatter and all-gather with equal shards; empty when there is no time or no way for them."""
        ranks, size = self.demand.ranks, self.demand.size_bytes
        scatter, gather = (
            make_demand(self.topology, name, size, ranks=ranks) for name in ("reducescatter", "allgather")
        )
        try:
            check_demand(self.topology, gather)
            down = self._relax(gather, hints=self._cut_prices(gather))
            up = mirrored(self.network, down) or self._relax(scatter)
        except (LimitReachedError, InfeasibleError):
            return []
        return [(scatter, up), (gather, down)]

    def _as_halves(self, relaxation: Relaxation) -> list[Column]:
        """Columns of a reduce-scatter or all-gather as columns of the all-reduce's families."""
        root_first = {self.network.topology.gpus[rank]: k for k, rank in enumerate(self.demand.ranks)}
        out = []
        for column, value in zip(relaxation.columns, relaxation.values, strict=True):
            if value > 0:
                inward = column.hops[-1].dst == self.network.topology.gpus[self.demand.ranks[column.family]]
                root = root_first[column.hops[-1].dst if inward else column.hops[0].src]
                out.append(replace(column, family=2 * root + (not inward)))
        return out


def _effort(relaxation: Relaxation) -> SolverInfo:
    return _info(relaxation.iterations, len(relaxation.columns))
