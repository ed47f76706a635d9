"""Thresholds of whole collectives: the classes of links that a plan may use, and the topology without the others."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from synth.demand import Demand, make_demand
from synth.errors import InfeasibleError
from synth.formulation.flow.routes import Route
from synth.solver.flow import Plan, solve
from synth.study.paths import link_classes
from synth.study.threshold.pairs import Option, Thresholds, opening_costs, thresholds
from synth.topology.elements import Resource
from synth.topology.model import Topology

#: Classes of links, in order of preference.
LINK_CLASSES = ("scale-up", "pcie", "host", "nic")
#: Bandwidth-only plans scale with the size, so any size gives the rates.
PROBE = 1e9


def restrict(topology: Topology, classes: Collection[str]) -> Topology:
    """The topology with links of some classes only; plain PCIe links come with ``host`` and ``nic``, which need them.

    Parameters
    ----------
    topology
        Machine.
    classes
        Of ``LINK_CLASSES``.

    Returns
    -------
    Topology
        All nodes, fewer links; pools keep what is left of their uses. Hints of symmetry are dropped (it is searched
        for anyway).
    """
    allowed = set(classes) | ({"pcie"} if set(classes) & {"host", "nic"} else set())
    of = link_classes(topology)
    links = tuple(link for link in topology.links if of[link.id] in allowed)
    left = {link.id for link in links}
    pools = [Resource(p.id, p.bandwidth, tuple(use for use in p.uses if use[0] in left)) for p in topology.resources]
    return replace(topology, links=links, resources=tuple(p for p in pools if p.uses), symmetry=())


def collective_thresholds(
    topology: Topology,
    collective: str,
    opening: Mapping[str, float] | None = None,
    *,
    ranks: Sequence[int] | None = None,
    root: int | None = None,
    time_limit: float = 60.0,
) -> Thresholds:
    """Sizes from which each class of links pays in a collective.

    Rates are the algorithm bandwidths of plans on the restricted topologies. The fixed cost of a class is its opening
    cost and the longest latency of the routes that use it (and no class after it) in the plan over all links.

    Parameters
    ----------
    topology, collective, ranks, root
        As for :func:`synth.solve`, but not all-to-all-v.
    opening
        Seconds to open a class; others as in ``OPENING``.
    time_limit
        Seconds for each of the plans.

    Returns
    -------
    Thresholds
        One option per class that the topology has.

    Raises
    ------
    InfeasibleError
        When the collective cannot be done over all links.
    """
    cost = opening_costs(opening)
    demand = make_demand(topology, collective, PROBE, ranks=ranks, root=root)
    of = link_classes(topology)
    present = [name for name in LINK_CLASSES if name in of.values()]
    whole = solve(topology, demand, time_limit=time_limit)
    latency = {name: _latency(topology, demand, whole, name, of, time_limit) for name in present}

    def rate(names: frozenset[str]) -> float:
        try:
            return solve(restrict(topology, names), demand, time_limit=time_limit).algbw
        except InfeasibleError:
            return 0.0

    options = [Option(name, cost[name] + latency[name]) for name in present]
    return thresholds(f"{collective} on {topology.name}", options, rate)


def topology_for(topology: Topology, found: Thresholds, size: float) -> Topology:
    """The topology on which to plan a collective of ``size`` bytes: without the classes that do not pay there."""
    return restrict(topology, found.used(size))


def paying(topology: Topology, demand: Demand, time_limit: float = 60.0) -> Topology:
    """The topology without the classes of links that do not pay at the size of a demand (see ``OPENING``)."""
    found = collective_thresholds(
        topology, demand.collective, ranks=demand.ranks, root=demand.root, time_limit=time_limit
    )
    return topology_for(topology, found, demand.size_bytes)


def _latency(
    topology: Topology, demand: Demand, whole: Plan, name: str, of: Mapping[str, str], time_limit: float
) -> float:
    """Longest latency of a plan's routes whose last class is ``name``, seconds.

    The plan over all links, else one over the scale-up network and this class; 0 when neither uses it.
    """
    rank = LINK_CLASSES.index
    for plan in (whole, None):
        if plan is None:
            try:
                plan = solve(restrict(topology, ("scale-up", name)), demand, time_limit=time_limit)
            except InfeasibleError:
                return 0.0
        links = plan.topology.links
        found = [
            route_latency(plan.topology, route)
            for route in plan.routes
            if max((of[links[k].id] for hop in route.hops for k in hop.links), key=rank) == name
        ]
        if found:
            return max(found)
    return 0.0


def route_latency(topology: Topology, route: Route) -> float:
    """Seconds from the first byte of a route to its last arrival, at no bandwidth cost: its longest chain of links."""
    ready: dict[int, float] = {}
    for hop in route.hops:
        late = sum(topology.links[k].latency for k in hop.links)
        ready[hop.dst] = max(ready.get(hop.dst, 0.0), ready.get(hop.src, 0.0) + late)
    return max(ready.values(), default=0.0)
