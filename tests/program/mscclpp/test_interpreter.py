"""A second execution of plans, on numbers: straight from the JSON object, in random orders, with a late proxy.

It shares no code with synth's simulator: buffers are numpy arrays, blocks are lists of operations, and every memory
channel is a counter. Port puts wait in their channel's queue until chance lets the proxy run.
"""

from __future__ import annotations

import json
import random
from collections import defaultdict, deque
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import synth
from synth.program.mscclpp.files import to_json
from synth.program.mscclpp.lowering.lower import lower_mscclpp
from tests.program.mscclpp.test_lowering import schedule_of

Numbers = NDArray[np.int64]
ELEMENTS = 3  # of a chunk


class Machine:
    """All ranks of a plan; ``launch`` fills the buffers and runs every block to its end."""

    def __init__(self, plan: dict[str, Any], seed: int) -> None:
        self.plan, self.chance = plan, random.Random(seed)
        self.gpus = plan["gpus"]
        self.buffers = [self._buffers(gpu) for gpu in self.gpus]
        self.signals: dict[tuple[str, int, int, int], int] = defaultdict(int)
        self.queues: dict[tuple[str, int, int, int], deque[Any]] = defaultdict(deque)

    def _buffers(self, gpu: dict[str, Any]) -> dict[str, Numbers]:
        sizes = {
            b: gpu[key] * ELEMENTS
            for b, key in zip("ios", ("input_chunks", "output_chunks", "scratch_chunks"), strict=True)
        }
        made = {b: np.full(size, -1, dtype=np.int64) for b, size in sizes.items()}
        if self.plan["inplace"]:
            small, large = ("i", "o") if sizes["i"] < sizes["o"] else ("o", "i")
            begin = gpu["id"] * sizes[small] if sizes["i"] != sizes["o"] else 0
            made[small] = made[large][begin : begin + sizes[small]]
        return made

    def launch(self, inputs: list[Numbers]) -> list[Numbers]:
        for buffers, values in zip(self.buffers, inputs, strict=True):
            if not self.plan["inplace"]:
                buffers["o"][:] = -7
            buffers["i"][: len(values)] = values
        pending = {(g["id"], b["id"]): 0 for g in self.gpus for b in g["threadblocks"] if b["ops"]}
        while pending or any(self.queues.values()):
            key = self.agent(pending)
            if len(key) == 4:
                self.proxy(key)
                continue
            ops = self.gpus[key[0]]["threadblocks"][key[1]]["ops"]
            self.do(key, ops[pending[key]])
            pending[key] += 1
            if pending[key] == len(ops):
                del pending[key]
        return [buffers["o"].copy() for buffers in self.buffers]

    def agent(self, pending: dict[Any, int]) -> Any:
        """A block or a proxy that can go on, by chance."""
        agents = [*pending, *(key for key, queue in self.queues.items() if queue)]
        while agents:
            k = self.chance.randrange(len(agents))
            if len(agents[k]) == 4 or self.can_go(agents[k], pending[agents[k]]):
                return agents[k]
            agents[k] = agents[-1]
            agents.pop()
        raise AssertionError(f"nobody can go on: {pending}")

    def ends(self, key: tuple[int, int], op: dict[str, Any]) -> list[tuple[str, int, int, int]]:
        rank, block = key
        kind = op["channel_type"]
        mine = next(
            c["channel_ids"] for c in self.gpus[rank]["threadblocks"][block]["channels"] if c["channel_type"] == kind
        )
        peers = next(c["connected_to"] for c in self.gpus[rank]["channels"] if c["channel_type"] == kind)
        out = []
        for local in op.get("channel_ids", []):
            number = mine[local]
            out.append((kind, rank, peers[number], peers[:number].count(peers[number])))
        return out

    def can_go(self, key: tuple[int, int], at: int) -> bool:
        op = self.gpus[key[0]]["threadblocks"][key[1]]["ops"][at]
        if not op["name"].endswith("wait"):
            return True
        return all(self.signals[kind, peer, rank, k] > 0 for kind, rank, peer, k in self.ends(key, op))

    def place(self, key: tuple[int, int], op: dict[str, Any], part: dict[str, Any]) -> Numbers:
        rank, block = key
        buffer = part.get("type")
        if "buffer_id" in part:
            refs = self.gpus[rank]["threadblocks"][block]["remote_buffer_refs"]
            ids = next(r["remote_buffer_ids"] for r in refs if r["access_channel_type"] == op["channel_type"])
            remote = self.gpus[rank]["remote_buffers"][ids[part["buffer_id"]]]
            rank, buffer = remote["rank"], remote["type"]
        begin, size = part["index"] * ELEMENTS, part["size"] * ELEMENTS
        view = self.buffers[rank][str(buffer)][begin : begin + size]
        assert len(view) == size
        return view

    def do(self, key: tuple[int, int], op: dict[str, Any]) -> None:
        name = op["name"]
        src = [self.place(key, op, part) for part in op.get("src_buff", [])]
        dst = [self.place(key, op, part) for part in op.get("dst_buff", [])]
        if name.endswith("signal"):
            for end in self.ends(key, op):
                if end[0] == "port":
                    self.queues[end].append(None)
                else:
                    self.signals[end] += 1
        elif name.endswith("wait"):
            for kind, rank, peer, k in self.ends(key, op):
                self.signals[kind, peer, rank, k] -= 1
        elif name == "put" and op["channel_type"] == "port":
            for end, a, b in zip(self.ends(key, op), src, dst, strict=True):
                self.queues[end].append((a, b))
        elif name in ("put", "copy"):
            for a, b in zip(src, dst, strict=True):
                b[:] = a
        elif name == "re":
            dst[0][:] = np.sum(src, axis=0)
        else:
            assert name == "nop"

    def proxy(self, end: tuple[str, int, int, int]) -> None:
        work = self.queues[end].popleft()
        if work is None:
            self.signals[end] += 1
        else:
            work[1][:] = work[0]


def result_of(plan: dict[str, Any], inputs: list[Numbers]) -> list[Numbers]:
    """What the collective gives, by numpy."""
    n, collective = len(inputs), plan["collective"]
    if collective == "allgather":
        return [np.concatenate(inputs)] * n
    if collective == "broadcast":
        return [inputs[plan["synth"]["root"]]] * n
    if collective == "alltoall":
        return [np.concatenate([np.split(values, n)[r] for values in inputs]) for r in range(n)]
    total = np.sum(inputs, axis=0)
    return np.split(total, n) if collective == "reducescatter" else [total] * n


def run_plan(text: str, seed: int) -> None:
    """Two launches with fresh numbers; signals must be used up."""
    plan = json.loads(text)
    machine = Machine(plan, seed)
    values = np.random.default_rng(seed)
    for _ in range(2):
        inputs = [values.integers(0, 1000, gpu["input_chunks"] * ELEMENTS) for gpu in plan["gpus"]]
        got = machine.launch(inputs)
        for have, want in zip(got, result_of(plan, inputs), strict=True):
            assert np.array_equal(have[: len(want)], want)
    assert not any(machine.signals.values())


@pytest.mark.parametrize("name", ["ring:4", "line:3", "fullmesh:4", "cluster:box=ring:3,hosts=2"])
@pytest.mark.parametrize("collective", ["allgather", "reducescatter", "allreduce", "alltoall", "broadcast"])
def test_numbers_come_out_right(name: str, collective: str) -> None:
    schedule = schedule_of(name, collective, 2)
    for inplace in (False, True):
        if inplace and collective == "alltoall":
            continue
        text = to_json(lower_mscclpp(schedule, inplace=inplace, instances=1 + inplace))
        for seed in range(3):
            run_plan(text, seed)


def test_a_wrong_plan_gives_wrong_numbers() -> None:
    plan = json.loads(to_json(lower_mscclpp(synth.solve("ring:3", "allreduce", 1e6).schedule(1))))
    put = next(op for block in plan["gpus"][0]["threadblocks"] for op in block["ops"] if op["name"] == "put")
    put["src_buff"][0]["index"] = (put["src_buff"][0]["index"] + 1) % 3
    with pytest.raises(AssertionError):
        run_plan(json.dumps(plan), 0)
