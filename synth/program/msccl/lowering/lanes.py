"""Channels: one per physical path of a GPU pair, and more where a block would get too many steps."""

from __future__ import annotations

from collections.abc import Callable

from synth.program.meaning.lowering_options import Lowering
from synth.program.msccl.targets import Target
from synth.schedule.model import Schedule, Transfer

Lane = tuple[tuple[int, int], tuple[int, ...], bool]
"""Pair of GPU nodes, links, and whether the all-reduce's copies have channels of their own there."""


def lanes_of(schedule: Schedule, target: Target, options: Lowering) -> list[int]:
    """Channel of each transfer.

    A pair's paths take consecutive channels; the transfers of a path take turns over as many channels as its blocks
    need, and over at least ``options.instances``. With ``options.pipelined`` an all-reduce's sums and copies are apart.
    """
    apart = options.pipelined and schedule.plan.demand.pattern == "allreduce"
    lanes = [_lane(transfer, apart) for transfer in schedule.transfers]
    first = _first_channels(schedule, lanes, target, options.instances)
    turn: dict[Lane, int] = {}
    out = []
    for lane in lanes:
        begin, width = first[lane]
        out.append(begin + turn.get(lane, 0) % width)
        turn[lane] = turn.get(lane, 0) + 1
    return out


def _lane(transfer: Transfer, apart: bool) -> Lane:
    return (transfer.src, transfer.dst), transfer.links, apart and not transfer.reduce


def _first_channels(
    schedule: Schedule, lanes: list[Lane], target: Target, instances: int
) -> dict[Lane, tuple[int, int]]:
    """First channel and number of channels of each lane."""
    steps: dict[Lane, int] = {}
    count: dict[Lane, int] = {}
    unfused = 1 if "rrc" in target.step_types else 2  # a reduction is a receive and a local step
    for lane, transfer in zip(lanes, schedule.transfers, strict=True):
        pieces = -(-transfer.count // target.max_count)
        steps[lane] = steps.get(lane, 0) + pieces * (unfused if transfer.reduce else 1)
        count[lane] = count.get(lane, 0) + 1
    # A step that waits for several blocks takes no-ops before it, so a block is filled to three quarters only.
    room = target.max_steps_per_block * 3 // 4
    next_free: dict[tuple[int, int], int] = {}
    first = {}
    for lane in sorted(steps):
        width = max(-(-steps[lane] // room), min(instances, count[lane]))
        first[lane] = (next_free.get(lane[0], 0), width)
        next_free[lane[0]] = first[lane][0] + width
    group = _groups(schedule, target)
    stride = max(next_free.values(), default=1)
    return {lane: (group(*lane[0]) * stride + begin, width) for lane, (begin, width) in first.items()}


def _groups(schedule: Schedule, target: Target) -> Callable[[int, int], int]:
    """Which set of channels a pair uses, so that no channel has too many senders or receivers at a GPU.

    Pairs are told apart by the distance of their ranks: at one GPU, every distance is there once in each direction.
    """
    rank = schedule.plan.topology.rank_of
    most = target.max_blocks_per_channel - 1  # a full table leaves no room for a block after it
    return lambda src, dst: ((rank[dst] - rank[src]) % len(rank) - 1) // most
