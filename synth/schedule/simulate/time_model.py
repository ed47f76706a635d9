"""The constants of the time model (docs/time-model.md has its equations)."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import Final, Literal, get_args

from synth.errors import InvalidInputError

AlphaMode = Literal["pipelined", "blocking"]
Sharing = Literal["order", "fifo", "fair"]


@dataclass(frozen=True, slots=True)
class TimeModel:
    """How long messages take on links; capacities and latencies per link are the topology's.

    Attributes
    ----------
    alpha_mode
        ``pipelined``: a link is busy for bytes / capacity (TE-CCL, SIGCOMM'24). ``blocking``: for its latency +
        bytes / capacity (TACOS, MICRO'24).
    sharing
        How messages share a link or pool. ``order``: one at a time, in the schedule's order, as thread blocks do.
        ``fifo``: one at a time, in the order of arrival. ``fair``: all at once, max-min fair.
    start
        Seconds before anything moves, once.
    hop_latency
        Seconds added to the latency of every GPU-to-GPU hop.
    overhead
        Seconds that a message takes its first link before its first byte moves.
    reduce_rate
        Bytes/second at which a GPU adds what arrived; infinite when adding costs nothing.

    Raises
    ------
    InvalidInputError
        On numbers that are negative or not numbers, and unknown modes: all at once.
    """

    alpha_mode: AlphaMode = "pipelined"
    sharing: Sharing = "order"
    start: float = 0.0
    hop_latency: float = 0.0
    overhead: float = 0.0
    reduce_rate: float = math.inf

    def __post_init__(self) -> None:
        faults = [
            f"{name} {value!r} must be one of {', '.join(get_args(known))}"
            for name, value, known in (
                ("alpha_mode", self.alpha_mode, AlphaMode),
                ("sharing", self.sharing, Sharing),
            )
            if value not in get_args(known)
        ]
        for name in ("start", "hop_latency", "overhead"):
            faults += _seconds_fault(name, getattr(self, name))
        if not self.reduce_rate > 0:
            faults.append(f"reduce_rate {self.reduce_rate!r} must be more than 0 bytes/second")
        if faults:
            raise InvalidInputError(faults)


@dataclass(frozen=True, slots=True)
class BlockCosts:
    """What thread blocks of one protocol cost; what :func:`synth.schedule.calibrate` fits.

    Attributes
    ----------
    start
        Seconds before anything moves, once (launch and connection).
    latency
        Seconds from the end of a send to when the receiver sees it, beyond the links' own; also of a freed slot on
        its way back.
    overhead
        Seconds that a FIFO message takes the block that sends and the block that receives it.
    wait
        Seconds that a step with dependencies takes to see them met.
    copy_rate
        Bytes/second that one block moves while it sends or receives.
    local_rate
        Bytes/second that one block moves in a local copy or a local reduction.
    """

    start: float = 0.0
    latency: float = 0.0
    overhead: float = 0.0
    wait: float = 0.0
    copy_rate: float = math.inf
    local_rate: float = math.inf

    def __post_init__(self) -> None:
        faults = [fault for name in SECONDS for fault in _seconds_fault(name, getattr(self, name))]
        faults += [
            f"{name} {getattr(self, name)!r} must be more than 0 bytes/second"
            for name in RATES
            if not getattr(self, name) > 0
        ]
        if faults:
            raise InvalidInputError(faults)


SECONDS: Final = ("start", "latency", "overhead", "wait")
"""The costs in seconds."""
RATES: Final = tuple(field.name for field in fields(BlockCosts) if field.name not in SECONDS)
"""The costs in bytes/second."""


@dataclass(frozen=True, slots=True)
class Wire:
    """How a protocol moves a FIFO message.

    Attributes
    ----------
    part
        Part of a message that must have arrived before the receiver can use it; 0 for a stream.
    overhead
        Bytes on the link per byte of payload.
    slot_part
        Part of a message that must have been received before its slot can take the next one.

    Notes
    -----
    Simple moves a message of four FIFO steps in slices of two (NCCL ``ALLREDUCE_SLICESTEPS``), each posted on its own;
    LL flags every 4 bytes of data with 4 more and LL128 every 120 with 8, so that a line can be used when it is there.
    """

    part: float
    overhead: float
    slot_part: float


WIRES: Final = MappingProxyType(
    {"Simple": Wire(0.5, 1.0, 0.5), "LL": Wire(0.0, 2.0, 1.0), "LL128": Wire(0.0, 128 / 120, 1.0)}
)
"""By protocol."""


def _seconds_fault(name: str, value: float) -> list[str]:
    return [] if 0 <= value < math.inf else [f"{name} {value!r} must be a finite number of seconds, 0 or more"]
