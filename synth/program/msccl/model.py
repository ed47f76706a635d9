"""What a runtime executes: per rank, thread blocks of steps. Not yet verified at this level."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from synth.program.meaning.semantics import Semantics

Buffer = Literal["i", "o", "s"]
StepType = Literal["s", "r", "rcs", "rrs", "rrc", "rrcs", "cpy", "re", "nop"]


@dataclass(frozen=True, slots=True)
class Step:
    """One instruction of a thread block; fields as in MSCCL XML (``depid``/``deps`` are -1 when there is no wait)."""

    type: StepType
    srcbuf: Buffer
    srcoff: int
    dstbuf: Buffer
    dstoff: int
    cnt: int
    depid: int = -1
    deps: int = -1
    hasdep: bool = False


@dataclass(frozen=True, slots=True)
class ThreadBlock:
    """A sequential list of steps with at most one send peer and one receive peer (-1: none) on one channel."""

    id: int
    send: int
    recv: int
    chan: int
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class GpuProgram:
    """Everything that one rank runs, and the sizes of its buffers in chunks."""

    id: int
    i_chunks: int
    o_chunks: int
    s_chunks: int
    blocks: tuple[ThreadBlock, ...]


@dataclass(frozen=True, slots=True)
class Draft:
    """A program as written, not verified. Only ``Program`` (which verifies) may be exported as a result."""

    name: str
    semantics: Semantics
    nchannels: int
    proto: str
    inplace: bool
    outofplace: bool
    min_bytes: int
    max_bytes: int
    gpus: tuple[GpuProgram, ...]
