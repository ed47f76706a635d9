"""Rings through all ranks: directed Hamiltonian cycles that share no link, cheapest hops first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from synth.schedule.paths import GpuPaths, Path

# Steps of the depth-first search for one ring before dearer hops are allowed.
MOST_STEPS = 20_000
MOST_RINGS = 24


@dataclass(frozen=True, slots=True)
class Ring:
    """Ranks in the order in which data goes round, and the links of each hop (the last one closes the ring)."""

    ranks: tuple[int, ...]
    paths: tuple[Path, ...]


def find_rings(finder: GpuPaths, ranks: Sequence[int], most: int = MOST_RINGS) -> list[Ring]:
    """Rings through the ranks, one after the other over the links that are left.

    Parameters
    ----------
    finder
        Paths that pass no GPU.
    ranks
        Who is on each ring.
    most
        Rings to stop at.

    Returns
    -------
    list of Ring
        Empty when there is none over hops that pass no GPU.
    """
    used: set[int] = set()
    found: list[Ring] = []
    while len(found) < most:
        ring = _back(finder, found[-1], used) if len(found) % 2 else None
        ring = ring or _search(finder, ranks, used)
        if ring is None:
            break
        found.append(ring)
        used.update(link for path in ring.paths for link in path)
    return found


def _back(finder: GpuPaths, ring: Ring, used: set[int]) -> Ring | None:
    """The same ring the other way round."""
    order = (ring.ranks[0], *reversed(ring.ranks[1:]))
    paths = [_free(finder, a, b, used) for a, b in zip(order, (*order[1:], order[0]), strict=True)]
    return Ring(order, tuple(p for p in paths if p)) if all(paths) else None


def _free(finder: GpuPaths, src: int, dst: int, used: set[int]) -> Path | None:
    gpus = finder.topology.gpus
    return next((p for p in finder.between(gpus[src], gpus[dst]) if used.isdisjoint(p)), None)


def _search(finder: GpuPaths, ranks: Sequence[int], used: set[int]) -> Ring | None:
    """A ring over the cheapest hops that give one."""
    hops = {
        (a, b): (sum(finder.cost[link] for link in path), path)
        for a in ranks
        for b in ranks
        if a != b and (path := _free(finder, a, b, used))
    }
    for level in sorted({round(cost, 15) for cost, _ in hops.values()}):
        near: dict[int, list[int]] = {a: [] for a in ranks}
        for (a, b), (cost, _) in hops.items():
            if cost <= level * (1 + 1e-9):
                near[a].append(b)
        if len(ranks) > 1 and all(near.values()):
            order = _cycle(ranks, near, {pair: cost for pair, (cost, _) in hops.items()})
            if order is not None:
                pairs = zip(order, (*order[1:], order[0]), strict=True)
                return Ring(order, tuple(hops[pair][1] for pair in pairs))
    return None


def _cycle(
    ranks: Sequence[int], near: dict[int, list[int]], cost: dict[tuple[int, int], float]
) -> tuple[int, ...] | None:
    """Depth first, cheapest hop first, then the rank with the fewest ways on (Warnsdorff), then the next rank."""
    n, first = len(ranks), ranks[0]
    order, seen = [first], {first}
    stack = [iter(_sorted(first, near, seen, cost, n))]
    for _ in range(MOST_STEPS):
        if not stack:
            return None
        here = next(stack[-1], None)
        if here is None:
            stack.pop()
            seen.discard(order.pop())
            continue
        order.append(here)
        seen.add(here)
        if len(order) == n and first in near[here]:
            return tuple(order)
        stack.append(iter(_sorted(here, near, seen, cost, n)))
    return None


def _sorted(
    here: int, near: dict[int, list[int]], seen: set[int], cost: dict[tuple[int, int], float], n: int
) -> list[int]:
    ways = {b: sum(c not in seen for c in near[b]) for b in near[here] if b not in seen}
    return sorted(ways, key=lambda b: (round(cost[here, b], 15), ways[b], (b - here) % n))
