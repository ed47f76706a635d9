"""A strict reader of MSCCL XML: what the runtimes would read, and nothing that they would silently read differently."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, cast

from synth.errors import InvalidInputError
from synth.program.meaning.semantics import EVEN, ROOTED, UNEVEN, Semantics
from synth.program.msccl.model import Buffer, Draft, GpuProgram, Step, StepType, ThreadBlock
from synth.program.msccl.opcodes import BUFFERS, STEP_TYPES
from synth.program.msccl.targets import MSCCL, Target
from synth.program.msccl.xml.lexer import lex
from synth.program.msccl.xml.nodes import Node, Values
from synth.program.msccl.xml.tags import STEP_ATTRIBUTES

MAX_BYTES = 256 << 20
LEGACY_MAX_BYTES = 1 << 27
_SHOWN = 50
_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,18}")
_ALGO = ("name", "proto", "nchannels", "nchunksperloop", "ngpus", "coll", "inplace")
_ALGO_ELSEWHERE = ("outofplace", "minBytes", "maxBytes")
# Positions in STEP_ATTRIBUTES of s, srcoff, dstoff, cnt, depid and deps.
_STEP_INTEGERS = (0, 3, 5, 6, 7, 8)
_GPU = ("id", "i_chunks", "o_chunks", "s_chunks")
_TB = ("id", "send", "recv", "chan")
_ENTITIES = (("&lt;", "<"), ("&gt;", ">"), ("&quot;", '"'), ("&apos;", "'"), ("&amp;", "&"))


def read_xml(source: str | os.PathLike[str], target: Target = MSCCL) -> Draft:
    """Read a program; nothing is verified beyond what can be read.

    Parameters
    ----------
    source
        A path, or the text itself (a string that contains ``<``). At most 256 MiB.
    target
        The runtime whose names of collectives and step types apply.

    Returns
    -------
    Draft
        Nodes in document order. When the file does not say (the legacy runtime does not ask): ``outofplace`` is the
        opposite of ``inplace``, ``min_bytes`` is 0 and ``max_bytes`` 2^27.

    Raises
    ------
    InvalidInputError
        All faults at once, each with its line; after a fault in the XML itself nothing more is read.

    Notes
    -----
    Stricter than the runtimes in what they misread without a word: integers must be plain decimal ("true" and "0x10"
    read as 0 and 16 there), ``s`` must count from 0 in document order, and no attribute may be repeated or dropped.
    """
    if isinstance(source, str) and "<" in source:
        return _draft(source, target)
    path = Path(source)
    text = _file_text(path)
    try:
        return _draft(text, target)
    except InvalidInputError as error:
        raise InvalidInputError(f"{path.name}: {fault}" for fault in error.faults) from None


def _draft(text: str, target: Target) -> Draft:
    lexed = lex(text, strict=True)
    if lexed.refusal:
        raise InvalidInputError(lexed.refusal)
    return _Reader(target, text).draft(lexed.algos)


def _unescape(value: str) -> str:
    """Replace the five predefined entities; anything else stays as it is."""
    for entity, char in _ENTITIES:
        value = value.replace(entity, char)
    return value


def _file_text(path: Path) -> str:
    try:
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise InvalidInputError(f"{path}: {size} bytes, limit {MAX_BYTES}")
        return path.read_bytes().decode("utf-8")
    except OSError as error:
        raise InvalidInputError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InvalidInputError(f"{path}: byte {error.start} is not UTF-8") from error


def claimed_semantics(algo: Node, ngpus: int, nchunks: int) -> Semantics | None:
    """Meaning of a file with our own attributes ``semantics``, ``root``, ``member`` and ``counts``, or None.

    Parameters
    ----------
    algo
        The algorithm with its gpu elements.
    ngpus, nchunks
        Its numbers as the runtime reads them.
    """
    reader = _Reader(MSCCL)
    claim = algo.attributes.get("semantics", "custom")
    if claim not in (*EVEN, *UNEVEN) or len(algo.children) != ngpus:
        return None
    found = Semantics(claim, ngpus, nchunks, reader.root(algo, claim), reader.members(algo), reader.counts(algo, claim))
    return None if reader.faults else found


class _Decimals(dict[str | None, int | None]):
    """Plain decimal numbers, each converted once; None for anything else."""

    def __missing__(self, text: str | None) -> int | None:
        self[text] = value = int(text) if text is not None and _INTEGER.fullmatch(text) else None
        return value


class _Reader:
    """Builds the model and collects the faults."""

    def __init__(self, target: Target, text: str = "") -> None:
        self.target, self.text = target, text
        self.step_types = target.parsed_step_types & STEP_TYPES
        self.faults: list[str] = []
        self.numbers = _Decimals()

    def draft(self, roots: Sequence[Node]) -> Draft:
        if len(roots) != 1:
            raise InvalidInputError(
                f"there must be one <algo> element, there are {len(roots)} (a runtime uses the first)"
            )
        algo = roots[0]
        if self.complete(algo, (*_ALGO, *(name for name in _ALGO_ELSEWHERE if name in self.target.required))):
            gpus = tuple(self.gpu(e) for e in algo.children)
            inplace = self.flag(algo, "inplace")
            draft = Draft(
                name=_unescape(algo.attributes["name"]),
                semantics=self.semantics(algo),
                nchannels=self.integer(algo, "nchannels"),
                proto=self.choice(algo, "proto", [p.name for p in self.target.protocols]),
                inplace=inplace,
                outofplace=self.flag(algo, "outofplace", default=not inplace),
                min_bytes=self.integer(algo, "minBytes", 0),
                max_bytes=self.integer(algo, "maxBytes", LEGACY_MAX_BYTES),
                gpus=gpus,
            )
        if self.faults:
            hidden = len(self.faults) - _SHOWN
            raise InvalidInputError(self.faults[:_SHOWN] + ([f"and {hidden} more faults"] if hidden > 0 else []))
        return draft

    def fault(self, element: Node, text: str) -> None:
        self.fault_at(element.at, text)

    def fault_at(self, at: int, text: str) -> None:
        # Where the faults are capped when they are told, the line numbers of the others need not be counted.
        line = self.text.count("\n", 0, at) + 1 if len(self.faults) < _SHOWN else "?"
        self.faults.append(f"line {line}: {text}")

    def complete(self, element: Node, names: Sequence[str]) -> bool:
        missing = [name for name in names if name not in element.attributes]
        if missing:
            self.fault(element, f"<{element.name}> lacks {', '.join(missing)}")
        return not missing

    def integer(self, element: Node, name: str, default: int = 0) -> int:
        text = element.attributes.get(name)
        if text is None:
            return default
        if not _INTEGER.fullmatch(text):
            self.fault(element, f'{name}="{text[:40]}" is not a decimal integer')
            return default
        return int(text)

    def flag(self, element: Node, name: str, default: bool = False) -> bool:
        text = element.attributes.get(name, "1" if default else "0")
        if text not in ("0", "1"):
            self.fault(element, f'{name}="{text[:40]}" must be 0 or 1')
        return text == "1"

    def choice(self, element: Node, name: str, allowed: Sequence[str]) -> str:
        text = element.attributes[name]
        if text not in allowed:
            self.fault(element, f'{name}="{text[:40]}" is not one of {", ".join(allowed)}')
        return text

    def gpu(self, e: Node) -> GpuProgram:
        if not self.complete(e, _GPU):
            return GpuProgram(-1, 0, 0, 0, ())
        numbers = [self.integer(e, name) for name in _GPU]
        return GpuProgram(numbers[0], numbers[1], numbers[2], numbers[3], tuple(self.block(b) for b in e.children))

    def block(self, e: Node) -> ThreadBlock:
        if not self.complete(e, _TB):
            return ThreadBlock(-1, -1, -1, 0, ())
        numbers = [self.integer(e, name) for name in _TB]
        steps = tuple(map(self.step, e.step_at, e.steps, range(len(e.steps))))
        return ThreadBlock(numbers[0], numbers[1], numbers[2], numbers[3], steps)

    def step(self, at: int, values: Values, index: int) -> Step:
        if None in values:
            missing = [name for name, value in zip(STEP_ATTRIBUTES, values, strict=True) if value is None]
            self.fault_at(at, f"<step> lacks {', '.join(missing)}")
            return Step("nop", "i", -1, "o", -1, 0)
        numbers = [self.numbers[value] for value in values]
        for k in _STEP_INTEGERS:
            if numbers[k] is None:
                text = f'{STEP_ATTRIBUTES[k]}="{str(values[k])[:40]}"'
                self.fault_at(at, f"{text} is not a decimal integer")
        s, srcoff, dstoff, cnt, depid, deps = (numbers[k] or 0 for k in _STEP_INTEGERS)
        if s != index:
            why = f"this is step {index} in document order, which is the order of execution"
            self.fault_at(at, f's="{s}", but {why}')
        for k, allowed in ((1, self.step_types), (2, BUFFERS), (4, BUFFERS)):
            if values[k] not in allowed:
                text = f'{STEP_ATTRIBUTES[k]}="{str(values[k])[:40]}"'
                self.fault_at(at, f"{text} is not one of {', '.join(sorted(allowed))}")
        if values[9] not in ("0", "1"):
            self.fault_at(at, f'hasdep="{str(values[9])[:40]}" must be 0 or 1')
        kind, src, dst = cast(StepType, values[1]), cast(Buffer, values[2]), cast(Buffer, values[4])
        return Step(kind, src, srcoff, dst, dstoff, cnt, depid, deps, values[9] == "1")

    def semantics(self, algo: Node) -> Semantics:
        ngpus, nchunks = self.integer(algo, "ngpus"), self.integer(algo, "nchunksperloop")
        names = {theirs: ours for ours, theirs in self.target.collectives}
        names |= dict.fromkeys(set(self.target.colls) - set(names), "custom")
        collective = names.get(self.choice(algo, "coll", sorted(names)), "custom")
        claim: Literal["custom"] | str = algo.attributes.get("semantics", collective)
        if collective != "custom" or claim == "custom":
            root = self.root(algo, collective)
            return Semantics(collective, ngpus, nchunks, root)
        if claim not in (*EVEN, *UNEVEN):
            self.fault(algo, f'semantics="{claim[:40]}" is not known')
        if len(algo.children) != ngpus:
            self.fault(algo, f"<algo> has {len(algo.children)} gpu elements, but ngpus={ngpus}")
            return Semantics("custom", ngpus, nchunks)
        return Semantics(claim, ngpus, nchunks, self.root(algo, claim), self.members(algo), self.counts(algo, claim))

    def root(self, algo: Node, collective: str) -> int | None:
        return self.integer(algo, "root") if collective in ROOTED and "root" in algo.attributes else None

    def members(self, algo: Node) -> tuple[int, ...]:
        members = sorted(self.integer(e, "id") for e in algo.children if self.flag(e, "member", default=True))
        if not members:
            self.fault(algo, "no rank is a member")
        return () if len(members) == len(algo.children) else tuple(members)

    def counts(self, algo: Node, claim: str) -> tuple[int, ...]:
        if claim not in UNEVEN:
            return ()
        width = len(algo.children) if claim == "alltoallv" else 1
        counts: list[int] = []
        for e in sorted(algo.children, key=lambda e: self.integer(e, "id")):
            parts = [e.attributes.get("counts", "")]
            while f"counts{len(parts) + 1}" in e.attributes:
                parts.append(e.attributes[f"counts{len(parts) + 1}"])
            row = ",".join(parts).split(",")
            if len(row) != width or not all(_INTEGER.fullmatch(number) for number in row):
                self.fault(e, f"counts must be {width} integers separated by commas")
                row = ["0"] * width
            counts += map(int, row)
        return tuple(counts)
