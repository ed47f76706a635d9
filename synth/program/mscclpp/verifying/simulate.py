"""Run an MSCCL++ plan: blocks as coroutines, visibility only where the executor gives it, two launches in a row.

Threads of a block meet only at ``nop`` and ``barrier``. Thread k serves the k-th channel of a signal, a wait or a port
put; a data operation is done by all threads. So a data operation sees what was waited for before the last ``nop``,
and a signal tells of the data operations before the last ``nop``. A port put is done later, by the proxy of its
channel, in the channel's order. Between the launches every rank's caller reads its output and fills its buffers again,
without waiting for other ranks: what a plan leaves unordered across launches is a race too.

Sources: microsoft/mscclpp 0.9.0 src/core/include/execution_kernel.hpp, include/mscclpp/{memory_channel_device,
port_channel_device,concurrency_device,semaphore_device}.hpp.
"""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass, field

import numpy as np

from synth.program.meaning.semantics import Semantics
from synth.program.mscclpp.model import MscclppDraft
from synth.program.mscclpp.verifying.concrete import Action, Concrete
from synth.program.mscclpp.verifying.hazards import End, channel_ends
from synth.program.mscclpp.verifying.memory import ORDERED, Clock, Memory

LAUNCHES = 2


@dataclass
class Block:
    """A thread block of one rank in one launch."""

    rank: int
    id: int
    component: int
    actions: tuple[Action, ...]
    base: Clock  # what all threads know since the last nop
    at: int = 0
    threads: dict[int, Clock] = field(default_factory=dict)
    proxies: list[End] = field(default_factory=list)
    arrived: bool = False

    @property
    def action(self) -> Action:
        """The operation that comes next."""
        return self.actions[self.at]

    def thread(self, k: int) -> Clock:
        """What thread k knows."""
        return self.threads.get(k, self.base)

    def learn(self, k: int, clock: Clock) -> None:
        """Thread k has waited for something."""
        self.threads[k] = np.maximum(self.thread(k), clock)


@dataclass
class Proxy:
    """The proxy's side of a port channel end: puts are done in order, signals come after them."""

    component: int
    clock: Clock
    settled: Clock  # puts that were separated from later signals by a nop


class Simulation:
    """One run of a plan at one size; :meth:`run` fills ``deadlock``, ``leftover`` and ``memory``."""

    def __init__(self, draft: MscclppDraft, concrete: Concrete, claim: Semantics) -> None:
        self.draft, self.concrete = draft, concrete
        self.memory = Memory(draft, claim, concrete.cells)
        ranks = len(draft.gpus)
        ports = [end for gpu in draft.gpus for end in channel_ends(gpu, "port")]
        self.first_block = np.cumsum([ranks, *(len(gpu.blocks) for gpu in draft.gpus)]).tolist()
        size = self.first_block[-1] + len(ports)
        zero: Clock = np.zeros((2, size), dtype=np.int32)
        self.proxies = {end: Proxy(self.first_block[-1] + k, zero, zero) for k, end in enumerate(ports)}
        self.events = [0] * size
        self.rank_clock = [zero for _ in range(ranks)]
        self.launch_clock = [zero for _ in range(ranks)]
        self.launched = [0] * ranks
        self.running: list[list[Block]] = [[] for _ in range(ranks)]
        self.unfinished = [0] * ranks
        self.published: defaultdict[End, deque[Clock]] = defaultdict(deque)  # signals that no wait has taken yet
        self.waiting: dict[End, list[Block]] = {}
        self.arrivals: dict[tuple[int, int], list[Block]] = {}
        self.tokens: dict[tuple[int, int], deque[Clock]] = {}
        self.acquiring: dict[tuple[int, int], list[Block]] = {}
        self.ready: deque[Block] = deque()
        self.deadlock: list[str] = []
        self.leftover: list[str] = []
        for gpu in draft.gpus:
            for k, value in enumerate(gpu.semaphores):
                self.tokens[gpu.id, k] = deque([zero] * min(value, 1 << 10))

    def run(self) -> Simulation:
        """Run all launches, or until nothing can go on."""
        for rank in range(len(self.draft.gpus)):
            self._launch(rank)
        while self.ready:
            block = self.ready.popleft()
            while block.at < len(block.actions) and self._step(block):
                block.at += 1
            if block.at == len(block.actions):
                self._finish(block)
        stuck = [block for blocks in self.running for block in blocks if block.at < len(block.actions)]
        if stuck:
            self.deadlock = [self._explain(stuck)]
        for end, clocks in sorted(self.published.items()):
            if clocks and not stuck:
                kind, rank, peer, k = end
                self.leftover.append(f"{kind} channel {k} from rank {rank} to rank {peer}: {len(clocks)} signals stay")
        return self

    def _event(self, component: int) -> tuple[int, int]:
        self.events[component] += 1
        return component, self.events[component]

    def _launch(self, rank: int) -> None:
        who = self._event(rank)
        label = f"the caller of rank {rank} before launch {self.launched[rank]}"
        self.memory.user_writes(rank, who, self.rank_clock[rank], label)
        clock = self.rank_clock[rank].copy()
        clock[:, rank] = who[1]
        self.launch_clock[rank] = clock
        first = self.first_block[rank]
        blocks = self.concrete.blocks[rank]
        self.running[rank] = [Block(rank, k, first + k, actions, clock) for k, actions in enumerate(blocks)]
        self.unfinished[rank] = len(blocks)
        self.ready.extend(self.running[rank])

    def _finish(self, block: Block) -> None:
        """The end of a block; the last one of a rank ends the launch, and the stream starts the next."""
        rank = block.rank
        self._sync(block)
        self.rank_clock[rank] = np.maximum(self.rank_clock[rank], block.base)
        self.unfinished[rank] -= 1
        if self.unfinished[rank]:
            return
        who = self._event(rank)
        clock = np.maximum(self.rank_clock[rank], self.launch_clock[rank])
        self.memory.user_reads(rank, who, clock, f"the caller of rank {rank} after launch {self.launched[rank]}")
        clock[:, rank] = who[1]
        self.rank_clock[rank] = clock
        self.launched[rank] += 1
        if self.launched[rank] < LAUNCHES:
            self._launch(rank)

    def _step(self, block: Block) -> bool:
        """Do the next action; False when it has to wait."""
        action = block.action
        if action.kind == "sync":
            self._sync(block)
        elif action.kind == "data":
            self._data(block, action)
        elif action.kind == "port":
            self._port(block, action)
        elif action.kind == "signal":
            for k, end in enumerate(action.ends):
                self._signal(block, k, end, action.relaxed)
        elif action.kind == "wait":
            return self._wait(block, action)
        elif action.kind == "barrier":
            return self._barrier(block, action)
        elif action.kind == "release":
            for k, number in enumerate(action.numbers):
                self.tokens[block.rank, number].append(block.thread(k))
                self.ready.extend(self.acquiring.pop((block.rank, number), ()))
        else:
            return self._acquire(block, action)
        return True

    def _sync(self, block: Block) -> None:
        for clock in block.threads.values():
            block.base = np.maximum(block.base, clock)
        block.base = block.base.copy()
        block.base[:, block.component] = self.events[block.component]
        block.threads = {}
        for end in block.proxies:
            self.proxies[end].settled = self.proxies[end].clock
        block.proxies = []

    def _label(self, block: Block, action: Action) -> str:
        return f"rank {block.rank} block {block.id} op {action.index} ({action.name})"

    def _data(self, block: Block, action: Action) -> None:
        for move in action.moves:
            self.memory.move(move, self._event(block.component), block.base, self._label(block, action))

    def _port(self, block: Block, action: Action) -> None:
        for k, move in enumerate(action.moves):
            end = action.ends[k]
            proxy = self.proxies[end]
            clock = np.maximum(proxy.clock, block.thread(k))
            who = self._event(proxy.component)
            self.memory.move(move, who, clock, self._label(block, action))
            clock[:, proxy.component] = who[1]
            proxy.clock = clock
            block.proxies.append(end)
            if action.signals:
                proxy.settled = clock
                self._signal(block, k, end, relaxed=False)

    def _signal(self, block: Block, k: int, end: End, relaxed: bool) -> None:
        clock = block.thread(k)
        if relaxed:  # other threads' data are not published, but what was there before the launch is
            clock = np.stack((self.launch_clock[block.rank][0], clock[ORDERED]))
        if end in self.proxies:
            clock = np.maximum(clock, self.proxies[end].settled)
        self.published[end].append(clock)
        self.ready.extend(self.waiting.pop(end, ()))

    def _wait(self, block: Block, action: Action) -> bool:
        sources = [(kind, peer, rank, k) for kind, rank, peer, k in action.ends]
        for source in sources:
            if not self.published[source]:
                self.waiting.setdefault(source, []).append(block)
                return False
        for k, source in enumerate(sources):
            block.learn(k, self.published[source].popleft())
        return True

    def _barrier(self, block: Block, action: Action) -> bool:
        number, blocks = action.numbers
        if block.arrived:
            block.arrived = False
            return True
        self._sync(block)
        here = self.arrivals.setdefault((block.rank, number), [])
        here.append(block)
        if len(here) < blocks:
            return False
        del self.arrivals[block.rank, number]
        clock = np.maximum.reduce([other.base for other in here])
        for other in here:
            other.base = clock
            other.arrived = other is not block
            if other.arrived:
                self.ready.append(other)
        return True

    def _acquire(self, block: Block, action: Action) -> bool:
        for number in action.numbers:
            if not self.tokens[block.rank, number]:
                self.acquiring.setdefault((block.rank, number), []).append(block)
                return False
        for k, number in enumerate(action.numbers):
            block.learn(k, self.tokens[block.rank, number].popleft())
        return True

    def _explain(self, stuck: list[Block]) -> str:
        """Follow who waits for whom until it closes or nobody is left who could help."""
        chain = [stuck[0]]
        while True:
            block = chain[-1]
            helpers = [other for other in stuck if self._helps(other, block)]
            if not helpers:
                return " -> ".join(self._blocked(b) for b in chain) + ", and nobody would do it"
            if helpers[0] in chain:
                return " -> ".join(self._blocked(b) for b in [*chain, helpers[0]])
            chain.append(helpers[0])

    def _blocked(self, block: Block) -> str:
        action = block.action
        if action.kind == "wait":
            missing = (
                (kind, peer, k) for kind, rank, peer, k in action.ends if not self.published[kind, peer, rank, k]
            )
            kind, peer, k = next(missing)
            return f"{self._label(block, action)} waits for rank {peer} on {kind} channel {k}"
        return f"{self._label(block, action)} waits for others of its rank"

    def _helps(self, other: Block, block: Block) -> bool:
        """Whether a later action of another stuck block is what a block waits for."""
        action = block.action
        later = other.actions[other.at :]
        if action.kind == "wait":
            wanted = {(kind, peer, rank, k) for kind, rank, peer, k in action.ends}
            missing = {end for end in wanted if not self.published[end]}
            return any(missing & set(a.ends) for a in later if a.kind == "signal" or a.signals)
        if other.rank != block.rank or other is block:
            return False
        if action.kind == "barrier":
            arrived = other in self.arrivals.get((block.rank, action.numbers[0]), ())
            return not arrived and any(a.kind == "barrier" and a.numbers == action.numbers for a in later)
        return any(a.kind == "release" and set(a.numbers) & set(action.numbers) for a in later)
