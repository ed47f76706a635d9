"""Is there a chain of waits and messages from one chunk's step to another's? A search from both ends.

Forward, "from tick f of block u on, everything comes after the source"; backward, "all ticks of block u below b come
before the goal". Since a block is sequential and a connection delivers in order, only the next message out of (u, f)
and the last message into (u, b) matter, and of the waits one per block. The chain exists when both meet: f < b.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict, deque
from dataclasses import dataclass

from synth.program.msccl.verifying.image import Image
from synth.program.msccl.verifying.races.timeline import Timeline

# Per block on the other side of a wait: sorted ticks on this side, and the tick that each gives on the other.
_Edges = list[tuple[int, list[int], list[int]]]


@dataclass(slots=True)
class _Neighbours:
    """Edges of one block."""

    receives: list[int]
    receive_starts: list[int]
    sends: list[int]
    send_ends: list[int]
    waits: _Edges
    waiters: _Edges


class Reach:
    """Searches on one program; what is learnt about a block is kept.

    Attributes
    ----------
    looked
        Edges looked at so far, the measure of its cost.
    """

    def __init__(self, image: Image, time: Timeline) -> None:
        self.image = image
        self.start, self.cnt, self.unit = time.start.tolist(), image.cnt.tolist(), image.unit.tolist()
        self.receiver_of, self.sender_of = time.receiver_of.tolist(), time.sender_of.tolist()
        self.wait_first, self.wait = image.wait_first.tolist(), image.wait.tolist()
        self.first = image.first.tolist()
        self.awaited_by: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for op in range(image.ops):
            for k in range(self.wait_first[op], self.wait_first[op + 1]):
                self.awaited_by[self.unit[self.wait[k]]].append((self.wait[k], op))
        self.known: dict[int, _Neighbours] = {}
        self.looked = 0

    def ordered(self, source: int, tick: int, goal: int, goal_tick: int, most: int) -> bool:
        """Whether tick ``tick`` of block ``source`` comes before tick ``goal_tick`` of block ``goal``.

        Gives up with False after looking at ``most`` edges.
        """
        after, before = {source: tick}, {goal: goal_tick + 1}
        ahead, behind = deque([source]), deque([goal])
        # Both sides look at about equally many edges, so that a block with many neighbours is met rather than left.
        forth, back = 0, 0
        while ahead and behind and forth + back < most:
            if forth <= back:
                u = ahead.popleft()
                for v, f in self.forward(u, after[u]):
                    forth += 1
                    if v not in after or f < after[v]:
                        if f < before.get(v, -1):
                            self.looked += forth + back
                            return True
                        after[v] = f
                        ahead.append(v)
            else:
                u = behind.popleft()
                for v, b in self.backward(u, before[u]):
                    back += 1
                    if b > before.get(v, -1):
                        if v in after and after[v] < b:
                            self.looked += forth + back
                            return True
                        before[v] = b
                        behind.append(v)
        self.looked += forth + back
        return False

    def forward(self, u: int, tick: int) -> list[tuple[int, int]]:
        """Where a block's ticks from ``tick`` on are first felt."""
        near = self.known.get(u) or self.learn(u)
        found = []
        k = bisect_right(near.send_ends, tick)
        if k < len(near.sends):
            op = near.sends[k]
            peer = self.receiver_of[op]
            found.append((self.unit[peer], self.start[peer] + max(0, tick - self.start[op])))
        for v, ends, starts in near.waiters:
            k = bisect_right(ends, tick)
            if k < len(ends):
                found.append((v, starts[k]))
        return found

    def backward(self, u: int, tick: int) -> list[tuple[int, int]]:
        """What a block's ticks below ``tick`` have felt."""
        near = self.known.get(u) or self.learn(u)
        found = []
        k = bisect_left(near.receive_starts, tick) - 1
        if k >= 0:
            op = near.receives[k]
            peer = self.sender_of[op]
            found.append((self.unit[peer], self.start[peer] + min(tick - self.start[op], self.cnt[op])))
        for v, starts, ends in near.waits:
            k = bisect_left(starts, tick) - 1
            if k >= 0:
                found.append((v, ends[k]))
        return found

    def learn(self, u: int) -> _Neighbours:
        """Collect the edges of a block."""
        ops = range(self.first[u], self.first[u + 1])
        receives = [op for op in ops if self.sender_of[op] >= 0]
        sends = [op for op in ops if self.receiver_of[op] >= 0]
        waits: dict[int, tuple[list[int], list[int]]] = {}
        for op in ops:
            for k in range(self.wait_first[op], self.wait_first[op + 1]):
                starts, ends = waits.setdefault(self.unit[self.wait[k]], ([], []))
                starts.append(self.start[op])
                end = self.start[self.wait[k]] + self.cnt[self.wait[k]]
                ends.append(max(end, ends[-1]) if ends else end)
        near = self.known[u] = _Neighbours(
            receives=receives,
            receive_starts=[self.start[op] for op in receives],
            sends=sends,
            send_ends=[self.start[op] + self.cnt[op] for op in sends],
            waits=[(v, *lists) for v, lists in waits.items()],
            waiters=self._waiters(u),
        )
        return near

    def _waiters(self, u: int) -> _Edges:
        """Per waiting block: ends of the awaited ops in order, and the earliest wait for that end or a later one."""
        pairs: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for awaited, op in self.awaited_by.get(u, ()):
            pairs[self.unit[op]].append((self.start[awaited] + self.cnt[awaited], self.start[op]))
        edges: _Edges = []
        for v, ticks in pairs.items():
            ticks.sort()
            starts = [start for _, start in ticks]
            for k in range(len(starts) - 2, -1, -1):
                starts[k] = min(starts[k], starts[k + 1])
            edges.append((v, [end for end, _ in ticks], starts))
        return edges
