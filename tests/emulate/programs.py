"""Generated programs, each solved once per test process, and sizes that fit them."""

from __future__ import annotations

from functools import cache
from typing import Any

import synth
from synth.program.meaning.lowering_options import Lowering
from synth.program.msccl.lowering.lower import make_draft
from synth.program.msccl.model import Draft
from synth.schedule import Schedule, make_schedule


@cache
def schedule(topology: str, collective: str, ranks: tuple[int, ...] | None = None) -> Schedule:
    """A coarse one: how good it is does not matter here, and few chunks are made and run faster."""
    options: dict[str, Any] = {"ranks": ranks} if ranks else {}
    return make_schedule(synth.solve(topology, collective, "1 MB", **options), chunks=3)


def program(topology: str, collective: str, *, inplace: bool = False, **options: Any) -> Draft:
    """What ``synthesize`` makes, short of its verification: the run shall stand on its own."""
    return make_draft(schedule(topology, collective, **options), options=Lowering(inplace=inplace))


def size_of(draft: Draft, elements: int = 3, item: int = 4) -> int:
    """Size at which a chunk has that many elements."""
    return draft.semantics.nchunks * elements * item
