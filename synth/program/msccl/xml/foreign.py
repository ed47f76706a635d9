"""Anybody's file: what the runtime would make of it, for the replay, and notes on what it would read differently.

The strict reader (``msccl_reader``) is for our own files and stops at whatever the runtimes misread; this one misreads
along with them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import cast

from synth.errors import InvalidInputError
from synth.files.source import source_text
from synth.program.meaning.semantics import ROOTED, Semantics
from synth.program.msccl.model import Buffer, Draft, GpuProgram, Step, StepType, ThreadBlock
from synth.program.msccl.targets import MSCCL, TARGETS, Target
from synth.program.msccl.xml.c_integers import c_int, c_long
from synth.program.msccl.xml.lexer import lex
from synth.program.msccl.xml.nodes import Lexed, Node
from synth.program.msccl.xml.reader import claimed_semantics
from synth.program.msccl.xml.runtime_blocks import Numbers

_PLAIN = re.compile(r"0|-?[1-9][0-9]*")
_LEGACY_MAX_BYTES = 1 << 27
_NUMBERS = ("ngpus", "nchunksperloop", "nchannels", "inplace", "outofplace", "minBytes", "maxBytes", "nthreads")
_SHOWN = 20


def foreign_draft(lexed: Lexed, target: Target) -> Draft | None:
    """Return the program that the runtime would run, or None when there is no algorithm.

    What a refused file lacks gets the value that says least: no collective is ``custom``, no protocol is Simple.
    """
    if not lexed.algos:
        return None
    algo = lexed.algos[0]
    values = algo.attributes
    ngpus = c_int(values["ngpus"]) if "ngpus" in values else len(algo.children)
    gpus = tuple(_gpu(gpu) for gpu in algo.children if 0 <= c_int(gpu.attributes["id"]) < ngpus)
    inplace = c_int(values.get("inplace", "0")) != 0
    reads = target.reads_outofplace and "outofplace" in values
    proto = values.get("proto", "Simple")
    return Draft(
        name=_text(values.get("name", "")),
        semantics=_semantics(algo, ngpus, _chunks(algo, gpus)),
        nchannels=c_int(values.get("nchannels", "1")),
        proto=proto if target.protocol(proto) else "Simple",
        inplace=inplace,
        outofplace=c_int(values["outofplace"]) != 0 if reads else not inplace,
        min_bytes=c_long(values.get("minBytes", "0")),
        max_bytes=c_long(values["maxBytes"]) if "maxBytes" in values else _LEGACY_MAX_BYTES,
        gpus=gpus,
    )


def read_foreign(source: str | os.PathLike[str], target: Target = MSCCL) -> Draft:
    """Read anybody's file as a runtime would, whether or not it would then refuse it.

    Parameters
    ----------
    source
        A path, or the text itself (a string that contains ``<``).
    target
        The runtime whose attributes count.

    Raises
    ------
    InvalidInputError
        When the file cannot be read, or the runtime's lexer stops in it.
    """
    lexed = lex(source_text(source))
    draft = foreign_draft(lexed, target)
    if draft is None or lexed.refusal:
        raise InvalidInputError(lexed.refusal or "there is no <algo> element")
    return draft


def _text(latin: str) -> str:
    return latin.encode("latin-1").decode("utf-8", "replace")


def _chunks(algo: Node, gpus: tuple[GpuProgram, ...]) -> int:
    if "nchunksperloop" in algo.attributes:
        return c_int(algo.attributes["nchunksperloop"])
    return max([1, *(max(gpu.i_chunks, gpu.o_chunks) for gpu in gpus)])


def _semantics(algo: Node, ngpus: int, chunks: int) -> Semantics:
    """Meaning of ``coll``, whichever dialect its name is from, or of our own attribute ``semantics``."""
    names = {theirs: ours for target in TARGETS for ours, theirs in target.collectives}
    collective = names.get(algo.attributes.get("coll", ""), "custom")
    own = claimed_semantics(algo, ngpus, chunks) if "semantics" in algo.attributes else None
    if own is not None:
        return own
    root = algo.attributes.get("root") if collective in ROOTED else None
    return Semantics(collective, ngpus, chunks, c_int(root) if root is not None else None)


def _gpu(node: Node) -> GpuProgram:
    numbers = Numbers()
    sizes = [c_int(node.attributes.get(name, "0")) for name in ("id", "i_chunks", "o_chunks", "s_chunks")]
    return GpuProgram(sizes[0], sizes[1], sizes[2], sizes[3], tuple(_block(b, numbers) for b in node.children))


def _block(node: Node, numbers: Numbers) -> ThreadBlock:
    number, send, recv, chan = (c_int(node.attributes.get(name, "-1")) for name in ("id", "send", "recv", "chan"))
    steps = []
    for _, kind, srcbuf, srcoff, dstbuf, dstoff, cnt, depid, deps, hasdep in node.steps:
        # Names that the model does not know are kept as they are, and found by the verification.
        src, dst, wait = cast(Buffer, srcbuf or ""), cast(Buffer, dstbuf or ""), -1 if depid is None else numbers[depid]
        step_type, signals = cast(StepType, kind or ""), numbers[hasdep] != 0
        steps.append(
            Step(step_type, src, numbers[srcoff], dst, numbers[dstoff], numbers[cnt], wait, numbers[deps], signals)
        )
    return ThreadBlock(number, send, recv, chan, tuple(steps))


def reading_notes(lexed: Lexed, target: Target) -> tuple[str, ...]:
    """What the runtime reads differently from what stands there, or not at all, without a word."""
    notes = list(lexed.oddities)
    if len(lexed.algos) > 1:
        notes.append(f"there are {len(lexed.algos)} <algo> elements: the runtime uses the first")
    for name, times in sorted(lexed.ignored.items()):
        why = ": no runtime makes these copies, use cpy steps" if name == "copy" else ""
        notes.append(f"<{name}> is ignored ({times} of them){why}")
    for algo in lexed.algos[:1]:
        notes += _algo_notes(algo, target)
        for gpu in algo.children:
            notes += _gpu_notes(gpu)
    hidden = len(notes) - _SHOWN
    return (*notes[:_SHOWN], *([f"and {hidden} more notes on the reading"] if hidden > 0 else []))


def _algo_notes(algo: Node, target: Target) -> Iterator[str]:
    ngpus = c_int(algo.attributes.get("ngpus", str(len(algo.children))))
    yield from _odd_numbers("<algo>", {name: algo.attributes.get(name) for name in _NUMBERS})
    extra = [i for i in (c_int(gpu.attributes["id"]) for gpu in algo.children) if not 0 <= i < ngpus]
    if extra:
        yield f"gpu ids {extra[:8]} are no ranks of 0..{ngpus - 1} and are not read"
    both = c_int(algo.attributes.get("outofplace", "0")) and c_int(algo.attributes.get("inplace", "0"))
    if both and not target.reads_outofplace:
        yield f"{target.name} does not read outofplace: the file serves in-place calls only"


def _gpu_notes(gpu: Node) -> Iterator[str]:
    where = f"g{c_int(gpu.attributes['id'])}"
    yield from _odd_numbers(where, {k: gpu.attributes.get(k) for k in ("id", "i_chunks", "o_chunks", "s_chunks")})
    plain: dict[str | None, bool] = {None: True}
    for block in gpu.children:
        name = f"{where}.tb{c_int(block.attributes.get('id', ''))}"
        yield from _odd_numbers(name, {k: block.attributes.get(k) for k in ("id", "send", "recv", "chan")})
        for index, values in enumerate(block.steps):
            s, _, _, srcoff, _, dstoff, cnt, depid, deps, hasdep = values
            for value in (s, srcoff, dstoff, cnt, depid, deps, hasdep):
                if value not in plain:
                    plain[value] = value is not None and _PLAIN.fullmatch(value) is not None
                if not plain[value]:
                    yield f'{name}.step{index}: "{str(value)[:40]}" reads as {c_int(value or "")}'
        if any(c_int(values[0] or "") != index for index, values in enumerate(block.steps)):
            yield f"{name}: s does not count 0, 1, 2, ..; steps run in document order, and deps count by it"


def _odd_numbers(where: str, values: dict[str, str | None]) -> Iterator[str]:
    for name, value in values.items():
        if value is not None and not _PLAIN.fullmatch(value):
            yield f'{where}: {name}="{value[:40]}" reads as {c_long(value)}'
