"""One run of a program's blocks against the clock."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Sequence

import numpy as np

from synth.program.msccl.opcodes import STEP_ORDER
from synth.schedule.simulate.time_model import BlockCosts, TimeModel
from synth.timing.image import TimedProgram

_LOCAL = tuple(STEP_ORDER.index(kind) for kind in ("cpy", "re"))
_ADDS = tuple(STEP_ORDER.index(kind) for kind in ("re", "rrs", "rrc", "rrcs"))


class BlockRun:
    """State of one run. Plain lists: this is the innermost loop of calibration and sweeps.

    A step that sends is taken up in the order of time, so that links serve messages as they come; everything else
    only depends on what has already happened to its block and its connections, and is done at once.

    Attributes
    ----------
    marks
        Per block, when each iteration ended.
    hung
        Whether blocks are left that wait for each other.
    """

    def __init__(
        self, program: TimedProgram, slices: Sequence[float], together: int, costs: BlockCosts, model: TimeModel
    ) -> None:
        image = program.image
        self.slices, self.together, self.costs, self.model = slices, together, costs, model
        self.iterations = len(slices)
        self.wire, self.blocking = program.wire, model.alpha_mode == "blocking"
        self.first, self.end_of = image.first[:-1].tolist(), image.first[1:].tolist()
        self.at = list(self.first)
        self.unit, self.cnt = image.unit.tolist(), image.cnt.tolist()
        self.receives, self.sends = image.receives.tolist(), image.sends.tolist()
        self.adds = np.isin(image.kind, _ADDS).tolist()
        self.local = np.isin(image.kind, _LOCAL).tolist()
        self.wait_first, self.wait = image.wait_first.tolist(), image.wait.tolist()
        self.inbound, self.outbound = image.inbound.tolist(), image.outbound.tolist()
        self.sender, self.receiver = image.sender.tolist(), image.receiver.tolist()
        self.paths, self.links = program.paths, program.links
        begin = model.start + costs.start
        self.time = [begin] * image.units
        self.iteration = [0] * image.units
        self.moved = [0] * image.units  # chunks of the step that are under way
        self.waited = [False] * image.units
        self.free = [0.0] * program.links.rows
        self.arrived: list[deque[tuple[float, float]]] = [deque() for _ in self.sender]
        self.slots: list[deque[float]] = [deque([begin] * program.protocol.depth) for _ in self.sender]
        self.done_iteration = [-1] * image.ops
        self.done_time = [0.0] * image.ops
        self.sleepers: dict[tuple[str, int], list[int]] = {}
        self.marks: list[list[float]] = [[] for _ in range(image.units)]
        self.events: list[tuple[float, int]] = []
        self.hung = False

    @property
    def end(self) -> float:
        """When the last block ended."""
        return max((marks[-1] for marks in self.marks if marks), default=max(self.time, default=0.0))

    def run(self) -> None:
        """Run until every block has ended or sleeps for good."""
        for u, (begin, end) in enumerate(zip(self.first, self.end_of, strict=True)):
            if begin < end:
                heapq.heappush(self.events, (self.time[u], u))
        while self.events:
            now, u = heapq.heappop(self.events)
            if now > self.time[u]:
                self.time[u] = now
            self._advance(u, now)
        self.hung = any(
            done < self.iterations and begin < end
            for done, begin, end in zip(self.iteration, self.first, self.end_of, strict=True)
        )

    def _sleep(self, u: int, verb: str, what: int) -> None:
        self.sleepers.setdefault((verb, what), []).append(u)

    def _wake(self, verb: str, what: int, at: float) -> None:
        for u in self.sleepers.pop((verb, what), ()):
            heapq.heappush(self.events, (max(at, self.time[u]), u))

    def _advance(self, u: int, now: float) -> None:
        """Run one block until it ends, has to sleep, or is to send later than now."""
        while self.iteration[u] < self.iterations:
            op = self.at[u]
            if not self.moved[u] and not self.waited[u]:
                if not self._dependencies(u, op):
                    return
                self.waited[u] = True
            if self.local[op]:
                size = self.cnt[op] * self.slices[self.iteration[u]]
                self.time[u] += size / self.costs.local_rate
                if self.adds[op]:
                    self.time[u] += size / self.model.reduce_rate
            elif not self._messages(u, op, now):
                return
            self._complete(u, op)

    def _complete(self, u: int, op: int) -> None:
        self.moved[u], self.waited[u] = 0, False
        self.done_iteration[op], self.done_time[op] = self.iteration[u], self.time[u]
        self._wake("dep", op, self.time[u])
        op += 1
        if op == self.end_of[u]:
            op = self.first[u]
            self.iteration[u] += 1
            self.marks[u].append(self.time[u])
        self.at[u] = op

    def _dependencies(self, u: int, op: int) -> bool:
        begin, end = self.wait_first[op], self.wait_first[op + 1]
        if begin == end:
            return True
        time, iteration = self.time[u], self.iteration[u]
        for k in range(begin, end):
            awaited = self.wait[k]
            if self.done_iteration[awaited] < iteration:
                self._sleep(u, "dep", awaited)
                return False
            if self.done_iteration[awaited] == iteration and self.done_time[awaited] > time:
                time = self.done_time[awaited]
        self.time[u] = time + self.costs.wait
        return True

    def _messages(self, u: int, op: int, now: float) -> bool:
        """Move the messages of a step; False when the block has to wait."""
        sends, receives, total = self.sends[op], self.receives[op], self.cnt[op]
        inbound, outbound = self.inbound[u], self.outbound[u]
        while self.moved[u] < total:
            begin = self.time[u]
            if receives:
                if not self.arrived[inbound]:
                    self._sleep(u, "recv", inbound)
                    return False
                begin = max(begin, self.arrived[inbound][0][0])
            if sends:
                if not self.slots[outbound]:
                    self._sleep(u, "send", outbound)
                    return False
                begin = max(begin, self.slots[outbound][0])
                if begin > now:
                    heapq.heappush(self.events, (begin, u))
                    return False
            count = min(self.together, total - self.moved[u])
            size = count * self.slices[self.iteration[u]]
            self._message(u, op, begin, size)
            self.moved[u] += count
        return True

    def _message(self, u: int, op: int, begin: float, size: float) -> None:
        """One message in, out, or through."""
        costs = self.costs
        copy = size / costs.copy_rate
        flowing = begin + costs.overhead
        end = flowing + copy
        if self.adds[op]:
            end += size / costs.local_rate + size / self.model.reduce_rate
        if self.receives[op]:
            _, tail = self.arrived[self.inbound[u]].popleft()
            end = max(end, tail + self.wire.part * copy)
        if self.sends[op]:
            self.slots[self.outbound[u]].popleft()
            end = self._send(self.outbound[u], flowing, end, size)
        self.time[u] = end
        if self.receives[op]:
            inbound = self.inbound[u]
            back = end - (1 - self.wire.slot_part) * copy + costs.latency
            self.slots[inbound].append(back)
            self._wake("send", inbound, back)

    def _send(self, connection: int, flowing: float, end: float, size: float) -> float:
        """Put a message on its links from ``flowing`` on; returns when the block is through with it."""
        links, free, path = self.links, self.free, self.paths[connection]
        size_wire = size * self.wire.overhead
        head, done, alphas, slowest = flowing + self.model.overhead, 0.0, 0.0, size / self.costs.copy_rate
        last = path[-1]
        for link in path:
            begin = max(head, free[link])
            for row, _ in links.pools[link]:
                begin = max(begin, free[row])
            alpha = links.latency[link] + self.model.hop_latency if link == last else links.latency[link]
            hold = alpha if self.blocking else 0.0
            through = size_wire / links.capacity[link]
            free[link] = begin + through + hold
            for row, per_byte in links.pools[link]:
                free[row] = begin + size_wire * per_byte + hold
                through = max(through, size_wire * per_byte)
            if link == path[0]:
                end = max(end, begin + through)
            done = max(begin + through, done) + alpha
            head = begin + alpha
            alphas += alpha
            slowest = max(slowest, through)
        tail = max(done, end + alphas) + self.costs.latency
        front = tail - (1 - self.wire.part) * slowest
        self.arrived[connection].append((front, tail))
        self._wake("recv", connection, front)
        return end
