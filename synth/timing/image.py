"""A draft on a topology, prepared for timing: per block its steps as plain lists, per connection its links."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from synth.errors import InvalidInputError
from synth.program.meaning.lowering_options import DEFAULT, Lowering
from synth.program.msccl.lowering.lanes import lanes_of
from synth.program.msccl.model import Draft
from synth.program.msccl.targets import MSCCL, Protocol, Target
from synth.program.msccl.verifying.deadlocks import chunks_at
from synth.program.msccl.verifying.image import Image, build_image
from synth.program.msccl.verifying.structure import structure_faults
from synth.schedule.model import Schedule
from synth.schedule.paths import PeerPaths
from synth.schedule.simulate.compiled import CompiledTransfers, compile_transfers
from synth.schedule.simulate.time_model import WIRES, Wire
from synth.topology.model import Topology

Paths = Mapping[tuple[int, int, int], tuple[int, ...]]
"""(source rank, destination rank, channel) -> link indices."""
# Message size at which links are compared when a path has to be chosen.
TYPICAL_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, eq=False)
class TimedProgram:
    """A program on a topology; made once, run at many sizes and constants (see ``timing.py``).

    Attributes
    ----------
    draft, target, topology
        What was put together.
    image
        Steps and connections.
    protocol, wire
        Of the draft's protocol.
    paths
        Link indices of each connection.
    links
        Capacities, latencies and pools of the topology (no transfers).
    """

    draft: Draft
    target: Target
    topology: Topology
    image: Image
    protocol: Protocol
    wire: Wire
    paths: tuple[tuple[int, ...], ...]
    links: CompiledTransfers

    def messages_at(self, size_bytes: float) -> int:
        """Chunks that one FIFO message takes at a size."""
        return chunks_at(self.draft, self.target, max(1, round(size_bytes)))


def timed(draft: Draft, topology: Topology, target: Target = MSCCL, *, paths: Paths | None = None) -> TimedProgram:
    """Put a draft on a topology.

    Parameters
    ----------
    draft
        A program without structure faults; rank r runs on the r-th GPU of the topology.
    topology
        Its links.
    target
        The runtime, whose protocol table applies.
    paths
        Links of each connection (see :func:`schedule_paths`). A connection that is not named takes the cheapest path
        without a GPU on it, or through GPUs that pass traffic on in hardware; parallel ones are taken in turn by
        channels.

    Raises
    ------
    InvalidInputError
        When the program has structure faults, another number of ranks, or sends where there is no path.
    """
    faults = list(structure_faults(draft))
    if len(topology.gpus) != len(draft.gpus):
        faults.append(f"{draft.name} is for {len(draft.gpus)} ranks, {topology.name} has {len(topology.gpus)} GPUs")
    protocol = target.protocol(draft.proto)
    if protocol is None:
        faults.append(f"{target.name} has no protocol {draft.proto!r}")
    if faults or protocol is None:
        raise InvalidInputError(faults)
    image = build_image(draft, draft.inplace)
    links = _connection_paths(draft, image, topology, paths or {})
    wire = WIRES.get(draft.proto, WIRES["Simple"])
    return TimedProgram(draft, target, topology, image, protocol, wire, links, compile_transfers(topology, ()))


def _connection_paths(draft: Draft, image: Image, topology: Topology, paths: Paths) -> tuple[tuple[int, ...], ...]:
    channel = [block.chan for gpu in sorted(draft.gpus, key=lambda gpu: gpu.id) for block in gpu.blocks]
    finder = PeerPaths(topology, TYPICAL_BYTES)
    out: list[tuple[int, ...]] = []
    faults: dict[str, None] = {}
    for sender, receiver in zip(image.sender.tolist(), image.receiver.tolist(), strict=True):
        src, dst, chan = int(image.rank[sender]), int(image.rank[receiver]), channel[sender]
        known = paths.get((src, dst, chan))
        ways = finder.between(topology.gpus[src], topology.gpus[dst]) if known is None else (known,)
        if not ways:
            faults[f"{topology.gpu_name(src)} sends to {topology.gpu_name(dst)}: {finder.why_none}"] = None
        out.append(ways[chan % len(ways)] if ways else ())
    if faults:
        raise InvalidInputError(list(faults))
    return tuple(out)


def schedule_paths(schedule: Schedule, target: Target = MSCCL, options: Lowering = DEFAULT) -> Paths:
    """Links of each connection of the program that :func:`synth.program.lower` makes of a schedule."""
    rank = schedule.plan.topology.rank_of
    lanes = lanes_of(schedule, target, options)
    return {(rank[t.src], rank[t.dst], lane): t.links for t, lane in zip(schedule.transfers, lanes, strict=True)}
