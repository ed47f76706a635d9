"""An independent, naive interpreter: real numbers, one chunk per message, blocks in random order.

It shares nothing with the verifier but the model. It is used to show that whatever the verifier accepts runs right in
every tried interleaving.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from random import Random

from synth.program.meaning.semantics import Semantics
from synth.program.msccl.model import Draft, Step

Value = int | None


@dataclass
class Block:
    rank: int
    id: int
    send: int
    recv: int
    chan: int
    steps: list[Step]
    iteration: int = 0
    at: int = 0
    chunk: int = 0
    flag: tuple[int, int] = (-1, -1)


@dataclass
class World:
    claim: Semantics
    inplace: bool
    depth: int
    memory: dict[tuple[int, int, str, int], Value] = field(default_factory=dict)
    fifo: dict[tuple[int, int, int], deque[Value]] = field(default_factory=dict)

    def where(self, rank: int, buffer: str, offset: int) -> tuple[int, str, int]:
        """Fold the two buffers into one when in place."""
        n, c, name = self.claim.ngpus, self.claim.nchunks, self.claim.collective
        if self.inplace and name == "allgather" and buffer == "i":
            return rank, "o", rank * (c // n) + offset
        if self.inplace and name == "reducescatter" and buffer == "o":
            return rank, "i", rank * (c // n) + offset
        if self.inplace and name in ("allreduce", "broadcast", "reduce") and buffer == "o":
            return rank, "i", offset
        return rank, buffer, offset


def value_of(rank: int, chunk: int, iteration: int) -> int:
    return Random(rank * 1_000_003 + chunk * 101 + iteration).getrandbits(60)


def run(draft: Draft, inplace: bool, seed: int, depth: int = 2, iterations: int = 2) -> list[str]:
    """Problems of one random interleaving: a hang, or wrong output."""
    random = Random(seed)
    world = World(draft.semantics, inplace, depth)
    for rank in range(draft.semantics.ngpus):
        for iteration in range(iterations):
            for k in range(input_length(draft.semantics)):
                key = (iteration, *world.where(rank, "i", k))
                world.memory[key] = value_of(rank, k, iteration)
    blocks = [
        Block(g.id, b.id, b.send, b.recv, b.chan, [s for s in b.steps if s.type != "nop" or s.depid >= 0])
        for g in draft.gpus
        for b in g.blocks
    ]
    flags = {(b.rank, b.id): b for b in blocks}
    while any(b.iteration < iterations and b.steps for b in blocks):
        movable = [b for b in blocks if b.iteration < iterations and b.steps and can_move(world, flags, b)]
        if not movable:
            return ["hangs"]
        move(world, random.choice(movable))
    return wrong_outputs(world, iterations)


def input_length(claim: Semantics) -> int:
    return claim.nchunks // claim.ngpus if claim.collective == "allgather" else claim.nchunks


def can_move(world: World, flags: dict[tuple[int, int], Block], b: Block) -> bool:
    s = b.steps[b.at]
    if s.depid >= 0 and b.chunk == 0:
        other = flags.get((b.rank, s.depid))
        if other is None or other.flag < (b.iteration, s.deps):
            return False
    if s.type in ("r", "rcs", "rrs", "rrc", "rrcs") and not world.fifo.get((b.recv, b.rank, b.chan)):
        return False
    full = len(world.fifo.get((b.rank, b.send, b.chan), ())) >= world.depth
    return not (s.type in ("s", "rcs", "rrs", "rrcs") and full)


def move(world: World, b: Block) -> None:
    s, k, memory = b.steps[b.at], b.chunk, world.memory
    src = (b.iteration, *world.where(b.rank, s.srcbuf, s.srcoff + k))
    dst = (b.iteration, *world.where(b.rank, s.dstbuf, s.dstoff + k))
    value: Value = None
    if s.type in ("r", "rcs", "rrs", "rrc", "rrcs"):
        value = world.fifo[b.recv, b.rank, b.chan].popleft()
    if s.type in ("s", "cpy"):
        value = memory.get(src)
    elif s.type in ("rrs", "rrc", "rrcs"):
        value = add(value, memory.get(src))
    elif s.type == "re":
        value = add(memory.get(src), memory.get(dst))
    if s.type in ("r", "rcs", "rrc", "rrcs", "cpy", "re"):
        memory[dst] = value
    if s.type in ("s", "rcs", "rrs", "rrcs"):
        world.fifo.setdefault((b.rank, b.send, b.chan), deque()).append(value)
    b.chunk += 1
    if b.chunk >= max(1, s.cnt):
        if s.hasdep:
            b.flag = (b.iteration, b.at)
        b.chunk, b.at = 0, b.at + 1
    if b.at == len(b.steps):
        b.at, b.iteration = 0, b.iteration + 1


def add(a: Value, b: Value) -> Value:
    return None if a is None or b is None else a + b


def wrong_outputs(world: World, iterations: int) -> list[str]:
    claim = world.claim
    n, c = claim.ngpus, claim.nchunks
    shard = c // n
    problems = []
    for iteration in range(iterations):
        for rank in range(n):
            for k in range(c):
                if claim.collective == "allgather":
                    want = value_of(k // shard, k % shard, iteration)
                elif claim.collective == "alltoall":
                    want = value_of(k // shard, rank * shard + k % shard, iteration)
                else:
                    want = sum(value_of(r, k, iteration) for r in range(n))
                if world.memory.get((iteration, *world.where(rank, "o", k))) != want:
                    problems.append(f"rank {rank} chunk {k} iteration {iteration}")
    if any(world.fifo.values()):
        problems.append("messages left over")
    return problems
