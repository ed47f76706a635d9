"""What a collective means in real numbers: sizes of both sides, aliasing in place, and numpy's own result.

Written from the definitions (nccl-tests, formats.md 1.7, and the conventions for uneven collectives that
``synth.program.meaning.semantics`` documents), not with the verifier's code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from synth.errors import InvalidInputError
from synth.program.meaning.semantics import Semantics

Array = NDArray[Any]

OPERATIONS: Final[Mapping[str, np.ufunc]] = MappingProxyType(
    {"sum": np.add, "prod": np.multiply, "min": np.minimum, "max": np.maximum}
)
REDUCING: Final = ("allreduce", "reduce", "reducescatter", "reducescatterv")
ALIASING: Final = ("allgather", "reducescatter", "allreduce", "broadcast", "reduce")


@dataclass(frozen=True, slots=True)
class Sides:
    """Chunks of a rank's two buffers that the collective uses, and where they overlap in place.

    Attributes
    ----------
    given, wanted
        Chunks that the rank contributes, from input offset 0 on; chunks that it must end up with, from output offset 0.
    i_at, o_at
        In place: offset of each buffer in the one buffer of the call, in chunks.
    """

    given: int
    wanted: int
    i_at: int = 0
    o_at: int = 0


def members_of(claim: Semantics) -> tuple[int, ...]:
    """Ranks that take part."""
    return claim.members if claim.members else tuple(range(claim.ngpus))


def shards_of(claim: Semantics) -> list[int]:
    """Chunks of each rank's shard (all-gather and reduce-scatter, even or not)."""
    if claim.counts:
        return list(claim.counts)
    return [claim.nchunks // claim.ngpus] * claim.ngpus


def pairs_of(claim: Semantics) -> NDArray[np.int64]:
    """Matrix of chunks from source (row) to destination (all-to-all, even or not)."""
    n = claim.ngpus
    if claim.counts:
        return np.array(claim.counts, dtype=np.int64).reshape(n, n)
    return np.full((n, n), claim.nchunks // n, dtype=np.int64)


def sides_of(claim: Semantics, rank: int) -> Sides:
    """Sizes and aliasing of one rank; a broadcast or reduce without a root counts every member as one."""
    c, name = claim.nchunks, claim.collective
    if name == "custom":
        return Sides(c, 0)
    if rank not in members_of(claim):
        return Sides(0, 0)
    if name.startswith("alltoall"):
        pairs = pairs_of(claim)
        return Sides(int(pairs[rank].sum()), int(pairs[:, rank].sum()))
    if name.startswith(("allgather", "reducescatter")):
        shards = shards_of(claim)
        before, own, everything = sum(shards[:rank]), shards[rank], sum(shards)
        if name.startswith("allgather"):
            return Sides(own, everything, i_at=before)
        return Sides(everything, own, o_at=before)
    is_root = claim.root in (None, rank)
    return Sides(
        c if is_root or name != "broadcast" else 0,
        c if is_root or name != "reduce" else 0,
    )


def room_of(claim: Semantics, rank: int) -> tuple[int, int]:
    """Chunks of the two buffers that a caller passes, whatever part of them is used."""
    c, n = claim.nchunks, claim.ngpus
    if claim.collective == "allgather":
        return c // n, c
    if claim.collective == "reducescatter":
        return c, c // n
    return (c, c) if rank in members_of(claim) else (0, 0)


def result(claim: Semantics, inputs: Sequence[Array], chunk: int, op: str) -> list[Array | None]:
    """What numpy makes of the inputs: per rank the beginning of its output, None where nothing is wanted.

    Parameters
    ----------
    claim
        The collective; broadcast and reduce must name their root.
    inputs
        Per rank its contribution (``Sides.given`` chunks). Nothing that is returned shares memory with them.
    chunk
        Elements per chunk.
    op
        A key of ``OPERATIONS``.
    """
    name, members = claim.collective, members_of(claim)
    wanted: list[Array | None] = [None] * claim.ngpus
    if name == "custom":
        return wanted
    if name in REDUCING:
        total = inputs[members[0]].copy()
        for m in members[1:]:
            OPERATIONS[op](total, inputs[m], out=total)
        ends = np.cumsum([0, *shards_of(claim)]) * chunk if name.startswith("reducescatter") else None
        for m in members if name != "reduce" else (_root(claim),):
            wanted[m] = total if ends is None else total[ends[m] : ends[m + 1]]
    elif name.startswith("alltoall"):
        starts = np.cumsum(np.pad(pairs_of(claim), ((0, 0), (1, 0))), axis=1) * chunk
        for t in members:
            wanted[t] = np.concatenate([inputs[s][starts[s, t] : starts[s, t + 1]] for s in members])
    else:
        sources = (_root(claim),) if name == "broadcast" else members
        everything = np.concatenate([inputs[m] for m in sources])
        for m in members:
            wanted[m] = everything
    return wanted


def _root(claim: Semantics) -> int:
    if claim.root is None:
        raise InvalidInputError(f"{claim.collective} names no root")
    return claim.root
