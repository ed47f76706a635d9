"""What happens before what: questions about pairs of steps on one rank, settled by the cheapest sufficient means.

1. Waits within the rank: vector clocks over that rank's blocks only, for every question.
2. Messages, when the clocks of all remaining blocks fit into memory at once: one sweep of vector clocks (``clocks``).
3. Otherwise a search from both ends (``reach``), and the sweep in several passes for what that leaves open.
4. Questions about several chunks at once that still look unordered: the sweep again, chunk by chunk.

Each of them only calls a pair ordered when it is; the last one is exact.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

from synth.program.msccl.columns import Flags, Ints
from synth.program.msccl.verifying.image import Image
from synth.program.msccl.verifying.races.clocks import passes, sweep
from synth.program.msccl.verifying.races.reach import Reach
from synth.program.msccl.verifying.races.timeline import Timeline

# Costs in edges of a search, which take about a microsecond: an op in a sweep, and a thousand entries of its clock.
_SWEEP_OP = 4
_SWEEP_ENTRIES = 1 / 1000
_SEARCH_MOST = 20_000
_TRIAL = 100


@dataclass(frozen=True, slots=True, eq=False)
class Questions:
    """Does ``first`` happen before ``second``, for ``length`` chunks of both? One entry per question.

    Attributes
    ----------
    first, second
        Ops of different blocks of one rank; ``second`` completed later in the replay.
    first_chunk, second_chunk, length
        Which of the chunks that each op handles are meant.
    address
        Where the first of these chunks is.
    first_writes, second_writes, defined
        What the two do, and whether the chunk held data before ``first`` looked at it.
    """

    first: Ints
    second: Ints
    first_chunk: Ints
    second_chunk: Ints
    length: Ints
    address: Ints
    first_writes: Flags
    second_writes: Flags
    defined: Flags

    def __len__(self) -> int:
        return len(self.first)

    def where(self, mask: Flags | Ints) -> Questions:
        """Some of the questions."""
        return Questions(*(getattr(self, field.name)[mask] for field in fields(self)))

    def singles(self) -> Questions:
        """The same questions chunk by chunk, each of length 1."""
        which = np.repeat(np.arange(len(self)), self.length)
        offset = np.arange(len(which)) - np.repeat(np.cumsum(self.length) - self.length, self.length)
        one = self.where(which)
        return replace(
            one,
            first_chunk=one.first_chunk + offset,
            second_chunk=one.second_chunk + offset,
            address=one.address + offset,
            length=np.ones(len(which), dtype=np.int64),
        )

    @staticmethod
    def join(parts: Sequence[Questions]) -> Questions:
        """All questions of several parts."""
        none, no = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.bool_)
        empty = Questions(none, none, none, none, none, none, no, no, no)
        names = [field.name for field in fields(Questions)]
        return Questions(*(np.concatenate([getattr(part, name) for part in (empty, *parts)]) for name in names))


class Order:
    """Happens-before of one program."""

    def __init__(self, image: Image, order: Ints) -> None:
        self.image, self.order = image, order
        self.time = Timeline(image)
        waits = order[(np.diff(image.wait_first) > 0)[order]]
        ranks = image.rank[image.unit[waits]]
        by_rank = np.argsort(ranks, kind="stable")
        self._waiting = waits[by_rank]
        self._bounds = np.searchsorted(ranks[by_rank], np.arange(len(image.layouts) + 1))

    def open_questions(self, rank: int, questions: Questions) -> Questions:
        """Those questions about one rank that its own waits do not settle."""
        unit = self.image.unit
        questions = questions.where(unit[questions.first] != unit[questions.second])
        if not len(questions):
            return questions
        units = np.searchsorted(self.image.rank, [rank, rank + 1])
        first_op, end_op = self.image.first[units].tolist()
        waiting = self._waiting[self._bounds[rank] : self._bounds[rank + 1]].tolist()
        known = self._local_clocks(waiting, int(units[0]), int(units[1]))
        # The clock in force at an op is that of the last waiting op of its block up to it.
        row = np.full(end_op - first_op, -1, dtype=np.int64)
        row[np.array(waiting, dtype=np.int64) - first_op] = np.arange(len(waiting))
        last = np.maximum.accumulate(np.where(row >= 0, np.arange(len(row)), -1))
        at = last[questions.second - first_op]
        has = (at >= 0) & (at + first_op >= self.image.first[unit[questions.second]])
        clock = row[np.where(has, at, 0)]
        told = has.copy()
        column = unit[questions.first] - units[0]
        told[has] = known[clock[has], column[has]] > self._last_time(questions)[has]
        return questions.where(~told)

    def _last_time(self, q: Questions) -> Ints:
        found: Ints = self.time.start[q.first] + q.first_chunk + q.length - 1
        return found

    def _local_clocks(self, waiting: list[int], low: int, high: int) -> NDArray[np.int32]:
        """Per waiting op of one rank, how many chunks of each of its blocks are known to be done when it runs."""
        image, start = self.image, self.time.start
        rows = np.zeros((len(waiting), high - low), dtype=np.int32)
        seen: dict[int, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
        for k, op in enumerate(waiting):
            row, (ops, clocks) = rows[k], seen[int(image.unit[op])]
            if clocks:
                row[:] = rows[clocks[-1]]
            for awaited in image.wait[image.wait_first[op] : image.wait_first[op + 1]].tolist():
                other = int(image.unit[awaited])
                their_ops, their_clocks = seen[other]
                j = bisect_right(their_ops, awaited) - 1
                if j >= 0:
                    np.maximum(row, rows[their_clocks[j]], out=row)
                row[other - low] = max(row[other - low], start[awaited] + image.cnt[awaited])
            ops.append(op)
            clocks.append(k)
        return rows

    def unordered(self, questions: Questions) -> Questions:
        """Those questions whose answer is no."""
        if not len(questions):
            return questions
        questions = questions.where(~self._searched(questions))
        late = self._swept(questions, fine=False)
        rough = (late.length > 1) | (late.second_chunk > 0)
        exact, again = late.where(~rough), late.where(rough)
        return Questions.join([exact, self._swept(again, fine=True)])

    def _swept(self, q: Questions, fine: bool) -> Questions:
        if not len(q):
            return q
        begin = self.time.start[q.first] + q.first_chunk
        return q.where(
            ~sweep(self.image, self.time, self.order, (q.first, begin, q.second, q.second_chunk, q.length), fine)
        )

    def _sweep_cost(self, q: Questions) -> float:
        groups = passes(self.image, self.order, self.image.unit[q.first])
        return self.image.ops * (_SWEEP_OP * len(groups) + _SWEEP_ENTRIES * sum(map(len, groups)))

    def _searched(self, q: Questions) -> Flags:
        """Questions that a search from both ends settles with yes, as long as that is cheaper than a sweep.

        One answer settles others: what holds for a later chunk of the first block and an earlier one of the second
        holds for all the pairs outside.
        """
        settled = np.zeros(len(q), dtype=np.bool_)
        budget = self._sweep_cost(q)
        reach = Reach(self.image, self.time)
        unit, start = self.image.unit, self.time.start
        first, second = self._last_time(q), start[q.second] + q.second_chunk
        pairs = unit[q.first] * self.image.units + unit[q.second]
        at = np.lexsort((-first, second, pairs))
        pair, best, tried = -1, -1, 0
        rows = zip(at.tolist(), pairs[at].tolist(), first[at].tolist(), second[at].tolist(), strict=True)
        for done, (k, now, t1, t2) in enumerate(rows):
            if now != pair:
                pair, best = now, -1
            if t1 > best:
                tried += 1
                if tried % _TRIAL == 0 and reach.looked * len(q) > 2 * budget * (done + 1):
                    break
                source, goal = divmod(now, self.image.units)
                if not reach.ordered(source, t1, goal, t2, _SEARCH_MOST):
                    continue
                best = t1
            settled[k] = True
        return settled
