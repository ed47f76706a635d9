"""What a collective means, chunk by chunk: initial contents, expected outputs, buffer sizes, in-place aliasing.

Token ``r * C + k`` is input chunk ``k`` of rank ``r`` (``C`` = chunks per loop). Uneven collectives and collectives
over a subset of the ranks are ``custom`` to the runtimes; their conventions are:

* allgatherv: rank r's input holds its ``counts[r]`` chunks at offset 0; every member's output is the concatenation in
  rank order.
* reducescatterv: every member's input is the concatenation of all shards; the output of rank r is its ``counts[r]``
  chunks summed over the members.
* alltoallv: the input of s is the concatenation over destinations, the output of t over sources, in rank order; the
  diagonal block is a local copy.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from typing import Final

import numpy as np
from numpy.typing import NDArray

Tokens = NDArray[np.int64]

EVEN: Final = ("allgather", "reducescatter", "allreduce", "alltoall", "broadcast", "reduce")
UNEVEN: Final = ("allgatherv", "reducescatterv", "alltoallv")
ROOTED: Final = ("broadcast", "reduce")
SHARDED: Final = ("allgather", "reducescatter", "alltoall")
# Far beyond every runtime; keeps a hostile header from costing memory.
_MAX_RANKS: Final = 1 << 16
IN_PLACE: Final = ("allgather", "reducescatter", "allreduce", "broadcast", "reduce")


@dataclass(frozen=True, slots=True)
class Semantics:
    """What a program claims to compute, in chunks.

    Attributes
    ----------
    collective
        allgather, reducescatter, allreduce, alltoall, broadcast, reduce, allgatherv, reducescatterv, alltoallv or
        custom. Gather, scatter and send/recv are alltoallv with a sparse matrix. ``custom`` claims nothing.
    ngpus
        Ranks in the file, relays included.
    nchunks
        Chunks per loop (C): the larger side's buffer is cut into this many chunks.
    root
        Root rank of broadcast and reduce; None elsewhere or when a file does not say (then it is inferred).
    members
        Ranks that take part in the collective; the others only relay.
    counts
        allgatherv, reducescatterv: chunks of each rank's shard, length ngpus. alltoallv: the ngpus x ngpus matrix of
        chunks, row = source, flattened row by row. Otherwise empty.
    """

    collective: str
    ngpus: int
    nchunks: int
    root: int | None = None
    members: tuple[int, ...] = ()
    counts: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the three buffers of one rank start in its chunk address space (buffers overlap when in place)."""

    i: int
    o: int
    s: int
    total: int

    def at(self, buffer: str, offset: int) -> int:
        """Address of a chunk."""
        return (self.i if buffer == "i" else self.o if buffer == "o" else self.s) + offset


def member_ranks(semantics: Semantics) -> tuple[int, ...]:
    """Ranks that take part; an empty ``members`` means all."""
    return semantics.members or tuple(range(semantics.ngpus))


def is_standard(semantics: Semantics) -> bool:
    """Whether the runtimes know this collective by name (even, and all ranks take part)."""
    return semantics.collective in EVEN and len(member_ranks(semantics)) == semantics.ngpus


def normalised(semantics: Semantics) -> Semantics:
    """Return the same claim with a full ``members`` written as empty, so that equal claims compare equal."""
    if semantics.members != tuple(range(semantics.ngpus)):
        return semantics
    return Semantics(semantics.collective, semantics.ngpus, semantics.nchunks, semantics.root, (), semantics.counts)


def semantics_faults(semantics: Semantics) -> list[str]:
    """Everything that makes the claim itself meaningless, one message each."""
    faults: list[str] = []
    name, n, chunks = semantics.collective, semantics.ngpus, semantics.nchunks
    if name not in (*EVEN, *UNEVEN, "custom"):
        return [f"collective {name!r} is not known; known are {', '.join((*EVEN, *UNEVEN))}"]
    if not (1 <= n <= _MAX_RANKS and 1 <= chunks < 1 << 31):
        return [f"ngpus={n} must be in 1..{_MAX_RANKS} and nchunks={chunks} in 1..2^31-1"]
    members = semantics.members
    if list(members) != sorted(set(members)) or any(not 0 <= m < n for m in members):
        faults.append(f"members {list(members)} must be increasing ranks in 0..{n - 1}")
        return faults
    if name in (*SHARDED, "custom") and len(member_ranks(semantics)) != n:
        faults.append(
            f"{name} takes all {n} ranks; for a subset use {name}v" if name in SHARDED else "custom has members"
        )
    if name in SHARDED and chunks % n:
        faults.append(f"{name}: nchunks={chunks} is not a multiple of the {n} ranks")
    faults += _root_faults(semantics)
    faults += _counts_faults(semantics)
    return faults


def _root_faults(semantics: Semantics) -> list[str]:
    root = semantics.root
    if semantics.collective not in ROOTED:
        return [] if root is None else [f"{semantics.collective} has no root, but root={root}"]
    if root is not None and root not in member_ranks(semantics):
        return [f"root {root} is not a member"]
    return []


def _counts_faults(semantics: Semantics) -> list[str]:
    name, n, counts = semantics.collective, semantics.ngpus, semantics.counts
    if name not in UNEVEN:
        return ["counts are only for " + ", ".join(UNEVEN)] if counts else []
    want = n * n if name == "alltoallv" else n
    if len(counts) != want or any(c < 0 for c in counts):
        return [f"{name}: counts must be {want} numbers >= 0, there are {len(counts)}"]
    members = set(member_ranks(semantics))
    if name != "alltoallv":
        faults = [
            f"{name}: rank {r} is not a member but has {counts[r]} chunks"
            for r in range(n)
            if r not in members and counts[r]
        ]
        sums = [("all shards together have", sum(counts))]
    else:
        pairs = [
            (s, t) for s in range(n) for t in range(n) if counts[s * n + t] and not (s in members and t in members)
        ]
        faults = [f"alltoallv: rank {s} sends to rank {t}, but both must be members" for s, t in pairs]
        sums = [(f"the input of rank {s} has", sum(counts[s * n : s * n + n])) for s in range(n)]
        sums += [(f"the output of rank {t} has", sum(counts[t::n])) for t in range(n)]
    return faults + [
        f"{name}: {who} {k} chunks, more than nchunks={semantics.nchunks}" for who, k in sums if k > semantics.nchunks
    ]


def buffer_chunks(semantics: Semantics, rank: int) -> tuple[int, int]:
    """(i_chunks, o_chunks) that a file for this claim declares for a rank.

    Notes
    -----
    The legacy parser wants i_chunks * a = nchunks = o_chunks * b (formats.md 1.7), so members of a custom collective
    declare all C chunks even when they use fewer; ranks that only relay declare none.
    """
    c, n = semantics.nchunks, semantics.ngpus
    if semantics.collective == "allgather":
        return c // n, c
    if semantics.collective == "reducescatter":
        return c, c // n
    return (c, c) if rank in member_ranks(semantics) else (0, 0)


def input_tokens(semantics: Semantics, rank: int) -> Tokens:
    """Tokens in the input buffer of a rank at the start; chunks beyond its length are undefined.

    Only the root has data in a broadcast: the other ranks' input buffers are garbage to the collective.
    """
    name, n, c = semantics.collective, semantics.ngpus, semantics.nchunks
    used = c
    if rank not in member_ranks(semantics) or (name == "broadcast" and semantics.root not in (None, rank)):
        used = 0
    elif name == "allgather":
        used = c // n
    elif name == "allgatherv":
        used = semantics.counts[rank]
    elif name == "reducescatterv":
        used = sum(semantics.counts)
    elif name == "alltoallv":
        used = sum(semantics.counts[rank * n : rank * n + n])
    return rank * c + np.arange(used, dtype=np.int64)


def expected_output(semantics: Semantics, rank: int) -> tuple[Tokens, ...]:
    """Terms whose elementwise sum a rank's output buffer must hold from offset 0; empty when it does not matter."""
    name, n, c = semantics.collective, semantics.ngpus, semantics.nchunks
    members = member_ranks(semantics)
    if name == "custom" or rank not in members or (name == "reduce" and rank != semantics.root):
        return ()
    if name in ("allreduce", "reduce"):
        return tuple(_run(m, 0, c, c) for m in members)
    if name == "broadcast":
        return (_run(semantics.root or 0, 0, c, c),)
    if name == "alltoallv":
        parts = [
            _run(s, sum(semantics.counts[s * n : s * n + rank]), semantics.counts[s * n + rank], c) for s in members
        ]
        return (np.concatenate(parts),)
    if name == "alltoall":
        return (np.concatenate([_run(s, rank * (c // n), c // n, c) for s in members]),)
    counts = semantics.counts or (c // n,) * n
    starts = (0, *accumulate(counts))
    if name in ("allgather", "allgatherv"):
        return (np.concatenate([_run(m, 0, counts[m], c) for m in members]),)
    return tuple(_run(m, starts[rank], counts[rank], c) for m in members)


def _run(rank: int, start: int, count: int, chunks: int) -> Tokens:
    return rank * chunks + start + np.arange(count, dtype=np.int64)


def layout(semantics: Semantics, rank: int, sizes: tuple[int, int, int], inplace: bool) -> Layout:
    """Address space of one rank.

    Parameters
    ----------
    semantics, rank
        The claim, and whose memory is laid out.
    sizes
        Chunks of the input, output and scratch that the file declares; an empty buffer still exists in the call.
    inplace
        Whether the caller passes one buffer for both sides. Aliasing is that of formats.md 1.7; without a claimed
        meaning (``custom``) none is assumed.
    """
    want_i, want_o = buffer_chunks(semantics, rank)
    size_i, size_o, scratch_chunks = max(sizes[0], want_i), max(sizes[1], want_o), sizes[2]
    if not inplace or semantics.collective == "custom":
        return Layout(0, size_i, size_i + size_o, size_i + size_o + scratch_chunks)
    shard = rank * (semantics.nchunks // semantics.ngpus)
    at_i = shard if semantics.collective == "allgather" else 0
    at_o = shard if semantics.collective == "reducescatter" else 0
    scratch = max(at_i + size_i, at_o + size_o)
    return Layout(at_i, at_o, scratch, scratch + scratch_chunks)
