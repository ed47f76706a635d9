"""Channels: one per physical path of a GPU pair, and more where a block would get too many steps."""

from __future__ import annotations

from collections.abc import Callable

from synth.program.msccl.targets import Target
from synth.schedule.model import Schedule, Transfer

Path = tuple[tuple[int, int], tuple[int, ...]]


def lanes_of(schedule: Schedule, target: Target, instances: int) -> list[int]:
    """Channel of each transfer.

    A pair's paths take consecutive channels; the transfers of a path take turns over as many channels as its blocks
    need, and over at least ``instances``.
    """
    first = _first_channels(schedule, target, instances)
    turn: dict[Path, int] = {}
    lanes = []
    for transfer in schedule.transfers:
        path = _path(transfer)
        begin, width = first[path]
        lanes.append(begin + turn.get(path, 0) % width)
        turn[path] = turn.get(path, 0) + 1
    return lanes


def _path(transfer: Transfer) -> Path:
    return (transfer.src, transfer.dst), transfer.links


def _first_channels(schedule: Schedule, target: Target, instances: int) -> dict[Path, tuple[int, int]]:
    """First channel and number of channels of each path."""
    steps: dict[Path, int] = {}
    count: dict[Path, int] = {}
    unfused = 1 if "rrc" in target.step_types else 2  # a reduction is a receive and a local step
    for transfer in schedule.transfers:
        path = _path(transfer)
        pieces = -(-transfer.count // target.max_count)
        steps[path] = steps.get(path, 0) + pieces * (unfused if transfer.reduce else 1)
        count[path] = count.get(path, 0) + 1
    # A step that waits for several blocks takes no-ops before it, so a block is filled to three quarters only.
    room = target.max_steps_per_block * 3 // 4
    next_free: dict[tuple[int, int], int] = {}
    first = {}
    for path in sorted(steps):
        width = max(-(-steps[path] // room), min(instances, count[path]))
        first[path] = (next_free.get(path[0], 0), width)
        next_free[path[0]] = first[path][0] + width
    group = _groups(schedule, target)
    stride = max(next_free.values(), default=1)
    return {path: (group(*path[0]) * stride + begin, width) for path, (begin, width) in first.items()}


def _groups(schedule: Schedule, target: Target) -> Callable[[int, int], int]:
    """Which set of channels a pair uses, so that no channel has too many senders or receivers at a GPU.

    Pairs are told apart by the distance of their ranks: at one GPU, every distance is there once in each direction.
    """
    rank = schedule.plan.topology.rank_of
    most = target.max_blocks_per_channel - 1  # a full table leaves no room for a block after it
    return lambda src, dst: ((rank[dst] - rank[src]) % len(rank) - 1) // most
