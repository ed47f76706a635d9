"""From which message size on does an extra path pay? Below it, opening the path costs more time than it saves.

Alpha-beta model of parallel paths: a path (or a class of links) p delivers nothing before its fixed cost f_p = opening
cost + latency, and then at its bandwidth; all opened paths run at once and the transfer ends when the last one does.
With paths sorted by fixed cost this is water-filling: after T seconds the paths with f_p <= T have delivered

    D(T) = integral over t from 0 to T of R({p : f_p <= t})

bytes, where R(A) is the largest total rate of the paths in A (an LP, for paths that share links). T(S) is the inverse
of D. An extra path pays from S_p = D(f_p) on, if it adds anything to R there. For paths that share nothing that is

    S_p = sum over cheaper q of b_q (f_p - f_q),      T(S) = (S + sum of b_q f_q) / sum of b_q over the q in use.

What shares a link is compared at equal delivery times, which is exact where the fixed costs are opening costs and
latencies are small beside them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from synth.errors import InvalidInputError
from synth.ground.arrays import Floats
from synth.ground.text import aligned, html_table
from synth.ground.units import format_bandwidth, format_size, format_time
from synth.study.adaptive.fluid import fluid_time
from synth.study.paths import PATH_KINDS, PathSet
from synth.study.sharing import best_rates

if TYPE_CHECKING:
    import pandas as pd

FORMAT = "synth-threshold/1"
#: Seconds to open one more path of a kind: stand-ins to be replaced by measurements of one's own. Hop latencies of
#: NCCL's Simple protocol on a ring (NVIDIA/nccl src/graph/tuning.cc: NVLink 3.4, PCI 5.7, NET 14 us); a staged copy
#: crosses PCIe twice; the scale-up network is open anyway.
OPENING: Mapping[str, float] = MappingProxyType(
    {"direct": 0.0, "switch": 0.0, "scale-up": 0.0, "relay": 3.4e-6, "pcie": 5.7e-6, "host": 11.4e-6, "nic": 14e-6}
)
#: Relative increase of a rate that counts as one.
GAIN = 1e-6
Rate = Callable[[frozenset[str]], float]


@dataclass(frozen=True, slots=True)
class Option:
    """A path (or class of links) that may be opened; ``fixed`` is opening cost + latency in seconds."""

    name: str
    fixed: float


@dataclass(frozen=True)
class Thresholds:
    """Sizes from which paths pay.

    Attributes
    ----------
    what
        The transfer or collective, for titles.
    options
        Cheapest first.
    rate
        Largest total rate (bytes/second) of a set of names; never smaller for a larger set.
    starts
        Per option, the smallest size in bytes above which it is used; None: never, it adds nothing.
    """

    what: str
    options: tuple[Option, ...]
    rate: Rate
    starts: Mapping[str, float | None]

    @cached_property
    def fixed(self) -> Mapping[str, float]:
        """Fixed cost of each option, seconds."""
        return {option.name: option.fixed for option in self.options}

    def used(self, size: float) -> tuple[str, ...]:
        """What the rule opens for a message of ``size`` bytes, cheapest first."""
        return tuple(name for name, start in self.starts.items() if start is not None and start < size)

    def time(self, size: float, names: Collection[str] | None = None) -> float:
        """Seconds for ``size`` bytes over what the rule opens, or over ``names`` as they become available.

        Raises
        ------
        InvalidInputError
            When the named paths carry nothing.
        """
        chosen = self.used(size) if names is None else tuple(names)
        if size <= 0:
            return 0.0
        steps, rates = delivery(self.fixed, chosen, self.rate)
        if not rates[-1] > 0:
            raise InvalidInputError(
                f"{self.what}: nothing can be delivered over {', '.join(chosen) or 'no path at all'}"
            )
        return fluid_time(steps, rates, size)

    def opened_time(self, size: float, names: Collection[str]) -> float:
        """Seconds for ``size`` bytes when all of ``names`` are opened and waited for, whether that pays or not."""
        return max(self.time(size, names), *(self.fixed[name] for name in names))

    @property
    def table(self) -> pd.DataFrame:
        """One row per option, cheapest first: fixed_us, from_bytes (NaN: never) and GBps of all up to this one."""
        import pandas as pd

        return pd.DataFrame(
            [
                {
                    "path": option.name,
                    "fixed_us": option.fixed * 1e6,
                    "from_bytes": np.nan if (start := self.starts[option.name]) is None else start,
                    "GBps": self._up_to(k) / 1e9,
                }
                for k, option in enumerate(self.options)
            ]
        ).set_index("path")

    def _up_to(self, k: int) -> float:
        return self.rate(frozenset(option.name for option in self.options[: k + 1]))

    def facts(self) -> list[tuple[str, str]]:
        """What a summary says, as (label, text)."""
        out = [("what", self.what)]
        for k, option in enumerate(self.options):
            start = self.starts[option.name]
            pays = (
                "never: adds nothing to the cheaper ones" if start is None else f"from {format_size(round(start))} on"
            )
            fixed = f"{format_time(option.fixed)} to open and reach" if option.fixed else "no fixed cost"
            out.append((option.name, f"{pays}; {fixed}; together {format_bandwidth(self._up_to(k))}"))
        return out

    def summary(self) -> str:
        """A few aligned lines for a person."""
        return aligned(self.facts())

    def _repr_html_(self) -> str:
        return html_table(self.facts())

    def to_dict(self) -> dict[str, Any]:
        """The ``synth-threshold/1`` object of the CLI's ``--json``; ``from_bytes`` null means never."""
        return {
            "format": FORMAT,
            "what": self.what,
            "paths": [
                {
                    "name": option.name,
                    "fixed_us": option.fixed * 1e6,
                    "from_bytes": self.starts[option.name],
                    "together_GBps": self._up_to(k) / 1e9,
                }
                for k, option in enumerate(self.options)
            ],
        }


def delivery(fixed: Mapping[str, float], names: Sequence[str], rate: Rate) -> tuple[Floats, Floats]:
    """(starts, bytes/second): total rate of ``names`` as they become available, from time 0 on."""
    times = sorted({0.0, *(fixed[name] for name in names)})
    rates = [rate(frozenset(name for name in names if fixed[name] <= t)) for t in times]
    return np.array(times), np.array(rates)


def thresholds(what: str, options: Sequence[Option], rate: Rate) -> Thresholds:
    """Sizes from which each option pays.

    At every fixed cost, in order, the options open so far are those that raise the total rate; of several that do so
    only together or in each other's place, the cheapest, then the first given.

    Parameters
    ----------
    what
        For titles and messages.
    options
        In order of preference.
    rate
        Largest total rate of a set of names, bytes/second; 0 for what carries nothing.

    Returns
    -------
    Thresholds
        ``starts[name]`` never decreases along ``options`` sorted by fixed cost, as far as it is not None.
    """
    known: dict[frozenset[str], float] = {}

    def total(names: Collection[str]) -> float:
        key = frozenset(names)
        if key not in known:
            known[key] = rate(key) if key else 0.0
        return known[key]

    order = sorted(options, key=lambda option: option.fixed)
    starts: dict[str, float | None] = {option.name: None for option in order}
    kept: list[str] = []
    delivered, before = 0.0, 0.0
    for t in sorted({option.fixed for option in order}):
        delivered += total(kept) * (t - before)
        before = t
        new = [option.name for option in order if option.fixed <= t and option.name not in kept]
        goal = total([*kept, *new])
        if goal <= total(kept) * (1 + GAIN):
            continue
        for name in reversed(new):
            rest = [other for other in new if other != name]
            if total([*kept, *rest]) >= goal * (1 - GAIN):
                new = rest
        kept += new
        starts.update(dict.fromkeys(new, delivered))
    return Thresholds(what, tuple(order), total, starts)


def opening_costs(given: Mapping[str, float] | None) -> dict[str, float]:
    """Opening cost per kind, seconds: ``OPENING`` with what is given in its place.

    Raises
    ------
    InvalidInputError
        Unknown kinds, negative or infinite costs.
    """
    out = {**OPENING, **(given or {})}
    faults = [f"unknown path kind {kind!r}: use {', '.join(OPENING)}" for kind in out if kind not in OPENING]
    faults += [f"opening cost of {k}: {v} s must be finite, 0 or more" for k, v in out.items() if not 0 <= v < np.inf]
    if faults:
        raise InvalidInputError(faults)
    return out


def pair_thresholds(paths: PathSet, opening: Mapping[str, float] | None = None) -> Thresholds:
    """Sizes from which each path between two GPUs pays.

    Parameters
    ----------
    paths
        See :func:`synth.study.find_paths`.
    opening
        Seconds to open a path, per kind; others as in ``OPENING``.

    Returns
    -------
    Thresholds
        One option per path, by its label.
    """
    cost = opening_costs(opening)
    index = {name: k for k, name in enumerate(paths.labels)}
    ranked = sorted(index, key=lambda name: PATH_KINDS.index(paths.paths[index[name]].kind))
    options = [Option(name, cost[(path := paths.paths[index[name]]).kind] + path.latency) for name in ranked]

    def rate(names: frozenset[str]) -> float:
        chosen = sorted(index[name] for name in names)
        return float(best_rates(paths.uses[:, chosen], paths.network.capacity).sum())

    machine = paths.topology
    ends = f"{machine.gpu_name(paths.src)} to {machine.gpu_name(paths.dst)}"
    return thresholds(f"transfer from {ends} of {machine.name}", options, rate)
