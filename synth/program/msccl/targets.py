"""Runtimes that execute MSCCL programs, as data: one record of names, limits and habits each.

Sources: formats.md 1.1-1.7, and the parsers themselves: microsoft/msccl ``src/graph/topo.cc``, ``src/include/msccl.h``;
Azure/msccl-executor-nccl, ROCm/rccl ``src/misc/msccl/msccl_parser.cc``, ``src/include/msccl/msccl_struct.h``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from synth.errors import InvalidInputError
from synth.program.msccl.opcodes import STEP_TYPES, UNFUSED_TYPES


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
    """One runtime; limits are those of its default build.

    Attributes
    ----------
    title
        Name for people, with the versions that the numbers are from.
    loaded_from, bad_file
        How a file reaches the runtime, and what happens when it refuses one.
    collectives
        Pairs (our name, the file's ``coll``).
    custom
        The file's ``coll`` for anything else, or None when the runtime has no such thing.
    other_colls
        Further values of ``coll`` that its parser takes, whose meaning is not claimed here.
    required
        Attributes of ``algo`` without which its parser refuses a file, in the order in which it asks for them.
    step_types
        Step types that can run.
    parsed_step_types
        Step types that its parser takes; the others among them are refused, or do nothing, at launch.
    max_offset
        Largest start offset of a step (16-bit signed storage).
    max_dep_block
        Largest thread block id that can be waited for (8-bit signed storage).
    max_nodes
        XML elements kept per rank: algo, all gpus, this rank's blocks and steps.
    max_fused_reductions
        Longest run of ``re`` steps that the parser may merge into one.
    max_algorithms
        Files that can be loaded at once.
    resident_blocks
        Thread blocks that fit on the GPU at once, one per SM or CU (A100 108, H100 132, MI300X 304). More hang, and
        nothing checks it; see :meth:`on_gpu` for other GPUs.
    nthreads_multiple
        What ``nthreads`` must be a multiple of, or 0 when the runtime does not read it.
    chunk_rule
        Whether the parser compares i_chunks and o_chunks with nchunksperloop.
    checks_peers
        Whether the parser refuses peers beyond ``ngpus``.
    checks_ranks
        Whether the parser refuses a file for another number of ranks; else it is never selected.
    checks_sizes
        Whether the parser refuses minBytes > maxBytes and negative sizes.
    checks_counts_from
        Smallest ``cnt`` of a send or receive that the parser survives (0 writes out of bounds in the legacy runtime).
    first_element_only
        Whether a first pass reads the file's first element alone, which must then be the ``algo``.
    reads_outofplace
        Whether the runtime reads ``outofplace`` (a file may then serve both kinds of call); else a file serves only
        the kind of call that ``inplace`` names.
    zero_max_is_unlimited
        Whether maxBytes="0" means "no upper limit" (else such a file is never selected).
    max_is_inclusive
        Whether a message of exactly ``maxBytes`` is served.
    simple_hangs_between_hosts
        Collectives that the Simple protocol is likely to hang in over a network, where the host counts other steps than
        the kernel (formats.md 1.6).
    default_max_bytes
        ``maxBytes`` of a file without one, or None when it is required.
    """

    name: str
    collectives: tuple[tuple[str, str], ...]
    custom: str | None
    protocols: tuple[Protocol, ...]
    title: str = ""
    loaded_from: str = ""
    bad_file: str = ""
    other_colls: tuple[str, ...] = ()
    required: tuple[str, ...] = ()
    step_types: frozenset[str] = STEP_TYPES
    parsed_step_types: frozenset[str] = STEP_TYPES
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
    max_algorithms: int = 1024
    resident_blocks: int = 108
    nthreads_multiple: int = 0
    chunk_rule: bool = False
    checks_peers: bool = False
    checks_ranks: bool = False
    checks_sizes: bool = False
    checks_counts_from: int = 0
    first_element_only: bool = True
    reads_outofplace: bool = True
    zero_max_is_unlimited: bool = True
    max_is_inclusive: bool = True
    simple_hangs_between_hosts: tuple[str, ...] = ()
    default_max_bytes: int | None = None

    def protocol(self, name: str) -> Protocol | None:
        """Return the protocol of that name, or None."""
        return next((p for p in self.protocols if p.name == name), None)

    def coll_name(self, collective: str) -> str | None:
        """Return the file's name of one of our collectives, or None when the runtime does not know it."""
        return dict(self.collectives).get(collective)

    @property
    def colls(self) -> tuple[str, ...]:
        """Every value of ``coll`` that the parser takes."""
        custom = () if self.custom is None else (self.custom,)
        return (*(theirs for _, theirs in self.collectives), *custom, *self.other_colls)

    def serves(self, min_bytes: int, max_bytes: int, size: int) -> bool:
        """Whether a file with these limits is active for a message of ``size`` bytes."""
        if max_bytes == 0 and self.zero_max_is_unlimited:
            return size >= min_bytes
        return min_bytes <= size <= max_bytes if self.max_is_inclusive else min_bytes <= size < max_bytes

    def on_gpu(self, resident_blocks: int) -> Target:
        """Return the same runtime on a GPU with another number of SMs or CUs.

        Raises
        ------
        InvalidInputError
            When the number is below 1.
        """
        if resident_blocks < 1:
            raise InvalidInputError(f"a GPU with {resident_blocks} SMs runs nothing: at least 1")
        return replace(self, resident_blocks=resident_blocks)


_LEGACY_COLLS: Final = (
    ("allreduce", "allreduce"),
    ("allgather", "allgather"),
    ("reduce", "reduce"),
    ("broadcast", "broadcast"),
    ("alltoall", "alltoall"),
    ("reducescatter", "reduce_scatter"),
)
_EXECUTOR_COLLS: Final = tuple((ours, ours) for ours, _ in _LEGACY_COLLS)
_EXECUTOR_OTHERS: Final = ("send", "recv", "gather", "scatter", "alltoallv")
_EXECUTOR_ATTRIBUTES: Final = (
    "nchunksperloop",
    "nchannels",
    "ngpus",
    "proto",
    "coll",
    "minBytes",
    "maxBytes",
    "inplace",
    "outofplace",
)

MSCCL: Final = Target(
    name="msccl",
    title="microsoft/msccl 0.7.4 (legacy)",
    loaded_from="MSCCL_XML_FILES or MSCCL_CONFIG, with NCCL_ALGO naming MSCCL",
    bad_file="that file is ignored with a warning",
    collectives=_LEGACY_COLLS,
    custom="custom",
    protocols=(Protocol("Simple", 2 << 20, 2), Protocol("LL", 32 << 10, 8), Protocol("LL128", 576_000, 8)),
    required=("name", "ngpus", "nchunksperloop", "nchannels", "proto", "coll", "inplace"),
    parsed_step_types=STEP_TYPES | {"ra"},
    max_algorithms=4,
    nthreads_multiple=32,
    chunk_rule=True,
    checks_peers=True,
    checks_ranks=True,
    checks_sizes=True,
    checks_counts_from=1,
    first_element_only=False,
    reads_outofplace=False,
    zero_max_is_unlimited=False,
    max_is_inclusive=False,
    default_max_bytes=1 << 27,
)
"""The legacy microsoft/msccl runtime, 0.7.4."""

MSCCL_EXECUTOR: Final = Target(
    name="msccl-executor",
    title="Azure/msccl-executor-nccl on NCCL 2.23.4",
    loaded_from="every file in MSCCL_ALGO_DIR (or the library's msccl-algorithms folder)",
    bad_file="the communicator's initialisation fails",
    collectives=_EXECUTOR_COLLS,
    custom=None,
    other_colls=_EXECUTOR_OTHERS,
    protocols=MSCCL.protocols,
    required=_EXECUTOR_ATTRIBUTES,
    max_blocks_per_gpu=1024,
    max_steps_per_block=64,
    simple_hangs_between_hosts=("reduce", "broadcast"),
)
"""The Azure/msccl-executor-nccl runtime, built with its default of 64 steps."""

RCCL: Final = Target(
    name="rccl",
    title="ROCm/rccl 2.21",
    loaded_from="every file in MSCCL_ALGO_DIR (or share/rccl/msccl-algorithms), on known machines",
    bad_file="the communicator's initialisation fails",
    collectives=_EXECUTOR_COLLS,
    custom=None,
    other_colls=_EXECUTOR_OTHERS,
    protocols=(Protocol("Simple", 2 << 20, 2), Protocol("LL", 16 << 10, 8), Protocol("LL128", 50_176, 8)),
    required=_EXECUTOR_ATTRIBUTES,
    step_types=UNFUSED_TYPES,
    max_channels=128,
    max_blocks_per_gpu=64,
    max_steps_per_block=64,
    resident_blocks=304,
)
"""The RCCL runtime: since 2024-01 it refuses the fused receive steps at launch."""

TARGETS: Final = (MSCCL, MSCCL_EXECUTOR, RCCL)
"""Every runtime that reads MSCCL XML."""


def target_named(name: str) -> Target:
    """Return the target of that name.

    Raises
    ------
    InvalidInputError
        With the known names.
    """
    found = next((target for target in TARGETS if target.name == name), None)
    if found is None:
        raise InvalidInputError(f"unknown target {name!r}: the known ones are {', '.join(t.name for t in TARGETS)}")
    return found


def describe_targets() -> tuple[tuple[str, ...], ...]:
    """Return a table for people: a row of headings, then one row per target."""
    head = ("target", "runtime", "collectives", "steps/block", "blocks/GPU", "channels", "sizes", "modes", "step types")
    return (head, *(_row(target) for target in TARGETS))


def _row(t: Target) -> tuple[str, ...]:
    top = "<=" if t.max_is_inclusive else "<"
    sizes = f"minBytes <= n {top} maxBytes" + (", 0 = unlimited" if t.zero_max_is_unlimited else "")
    modes = "in place, out of place or both" if t.reads_outofplace else "in place or out of place"
    types = "all" if t.step_types == STEP_TYPES else " ".join(sorted(t.step_types))
    limits = (str(t.max_steps_per_block), str(t.max_blocks_per_gpu), str(t.max_channels))
    names = ", ".join([theirs for _, theirs in t.collectives] + ([t.custom] if t.custom else []))
    return (t.name, t.title, names, *limits, sizes, modes, types)
