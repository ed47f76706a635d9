"""What a schedule's program claims, and where each chunk of a shard lives in the buffers."""

from __future__ import annotations

import math
from collections.abc import Iterator

from synth.demand.model import Demand
from synth.program.meaning.semantics import Semantics
from synth.schedule.model import Schedule


def claim_of(schedule: Schedule) -> Semantics:
    """The collective in chunks: the standard one when it is even over all ranks, else its ``v`` or member form."""
    demand = schedule.plan.demand
    n = len(schedule.plan.topology.gpus)
    members = () if len(demand.ranks) == n else tuple(sorted(demand.ranks))
    if demand.size_bytes == 0:  # nothing is claimed of no bytes: an exchange without a chunk
        return Semantics("alltoallv", n, 1, None, members, (0,) * (n * n))
    if demand.pattern == "unicast":
        return _unicast(schedule, demand, n, members)
    if demand.collective in ("allgather", "reducescatter"):
        return _sharded(schedule, demand, n, members)
    chunks = schedule.shard_chunks[0] if schedule.shard_chunks else schedule.chunks_per_shard
    return Semantics(demand.collective, n, chunks, demand.root, members)


def _sharded(schedule: Schedule, demand: Demand, n: int, members: tuple[int, ...]) -> Semantics:
    counts = [0] * n
    for item, chunks in zip(demand.commodities, schedule.shard_chunks, strict=True):
        counts[item.root] = chunks
    if len(demand.ranks) == 1 and demand.size_bytes > 0:
        counts[demand.ranks[0]] = schedule.chunks_per_shard
    if not members and len(set(counts)) == 1 and counts[0]:
        return Semantics(demand.collective, n, sum(counts))
    return Semantics(demand.collective + "v", n, max(1, sum(counts)), None, members, tuple(counts))


def _unicast(schedule: Schedule, demand: Demand, n: int, members: tuple[int, ...]) -> Semantics:
    counts = [[0] * n for _ in range(n)]
    for item, chunks in zip(demand.commodities, schedule.shard_chunks, strict=True):
        if item.dest is not None:
            counts[item.root][item.dest] = chunks
    for rank, size in zip(demand.ranks, demand.local, strict=False):
        if size > 0:
            counts[rank][rank] = max(1, math.ceil(size / schedule.chunk_bytes - 1e-9))
    flat = [c for row in counts for c in row]
    if demand.collective == "alltoall" and not members and len(set(flat)) == 1 and flat[0]:
        return Semantics("alltoall", n, flat[0] * n)
    widest = max([sum(row) for row in counts] + [sum(column) for column in zip(*counts, strict=True)])
    return Semantics("alltoallv", n, max(1, widest), None, members, tuple(flat))


def _shard_counts(claim: Semantics) -> tuple[int, ...]:
    return claim.counts or (claim.nchunks // claim.ngpus,) * claim.ngpus


def _pair_count(claim: Semantics, source: int, dest: int) -> int:
    return claim.counts[source * claim.ngpus + dest] if claim.counts else claim.nchunks // claim.ngpus


def input_offset(claim: Semantics, schedule: Schedule, rank: int, shard: int) -> int:
    """Offset of a shard in the input buffer of a rank that has it."""
    item = schedule.plan.demand.commodities[shard]
    if item.dest is not None:
        return sum(_pair_count(claim, rank, t) for t in range(item.dest))
    if claim.collective.startswith("reducescatter"):
        return sum(_shard_counts(claim)[: item.root])
    return 0


def output_offset(claim: Semantics, schedule: Schedule, rank: int, shard: int) -> int:
    """Offset of a shard in the output buffer of a rank that gets it."""
    item = schedule.plan.demand.commodities[shard]
    if item.dest is not None:
        return sum(_pair_count(claim, s, rank) for s in range(item.root))
    if claim.collective.startswith("allgather"):
        return sum(_shard_counts(claim)[: item.root])
    return 0


def local_copies(claim: Semantics) -> Iterator[tuple[int, int, int, int]]:
    """Chunks that a rank keeps: (rank, input offset, output offset, count)."""
    members = claim.members or tuple(range(claim.ngpus))
    if claim.collective.startswith("alltoall"):
        for r in members:
            before = sum(_pair_count(claim, r, t) for t in range(r)), sum(_pair_count(claim, s, r) for s in range(r))
            yield r, *before, _pair_count(claim, r, r)
    elif claim.collective.startswith("allgather"):
        counts = _shard_counts(claim)
        for r in members:
            yield r, 0, sum(counts[:r]), counts[r]
    elif claim.collective == "broadcast" and claim.root is not None:
        yield claim.root, 0, 0, claim.nchunks
    elif len(members) == 1:  # a reduction over one rank is a copy
        count = _shard_counts(claim)[members[0]] if claim.collective.startswith("reducescatter") else claim.nchunks
        yield members[0], 0, 0, count
