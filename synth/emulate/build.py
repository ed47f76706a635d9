"""A draft, a size and a mode as a job: how the size is cut up, and where everything lies in shared memory."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from synth.emulate.blocks import SENDING, Key, Place, connection_faults, plain_blocks, step_faults
from synth.emulate.collective import ALIASING, room_of, sides_of
from synth.emulate.machine.job import Job, Ring, memory_size
from synth.errors import InvalidInputError, VerificationError
from synth.program.msccl.model import Draft, GpuProgram
from synth.program.msccl.targets import Target

_ALIGN: Final = 64
_SHOWN: Final = 20
# Share of the machine's memory that one run may take.
_SHARE: Final = 0.8


@dataclass(frozen=True, slots=True)
class Cut:
    """How a size is cut up (formats.md 1.6, 1.7).

    Attributes
    ----------
    chunk
        Elements per chunk.
    piece, iterations
        Elements of each chunk that one loop iteration moves, and how many iterations that takes.
    per_message, depth
        Chunks in one FIFO message; messages in one FIFO.
    """

    chunk: int
    piece: int
    iterations: int
    per_message: int
    depth: int


def cut_size(draft: Draft, size: int, dtype: np.dtype[Any], target: Target, depth: int | None) -> Cut:
    """Cut a size into chunks, iterations and messages.

    Raises
    ------
    InvalidInputError
        When the runtime would not run the program at this size: the elements must divide by the chunks.
    """
    protocol = target.protocol(draft.proto)
    if protocol is None:
        known = ", ".join(p.name for p in target.protocols)
        raise InvalidInputError(f"protocol {draft.proto!r} is not one of {known} ({target.name})")
    if depth is not None and depth < 1:
        raise InvalidInputError(f"a FIFO depth of {depth} holds no message")
    chunks, item = draft.semantics.nchunks, dtype.itemsize
    unit = chunks * item
    if size < 1 or size % unit:
        below = size // unit * unit
        near = " and ".join(f"{s} B" for s in (below, below + unit) if s > 0)
        raise InvalidInputError(
            f"{size} B of {dtype} do not divide into {chunks} chunks of whole elements; nearest valid: {near}"
        )
    chunk = size // unit
    piece = min(chunk, protocol.payload_bytes // item)
    per_message = min(max(1, protocol.payload_bytes // (chunk * item)), target.max_count)
    return Cut(chunk, piece, math.ceil(chunk / piece), per_message, protocol.depth if depth is None else depth)


@dataclass(frozen=True, slots=True)
class Built:
    """A job, where each rank's buffers are (element addresses), and the connections' names."""

    job: Job
    places: tuple[Place, ...]
    keys: tuple[Key, ...]


def build_job(draft: Draft, cut: Cut, dtype: np.dtype[Any], op: str, inplace: bool, timeout: float) -> Built:
    """Lay out the shared memory and translate every step.

    Raises
    ------
    VerificationError
        When the program could not even start: connections with one end, steps outside their buffers. All at once.
    InvalidInputError
        When this machine has not enough memory.
    """
    gpus = _gpus(draft)
    places, end = _places(draft, gpus, cut.chunk, inplace)
    faults = list(connection_faults(draft))
    for gpu, place in zip(gpus, places, strict=True):
        faults += step_faults(gpu, place)
    if faults:
        hidden = len(faults) - _SHOWN
        raise VerificationError(faults[:_SHOWN] + ([f"and {hidden} more faults"] if hidden > 0 else []))
    widths = _widths(gpus, cut)
    keys, rings = tuple(sorted(widths)), []
    for key in keys:
        rings.append(Ring(key[0], key[1], end, widths[key], cut.depth))
        end += _aligned(widths[key] * cut.depth)
    numbers = {key: number for number, key in enumerate(keys)}
    blocks, first = [], 0
    for gpu, place in zip(gpus, places, strict=True):
        blocks.append(plain_blocks(gpu, place, numbers, first, cut.chunk))
        first += len(gpu.blocks)
    sizes = (cut.chunk, cut.piece, cut.iterations, cut.per_message, end)
    job = Job(str(dtype), op, *sizes, timeout, tuple(rings), tuple(blocks))
    _check_memory(job)
    return Built(job, places, keys)


def _gpus(draft: Draft) -> list[GpuProgram]:
    """One program per rank, in order; a rank that the file leaves out runs nothing, as on the real thing."""
    n, programs = draft.semantics.ngpus, {gpu.id: gpu for gpu in draft.gpus}
    if len(programs) != len(draft.gpus) or any(not 0 <= rank < n for rank in programs):
        raise VerificationError(f"the file must hold ranks of 0..{n - 1}, each once; it holds {sorted(programs)[:16]}")
    return [programs.get(rank, GpuProgram(rank, 0, 0, 0, ())) for rank in range(n)]


def _places(draft: Draft, gpus: Sequence[GpuProgram], chunk: int, inplace: bool) -> tuple[tuple[Place, ...], int]:
    """Buffers of every rank, and the first free element behind them."""
    claim, places, at = draft.semantics, [], 0
    aliased = inplace and claim.collective in ALIASING
    for gpu in gpus:
        room_i, room_o = room_of(claim, gpu.id)
        room_i, room_o = max(room_i, gpu.i_chunks), max(room_o, gpu.o_chunks)
        if aliased:
            sides = sides_of(claim, gpu.id)
            i_at, o_at = sides.i_at, sides.o_at
        else:
            i_at, o_at = 0, room_i
        starts = {"i": at + i_at * chunk, "o": at + o_at * chunk}
        at += _aligned(max(i_at + room_i, o_at + room_o) * chunk)
        starts["s"] = at
        at += _aligned(gpu.s_chunks * chunk)
        places.append(Place(starts, {"i": gpu.i_chunks, "o": gpu.o_chunks, "s": gpu.s_chunks}))
    return tuple(places), at


def _widths(gpus: Sequence[GpuProgram], cut: Cut) -> Mapping[Key, int]:
    """Elements of the largest message on every connection."""
    widths: dict[Key, int] = {}
    for gpu in gpus:
        for block in gpu.blocks:
            if block.send >= 0:
                most = max((step.cnt for step in block.steps if step.type in SENDING), default=0)
                widths[gpu.id, block.send, block.chan] = min(most, cut.per_message) * cut.piece
    return widths


def _aligned(elements: int) -> int:
    return -(-elements // _ALIGN) * _ALIGN


def _check_memory(job: Job) -> None:
    need = memory_size(job)
    have = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if need > _SHARE * have:
        raise InvalidInputError(
            f"this run needs {need / 2**30:.1f} GiB of shared memory, the machine has {have / 2**30:.1f} GiB: "
            "take a smaller size"
        )
