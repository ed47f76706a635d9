"""The step MILP in PuLP: which chunk is sent over which hop in which step, and how many rounds each step takes.

The k-synchronous model of SCCL (Cai et al., PPoPP 2021, section 3): in a step of r rounds a link sends at most r times
its chunks per round, and only what its source held when the step began. Multicast has one binary variable per chunk,
hop and step. The chunks of an all-to-all are never copied, so whole flows per source say the same with fewer variables
(a whole flow from one source splits into whole paths).

Both have a relaxation with fractional sends and whole rounds. It is convex for every choice of rounds, so its average
over automorphisms and over the chunks of a root is as good: one chunk per orbit of roots stays. A multicast's is
much stronger with one flow per goal that the sends must leave room for (the flow formulation of Steiner arborescences,
Wong, Mathematical Programming 28, 1984, in the network expanded by steps).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import pulp

from synth.formulation.steps.network import StepNetwork
from synth.formulation.steps.symmetry import Motion

Load = dict[tuple[int, int], dict[int, float]]  # (step, row) -> number of variable -> uses
Key = tuple[int, int, int, int]  # origin, chunk (-1: a flow), step from 0, hop


@dataclass(frozen=True, slots=True)
class Origin:
    """A rank with something to send: ``chunks`` to every goal (multicast), or so many to each (unicast)."""

    root: int
    goals: tuple[tuple[int, int], ...]
    chunks: int


@dataclass(frozen=True)
class StepTask:
    """What has to be sent within how many steps.

    Attributes
    ----------
    network, origins, steps
        Instance; the goals of an origin are (rank, chunks).
    cast
        Whether a chunk is copied to all goals or belongs to one.
    lone
        Ranks that do not copy: relays on the way of a reduction, which do not add. They pass on as often as they
        receive.
    """

    network: StepNetwork
    origins: tuple[Origin, ...]
    steps: int
    cast: Literal["multicast", "unicast"]
    lone: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Move:
    """``count`` chunks of an origin over one hop in one step (from 0); ``chunk`` is -1 in a flow."""

    origin: int
    chunk: int
    step: int
    hop: int
    count: int


@dataclass(frozen=True)
class StepModel:
    """A built model: the PuLP problem and what its variables mean."""

    task: StepTask
    group: tuple[Motion, ...]
    problem: pulp.LpProblem
    rounds: tuple[pulp.LpVariable, ...]
    sends: dict[Key, pulp.LpVariable]

    def read_rounds(self) -> tuple[int, ...] | None:
        """Rounds per step, or None when the engine left no values."""
        values = [r.value() for r in self.rounds]
        return None if None in values else tuple(round(v or 0.0) for v in values)

    def read_moves(self) -> tuple[Move, ...]:
        """Sends, those of the other roots of an orbit included; not checked."""
        index = {origin.root: k for k, origin in enumerate(self.task.origins)}
        out = []
        for (o, chunk, step, hop), variable in self.sends.items():
            count = round(variable.value() or 0.0)
            if count > 0:
                root = self.task.origins[o].root
                out += [Move(index[g.ranks[root]], chunk, step, g.hops[hop], count) for g in self.group]
        return tuple(sorted(out, key=lambda m: (m.step, m.origin, m.chunk, m.hop)))


def step_model(
    task: StepTask,
    group: Sequence[Motion],
    *,
    fewest: int,
    most: int | None = None,
    relaxed: bool = False,
    flows: bool = False,
) -> StepModel:
    """Build ``min sum of rounds`` over the schedules of a task whose sends are equal on every orbit.

    Parameters
    ----------
    task
        Instance.
    group
        Automorphisms, the identity first; with the identity alone, all schedules.
    fewest, most
        Bounds on the sum of the rounds.
    relaxed
        Fractional sends. The optimum is then a lower bound for all schedules, whatever the group.
    flows
        One flow per goal on top of a multicast's sends, which makes the relaxation stronger and larger.

    Returns
    -------
    StepModel
        Variables ``r_step`` (whole, at least 1) and ``x_origin_chunk_step_hop``.
    """
    return _Builder(task, tuple(group), relaxed, flows).build(fewest, most)


class _Builder:
    def __init__(self, task: StepTask, group: tuple[Motion, ...], relaxed: bool, flows: bool) -> None:
        self.task, self.group, self.relaxed, self.flows = task, group, relaxed, flows
        self.problem = pulp.LpProblem("synth_steps", pulp.LpMinimize)
        self.rounds = [self.problem.add_variable(f"r_{s}", lowBound=1, cat="Integer") for s in range(task.steps)]
        self.sends: dict[Key, pulp.LpVariable] = {}
        self.load: Load = defaultdict(lambda: defaultdict(float))
        self.variables: list[pulp.LpVariable] = []

    def build(self, fewest: int, most: int | None) -> StepModel:
        total = pulp.lpSum(self.rounds)
        self.problem += total
        self.problem += total >= fewest, "fewest"
        if most is not None:
            self.problem += total <= most, "most"
        for number, origin in enumerate(self.task.origins):
            if origin.root == min(g.ranks[origin.root] for g in self.group):
                if self.task.cast == "multicast":
                    self._multicast(number, origin)
                else:
                    self._unicast(number, origin)
        self._capacity()
        return StepModel(self.task, self.group, self.problem, tuple(self.rounds), self.sends)

    def _variable(self, key: Key, most: int, weight: int) -> pulp.LpVariable:
        """A variable, entered into the load of what it and its images use."""
        name = "x_" + "_".join(str(max(part, 0)) for part in key)
        variable = self.problem.add_variable(name, 0, most, cat="Continuous" if self.relaxed else "Integer")
        self.sends[key] = variable
        number = len(self.variables)
        self.variables.append(variable)
        for g in self.group:
            for row, times in self.task.network.uses[g.hops[key[3]]]:
                self.load[key[2], row][number] += weight * times
        return variable

    def _useful(self, origin: Origin) -> Iterator[tuple[int, int]]:
        """(step, hop) that can carry something of an origin: it can be there by then, and still reach a goal."""
        network = self.task.network
        near = network.distances([origin.root])
        left = network.distances_to([rank for rank, _ in origin.goals])
        for hop, (src, dst) in enumerate(network.ends):
            if dst == origin.root or not (src == origin.root or network.relays[src]):
                continue
            for step in range(near[src], self.task.steps - left[dst]):
                yield step, hop

    def _multicast(self, number: int, origin: Origin) -> None:
        useful = list(self._useful(origin))
        members = {rank for rank, _ in origin.goals}
        before: pulp.LpAffineExpression | None = None
        for chunk in range(1 if self.relaxed else origin.chunks):
            weight = origin.chunks if self.relaxed else 1
            x = {(s, k): self._variable((number, chunk, s, k), self._most(k, members), weight) for s, k in useful}
            self._tree(x, origin.root, members)
            if self.flows:
                for goal in sorted(members):
                    self._flow(x, goal, f"f_{number}_{chunk}_{goal}")
            # Chunks of a root are alike: number them by how much they are sent in the first step.
            first = pulp.lpSum(v for (s, _), v in x.items() if s == 0)
            if before is not None:
                self.problem += before - first >= 0
            before = first

    def _most(self, hop: int, members: set[int]) -> int:
        """Copies of a chunk on one hop in one step: several only to a rank that does not copy."""
        return len(members) if self.task.network.ends[hop][1] in self.task.lone else 1

    def _tree(self, x: dict[tuple[int, int], pulp.LpVariable], root: int, members: set[int]) -> None:
        """Every member receives once, a relay at most once, and all pass on only what they received before."""
        network = self.task.network
        for rank in range(len(network.relays)):
            if rank == root:
                continue
            into = [(s, x[s, k]) for k in network.into[rank] for s in range(self.task.steps) if (s, k) in x]
            received = pulp.lpSum(v for _, v in into)
            out: dict[int, list[tuple[int, pulp.LpVariable]]] = defaultdict(list)
            for k in network.out_of[rank]:
                goal = -1 if rank in self.task.lone else network.ends[k][1]
                out[goal] += [(s, x[s, k]) for s in range(self.task.steps) if (s, k) in x]
            for goal, sent in out.items():
                copies = len(members) if goal in self.task.lone and rank not in self.task.lone else 1
                self._after(sent, into, copies)
            if rank in members:
                self.problem += received == 1
            elif rank in self.task.lone:
                self.problem += received == pulp.lpSum(v for sent in out.values() for _, v in sent)
            elif into:
                self.problem += received <= 1

    def _flow(self, x: dict[tuple[int, int], pulp.LpVariable], goal: int, name: str) -> None:
        """One unit from the root to a goal along what is sent."""
        ends = self.task.network.ends
        f: dict[tuple[int, int], pulp.LpVariable] = {}
        for (step, hop), sent in x.items():
            if ends[hop][0] != goal:
                f[step, hop] = self.problem.add_variable(f"{name}_{step}_{hop}", 0, 1)
                self.problem += f[step, hop] - sent <= 0
        for rank in sorted({ends[hop][1] for _, hop in f}):
            into = [(s, v) for (s, k), v in f.items() if ends[k][1] == rank]
            out = [(s, v) for (s, k), v in f.items() if ends[k][0] == rank]
            self._after(out, into)
            kept = pulp.lpSum(v for _, v in into) - pulp.lpSum(v for _, v in out)
            self.problem += kept == (1 if rank == goal else 0)

    def _after(
        self, sent: list[tuple[int, pulp.LpVariable]], into: list[tuple[int, pulp.LpVariable]], copies: int = 1
    ) -> None:
        """Up to each step, no more is sent than so many copies of what was received before it."""
        for step in sorted({s for s, _ in sent}):
            gone = pulp.lpSum(v for s, v in sent if s <= step)
            self.problem += gone - copies * pulp.lpSum(v for s, v in into if s < step) <= 0

    def _unicast(self, number: int, origin: Origin) -> None:
        network = self.task.network
        x = {(s, k): self._variable((number, -1, s, k), origin.chunks, 1) for s, k in self._useful(origin)}
        need = dict(origin.goals)
        for rank in range(len(network.relays)):
            if rank == origin.root:
                continue
            into = [(s, v) for (s, k), v in x.items() if network.ends[k][1] == rank]
            sent = [(s, v) for (s, k), v in x.items() if network.ends[k][0] == rank]
            self._after(sent, into)
            if into or need.get(rank):
                kept = pulp.lpSum(v for _, v in into) - pulp.lpSum(v for _, v in sent)
                self.problem += kept == need.get(rank, 0)

    def _capacity(self) -> None:
        """Each row in each step; rows of an orbit give the same inequality, which is entered once."""
        known: set[tuple[int, float, frozenset[tuple[int, float]]]] = set()
        for (step, row), terms in sorted(self.load.items()):
            room = self.task.network.room[row]
            key = (step, room, frozenset(terms.items()))
            if key in known:
                continue
            known.add(key)
            used = pulp.lpSum(times * self.variables[v] for v, times in terms.items())
            self.problem += used - room * self.rounds[step] <= 0
