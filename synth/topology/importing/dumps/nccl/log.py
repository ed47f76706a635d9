"""The topology that ``NCCL_DEBUG=INFO`` with ``NCCL_DEBUG_SUBSYS=GRAPH`` prints: a tree of CPUs, bridges and devices.

Format: ncclTopoPrint of NVIDIA/nccl src/graph/topo.cc. Rates are those of NCCL's tables; the job's GPUs and NICs are
there, others are not. Each rank prints the tree.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from synth.errors import InvalidInputError
from synth.topology.box.gpus import GpuModel
from synth.topology.importing.dumps.described import Described
from synth.topology.importing.dumps.nccl.tree import Vertex, box_of_tree
from synth.topology.importing.pasted import Line, Pasted

_INFO = re.compile(r"(.*?)\bNCCL INFO(?: (.*)|\s*)")
#: What only lines of the tree have, wherever they stand.
_TREE = re.compile(r"\+\s*[A-Z0-9]{3,5}\[[0-9.]+\]\s*-")
_BEGIN = re.compile(r"=== System : max(?:Bw|Width) .*===\s*")
_END = re.compile(r"={20,}\s*")
_NODE = re.compile(r"([A-Z0-9]{3,4})/(?:([0-9A-Fa-f]+)-)?([0-9A-Fa-f]+)(?: \((.*)\))?\s*")
_LINK = re.compile(r"( *)\+ ([A-Z0-9]{3,5})\[([0-9]{1,6}\.[0-9]{1,3})\] - (.*)")
_HOST = re.compile(r"(?:.*\s)?([\w.-]+):[0-9]+:[0-9]+ ")


@dataclass
class _Block:
    """What one rank prints: its prefix, where it begins, its tree, and whether the closing line is there."""

    prefix: str
    at: str
    roots: list[Vertex] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    closed: bool = False
    stack: list[tuple[int, Vertex]] = field(default_factory=list)


def log_line(pasted: Pasted) -> Line | None:
    """First line of a printed topology; None if the text has none."""
    for line in pasted.lines:
        match = _INFO.fullmatch(line.text)
        if match is not None and _BEGIN.fullmatch((match[2] or "").strip()):
            return line
    return None


def read_nccl_log(pasted: Pasted, model: GpuModel | None) -> Described:
    """Hosts of the log as boxes, GPUs in the order of their ranks.

    Raises
    ------
    InvalidInputError
        No topology, one that is cut, ranks of a host that print different ones, lines that are not understood.
    """
    faults: list[str] = []
    used: set[int] = set()
    blocks = _blocks(pasted, used, faults)
    for block in blocks:
        if not block.closed:
            faults.append(f"{block.at}: the topology has no closing line '=====': the log is cut; take the whole")
    chosen = _per_host(blocks, faults)
    if not chosen and not faults:
        faults.append(
            f"{pasted.path}: no topology in this log (=== System : maxBw ...): run with NCCL_DEBUG=INFO "
            "NCCL_DEBUG_SUBSYS=INIT,GRAPH"
        )
    if faults:
        raise InvalidInputError(faults)
    notes = [*pasted.notes, "an NCCL log has the GPUs and NICs of its job only, with NCCL's achievable rates"]
    boxes = tuple(box_of_tree(block.roots, model, faults, notes) for block in chosen)
    if faults:
        raise InvalidInputError(faults)
    notes += pasted.skipped(used | {line.number for line in pasted.lines if _INFO.fullmatch(line.text) is not None})
    return Described("NCCL log", boxes, tuple(dict.fromkeys(notes)))


def _blocks(pasted: Pasted, used: set[int], faults: list[str]) -> list[_Block]:
    out: list[_Block] = []
    open_blocks: dict[str, _Block] = {}
    for line in pasted.lines:
        match = _INFO.fullmatch(line.text)
        at = pasted.at(line)
        if match is None:
            if _TREE.search(line.text):
                faults.append(f"{at}: {line.text.strip()[:60]!r} stands outside the lines of NCCL INFO; is it wrapped?")
            continue
        key, text = f"{line.stream} {match[1]}", (match[2] or "").rstrip()
        if _BEGIN.fullmatch(text.strip()):
            open_blocks[key] = _Block(f"{line.stream} {match[1]}", at)
            out.append(open_blocks[key])
        elif key not in open_blocks:
            if _TREE.match(text.strip()):
                faults.append(f"{at}: {text.strip()!r} stands below no '=== System : maxBw'; take the whole log")
            continue
        elif _END.fullmatch(text):
            open_blocks.pop(key).closed = True
        else:
            _add(open_blocks[key], text, at, faults)
        used.add(line.number)
    return out


def _add(block: _Block, text: str, at: str, faults: list[str]) -> None:
    """A line of the tree: a CPU, or a link with what is at its other end."""
    link = _LINK.fullmatch(text)
    node = _NODE.fullmatch(text if link is None else link[4])
    if node is None or (link is None and node[1] != "CPU"):
        faults.append(f"{at}: {text.strip()!r} is not understood; expected such as '+ PCI[24.0] - GPU/47000 (0)'")
        return
    kind, rate = ("", 0.0) if link is None else (link[2], float(link[3]) * 1e9)
    vertex = Vertex(node[1], node[3].lower(), node[2] or "0", node[4] or "", kind, rate, at)
    block.texts.append(text.strip())
    if link is None:
        block.roots.append(vertex)
        block.stack = [(-1, vertex)]
        return
    column = len(link[1])
    while block.stack and block.stack[-1][0] >= column:
        block.stack.pop()
    if not block.stack:
        faults.append(f"{at}: {text.strip()!r} hangs on nothing; is the log cut?")
        return
    block.stack[-1][1].children.append(vertex)
    block.stack.append((column, vertex))


def _per_host(blocks: Sequence[_Block], faults: list[str]) -> list[_Block]:
    """One block per host; all that a host's ranks print must be the same."""
    out: dict[str, _Block] = {}
    for block in blocks:
        match = _HOST.fullmatch(block.prefix.partition("[")[0] or block.prefix)
        host = match[1] if match is not None else ""
        first = out.setdefault(host, block)
        if sorted(first.texts) != sorted(block.texts):
            name = host or "(without a name)"
            faults.append(f"{block.at}: the topology differs from that of the same host {name} in {first.at}; keep one")
    return list(out.values())
