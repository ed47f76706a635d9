"""Array types that every room takes."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
#: Permutations of nodes or ranks; 32 bits, since a large group has millions of them.
Table = npt.NDArray[np.int32]
