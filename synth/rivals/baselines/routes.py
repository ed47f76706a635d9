"""Trees over ranks laid on links: every edge takes a cheapest path, and who is passed on the way has the data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from synth.errors import InfeasibleError
from synth.formulation.flow.network import Hop, split_path
from synth.rivals.baselines.trees import Edge
from synth.schedule.paths import GpuPaths, Path

Stepped = tuple[Hop, int]


@dataclass
class PathChooser:
    """Gives each edge one of its cheapest paths, the least used one; the same edge of a variant keeps its path.

    Attributes
    ----------
    finder
        Paths, through relaying GPUs too.
    fixed
        Paths of a variant that are known already (those of a ring).
    """

    finder: GpuPaths
    fixed: dict[tuple[int, int, int], Path] = field(default_factory=dict)
    used: dict[int, int] = field(default_factory=dict)

    def path(self, variant: int, src: int, dst: int) -> Path:
        """Links from one rank to another.

        Raises
        ------
        InfeasibleError
            When there is no path.
        """
        known = self.fixed.get((variant, src, dst))
        if known is not None:
            return known
        topology = self.finder.topology
        ways = self.finder.between(topology.gpus[src], topology.gpus[dst])
        if not ways:
            names = topology.gpu_name
            raise InfeasibleError(f"no path from {names(src)!r} to {names(dst)!r} in topology {topology.name!r}")
        links = topology.links
        best = min(ways, key=lambda way: max((self.used.get(k, 0) + 1) / links[k].capacity for k in way))
        for link in best:
            self.used[link] = self.used.get(link, 0) + 1
        self.fixed[variant, src, dst] = best
        return best

    def pieces(self, variant: int, src: int, dst: int) -> tuple[Hop, ...]:
        """The path as hops between GPUs."""
        return split_path(self.finder.topology, self.path(variant, src, dst))


def out_tree(chooser: PathChooser, variant: int, root: int, edges: Sequence[Edge], members: set[int]) -> list[Stepped]:
    """Hops of an out-tree, parents before children. ``members`` are GPU nodes that keep what passes them."""
    have, out = {chooser.finder.topology.gpus[root]}, []
    for a, b, step in edges:
        hops = chooser.pieces(variant, a, b)
        # What lies before the last member that has the data already is not needed.
        begin = max((k for k, hop in enumerate(hops) if hop.src in have), default=0)
        if hops[-1].dst in have:
            continue
        out += [(hop, step) for hop in hops[begin:]]
        have.update(hop.dst for hop in hops[begin:] if hop.dst in members)
    return out


def in_tree(chooser: PathChooser, variant: int, root: int, edges: Sequence[Edge], members: set[int]) -> list[Stepped]:
    """Hops of an in-tree, children before parents; ``edges`` are those of the out-tree, and are turned round."""
    last = max((step for _, _, step in edges), default=0)
    inside, groups = {chooser.finder.topology.gpus[root]}, []
    for a, b, step in edges:
        hops = chooser.pieces(variant, b, a)
        if hops[0].src in inside:
            continue
        # The first member on the way that is in the tree already adds it to its own.
        end = next(k for k, hop in enumerate(hops) if hop.dst in inside) + 1
        groups.append([(hop, last - step) for hop in hops[:end]])
        inside.update(hop.src for hop in hops[:end] if hop.src in members)
    return [piece for group in reversed(groups) for piece in group]


def unicast(chooser: PathChooser, edges: Sequence[Edge]) -> list[Stepped]:
    """Hops of a path, without the loops that cheapest paths of its edges may make together."""
    out: list[Stepped] = []
    for a, b, step in edges:
        for hop in chooser.pieces(0, a, b):
            seen = next((k for k, (before, _) in enumerate(out) if before.src == hop.dst), None)
            if seen is not None:
                del out[seen:]
            else:
                out.append((hop, step))
    return out
