"""Adaptive splitting of one transfer over several paths while capacities change, against fixed and re-solved splits.

An offline study: synth plans, it does not run anything. The two windows follow what MPCCS (EuroSys'26) says of its
runtime in public: a primary window that never starves, and a secondary one that is filled opportunistically, with the
split following the paths' bandwidth. The estimates and rules here are our own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from synth.errors import InvalidInputError
from synth.ground.units import parse_size
from synth.study.adaptive.capacity import Change, make_trace
from synth.study.adaptive.engine import Policy, simulate
from synth.study.adaptive.policies import Adaptive, FixedSplit, ResolvedSplit
from synth.study.adaptive.report import ADAPTIVE, ALONE, EQUAL, RESOLVED, STATIC, Comparison
from synth.study.paths import PathSet
from synth.study.sharing import best_rates

#: Chunks of one transfer; more would take minutes.
MOST_CHUNKS = 100_000


def compare_splits(
    paths: PathSet,
    size: int | str,
    *,
    chunk: int | str = 2**20,
    changes: Sequence[Change] = (),
    primary: Sequence[str] | None = None,
    primary_window: int | None = None,
    secondary_window: int | None = None,
    progress: Callable[[str], None] | None = None,
) -> Comparison:
    """Simulate one transfer under all policies.

    Parameters
    ----------
    paths
        See :func:`synth.study.find_paths`.
    size, chunk
        Bytes of the transfer and of one chunk, or texts such as ``"1 GB"``.
    changes
        Capacities that change during the run (see :class:`Change` and :func:`drift`).
    primary
        Kinds of the primary window's paths; default: the scale-up kinds, or without any the kind of the widest path.
    primary_window, secondary_window
        Bytes that a path may have outstanding; default: two chunks and what is under way for one latency.
    progress
        Called with the name of each policy before it runs.

    Returns
    -------
    Comparison

    Raises
    ------
    InvalidInputError
        Sizes below 1, too many chunks, no primary path, unknown resources in ``changes``.
    """
    first = _primary(paths, primary)
    size, chunk = parse_size(size), parse_size(chunk)
    if size < 1 or chunk < 1 or size / chunk > MOST_CHUNKS:
        raise InvalidInputError(
            f"size {size} and chunk {chunk} must be 1 byte or more, with {MOST_CHUNKS} chunks at most"
        )
    if any(window is not None and window < 1 for window in (primary_window, secondary_window)):
        raise InvalidInputError("a window must be 1 byte or more; one chunk may always be under way")
    trace = make_trace(paths.network, changes)
    asked = [primary_window if is_first else secondary_window for is_first in first]
    windows = tuple(
        2 * chunk + int(np.ceil(path.bandwidth * path.latency)) if given is None else given
        for path, given in zip(paths.paths, asked, strict=True)
    )
    static = best_rates(paths.uses, paths.network.capacity)
    policies: list[Policy] = [
        Adaptive(ALONE, paths, first, size, chunk, secondary=False),
        FixedSplit(EQUAL, np.ones(len(first)), size, chunk),
        FixedSplit(STATIC, static, size, chunk),
        ResolvedSplit(RESOLVED, paths, size, chunk),
        Adaptive(ADAPTIVE, paths, first, size, chunk),
    ]
    runs = []
    for policy in policies:
        if progress is not None:
            progress(policy.name)
        runs.append(simulate(paths, trace, windows, policy))
    return Comparison(paths, tuple(map(bool, first)), size, chunk, trace, tuple(runs))


def _primary(paths: PathSet, kinds: Sequence[str] | None) -> npt.NDArray[np.bool_]:
    """Which paths belong to the primary window."""
    if kinds is None:
        widest = max(paths.paths, key=lambda path: path.bandwidth)
        kinds = [path.kind for path in paths.paths if path.scale_up] or [widest.kind]
    found = np.array([path.kind in kinds for path in paths.paths])
    if not found.any():
        here = ", ".join(dict.fromkeys(path.kind for path in paths.paths))
        raise InvalidInputError(f"no path of the primary kinds {', '.join(kinds)}; there are {here}")
    return found
