"""Which chunks matter: liveness, followed backwards from the outputs that the collective promises.

As in a compiler's live-variable analysis, but over one execution of the whole program: a chunk is live from the write
that makes it to the last read whose value reaches a claimed output, across copies, sums and messages. What only feeds
scratch that nobody reads, or buffers about which nothing is claimed, is dead.

The program's control flow does not depend on its data. So when every live read gets the value of the same write in all
interleavings, then by induction along the values' ways all of them end with the same outputs: the races that remain
only touch dead chunks (:func:`synth.program.msccl.verifying.races.check.races`).
"""

from __future__ import annotations

from collections import deque

import numpy as np

from synth.program.meaning.semantics import Semantics, expected_output
from synth.program.msccl.columns import Flags, Ints
from synth.program.msccl.opcodes import READS_DST, STEP_ORDER
from synth.program.msccl.verifying.image import Image

_ADDS_TO_DST = tuple(STEP_ORDER.index(kind) for kind in READS_DST)


class Liveness:
    """Live reads and writes of a program in one mode.

    Parameters
    ----------
    image
        The program.
    claim
        What it promises; the root of broadcast and reduce is known. ``custom`` promises nothing that could be told from
        the rest, so that all its inputs and outputs count (its scratch does not).
    order
        Ops of a replay that did not hang, in the order of their completion.
    """

    def __init__(self, image: Image, claim: Semantics, order: Ints) -> None:
        total = np.concatenate(([0], np.cumsum(image.cnt)))
        self._start, self._count = total[:-1], image.cnt
        self._reads = np.zeros(int(total[-1]), dtype=np.bool_)
        self._writes = np.zeros(int(total[-1]), dtype=np.bool_)
        self._run(image, _outputs(image, claim), order)

    def read(self, op: Ints | int, chunk: Ints | int) -> Flags:
        """Whether what an op reads as its ``chunk``-th chunk (local or received) reaches an output."""
        found: Flags = self._reads[self._start[op] + chunk]
        return found

    def written(self, op: Ints | int, chunk: Ints | int) -> Flags:
        """Whether what an op writes as its ``chunk``-th chunk reaches an output from where it was written."""
        found: Flags = self._writes[self._start[op] + chunk]
        return found

    def reads_any(self, op: int) -> bool:
        """Whether any chunk that an op reads, receives or adds to reaches an output."""
        return bool(self._reads[self._start[op] : self._start[op] + self._count[op]].any())

    def _run(self, image: Image, live: list[list[bool]], order: Ints) -> None:
        """Walk backwards. A connection's messages come out in the order in which they are met: the last one first."""
        back = order[::-1]
        unit = image.unit[back]
        steps = zip(
            self._start[back].tolist(),
            image.rank[unit].tolist(),
            image.src[back].tolist(),
            image.dst[back].tolist(),
            image.cnt[back].tolist(),
            np.where(image.receives[back], image.inbound[unit], -1).tolist(),
            np.where(image.sends[back], image.outbound[unit], -1).tolist(),
            np.isin(image.kind[back], _ADDS_TO_DST).tolist(),
            strict=True,
        )
        queues: list[deque[list[bool]]] = [deque() for _ in image.sender]
        for start, rank, src, dst, cnt, inbound, outbound, adds in steps:
            memory = live[rank]
            need = queues[outbound].popleft() if outbound >= 0 else [False] * cnt
            if dst >= 0:
                kept = memory[dst : dst + cnt]
                self._writes[start : start + cnt] = kept
                need = [a or b for a, b in zip(need, kept, strict=True)]
                if not adds:
                    memory[dst : dst + cnt] = [False] * cnt
            self._reads[start : start + cnt] = need
            if src >= 0:
                memory[src : src + cnt] = [a or b for a, b in zip(memory[src : src + cnt], need, strict=True)]
            if inbound >= 0:
                queues[inbound].append(need)


def _outputs(image: Image, claim: Semantics) -> list[list[bool]]:
    """Per rank, which addresses hold something that is claimed when the program has ended."""
    live = []
    for rank, at in enumerate(image.layouts):
        flags = [False] * at.total
        if claim.collective == "custom":
            flags[: at.s] = [True] * at.s
        else:
            terms = expected_output(claim, rank)
            length = len(terms[0]) if terms else 0
            flags[at.o : at.o + length] = [True] * length
        live.append(flags)
    return live
