"""MSCCL++ plans from plain JSON objects, with every fault that the executor would throw on.

Source: microsoft/mscclpp 0.9.0 src/core/executor/execution_plan.cc. The executor reads known keys and ignores others.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, Final

from synth.program.meaning.semantics import Semantics
from synth.program.mscclpp.model import (
    BUFFERS,
    OPERATIONS,
    UNLIMITED,
    MscclppBlock,
    MscclppChannel,
    MscclppDraft,
    MscclppGpu,
    MscclppOp,
    MscclppRemoteBuffer,
    Slice,
)
from synth.program.mscclpp.object import OUR_KEY

CHANNEL_TYPES: Final = ("memory", "port", "none", "switch")
_MAX_FAULTS: Final = 50


def parse_plan(plan: object) -> tuple[MscclppDraft | None, list[str]]:
    """Read a JSON object as a plan.

    Returns
    -------
    tuple
        The plan, or None, and every missing key, wrong type and unknown name: all of them make the executor throw.
    """
    reader = _Reader()
    draft = reader.plan(plan)
    return (None if reader.faults else draft), reader.faults[:_MAX_FAULTS]


class _Reader:
    """Follows execution_plan.cc key by key; a fault is noted and reading goes on with a stand-in."""

    def __init__(self) -> None:
        self.faults: list[str] = []

    def plan(self, plan: object) -> MscclppDraft:
        top = self.object(plan, "plan")
        gpus = self.list(top, "gpus", "plan")
        return MscclppDraft(
            name=self.text(top, "name", "plan"),
            collective=self.text(top, "collective", "plan"),
            protocol=self.text(top, "protocol", "plan"),
            inplace=self.flag(top, "inplace", "plan"),
            gpus=tuple(self.gpu(gpu, f"gpus[{k}]") for k, gpu in enumerate(gpus)),
            reuse_resources=self.flag(top, "reuse_resources", "plan", False),
            use_double_scratch_buffer=self.flag(top, "use_double_scratch_buffer", "plan", False),
            buffer_alignment=self.number(top, "buffer_alignment", "plan", 16),
            min_message_size=self.number(top, "min_message_size", "plan", 0),
            max_message_size=self.number(top, "max_message_size", "plan", UNLIMITED),
            num_threads_per_block=self.number(top, "num_threads_per_block", "plan", 1024),
            semantics=self.claim(top[OUR_KEY]) if OUR_KEY in top else None,
        )

    def claim(self, value: object) -> Semantics | None:
        """Our own key; the executor does not read it."""
        item = self.object(value, OUR_KEY)
        root = None if item.get("root") is None else self.number(item, "root", OUR_KEY)
        return Semantics(
            self.text(item, "collective", OUR_KEY),
            self.number(item, "ranks", OUR_KEY),
            self.number(item, "chunks", OUR_KEY),
            root,
            self.numbers(item, "members", OUR_KEY),
            self.numbers(item, "counts", OUR_KEY),
        )

    def gpu(self, value: object, at: str) -> MscclppGpu:
        item = self.object(value, at)
        semaphores = self.list(item, "semaphores", at, optional=True)
        for key in ("input_chunks", "output_chunks"):  # the size check divides by them before anything else is read
            if key in item and item[key] == 0:
                self.faults.append(f"{at}: {key} is 0: integer division by zero kills the process")
        return MscclppGpu(
            self.number(item, "id", at),
            self.number(item, "input_chunks", at),
            self.number(item, "output_chunks", at),
            self.number(item, "scratch_chunks", at),
            tuple(self.channel(c, f"{at}.channels[{k}]") for k, c in self.items(item, "channels", at)),
            tuple(
                self.remote_buffer(b, f"{at}.remote_buffers[{k}]") for k, b in self.items(item, "remote_buffers", at)
            ),
            tuple(
                self.number(self.object(s, f"{at}.semaphores[{k}]"), "init_value", f"{at}.semaphores[{k}]")
                for k, s in enumerate(semaphores)
            ),
            tuple(self.block(b, f"{at}.threadblocks[{k}]") for k, b in self.items(item, "threadblocks", at)),
        )

    def channel(self, value: object, at: str) -> MscclppChannel:
        item = self.object(value, at)
        kind = self.choice(item, "channel_type", at, CHANNEL_TYPES)
        if kind != "switch":
            return MscclppChannel(kind, self.numbers(item, "connected_to", at))
        groups = []
        for k, group in self.items(item, "rank_groups", at):
            where = f"{at}.rank_groups[{k}]"
            inner = self.object(group, where)
            groups.append((self.number(inner, "size", where), self.numbers(inner, "ranks", where)))
        return MscclppChannel(kind, (), self.choice(item, "buffer_type", at, BUFFERS), tuple(groups))

    def remote_buffer(self, value: object, at: str) -> MscclppRemoteBuffer:
        item = self.object(value, at)
        access = self.list(item, "access_channel_types", at)
        for name in access:
            if name not in CHANNEL_TYPES:
                self.faults.append(f"{at}.access_channel_types: Invalid channel type {name!r}")
        kind = self.choice(item, "type", at, BUFFERS)
        return MscclppRemoteBuffer(self.number(item, "rank", at), kind, tuple(str(name) for name in access))

    def block(self, value: object, at: str) -> MscclppBlock:
        item = self.object(value, at)
        channels, refs = [], []
        for k, channel in self.items(item, "channels", at):
            where = f"{at}.channels[{k}]"
            inner = self.object(channel, where)
            kind = self.choice(inner, "channel_type", where, CHANNEL_TYPES)
            channels.append((kind, self.numbers(inner, "channel_ids", where)))
        for k, ref in enumerate(self.list(item, "remote_buffer_refs", at, optional=True)):
            where = f"{at}.remote_buffer_refs[{k}]"
            inner = self.object(ref, where)
            kind = self.choice(inner, "access_channel_type", where, CHANNEL_TYPES)
            refs.append((kind, self.numbers(inner, "remote_buffer_ids", where)))
        ops = tuple(self.op(op, f"{at}.ops[{k}]") for k, op in self.items(item, "ops", at))
        return MscclppBlock(self.number(item, "id", at), tuple(channels), tuple(refs), ops)

    def op(self, value: object, at: str, nested: bool = False) -> MscclppOp:
        item = self.object(value, at)
        name = self.text(item, "name", at)
        if name not in OPERATIONS:
            self.faults.append(f"{at}: Invalid operation type: {name}")
        inner: tuple[MscclppOp, ...] = ()
        if not nested and ("iter_context" in item or name == "pipeline"):
            inner = tuple(self.op(op, f"{at}.ops[{k}]", nested=True) for k, op in self.items(item, "ops", at))
        kind = self.choice(item, "channel_type", at, CHANNEL_TYPES) if "channel_type" in item else None
        reduce_op = item.get("reduce_op")
        return MscclppOp(
            name,
            self.slices(item, "src_buff", at, kind),
            self.slices(item, "dst_buff", at, kind),
            kind,
            self.numbers(item, "channel_ids", at) if "channel_ids" in item else (),
            reduce_op if isinstance(reduce_op, str) else None,
            self.pair(item, "tbg_info", at, ("tb_id", "tbg_size")),
            self.number(item, "barrier_id", at) if "barrier_id" in item else None,
            self.number(item, "num_threadblocks", at) if "num_threadblocks" in item else None,
            self.numbers(item, "semaphore_ids", at) if "semaphore_ids" in item else (),
            self.pair(item, "iter_context", at, ("unit_size", "num_chunks")),
            inner,
        )

    def slices(self, item: dict[str, Any], key: str, at: str, kind: str | None) -> tuple[Slice, ...]:
        out = []
        for k, part in enumerate(self.list(item, key, at, optional=True)):
            where = f"{at}.{key}[{k}]"
            inner = self.object(part, where)
            remote = self.number(inner, "buffer_id", where) if "buffer_id" in inner else None
            if remote is not None and kind not in ("memory", "port"):
                self.faults.append(f"{where}: Invalid channel type: a remote buffer needs channel_type memory or port")
            switch = self.number(inner, "switch_channel_id", where) if "switch_channel_id" in inner else None
            local = self.choice(inner, "type", where, BUFFERS) if "type" in inner else None
            out.append(
                Slice(self.number(inner, "index", where), self.number(inner, "size", where), local, remote, switch)
            )
        return tuple(out)

    def pair(self, item: dict[str, Any], key: str, at: str, names: tuple[str, str]) -> tuple[int, int] | None:
        if key not in item:
            return None
        inner = self.object(item[key], f"{at}.{key}")
        return self.number(inner, names[0], f"{at}.{key}"), self.number(inner, names[1], f"{at}.{key}")

    def object(self, value: object, at: str) -> dict[str, Any]:
        if isinstance(value, dict):
            return value
        self.faults.append(f"{at} must be an object")
        return {}

    def items(self, item: dict[str, Any], key: str, at: str) -> Iterator[tuple[int, Any]]:
        return iter(enumerate(self.list(item, key, at)))

    def list(self, item: dict[str, Any], key: str, at: str, optional: bool = False) -> list[Any]:
        if key not in item and optional:
            return []
        return self._typed(item, key, at, lambda v: v if isinstance(v, list) else None, "a list", [])

    def text(self, item: dict[str, Any], key: str, at: str) -> str:
        return self._typed(item, key, at, lambda v: v if isinstance(v, str) else None, "text", "")

    def flag(self, item: dict[str, Any], key: str, at: str, default: bool | None = None) -> bool:
        if key not in item and default is not None:
            return default
        return self._typed(item, key, at, lambda v: v if isinstance(v, bool) else None, "true or false", False)

    def number(self, item: dict[str, Any], key: str, at: str, default: int | None = None) -> int:
        if key not in item and default is not None:
            return default
        return self._typed(item, key, at, _as_int, "a number", 0)

    def numbers(self, item: dict[str, Any], key: str, at: str) -> tuple[int, ...]:
        values = [_as_int(value) for value in self.list(item, key, at)]
        if any(value is None for value in values):
            self.faults.append(f"{at}.{key} must be a list of numbers")
        return tuple(value or 0 for value in values)

    def choice(self, item: dict[str, Any], key: str, at: str, allowed: tuple[str, ...]) -> str:
        text = self.text(item, key, at)
        if isinstance(item.get(key), str) and text not in allowed:
            self.faults.append(f"{at}.{key}: {text!r} is none of {', '.join(allowed)}")
        return text

    def _typed[T](
        self, item: dict[str, Any], key: str, at: str, read: Callable[[Any], T | None], kind: str, no: T
    ) -> T:
        if key not in item:
            self.faults.append(f"{at}: key {key} is missing")
            return no
        value = read(item[key])
        if value is None:
            self.faults.append(f"{at}.{key} must be {kind}")
            return no
        return value


def _as_int(value: object) -> int | None:
    """A number as nlohmann::json converts it to an integer: fractions are cut, true is 1."""
    if isinstance(value, float):
        return int(value) if math.isfinite(value) else None
    return int(value) if isinstance(value, int) else None
