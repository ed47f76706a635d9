"""Write verified programs as MSCCL XML, byte for byte the same for the same program."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from synth.errors import VerificationError
from synth.files.writing import write_text
from synth.program.meaning.semantics import ROOTED, UNEVEN, is_standard, member_ranks, normalised
from synth.program.msccl.limits.check import coll_name, counts_row, counts_values, xml_escape
from synth.program.msccl.model import Draft, GpuProgram, Step
from synth.program.msccl.program import Program
from synth.program.msccl.targets import Target
from synth.program.msccl.xml.reader import read_xml

__all__ = ["checked_xml", "read_xml", "to_xml", "write_xml"]


def to_xml(program: Program, *, nthreads: int | None = None) -> str:
    """Return the file's text: every attribute that any dialect asks for, spaces only, no XML declaration.

    Parameters
    ----------
    program
        A verified program; nothing else can be exported.
    nthreads
        Threads per block, a multiple of 32; left to the runtime when None.

    Raises
    ------
    VerificationError
        When given anything but a Program.
    ValueError
        When ``nthreads`` is not a positive multiple of 32.
    """
    if type(program) is not Program or not hasattr(program, "report"):
        raise VerificationError(f"only a verified Program can be exported, not {type(program).__name__}")
    if nthreads is not None and (nthreads <= 0 or nthreads % 32):
        raise ValueError(f"nthreads={nthreads} must be a positive multiple of 32")
    draft, target = program.draft, program.target
    lines = [_tag("algo", _algo_attributes(draft, target, nthreads), closed=False)]
    for gpu in draft.gpus:
        lines.append("  " + _tag("gpu", _gpu_attributes(draft, gpu, target), closed=False))
        for block in gpu.blocks:
            attributes = [("id", block.id), ("send", block.send), ("recv", block.recv), ("chan", block.chan)]
            lines.append("    " + _tag("tb", attributes, closed=False))
            lines += ["      " + _tag("step", _step_attributes(i, s), closed=True) for i, s in enumerate(block.steps)]
            lines.append("    </tb>")
        lines.append("  </gpu>")
    return "\n".join([*lines, "</algo>", ""])


def checked_xml(program: Program, *, nthreads: int | None = None) -> str:
    """Return :func:`to_xml` after reading it back.

    Raises
    ------
    VerificationError
        When the text read back is not the program.
    """
    text = to_xml(program, nthreads=nthreads)
    if _comparable(read_xml(text, program.target)) != _comparable(program.draft):
        raise VerificationError(f"{program.draft.name}: the XML read back differs from the program")
    return text


def write_xml(program: Program, path: str | os.PathLike[str], *, nthreads: int | None = None) -> None:
    """Write the file, whole or not at all, after reading its text back (see :func:`checked_xml`).

    Raises
    ------
    VerificationError
        When the text read back is not the program.
    InvalidInputError
        When the file cannot be written.
    """
    write_text(Path(path), checked_xml(program, nthreads=nthreads))


def _comparable(draft: Draft) -> Draft:
    return replace(draft, semantics=normalised(draft.semantics))


def _tag(name: str, attributes: Iterable[tuple[str, object]], closed: bool) -> str:
    text = " ".join(f'{key}="{xml_escape(str(value))}"' for key, value in attributes)
    return f"<{name} {text}{'/' if closed else ''}>"


def _algo_attributes(draft: Draft, target: Target, nthreads: int | None) -> list[tuple[str, object]]:
    claim = draft.semantics
    attributes: list[tuple[str, object]] = [
        ("name", draft.name),
        ("proto", draft.proto),
        ("nchannels", draft.nchannels),
        ("nchunksperloop", claim.nchunks),
        ("ngpus", claim.ngpus),
        ("coll", coll_name(claim, target)),
        ("inplace", int(draft.inplace)),
        ("outofplace", int(draft.outofplace)),
        ("minBytes", draft.min_bytes),
        ("maxBytes", draft.max_bytes),
    ]
    if nthreads is not None:
        attributes.append(("nthreads", nthreads))
    if not is_standard(claim):
        attributes.append(("semantics", claim.collective))
    if claim.collective in ROOTED:
        attributes.append(("root", claim.root))
    return attributes


def _gpu_attributes(draft: Draft, gpu: GpuProgram, target: Target) -> list[tuple[str, object]]:
    claim = draft.semantics
    attributes: list[tuple[str, object]] = [
        ("id", gpu.id),
        ("i_chunks", gpu.i_chunks),
        ("o_chunks", gpu.o_chunks),
        ("s_chunks", gpu.s_chunks),
    ]
    if claim.collective in UNEVEN:
        values = counts_values(counts_row(claim, gpu.id), target)
        attributes += [(f"counts{k}" if k > 1 else "counts", value) for k, value in enumerate(values, 1)]
    if gpu.id not in member_ranks(claim):
        attributes.append(("member", 0))
    return attributes


def _step_attributes(index: int, step: Step) -> list[tuple[str, object]]:
    return [
        ("s", index),
        ("type", step.type),
        ("srcbuf", step.srcbuf),
        ("srcoff", step.srcoff),
        ("dstbuf", step.dstbuf),
        ("dstoff", step.dstoff),
        ("cnt", step.cnt),
        ("depid", step.depid),
        ("deps", step.deps),
        ("hasdep", int(step.hasdep)),
    ]
