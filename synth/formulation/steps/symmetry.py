"""Automorphisms for the step MILP: permutations of ranks and hops in which only the identity fixes a member."""

from __future__ import annotations

from dataclasses import dataclass

from synth.demand.model import Demand
from synth.formulation.flow.symmetry import find_symmetry
from synth.formulation.steps.network import StepNetwork


@dataclass(frozen=True, slots=True)
class Motion:
    """One automorphism: where each rank and each hop goes."""

    ranks: tuple[int, ...]
    hops: tuple[int, ...]


def motions(network: StepNetwork, demand: Demand) -> tuple[Motion, ...]:
    """A group of automorphisms of machine and demand, the identity first; only the identity fixes a member.

    Parameters
    ----------
    network
        As the machine is, not reversed; the motions hold for the reversed one as well.
    demand
        All-reduce has no roots of its own here: its halves are asked for.
    """
    group = find_symmetry(network.bundles.bundled, demand, free=True)
    index = {(hop.src, hop.dst, frozenset(hop.links)): k for k, hop in enumerate(network.hops)}
    found = []
    for element, nodes in enumerate(group.nodes.tolist()):
        moved = (frozenset(group.moved_path(element, hop.links)) for hop in network.hops)
        hops = (index[nodes[hop.src], nodes[hop.dst], links] for hop, links in zip(network.hops, moved, strict=True))
        found.append(Motion(tuple(group.ranks[element].tolist()), tuple(hops)))
    return tuple(found)
