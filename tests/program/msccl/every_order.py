"""A second method for races and dead data: run a tiny program in every order of its steps, and look what comes out.

Nothing of the verifier is used but the model and ``World.where`` of the naive interpreter. Instead of numbers, memory
holds where they come from: a name for every input chunk and every chunk of garbage, and a tuple (step, operands) for
everything that a step makes. Two orders give the same outputs exactly when they give the same terms.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from synth.program.msccl.model import Draft, Step
from synth.program.msccl.opcodes import RECEIVES, SENDS
from tests.program.msccl.interpreter import World, input_length

Term = tuple[object, ...]
Cell = tuple[int, str, int]
State = tuple[tuple[int, ...], frozenset[tuple[Cell, Term]], tuple[tuple[tuple[int, int, int], tuple[Term, ...]], ...]]


@dataclass(frozen=True)
class Unit:
    rank: int
    id: int
    send: int
    recv: int
    chan: int
    steps: tuple[Step, ...]


class EveryOrder:
    """All executions of a draft whose steps have ``cnt`` 1 and no nops, on FIFOs without end, for one iteration."""

    def __init__(self, draft: Draft, inplace: bool) -> None:
        self.world = World(draft.semantics, inplace, 1 << 30)
        self.units = [Unit(g.id, b.id, b.send, b.recv, b.chan, b.steps) for g in draft.gpus for b in g.blocks]
        self.index = {(u.rank, u.id): k for k, u in enumerate(self.units)}
        cells = {
            self.world.where(r, "i", k): ("input", r, k)
            for r in range(draft.semantics.ngpus)
            for k in range(input_length(draft.semantics))
            if draft.semantics.collective != "broadcast" or r == draft.semantics.root
        }
        self.start: State = ((0,) * len(self.units), frozenset(cells.items()), ())

    def outputs(self, wanted: list[Cell], most: int) -> set[tuple[Term, ...]] | None:
        """What the wanted cells can hold in the end; None when there are more than ``most`` states, or one hangs."""
        seen, stack, ends = {self.start}, [self.start], set()
        while stack:
            state = stack.pop()
            following = list(self.following(state))
            if not following:
                if any(at < len(u.steps) for at, u in zip(state[0], self.units, strict=True)):
                    return None
                memory = dict(state[1])
                ends.add(tuple(memory.get(cell, ("garbage", *cell)) for cell in wanted))
            for new in following:
                if new not in seen:
                    seen.add(new)
                    stack.append(new)
            if len(seen) > most:
                return None
        return ends

    def following(self, state: State) -> Iterator[State]:
        at, memory, fifos = state
        for k, unit in enumerate(self.units):
            if at[k] < len(unit.steps) and self.may_run(unit, unit.steps[at[k]], state):
                yield self.moved(k, unit, unit.steps[at[k]], at, dict(memory), dict(fifos))

    def may_run(self, unit: Unit, step: Step, state: State) -> bool:
        at, _, fifos = state
        if step.depid >= 0:
            # A block only posts its progress after the steps that signal.
            k = self.index[unit.rank, step.depid]
            if not any(s.hasdep for s in self.units[k].steps[step.deps : at[k]]):
                return False
        return step.type not in RECEIVES or bool(dict(fifos).get((unit.recv, unit.rank, unit.chan)))

    def moved(
        self,
        k: int,
        unit: Unit,
        step: Step,
        at: tuple[int, ...],
        memory: dict[Cell, Term],
        fifos: dict[tuple[int, int, int], tuple[Term, ...]],
    ) -> State:
        src, dst = (
            self.world.where(unit.rank, buffer, offset)
            for buffer, offset in ((step.srcbuf, step.srcoff), (step.dstbuf, step.dstoff))
        )
        operands: list[Term] = []
        if step.type in RECEIVES:
            key = (unit.recv, unit.rank, unit.chan)
            operands.append(fifos[key][0])
            fifos[key] = fifos[key][1:]
        if step.type in ("s", "cpy", "re", "rrs", "rrc", "rrcs"):
            operands.append(memory.get(src, ("garbage", *src)))
        if step.type == "re":
            operands.append(memory.get(dst, ("garbage", *dst)))
        term: Term = (k, at[k], *operands)
        if step.type in ("r", "rcs", "rrc", "rrcs", "cpy", "re"):
            memory[dst] = term
        if step.type in SENDS:
            key = (unit.rank, unit.send, unit.chan)
            fifos[key] = (*fifos.get(key, ()), term)
        steps = (*at[:k], at[k] + 1, *at[k + 1 :])
        return (
            steps,
            frozenset(memory.items()),
            tuple(sorted(((c, q) for c, q in fifos.items() if q), key=lambda p: p[0])),
        )


def garbage_in(term: object) -> bool:
    """Whether anything undefined went into a term."""
    if not isinstance(term, tuple):
        return False
    return term[:1] == ("garbage",) or any(garbage_in(part) for part in term)
