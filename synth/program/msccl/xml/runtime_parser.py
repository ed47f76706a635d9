"""Would this runtime load this file? The answer of its own lexer and parser, kept apart from our stricter checks.

Follows ``mscclGetAlgoFromXMLAndSetAlgo`` of microsoft/msccl ``src/graph/topo.cc`` and ``mscclGetAlgoFromXmlFile`` with
``mscclGetAlgoMetaFromXmlFile`` of Azure/msccl-executor-nccl, ROCm/rccl ``src/misc/msccl/msccl_parser.cc``. A file that
makes the runtime write outside its memory counts as refused.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from synth.files.source import source_text
from synth.program.msccl.opcodes import STEP_TYPES, place
from synth.program.msccl.targets import Target
from synth.program.msccl.xml.c_integers import c_int, c_long
from synth.program.msccl.xml.lexer import lex
from synth.program.msccl.xml.nodes import Lexed, Node
from synth.program.msccl.xml.runtime_blocks import Rank, rank_faults

_SHOWN = 50
_MAX_CHILDREN = 1024


@dataclass(frozen=True, slots=True)
class Verdict:
    """A runtime's answer.

    Attributes
    ----------
    accepted
        Whether it loads the file on every rank.
    reasons
        Why not; a runtime stops at the first.
    launch
        Why it refuses to run the file although it loads it.
    """

    accepted: bool
    reasons: tuple[str, ...] = ()
    launch: tuple[str, ...] = ()


def accepts(source: str | os.PathLike[str], target: Target, *, ranks: int | None = None) -> Verdict:
    """Answer as a runtime's own lexer and parser would.

    Parameters
    ----------
    source
        A path, or the text itself (a string that contains ``<``).
    target
        The runtime.
    ranks
        Number of ranks of the job; by default that of the file.

    Returns
    -------
    Verdict

    Raises
    ------
    InvalidInputError
        When the file cannot be read or is too large; a faulty file is a verdict, not an error.
    """
    return judge(lex(source_text(source)), target, ranks)


def judge(lexed: Lexed, target: Target, ranks: int | None = None) -> Verdict:
    """Answer of the parser about what the lexer read."""
    reasons = list(islice(_reasons(lexed, target, ranks), _SHOWN))
    return Verdict(not reasons, tuple(reasons), () if reasons else tuple(_launch_reasons(lexed, target, ranks)))


def ranks_of(algo: Node) -> Iterator[tuple[int, list[Node]]]:
    """Every rank of the file with its ``gpu`` elements, in document order."""
    ngpus = c_int(algo.attributes.get("ngpus", "0"))
    found: dict[int, list[Node]] = {}
    for gpu in algo.children:
        found.setdefault(c_int(gpu.attributes["id"]), []).append(gpu)
    return ((rank, gpus) for rank, gpus in found.items() if 0 <= rank < ngpus)


def _reasons(lexed: Lexed, target: Target, ranks: int | None) -> Iterator[str]:
    if target.first_element_only and lexed.first is not None:
        for text in _missing(lexed.first, target):
            yield f"first element <{lexed.first.name[:40]}>: {text}"
        coll = lexed.first.attributes.get("coll", "")
        if "coll" in lexed.first.attributes and coll not in target.colls:
            yield f'coll="{coll[:40]}" is not known to {target.name}'
    if lexed.refusal:
        yield lexed.refusal
    elif not lexed.algos:
        yield "there is no <algo> element"
    else:
        yield from _algo_reasons(lexed, lexed.algos[0], target, ranks)


def _missing(node: Node, target: Target) -> list[str]:
    return [f"attribute {name} not found" for name in target.required if name not in node.attributes]


def _algo_reasons(lexed: Lexed, algo: Node, target: Target, ranks: int | None) -> Iterator[str]:
    values = algo.attributes
    told = algo is lexed.first and target.first_element_only
    if not told:
        yield from (f"<algo>: {text}" for text in _missing(algo, target))
        if "coll" in values and values["coll"] not in target.colls:
            yield f'coll="{values["coll"][:40]}" is not known to {target.name}'
    if "proto" in values and target.protocol(values["proto"]) is None:
        yield f'proto="{values["proto"][:40]}" is not one of {", ".join(p.name for p in target.protocols)}'
    if target.checks_sizes:
        yield from _size_reasons(algo, target)
    if target.nthreads_multiple and c_int(values.get("nthreads", "0")) % target.nthreads_multiple:
        yield f"nthreads={values['nthreads'][:40]} must be a multiple of {target.nthreads_multiple}"
    ngpus = c_int(values.get("ngpus", "0"))
    if ranks is not None and target.checks_ranks and "ngpus" in values and ngpus != ranks:
        yield f"the program is for {ngpus} ranks, the job has {ranks}"
    if len(algo.children) > _MAX_CHILDREN:
        yield f"{len(algo.children)} gpu elements run over the reader's {_MAX_CHILDREN}"
    yield from _node_reasons(lexed, ngpus, target)
    for rank, gpus in ranks_of(algo):
        yield from rank_faults(rank, gpus, algo, target)


def _size_reasons(algo: Node, target: Target) -> Iterator[str]:
    low = c_long(algo.attributes.get("minBytes", "0"))
    high = c_long(algo.attributes["maxBytes"]) if "maxBytes" in algo.attributes else target.default_max_bytes or 0
    if low > high:
        yield f"minBytes={low} is greater than maxBytes={high}"
    if low < 0 or high < 0:
        yield f"minBytes={low} and maxBytes={high} must not be negative"


def _node_reasons(lexed: Lexed, ngpus: int, target: Target) -> Iterator[str]:
    """Elements that a rank keeps: all algo and gpu elements, and the inside of its own."""
    shared = len(lexed.algos) + sum(len(algo.children) for algo in lexed.algos)
    own: dict[int, int] = {}
    for algo in lexed.algos:
        for gpu in algo.children:
            rank = c_int(gpu.attributes["id"])
            inside = len(gpu.children) + sum(len(block.steps) for block in gpu.children)
            own[rank] = own.get(rank, 0) + inside
            crowded = [block for block in gpu.children if len(block.steps) > _MAX_CHILDREN]
            if len(gpu.children) > _MAX_CHILDREN or crowded:
                yield f"g{rank}: an element with over {_MAX_CHILDREN} children runs over the reader's memory"
    worst = max((count for rank, count in own.items() if 0 <= rank < ngpus), default=0)
    if shared + worst > target.max_nodes:
        rank = next(rank for rank, count in own.items() if count == worst)
        yield f"g{rank}: {shared + worst} XML elements for this rank, limit {target.max_nodes}"


def _launch_reasons(lexed: Lexed, target: Target, ranks: int | None) -> Iterator[str]:
    """Step types that are loaded but not run, and a job that the file is not for."""
    ngpus = c_int(lexed.algos[0].attributes["ngpus"])
    if ranks not in (None, ngpus):
        yield f"the program is for {ngpus} ranks, the job has {ranks}"
    refused = (target.parsed_step_types & STEP_TYPES) - target.step_types
    if not refused:
        return
    places: dict[str, str] = {}
    counts: dict[str, int] = {}
    for rank, gpus in ranks_of(lexed.algos[0]):
        for block in (block for gpu in gpus for block in gpu.children):
            for index, values in enumerate(block.steps):
                kind = values[1]
                if kind in refused and kind is not None:
                    counts[kind] = counts.get(kind, 0) + 1
                    places.setdefault(kind, place(rank, c_int(block.attributes.get("id", "")), index))
    for kind in sorted(counts):
        yield f"{places[kind]}: {target.name} refuses {kind} steps at launch ({counts[kind]} of them)"


__all__ = ["Rank", "Verdict", "accepts", "judge", "ranks_of"]
