"""Which path each channel of a program stands for: the runtime's file names peers and channels only."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from synth.program.meaning.channel_types import channel_type
from synth.program.meaning.lowering_options import DEFAULT, Lowering
from synth.program.msccl.lowering.lanes import lanes_of
from synth.program.msccl.targets import Target
from synth.program.nccl_settings import merged, settings_for
from synth.schedule.model import Schedule, Transfer
from synth.topology.model import Topology
from synth.topology.paths import PathKind, link_group, path_kind

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True)
class ChannelPath:
    """One path of one channel from rank ``src`` to rank ``dst``.

    Attributes
    ----------
    channel
        Number in the XML; None in an MSCCL++ plan, whose channels are told apart by type only.
    type
        ``memory`` or ``port`` in an MSCCL++ plan, else None.
    kind, links
        Kind of the path and the ids of its links in order.
    transfers, bytes
        What the schedule sends there.
    environment
        NCCL's settings that lead to this kind of path; None when there are none, or for MSCCL++.
    """

    src: int
    dst: int
    channel: int | None
    type: str | None
    kind: PathKind
    links: tuple[str, ...]
    transfers: int
    bytes: float
    environment: Mapping[str, str] | None


@dataclass(frozen=True)
class ChannelPaths:
    """Paths of all channels of a program for a target, by source, destination and channel."""

    target: str
    topology: str
    collective: str
    channels: tuple[ChannelPath, ...]

    @cached_property
    def environment(self) -> Mapping[str, str]:
        """Settings that suit all channels together; those in ``conflicts`` are not among them."""
        return merged(path.environment for path in self.channels if path.environment is not None)[0]

    @cached_property
    def conflicts(self) -> Mapping[str, tuple[str, ...]]:
        """Settings of which channels want different values: one job cannot have all the paths of this program."""
        return merged(path.environment for path in self.channels if path.environment is not None)[1]

    @property
    def notes(self) -> tuple[str, ...]:
        """What a user must know before relying on the paths."""
        return tuple(_notes(self))

    @property
    def table(self) -> pd.DataFrame:
        """One row per channel and path: src, dst, channel, type, kind, links, transfers, bytes."""
        import pandas as pd  # slow to import

        names = ("src", "dst", "channel", "type", "kind", "links", "transfers", "bytes")
        rows = [{name: getattr(path, name) for name in names} for path in self.channels]
        for row in rows:
            row["links"] = " ".join(row["links"])
        return pd.DataFrame(rows, columns=list(names)).astype({"channel": "Int64"})

    def to_dict(self) -> dict[str, Any]:
        """The ``synth-paths/1`` object without the program's name (see docs/paths.md)."""
        return {
            "target": self.target,
            "topology": self.topology,
            "collective": self.collective,
            "channels": [_entry(path) for path in self.channels],
            "environment": dict(self.environment),
            "conflicts": {name: list(values) for name, values in self.conflicts.items()},
            "notes": list(self.notes),
        }


def _entry(path: ChannelPath) -> dict[str, Any]:
    return {
        "src": path.src,
        "dst": path.dst,
        "channel": path.channel,
        "type": path.type,
        "kind": path.kind,
        "links": list(path.links),
        "transfers": path.transfers,
        "bytes": path.bytes,
        "environment": None if path.environment is None else dict(path.environment),
    }


def xml_paths(schedule: Schedule, target: Target, options: Lowering = DEFAULT) -> ChannelPaths:
    """Paths of the channels of an MSCCL XML that a schedule was lowered to.

    Parameters
    ----------
    target, options
        As given to :func:`synth.program.make_draft`, which decide how channels are given out.
    """
    lanes = lanes_of(schedule, target, options)
    keys = [(lane, None, t.links) for lane, t in zip(lanes, schedule.transfers, strict=True)]
    return _collected(schedule, target.name, keys, nccl=True)


def mscclpp_paths(schedule: Schedule) -> ChannelPaths:
    """Paths of the channels of an MSCCL++ plan, by type of channel."""
    topology = schedule.plan.topology
    keys = [(None, channel_type(topology, t), t.links) for t in schedule.transfers]
    return _collected(schedule, "mscclpp", keys, nccl=False)


def _collected(
    schedule: Schedule, target: str, keys: Sequence[tuple[int | None, str | None, Hashable]], nccl: bool
) -> ChannelPaths:
    topology = schedule.plan.topology
    groups: dict[tuple[Any, ...], list[Transfer]] = {}
    for key, transfer in zip(keys, schedule.transfers, strict=True):
        ends = (topology.rank_of[transfer.src], topology.rank_of[transfer.dst])
        groups.setdefault((*ends, *key), []).append(transfer)
    near = _scale_up_pairs(topology) if nccl else set()
    channels = []
    for (src, dst, channel, kind_of_channel, links), transfers in groups.items():
        kind = path_kind(topology, links)
        settings = settings_for(topology, links, kind, (src, dst) in near) if nccl else None
        names = tuple(topology.links[k].id for k in links)
        size = sum(t.count for t in transfers) * schedule.chunk_bytes
        channels.append(ChannelPath(src, dst, channel, kind_of_channel, kind, names, len(transfers), size, settings))
    channels.sort(key=lambda c: (c.src, c.dst, -1 if c.channel is None else c.channel, c.type or "", c.links))
    return ChannelPaths(target, topology.name, schedule.plan.demand.collective, tuple(channels))


def _scale_up_pairs(topology: Topology) -> set[tuple[int, int]]:
    """Ordered pairs of ranks with a scale-up path through no other GPU."""
    after: dict[int, list[int]] = {}
    for k, (a, b) in enumerate(topology.ends):
        if link_group(topology, k) == "nvlink":
            after.setdefault(a, []).append(b)
    out = set()
    for rank, gpu in enumerate(topology.gpus):
        seen, queue = {gpu}, deque([gpu])
        while queue:
            for node in after.get(queue.popleft(), ()):
                if node not in seen:
                    seen.add(node)
                    if node in topology.rank_of:
                        out.add((rank, topology.rank_of[node]))
                    else:
                        queue.append(node)
    return out


def _notes(paths: ChannelPaths) -> Iterator[str]:
    if paths.target == "mscclpp":
        if any(path.type == "port" for path in paths.channels):
            yield (
                "the executor of MSCCL++ 0.9 connects port channels over InfiniBand between hosts, and over CUDA IPC "
                "inside one: there a path through NICs is not taken"
            )
        return
    if paths.conflicts:
        names = "; ".join(f"{name}: {' and '.join(values)}" for name, values in paths.conflicts.items())
        yield f"settings hold for a whole job, and these channels want different ones ({names})"
    if any(path.environment is None for path in paths.channels):
        yield "no setting leads to PCIe peer access between GPUs that have scale-up links: NCCL takes those"
