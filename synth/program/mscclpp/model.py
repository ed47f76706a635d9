"""An MSCCL++ execution plan (JSON 0.9) as values, and the limits of its executor. Not yet verified at this level.

Sources: microsoft/mscclpp 0.9.0 src/core/executor/execution_plan.cc (fields), src/core/include/execution_common.hpp
(limits), src/core/include/execution_kernel.hpp (what each operation does), docs/dsl/concepts.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from synth.program.meaning.semantics import Semantics

BUFFERS: Final = ("i", "o", "s")
UNLIMITED: Final = (1 << 64) - 1

SYNCS: Final = ("nop", "barrier")
SIGNALS: Final = ("signal", "rlxsignal")
WAITS: Final = ("wait", "rlxwait")
PUTS: Final = ("put", "pws", "pwsf")
REDUCTIONS: Final = ("re", "res", "rre", "rres")
PACKETS: Final = ("ppkt", "rppkt", "cpkt", "upkt", "repkt", "recpkt", "respkt", "recspkt")
SWITCHES: Final = ("gstore", "gstorepkt", "glres")
SEMAPHORES: Final = ("sem_acquire", "sem_release")
OPERATIONS: Final = (
    *(*SYNCS, *SIGNALS, *WAITS, *PUTS, "get", "copy", "flush", *REDUCTIONS),
    *(*PACKETS, *SWITCHES, *SEMAPHORES, "pipeline"),
)


@dataclass(frozen=True, slots=True)
class MscclppLimits:
    """Limits of the executor; ``max_blocks`` is the SM count of the GPU, because all blocks must be resident at once.

    Attributes
    ----------
    max_ops
        Operations of a thread block, those inside pipelines included (checked by the executor).
    max_channels, max_remote_buffers
        Of a thread block and channel type (fixed arrays, unchecked).
    max_channel_ids, max_entries
        Channel ids, and source or destination slices, of an operation (fixed arrays, unchecked).
    max_barriers, max_semaphores
        Of a GPU (fixed arrays, unchecked).
    max_buffer_bytes
        Offsets and sizes have 32 bits.
    max_blocks
        Thread blocks of a GPU. The default is the 80 SMs of a V100, the smallest GPU among the built-in machines:
        more blocks than can be resident hang (microsoft/mscclpp issues 242 and 320).
    max_port_gpus
        GPUs of a host that can use port channels between hosts: executor.cc has a table of 8 InfiniBand devices.
    """

    max_ops: int = 64
    max_channels: int = 16
    max_remote_buffers: int = 16
    max_channel_ids: int = 8
    max_entries: int = 10
    max_barriers: int = 16
    max_semaphores: int = 16
    max_buffer_bytes: int = (1 << 32) - 1
    max_blocks: int = 80
    max_threads: int = 1024
    max_port_gpus: int = 8


MSCCLPP_LIMITS: Final = MscclppLimits()


@dataclass(frozen=True, slots=True)
class Slice:
    """Chunks ``index .. index + size - 1`` of a local buffer (``type``), a remote buffer or a switch channel.

    ``buffer_id`` and ``switch_id`` are positions in the thread block's own lists.
    """

    index: int
    size: int
    type: str | None = None
    buffer_id: int | None = None
    switch_id: int | None = None


@dataclass(frozen=True, slots=True)
class MscclppOp:
    """One operation of a thread block; what is not given in the file is None or empty.

    Attributes
    ----------
    channel_ids
        Positions in the thread block's list of channels of ``channel_type``.
    tbg
        (tb_id, tbg_size): the operation's share of bytes when several blocks divide it.
    iter_context
        (unit_size in bytes, num_chunks) of a pipeline, whose operations are ``ops``.
    """

    name: str
    src: tuple[Slice, ...] = ()
    dst: tuple[Slice, ...] = ()
    channel_type: str | None = None
    channel_ids: tuple[int, ...] = ()
    reduce_op: str | None = None
    tbg: tuple[int, int] | None = None
    barrier_id: int | None = None
    num_threadblocks: int | None = None
    semaphore_ids: tuple[int, ...] = ()
    iter_context: tuple[int, int] | None = None
    ops: tuple[MscclppOp, ...] = ()


@dataclass(frozen=True, slots=True)
class MscclppBlock:
    """A thread block: its channels and remote buffers (global ids, by channel type), and its operations in order."""

    id: int
    channels: tuple[tuple[str, tuple[int, ...]], ...]
    remote_buffer_refs: tuple[tuple[str, tuple[int, ...]], ...]
    ops: tuple[MscclppOp, ...]

    def channel_list(self, kind: str) -> tuple[int, ...]:
        """Global ids of the block's channels of a type."""
        return tuple(i for name, ids in self.channels if name == kind for i in ids)

    def buffer_list(self, kind: str) -> tuple[int, ...]:
        """Global ids of the block's remote buffers that a channel type reaches."""
        return tuple(i for name, ids in self.remote_buffer_refs if name == kind for i in ids)


@dataclass(frozen=True, slots=True)
class MscclppChannel:
    """Channels of a type on one GPU: a peer per channel, or rank groups of a switch channel."""

    type: str
    connected_to: tuple[int, ...] = ()
    buffer_type: str | None = None
    rank_groups: tuple[tuple[int, tuple[int, ...]], ...] = ()


@dataclass(frozen=True, slots=True)
class MscclppRemoteBuffer:
    """A buffer of another rank, and the channel types that reach it."""

    rank: int
    type: str
    access: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MscclppGpu:
    """Everything that one rank runs, and the sizes of its buffers in chunks."""

    id: int
    input_chunks: int
    output_chunks: int
    scratch_chunks: int
    channels: tuple[MscclppChannel, ...]
    remote_buffers: tuple[MscclppRemoteBuffer, ...]
    semaphores: tuple[int, ...]
    blocks: tuple[MscclppBlock, ...]

    def peers(self, kind: str) -> tuple[int, ...]:
        """Peer of every channel of a type; the position is the channel's global id."""
        return tuple(peer for channel in self.channels if channel.type == kind for peer in channel.connected_to)


@dataclass(frozen=True, slots=True)
class MscclppDraft:
    """A plan as written, not verified. Only ``MscclppProgram`` (which verifies) may be exported as a result.

    Attributes
    ----------
    min_message_size, max_message_size
        Bytes of the input (of the output for collective ``allgather``) between which the executor takes the plan.
    semantics
        What the plan claims to compute, in its chunks; None when a foreign file does not say.
    """

    name: str
    collective: str
    protocol: str
    inplace: bool
    gpus: tuple[MscclppGpu, ...]
    reuse_resources: bool = False
    use_double_scratch_buffer: bool = False
    buffer_alignment: int = 16
    min_message_size: int = 0
    max_message_size: int = UNLIMITED
    num_threads_per_block: int = 1024
    semantics: Semantics | None = None


def message_chunks(draft: MscclppDraft, gpu: MscclppGpu) -> int:
    """Chunks of the buffer whose size the executor compares with the message range."""
    return gpu.output_chunks if draft.collective == "allgather" else gpu.input_chunks


def flat_ops(ops: tuple[MscclppOp, ...]) -> tuple[MscclppOp, ...]:
    """Operations as the executor counts them: a pipeline, then what is in it."""
    return tuple(op for outer in ops for op in (outer, *(outer.ops if outer.name == "pipeline" else ())))
