"""From the moves of a step model to sends over physical links."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from synth.formulation.steps.model import Move, StepTask
from synth.formulation.steps.network import StepNetwork
from synth.solver.steps.solution import StepSend

Piece = tuple[int, int, int, int]  # step, shard, chunk, hop


def pieces_of(task: StepTask, moves: Sequence[Move], shards: Mapping[tuple[int, int | None], int]) -> list[Piece]:
    """Moves as single chunks of shards.

    Parameters
    ----------
    task, moves
        A model's task and what was read from it.
    shards
        Shard of (root, None) for multicast or (root, destination) for unicast.
    """
    if task.cast == "unicast":
        return [piece for number in range(len(task.origins)) for piece in _paths(task, moves, number, shards)]
    trees: dict[tuple[int, int], list[Move]] = defaultdict(list)
    for move in moves:
        trees[move.origin, move.chunk].append(move)
    out = []
    for (number, chunk), tree in sorted(trees.items()):
        origin = task.origins[number]
        shard = shards[origin.root, None]
        members = {rank for rank, _ in origin.goals}
        for move in _pruned(task.network, tree, members):
            out += [(move.step, shard, chunk, move.hop)] * move.count
    return out


def _pruned(network: StepNetwork, tree: list[Move], members: set[int]) -> list[Move]:
    """A tree without branches that end at a rank that wants nothing."""
    while True:
        senders = {network.ends[m.hop][0] for m in tree}
        kept = [m for m in tree if (dst := network.ends[m.hop][1]) in members or dst in senders]
        if len(kept) == len(tree):
            return kept
        tree = kept


def _paths(
    task: StepTask, moves: Sequence[Move], number: int, shards: Mapping[tuple[int, int | None], int]
) -> list[Piece]:
    """Split a whole flow from one source into paths: every rank sends on first what it received first."""
    origin, ends = task.origins[number], task.network.ends
    at: dict[int, list[list[tuple[int, int]]]] = defaultdict(list)  # rank -> paths of (step, hop) that ended there
    for step in range(task.steps):
        arrived: list[tuple[int, list[tuple[int, int]]]] = []
        for move in moves:
            if move.origin == number and move.step == step:
                src, dst = ends[move.hop]
                for _ in range(move.count):
                    path = [] if src == origin.root else at[src].pop(0)
                    arrived.append((dst, _without_loop([*path, (step, move.hop)], dst, ends)))
        for dst, path in arrived:
            at[dst].append(path)
    return [
        (step, shards[origin.root, goal], chunk, hop)
        for goal, count in origin.goals
        for chunk, path in enumerate(at[goal][:count])
        for step, hop in path
    ]


def _without_loop(path: list[tuple[int, int]], end: int, ends: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """A path cut where it first came to its end: from there on it could have waited."""
    first = next(k for k, (_, hop) in enumerate(path) if ends[hop][1] == end)
    return path[: first + 1]


def placed(
    network: StepNetwork, pieces: Iterable[Piece], rounds: Sequence[int], *, backwards: bool, first_step: int = 0
) -> list[StepSend]:
    """Sends over physical links: each goes to the strand of a bundle that is least full in its step.

    Parameters
    ----------
    network
        On which the pieces were found; for a reduction (``backwards``) the reversed one.
    pieces
        What is sent.
    rounds
        Rounds of each step, in the order in which the pieces count their steps.
    backwards
        The steps run from the last to the first, every hop towards its source, and what arrives is added by members.
    first_step
        Number of the first step.
    """
    topology, strands = network.topology, network.bundles.strands
    load: dict[tuple[int, int], int] = defaultdict(int)
    out = []
    for step, shard, chunk, hop in sorted(pieces):
        links = []
        for link in network.hops[hop].links:
            best = min(strands[link], key=lambda k: ((load[step, k] + 1) / topology.links[k].capacity, k))
            load[step, best] += 1
            links.append(best)
        src, dst = network.ends[hop][::-1] if backwards else network.ends[hop]
        when = len(rounds) - 1 - step if backwards else step
        out.append(StepSend(first_step + when, shard, chunk, src, dst, tuple(links), backwards))
    return sorted(out)
