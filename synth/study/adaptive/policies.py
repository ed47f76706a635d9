"""Who gets the next chunk: fixed splits (equal, LP), the LP re-solved at every change, and adaptive windows."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from synth.ground.arrays import Floats
from synth.study.adaptive.engine import Lane
from synth.study.paths import PathSet
from synth.study.sharing import best_rates


def whole_chunks(shares: Sequence[float] | Floats, size: int, chunk: int) -> list[int]:
    """Bytes per path in whole chunks (but for the last one) so that the path that takes longest is done first.

    Each chunk goes where it ends earliest, which is optimal for equal chunks on paths of given rates.
    """
    out = [0] * len(shares)
    heap = [(chunk / share, k) for k, share in enumerate(shares) if share > 1e-9 * max(shares)]
    heapq.heapify(heap)
    while size > 0 and heap:
        _, k = heap[0]
        part = min(chunk, size)
        out[k] += part
        size -= part
        heapq.heapreplace(heap, ((out[k] + chunk) / shares[k], k))
    return out


class FixedSplit:
    """Each path has its bytes from the start, in proportion to ``shares``, and is paced by them."""

    primary: npt.NDArray[np.bool_] | None = None

    def __init__(self, name: str, shares: Floats, size: int, chunk: int) -> None:
        self.name, self.chunk = name, chunk
        self.stock = whole_chunks(shares, size, chunk)
        # Paced: where paths share a link, each gets at least what the split gives it.
        self.weights = np.where(np.array(self.stock) > 0, shares, 0.0)

    def next_chunk(self, lanes: list[Lane]) -> tuple[int, int] | None:
        """The first path with bytes left and room."""
        for k, lane in enumerate(lanes):
            part = min(self.chunk, self.stock[k])
            if part and lane.room(part):
                self.stock[k] -= part
                return k, part
        return None

    def capacity_changed(self, lanes: list[Lane], capacity: Floats) -> None:
        """A fixed split does not move."""


class ResolvedSplit(FixedSplit):
    """The LP solved again at every change of capacities, for the bytes that are not yet handed over."""

    def __init__(self, name: str, paths: PathSet, size: int, chunk: int) -> None:
        self.uses = paths.uses
        super().__init__(name, np.ones(len(paths.paths)), size, chunk)
        self.waiting = size

    def next_chunk(self, lanes: list[Lane]) -> tuple[int, int] | None:
        """As for a fixed split."""
        given = super().next_chunk(lanes)
        if given is not None:
            self.waiting -= given[1]
        return given

    def capacity_changed(self, lanes: list[Lane], capacity: Floats) -> None:
        """Split anew so that all paths, with what they still hold, end together."""
        rates = best_rates(self.uses, capacity)
        held = np.array([lane.backlog() for lane in lanes])
        # A path that the new split does not want any more still has to send what it holds, and soon.
        self.weights = np.where(rates > 1e-9 * rates.max(), rates, rates.max())
        self.stock = whole_chunks(_fill(rates, held, self.waiting), self.waiting, self.chunk)


def _fill(rates: Floats, held: Floats, size: float) -> Floats:
    """Bytes to add to each path so that (held + added) / rate is level, as far as nothing is taken back."""
    used = rates > 1e-9 * rates.max()
    while True:
        level = (size + held[used].sum()) / rates[used].sum()
        added = np.where(used, rates * level - held, 0.0)
        if size <= 0 or (added >= 0).all():
            return np.maximum(added, 0.0)
        used = used & (added > 0)


class Adaptive:
    """Windows that pull: the path that drains first takes the next chunk.

    The primary window is filled first, and primary paths are served first where they share a link with others, so
    they never starve. The secondary window is filled with what is left, opportunistically: a secondary path takes a
    chunk only when it expects to deliver it before the other paths could have sent everything that is left. Nothing
    here looks at capacities: rates are measured.
    """

    def __init__(
        self,
        name: str,
        paths: PathSet,
        primary: npt.NDArray[np.bool_],
        size: int,
        chunk: int,
        secondary: bool = True,
    ) -> None:
        self.name, self.chunk, self.left = name, chunk, size
        self.primary: npt.NDArray[np.bool_] | None = primary
        self.first = [k for k in range(len(primary)) if primary[k]]
        self.second = [k for k in range(len(primary)) if secondary and not primary[k]]
        self.latency = [path.latency for path in paths.paths]
        self.weights = np.ones(len(primary))

    def next_chunk(self, lanes: list[Lane]) -> tuple[int, int] | None:
        """The primary path that drains first, else the secondary one that would deliver first, if that is in time."""
        part = min(self.chunk, self.left)
        if not part:
            return None
        rates = [lane.rate for lane in lanes]
        delivery = [
            (lane.backlog() + part) / rate + late for lane, rate, late in zip(lanes, rates, self.latency, strict=True)
        ]
        for group in (self.first, self.second):
            open_ones = [k for k in group if lanes[k].room(part)]
            if group is self.second:
                open_ones = [k for k in open_ones if delivery[k] <= self._others(k, lanes, rates)]
            if open_ones:
                self.left -= part
                return min(open_ones, key=lambda k: (delivery[k], k)), part
        return None

    def _others(self, path: int, lanes: list[Lane], rates: list[float]) -> float:
        """Seconds in which the other paths would deliver all that is left."""
        others = [k for k in range(len(lanes)) if k != path]
        waiting = self.left + sum(lanes[k].backlog() for k in others)
        return waiting / sum(rates[k] for k in others) + min(self.latency[k] for k in others)

    def capacity_changed(self, lanes: list[Lane], capacity: Floats) -> None:
        """Not seen: the windows notice by themselves."""
