"""The fluid limit: no chunks, bytes of one transfer move wherever there is room."""

from __future__ import annotations

import numpy as np

from synth.ground.arrays import Floats


def fluid_time(starts: Floats, rates: Floats, size: float) -> float:
    """Seconds until the integral of a step function reaches ``size``.

    Parameters
    ----------
    starts
        Seconds, increasing; ``rates[k]`` (bytes/second) holds from ``starts[k]`` on, the last one for ever.
    rates
        0 or more, the last one above 0.
    size
        Bytes.
    """
    if size <= 0:
        return 0.0
    moved = np.concatenate([[0.0], np.cumsum(np.diff(starts) * rates[:-1])])
    step = int(np.searchsorted(moved, size, side="left")) - 1
    return float(starts[step] + (size - moved[step]) / rates[step])
