"""Replay of a step schedule, independent of the MILP: what every rank holds after every step.

It reads only the topology, the demand and the sends. A chunk on a rank is the set of ranks whose contribution is in it;
a copy replaces it, a reduction joins two sets that must not overlap. Partial sums wait at a rank outside of the
collective, which passes on first what came first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from synth.demand.model import Demand
from synth.solver.steps.solution import StepSend, StepSolution
from synth.topology.model import Topology

Place = tuple[int, int, int]  # rank, shard, chunk
Held = dict[Place, frozenset[int]]
_TOLERANCE = 1e-9


def step_faults(solution: StepSolution) -> list[str]:
    """Everything that is wrong with a step schedule; empty when it does what it claims.

    Checked: hops are paths of links through no third GPU; GPUs that do not relay forward nothing; no link or resource
    serves more chunks in a step than its rounds allow; nothing is sent before it is held; no contribution is added
    twice; at the end every chunk is where the demand wants it, with all its contributions.
    """
    topology, demand = solution.topology, solution.demand
    faults = [fault for send in solution.sends for fault in _hop_faults(topology, send)]
    faults += [
        f"{_name(send)}: there are steps 1 to {solution.steps} and {_chunks_of(solution, send.shard)} such chunks"
        for send in solution.sends
        if not (0 <= send.step < solution.steps and 0 <= send.chunk < _chunks_of(solution, send.shard))
    ]
    faults += [f"step {k + 1} has {r} rounds" for k, r in enumerate(solution.rounds_per_step) if r < 1]
    if faults:
        return faults
    return [*_load_faults(solution), *_replay_faults(solution, demand)]


def _chunks_of(solution: StepSolution, shard: int) -> int:
    return solution.shard_chunks[shard] if 0 <= shard < len(solution.shard_chunks) else 0


def _name(send: StepSend) -> str:
    verb = "adds" if send.reduce else "sends"
    return f"step {send.step + 1}: rank {send.src} {verb} shard {send.shard} chunk {send.chunk} to rank {send.dst}"


def _hop_faults(topology: Topology, send: StepSend) -> list[str]:
    """Whether the links lead from the source to the destination and through no other GPU."""
    node = topology.gpus[send.src] if 0 <= send.src < len(topology.gpus) else -1
    for position, link in enumerate(send.links):
        src, dst = topology.ends[link]
        if src != node or (position and topology.nodes[src].kind == "gpu"):
            return [f"{_name(send)}: link {topology.links[link].id!r} does not continue the way"]
        node = dst
    if not send.links or topology.rank_of.get(node) != send.dst:
        return [f"{_name(send)}: its links do not end there"]
    return []


def _load_faults(solution: StepSolution) -> list[str]:
    topology = solution.topology
    room = {link.id: link.capacity / solution.unit for link in topology.links}
    room |= {pool.id: pool.bandwidth / solution.unit for pool in topology.resources}
    shared: dict[str, list[tuple[str, float]]] = {link.id: [(link.id, 1.0)] for link in topology.links}
    for pool in topology.resources:
        for name, times in pool.uses:
            shared[name].append((pool.id, times))
    load: Counter[tuple[int, str]] = Counter()
    for send in solution.sends:
        for link in send.links:
            for row, times in shared[topology.links[link].id]:
                load[send.step, row] += times  # type: ignore[assignment]
    faults = []
    for (step, row), used in sorted(load.items()):
        most = solution.rounds_per_step[step] * room[row]
        if used > most * (1 + _TOLERANCE):
            faults.append(f"step {step + 1}: {row!r} serves {used:g} chunks, its rounds allow {most:g}")
    return faults


def _replay_faults(solution: StepSolution, demand: Demand) -> list[str]:
    state = _State(solution)
    faults: list[str] = []
    for step in range(solution.steps):
        state.begin()
        for send in sorted(send for send in solution.sends if send.step == step):
            faults += state.apply(send)
    return faults + _end_faults(solution, demand, state.held)


class _State:
    """What every rank holds, and the partial sums that wait at ranks outside of the collective."""

    def __init__(self, solution: StepSolution) -> None:
        self.topology, self.demand = solution.topology, solution.demand
        self.members = frozenset(self.demand.ranks)
        self.sums = self.demand.pattern in ("reduction", "allreduce")
        self.held: Held = {}
        for shard, item in enumerate(self.demand.commodities):
            owners: Sequence[int] = self.demand.ranks if self.sums else (item.root,)
            for chunk in range(solution.shard_chunks[shard]):
                for rank in owners:
                    self.held[rank, shard, chunk] = frozenset({rank})
        self.before = self.held
        self.received: set[Place] = set()
        self.waiting: dict[Place, list[frozenset[int]]] = {}
        self.arriving: list[tuple[Place, frozenset[int]]] = []

    def begin(self) -> None:
        """A step begins: its sends read what is held now."""
        for place, value in self.arriving:
            self.waiting.setdefault(place, []).append(value)
        self.arriving = []
        self.before = dict(self.held)

    def apply(self, send: StepSend) -> list[str]:
        """Let one send arrive."""
        source: Place = (send.src, send.shard, send.chunk)
        passed = send.reduce and send.src not in self.members
        queue = self.waiting.get(source, [])
        value = (queue.pop(0) if queue else None) if passed else self.before.get(source)
        if value is None:
            return [f"{_name(send)}, but does not hold it"]
        own = source not in self.received and not passed
        if not own and not self.topology.nodes[self.topology.gpus[send.src]].relay:
            return [f"{_name(send)}, which is not its own, but rank {send.src} does not relay"]
        return self._add(send, value) if send.reduce else self._copy(send, value)

    def _copy(self, send: StepSend, value: frozenset[int]) -> list[str]:
        goal: Place = (send.dst, send.shard, send.chunk)
        if self.sums and value != self.members:
            return [f"{_name(send)} as final, with {len(value)} of {len(self.members)} contributions"]
        fault = [f"{_name(send)}, which holds it already"] if self.held.get(goal) == value else []
        self.held[goal] = value
        self.received.add(goal)
        return fault

    def _add(self, send: StepSend, value: frozenset[int]) -> list[str]:
        goal: Place = (send.dst, send.shard, send.chunk)
        if not self.sums:
            return [f"{_name(send)}, but {self.demand.collective} adds nothing"]
        if send.dst not in self.members:
            self.arriving.append((goal, value))
            return []
        twice = self.held[goal] & value
        if twice:
            return [f"{_name(send)}: the contribution of rank {min(twice)} is added twice"]
        self.held[goal] |= value
        # The meeting point of an all-reduce may send the sum on, as the owner of a shard may.
        whole = self.demand.pattern == "allreduce" and self.held[goal] == self.members
        (self.received.discard if whole else self.received.add)(goal)
        return []


def _end_faults(solution: StepSolution, demand: Demand, held: Held) -> list[str]:
    faults = []
    for shard, item in enumerate(demand.commodities):
        want = frozenset({item.root}) if demand.pattern in ("multicast", "unicast") else frozenset(demand.ranks)
        goals: Sequence[int] = demand.ranks
        if demand.pattern == "unicast":
            goals = () if item.dest is None else (item.dest,)
        elif demand.pattern == "reduction":
            goals = (item.root,)
        for chunk in range(solution.shard_chunks[shard]):
            for rank in goals:
                found = held.get((rank, shard, chunk), frozenset())
                if found != want:
                    missing = ", ".join(map(str, sorted(want - found)))
                    faults.append(f"shard {shard} chunk {chunk} ends at rank {rank} without what rank {missing} has")
    return faults
