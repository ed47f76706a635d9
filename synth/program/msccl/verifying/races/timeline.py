"""Chunk times: each block's ops laid end to end, one tick per chunk, and which chunk meets which across connections."""

from __future__ import annotations

import numpy as np

from synth.program.msccl.verifying.image import Image


class Timeline:
    """Times of one program.

    Attributes
    ----------
    start
        Per op, the tick of its first chunk on its block; its last chunk is ``start + cnt - 1``.
    receiver_of, sender_of
        Per op, the op at the other end of its message, or -1.
    """

    def __init__(self, image: Image) -> None:
        total = np.concatenate(([0], np.cumsum(image.cnt)))
        self.start = total[:-1] - total[image.first[:-1]][image.unit]
        sends, receives = np.flatnonzero(image.sends), np.flatnonzero(image.receives)
        sends = sends[np.argsort(image.outbound[image.unit[sends]], kind="stable")]
        receives = receives[np.argsort(image.inbound[image.unit[receives]], kind="stable")]
        self.receiver_of = np.full(image.ops, -1, dtype=np.int64)
        self.sender_of = np.full(image.ops, -1, dtype=np.int64)
        # Both are sorted by connection, and a connection has equally many sends and receives (structure_faults).
        self.receiver_of[sends] = receives
        self.sender_of[receives] = sends
