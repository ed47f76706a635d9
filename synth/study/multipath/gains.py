"""What each kind of path adds: one collective on scale-up alone, with PCIe and host memory, with NICs, and with all."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from synth.demand import Demand, make_demand
from synth.errors import InfeasibleError, InvalidInputError, LimitReachedError
from synth.schedule.simulate.run import simulate_schedule
from synth.schedule.simulate.time_model import Sharing, TimeModel
from synth.solver.flow import Plan, solve
from synth.study.multipath.shares import KINDS, kind_shares
from synth.topology import Topology, catalogue, rented, resolve, select_paths
from synth.topology.paths import PATH_GROUPS, PathGroup

if TYPE_CHECKING:
    import pandas as pd

#: Names of the compared sets of paths, the base first.
SCENARIOS: tuple[tuple[str, tuple[PathGroup, ...]], ...] = (
    ("scale-up", ("nvlink",)),
    ("+pcie/host", ("nvlink", "pcie", "host")),
    ("+nic", ("nvlink", "nic")),
    ("all", PATH_GROUPS),
)
COLUMNS = (
    "machine",
    "ranks",
    "relay",
    "collective",
    "size_bytes",
    "paths",
    "status",
    "bound_us",
    "plan_us",
    "simulated_us",
    "gain_percent",
    "simulated_gain_percent",
    *(f"share_{kind}" for kind in KINDS),
    "reason",
)


@dataclass(frozen=True)
class _Options:
    gap: float
    time_limit: float
    simulate: bool
    model: TimeModel


def compare(
    topology: Topology | str | None,
    collective: str,
    size: float | str,
    *,
    ranks: Sequence[int] | None = None,
    root: int | None = None,
    relay: bool | None = None,
    capacities: str | None = None,
    gap: float = 1e-6,
    time_limit: float = 60.0,
    simulate: bool | None = None,
    sharing: Sharing = "order",
    progress: Callable[[str], None] | None = None,
) -> pd.DataFrame:
    """Compare a collective over sets of paths, on one machine or on the whole catalogue.

    Parameters
    ----------
    topology
        Topology, file or built-in name; None for every machine of the catalogue, whole and in the parts that are
        usually rented.
    collective, size, ranks, root
        See :func:`synth.demand.make_demand`; ranks are for one topology only.
    relay
        Whether GPUs that take no part may forward (:func:`synth.topology.rented`). None: on one topology yes, in the
        catalogue's rented parts no.
    capacities
        ``nominal`` or ``achievable``, for built-ins that know both.
    gap, time_limit
        Of each solve.
    simulate
        Whether to round to chunks and simulate with latency as well. None: on one topology; the catalogue's largest
        machines take minutes.
    sharing
        How simulated messages share a link or pool (:class:`~synth.schedule.TimeModel`): ``order`` as in the result of
        ``synth solve``, one message at a time; ``fair``, as PCIe and NICs arbitrate between packets; or ``fifo``.
    progress
        Told what is being solved.

    Returns
    -------
    pandas.DataFrame
        A row per machine and set of paths (``scale-up``, ``+pcie/host``, ``+nic``, ``all``): ``status`` (optimal,
        feasible, infeasible, limit or refused, with the ``reason``), bound, plan and simulated time in microseconds;
        ``gain_percent``, by how much the plan's bandwidth is above scale-up alone (time over time, minus 1; NaN where
        scale-up alone is not feasible), the same for simulated times; the part of the bytes per kind of path.

    Raises
    ------
    InvalidInputError
        Wrong ranks, sizes or names.
    InfeasibleError
        When the one topology cannot do it even with all paths.
    """
    import pandas as pd  # slow to import

    simulated = topology is not None if simulate is None else simulate
    options = _Options(gap, time_limit, simulated, TimeModel(sharing=sharing))
    rows: list[dict[str, Any]] = []
    for machine, part, may in _cases(topology, ranks, relay, capacities):
        demand = make_demand(machine, collective, size, ranks=part, root=root)
        rows += _case_rows(rented(machine, demand.ranks, may), demand, may, options, progress)
    if topology is not None and not any(row["plan_us"] is not None for row in rows):
        raise InfeasibleError(rows[-1]["reason"])
    return pd.DataFrame(rows, columns=list(COLUMNS)).astype(dict.fromkeys(_NUMBERS, float))


_NUMBERS = tuple(name for name in COLUMNS if name.endswith(("_us", "_percent", "_bytes")) or name.startswith("share_"))


def in_band(table: pd.DataFrame, low: float, high: float) -> pd.DataFrame:
    """Rows of a comparison whose plan gains between ``low`` and ``high`` percent, both included."""
    return table[table["gain_percent"].between(low, high)].reset_index(drop=True)


def _cases(
    topology: Topology | str | None, ranks: Sequence[int] | None, relay: bool | None, capacities: str | None
) -> Iterator[tuple[Topology, Sequence[int] | None, bool]]:
    """Machine, ranks that take part, and whether the others may relay."""
    if topology is not None:
        if isinstance(topology, Topology) and capacities is not None:
            raise InvalidInputError(f"capacities {capacities!r}: {topology.name} is made already; give a name")
        machine = topology if isinstance(topology, Topology) else resolve(topology, capacities)
        yield machine, ranks, relay is not False
        return
    if ranks is not None:
        raise InvalidInputError("ranks are for one topology: the catalogue's machines have parts of their own")
    for entry in catalogue().values():
        machine = resolve(entry.name, capacities)
        yield machine, None, True
        for part in entry.rents:
            yield machine, part, relay is True


def _case_rows(
    machine: Topology, demand: Demand, relay: bool, options: _Options, progress: Callable[[str], None] | None
) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    done: dict[tuple[str, ...], dict[str, Any]] = {}
    for name, groups in SCENARIOS:
        if progress is not None:
            progress(f"{machine.name}, {len(demand.ranks)} ranks, {name}")
        row = _outcome(machine, demand, groups, options, done)
        about = {
            "machine": machine.name,
            "ranks": ranks_text(demand.ranks),
            "relay": relay,
            "collective": demand.collective,
            "size_bytes": demand.size_bytes,
            "paths": name,
        }
        rows.append({**about, **row})
    base = rows[0]
    for row in rows:
        for gain, time in (("gain_percent", "plan_us"), ("simulated_gain_percent", "simulated_us")):
            known = base[time] is not None and row[time]
            row[gain] = 100 * (base[time] / row[time] - 1) if known else None
    return rows


def _outcome(
    machine: Topology,
    demand: Demand,
    groups: Sequence[PathGroup],
    options: _Options,
    done: dict[tuple[str, ...], dict[str, Any]],
) -> dict[str, Any]:
    """Result on some paths; the same links as before give the same result."""
    nothing = dict.fromkeys(("bound_us", "plan_us", "simulated_us"))
    try:
        part = select_paths(machine, groups)
    except InvalidInputError as error:
        return {**nothing, "status": "refused", "reason": str(error)}
    key = tuple(link.id for link in part.links)
    if key not in done:
        try:
            plan = solve(part, demand, gap=options.gap, time_limit=options.time_limit)
        except (InfeasibleError, LimitReachedError) as error:
            status = "infeasible" if isinstance(error, InfeasibleError) else "limit"
            done[key] = {**nothing, "status": status, "reason": str(error)}
        else:
            done[key] = _solved(plan, options)
    return dict(done[key])


def _solved(plan: Plan, options: _Options) -> dict[str, Any]:
    shares = {f"share_{kind}": share for kind, share in kind_shares(plan).items()}
    simulated = simulate_schedule(plan.schedule(), model=options.model).end if options.simulate else None
    return {
        "status": plan.status,
        "bound_us": plan.bound * 1e6,
        "plan_us": plan.time * 1e6,
        "simulated_us": None if simulated is None else simulated * 1e6,
        "reason": "",
        **shares,
    }


def ranks_text(ranks: Sequence[int]) -> str:
    """``0-3,7`` of some ranks."""
    runs: list[list[int]] = []
    for rank in ranks:
        if runs and rank == runs[-1][1] + 1:
            runs[-1][1] = rank
        else:
            runs.append([rank, rank])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)
