"""At which message sizes a program hangs (formats.md 1.6).

The larger the message, the fewer chunks fit into one FIFO slot, the more messages a step is. Hanging is monotone: with
a step cut into more messages, every wait for a free slot only comes earlier.
"""

from __future__ import annotations

from typing import Final

from synth.program.msccl.model import Draft
from synth.program.msccl.targets import Target
from synth.program.msccl.verifying.image import Image, build_image
from synth.program.msccl.verifying.replay import replay
from synth.program.msccl.verifying.structure import structure_faults

UNLIMITED: Final = (1 << 63) - 1


def chunks_at(draft: Draft, target: Target, size_bytes: int) -> int:
    """Chunks that fit into one FIFO message when the collective has ``size_bytes`` bytes; 1 for a size of 0 or less."""
    protocol = target.protocol(draft.proto)
    if protocol is None or size_bytes <= 0:
        return 1
    chunk_bytes = -(-size_bytes // draft.semantics.nchunks)
    return min(max(1, protocol.payload_bytes // chunk_bytes), target.max_count)


def chunks_per_message(draft: Draft, target: Target) -> int:
    """Chunks that fit into one FIFO message at the draft's largest size, the hardest for deadlocks."""
    return chunks_at(draft, target, draft.max_bytes)


def hang_at(draft: Draft, target: Target, size_bytes: int) -> str:
    """Blocks that wait for each other at one message size, in words; empty when the program ends.

    Parameters
    ----------
    draft
        A draft without structure faults.
    size_bytes
        nccl-tests size of the collective.
    """
    protocol = target.protocol(draft.proto)
    depth = protocol.depth if protocol else 2
    return replay(build_image(draft, inplace=False), depth, chunks_at(draft, target, size_bytes)).cycle


def deadlock_free_max_bytes(draft: Draft, target: Target, limit: int) -> int | None:
    """Largest maxBytes up to ``limit`` at which the draft does not hang.

    Parameters
    ----------
    draft
        A program as written; its own max_bytes is not used.
    limit
        Largest value to return, bytes.

    Returns
    -------
    int or None
        None when the program hangs at every size, or has structure faults.

    Notes
    -----
    Most programs pass at the hardest size, one message per chunk, and cost a single replay.
    """
    protocol = target.protocol(draft.proto)
    if protocol is None or structure_faults(draft):
        return None
    return largest_size(draft, target, build_image(draft, inplace=False), protocol.depth, limit)


safe_max_bytes = deadlock_free_max_bytes


def largest_size(draft: Draft, target: Target, image: Image, depth: int, limit: int) -> int | None:
    """:func:`deadlock_free_max_bytes` of a draft that is already an image."""
    if not replay(image, depth, 1, 1).cycle:
        return limit
    most = min(target.max_count, int(image.cnt.max(initial=1)))
    if replay(image, depth, most, 1).cycle:
        return None
    low, high = 2, most
    while low < high:
        middle = (low + high) // 2
        if replay(image, depth, middle, 1).cycle:
            low = middle + 1
        else:
            high = middle
    protocol = target.protocol(draft.proto)
    payload = protocol.payload_bytes if protocol else 1
    return min(limit, payload // low * draft.semantics.nchunks)


def range_limit(draft: Draft, target: Target) -> int:
    """Largest size of the range in which the file is active."""
    unlimited = draft.max_bytes == 0 and target.zero_max_is_unlimited
    return UNLIMITED if unlimited else draft.max_bytes
