"""The instance: a topology as far as it may be used, and what is demanded on it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict, Unpack

from synth.demand.build import make_demand
from synth.demand.model import Demand
from synth.errors import InvalidInputError
from synth.topology import PathGroup, Topology, rented, resolve, select_paths


class Given(TypedDict, total=False):
    """What may be said of an instance beside topology, collective and size.

    ``ranks``, ``root``, ``matrix`` and ``shards`` describe the demand (see :func:`synth.demand.make_demand`); ``relay``
    says whether GPUs that take no part may forward (:func:`synth.topology.rented`); ``paths`` are the groups of path
    kinds to use, of ``nvlink`` (scale-up), ``pcie``, ``host`` and ``nic``; ``capacities`` is ``nominal`` or
    ``achievable``, for a built-in that knows both.
    """

    ranks: Sequence[int] | None
    root: int | None
    matrix: Any
    shards: Sequence[float] | None
    relay: bool
    paths: Collection[PathGroup] | None
    capacities: str | None


@dataclass(frozen=True)
class Instance:
    """A topology and a demand on it.

    Attributes
    ----------
    topology
        The machine as far as it may be used: some kinds of paths may have been left out of it.
    demand
        Which bytes go where.
    """

    topology: Topology
    demand: Demand


def as_topology(topology: Topology | str, capacities: str | None = None) -> Topology:
    """A topology, or what a file or built-in name stands for, with nominal or achievable capacities."""
    if isinstance(topology, str):
        return resolve(topology, capacities)
    if capacities is not None:
        raise InvalidInputError(f"capacities {capacities!r}: {topology.name} is made already; give a built-in's name")
    return topology


def make_instance(
    topology: Topology | str | Instance,
    collective: str | Demand | None = None,
    size: float | str | None = None,
    *,
    default_size: float | None = None,
    **given: Unpack[Given],
) -> Instance:
    """Topology and demand from names, files, sizes as text.

    Parameters
    ----------
    topology
        A :class:`Topology`, a file, or a built-in name; an :class:`Instance` is returned as it is.
    collective, size
        See :func:`synth.demand.make_demand`; a ready :class:`Demand` may be given instead of a name.
    default_size
        Size when neither ``size`` nor a matrix nor shards say one.
    given
        See :class:`Given`.

    Raises
    ------
    InvalidInputError
        On a misspelt option, which is named, and on everything that the stages below refuse.
    """
    known = Given.__optional_keys__
    wrong = [name for name in given if name not in known]
    if wrong:
        raise InvalidInputError(f"unknown option {', '.join(map(repr, wrong))}: use one of {', '.join(sorted(known))}")
    if isinstance(topology, Instance):
        if collective is not None or size is not None or given:
            raise InvalidInputError("an instance has its collective, size and options already: give it alone")
        return topology
    machine = as_topology(topology, given.get("capacities"))
    paths = given.get("paths")
    if paths is not None:
        machine = select_paths(machine, paths)
    if collective is None:
        raise InvalidInputError("a collective is missing: give its name, such as 'allgather'")
    demand = collective if isinstance(collective, Demand) else _demand(machine, collective, size, default_size, given)
    return Instance(rented(machine, demand.ranks, given.get("relay", True)), demand)


def _demand(
    machine: Topology, collective: str, size: float | str | None, default_size: float | None, given: Given
) -> Demand:
    matrix, shards = given.get("matrix"), given.get("shards")
    if size is None and matrix is None and shards is None:
        size = default_size
    return make_demand(
        machine, collective, size, ranks=given.get("ranks"), root=given.get("root"), matrix=matrix, shards=shards
    )
