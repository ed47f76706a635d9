"""Runtimes that execute programs, as data: one record of limits each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from synth.program.opcodes import STEP_TYPES


@dataclass(frozen=True, slots=True)
class Protocol:
    """A transport protocol of the runtime.

    Attributes
    ----------
    payload_bytes
        Most bytes in one FIFO message, with default buffer sizes.
    depth
        Messages that a connection holds before its sender blocks.
    """

    name: str
    payload_bytes: int
    depth: int


@dataclass(frozen=True, slots=True)
class Target:
    """Limits of one runtime; sources in formats.md 1.1-1.7 and user-reports.md 40-41.

    Attributes
    ----------
    collectives
        Pairs (our name, the file's ``coll``).
    custom
        The file's ``coll`` for anything else, or None when the runtime has no such thing.
    max_offset
        Largest start offset of a step (16-bit signed storage).
    max_dep_block
        Largest thread block id that can be waited for (8-bit signed storage).
    max_nodes
        XML elements kept per rank: algo, all gpus, this rank's blocks and steps.
    max_fused_reductions
        Longest run of ``re`` steps that the parser may merge into one.
    chunk_rule
        Whether the parser compares i_chunks and o_chunks with nchunksperloop.
    reads_outofplace
        Whether the runtime reads ``outofplace``; else a file runs only in the mode that ``inplace`` names.
    zero_max_is_unlimited
        Whether maxBytes="0" means "no upper limit" (else such a file is never selected).
    """

    name: str
    collectives: tuple[tuple[str, str], ...]
    custom: str | None
    protocols: tuple[Protocol, ...]
    step_types: frozenset[str] = STEP_TYPES
    max_gpus: int = 1024
    max_channels: int = 32
    max_blocks_per_gpu: int = 216
    max_blocks_per_channel: int = 32
    max_steps_per_block: int = 256
    max_count: int = 71
    max_offset: int = 32767
    max_dep_block: int = 127
    max_nodes: int = 4095
    max_fused_reductions: int = 16
    max_name_bytes: int = 63
    max_attributes: int = 16
    max_value_chars: int = 253
    chunk_rule: bool = True
    reads_outofplace: bool = False
    zero_max_is_unlimited: bool = False

    def protocol(self, name: str) -> Protocol | None:
        """Return the protocol of that name, or None."""
        return next((p for p in self.protocols if p.name == name), None)

    def coll_name(self, collective: str) -> str | None:
        """Return the file's name of one of our collectives, or None when the runtime does not know it."""
        return dict(self.collectives).get(collective)


MSCCL: Final = Target(
    name="msccl",
    collectives=(
        ("allreduce", "allreduce"),
        ("allgather", "allgather"),
        ("reduce", "reduce"),
        ("broadcast", "broadcast"),
        ("alltoall", "alltoall"),
        ("reducescatter", "reduce_scatter"),
    ),
    custom="custom",
    protocols=(Protocol("Simple", 2 << 20, 2), Protocol("LL", 32 << 10, 8), Protocol("LL128", 576_000, 8)),
)
"""The legacy microsoft/msccl runtime, 0.7.4."""
