"""Finer chunks: the same transfers on pieces of every chunk, so that several thread blocks can share them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from synth.schedule.model import Schedule, Transfer
from synth.schedule.simulate.run import with_times


def for_instances(schedule: Schedule, instances: int) -> Schedule:
    """The schedule with at least ``instances`` transfers on every path, cut as little as that takes."""
    return cut(schedule, -(-instances // fewest_on_a_path(schedule)))


def cut(schedule: Schedule, pieces: int) -> Schedule:
    """Every shard as ``pieces`` parts, each of which moves as the whole shard did.

    Part p of a shard of n chunks is its chunks ``p n .. p n + n - 1``; the parts of a transfer follow each other in the
    order, depend on the same part alone, and so can take turns over channels without ever meeting.

    Parameters
    ----------
    schedule
        What is cut; its quantised time stays. One whose transfers go together in messages is returned as it is.
    pieces
        Parts of each shard, 1 or more.
    """
    if pieces == 1 or not schedule.transfers or schedule.messages:
        return schedule
    finer = replace(
        schedule,
        chunks_per_shard=schedule.chunks_per_shard * pieces,
        chunk_bytes=schedule.chunk_bytes / pieces,
        shard_chunks=tuple(n * pieces for n in schedule.shard_chunks),
        counts=tuple(n * pieces for n in schedule.counts),
        transfers=tuple(_parts(schedule, pieces)),
        refined=schedule.refined * pieces,
    )
    return with_times(finer)


def _parts(schedule: Schedule, pieces: int) -> Iterator[Transfer]:
    for transfer in schedule.transfers:
        chunks = schedule.shard_chunks[transfer.shard]
        for part in range(pieces):
            deps = tuple(dep * pieces + part for dep in transfer.deps)
            yield replace(transfer, first=part * chunks + transfer.first, deps=deps)


def fewest_on_a_path(schedule: Schedule) -> int:
    """Transfers of the path that has the fewest: more channels than that have nothing to do."""
    count = Counter((t.src, t.dst, t.links) for t in schedule.transfers)
    return min(count.values(), default=1)
