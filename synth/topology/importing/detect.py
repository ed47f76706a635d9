"""Finding the topology in a file: its kind is told from the table or tree itself, wherever in the text that stands."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, get_args

from synth.errors import InvalidInputError
from synth.files.json_text import Document, parse_json
from synth.files.xml_tree import Element, parse_xml_tree
from synth.topology.importing.dumps.amd.amd_smi import amd_line, is_amd_json
from synth.topology.importing.dumps.amd.rocm_smi import rocm_line
from synth.topology.importing.dumps.nccl.log import log_line
from synth.topology.importing.dumps.nvidia.table import has_matrix
from synth.topology.importing.pasted import Line, Pasted

Kind = Literal[
    "nccl",
    "hwloc",
    "nvidia-smi",
    "rocm-smi",
    "amd-smi",
    "nccl-log",
    "teccl",
    "taccl",
    "astra-sim",
    "simai",
    "plain",
    "synth-topology",
]
KINDS: tuple[str, ...] = get_args(Kind)
_XML_KINDS = ("nccl", "hwloc")
_JSON_KINDS = ("teccl", "taccl", "plain", "synth-topology")

_JSON_KEYS: Mapping[str, Kind] = MappingProxyType(
    {"format": "synth-topology", "TopologyParams": "teccl", "gpus_per_node": "taccl", "num_nodes": "plain"}
)
_OTHER_JSON = MappingProxyType(
    {
        "logical-dims": "an ASTRA-sim file of logical dimensions, which has no links; import its network.yml",
        "1-Epoch_Duration": "a TE-CCL result, not its input; import the JSON with TopologyParams",
        "intranode_sketch": "a TACCL sketch, which has no speeds; import the topology JSON (gpus_per_node, alpha, ...)",
        "nnodes": "a TACCL sketch, which has no speeds; import the topology JSON (gpus_per_node, alpha, ...)",
    }
)
_OTHER_XML = MappingProxyType(
    {
        "graphs": "an NCCL graph dump (NCCL_GRAPH_DUMP_FILE): rings and trees; import NCCL_TOPO_DUMP_FILE instead",
        "algo": "an MSCCL algorithm; synth verify reads it",
    }
)
_ROOT = re.compile(r"<(system|topology|graphs|algo)(?=[\s>/])")
#: What may stand above the root of XML.
_PROLOG = re.compile(r"(?:\s|<\?xml[^>]*\?>|<!DOCTYPE[^>\[]*(?:\[[^\]]*\])?\s*>|<!--.*?-->)*", re.DOTALL)
_TEXTS: Mapping[Kind, Callable[[Pasted], Line | None]] = MappingProxyType(
    {"nvidia-smi": has_matrix, "rocm-smi": rocm_line, "amd-smi": amd_line, "nccl-log": log_line}
)


@dataclass(frozen=True, slots=True)
class Found:
    """A file's topology before it is read: its kind, and its XML or JSON if it is in one of these.

    ``notes`` say what around it was skipped; readers of text say so themselves.
    """

    kind: str
    pasted: Pasted
    root: Element | None = None
    document: Document | None = None
    notes: tuple[str, ...] = ()


def find(pasted: Pasted, kind: str | None) -> Found:
    """The topology in a file.

    Parameters
    ----------
    kind
        One of :data:`KINDS` if the user says it; else it is found out.

    Raises
    ------
    InvalidInputError
        No topology is there, several of different kinds are, or it is broken XML or JSON.
    """
    if kind in _XML_KINDS or (kind is None and _XML_FIRST.match(pasted.text)):
        return _xml(pasted, kind)
    json_text = _json_part(pasted)
    if kind in _JSON_KINDS or (kind == "amd-smi" and json_text is not None):
        return _json(pasted, kind, json_text)
    if kind is not None:
        return Found(kind, pasted)
    seen = dict(_evidence(pasted, json_text))
    if len(seen) > 1:
        places = ", ".join(f"{what} ({where})" for what, where in seen.items())
        raise InvalidInputError(
            f"{pasted.path}: several kinds of topology are in this file: {places}; --kind says which"
        )
    if not seen:
        raise InvalidInputError(_nothing(pasted))
    only = next(iter(seen))
    if only in ("XML", "JSON"):
        return _xml(pasted, None) if only == "XML" else _json(pasted, None, json_text)
    return Found(only, pasted)


#: A file that is XML from its first character; a summary for a browser above a table is none.
_XML_FIRST = re.compile(_PROLOG.pattern + r"<(?!/|details\b|summary\b|pre\b|code\b)[A-Za-z]", re.DOTALL)


def _evidence(pasted: Pasted, json_text: str | None) -> Iterator[tuple[str, str]]:
    """Kinds that are in the text, each with its place."""
    root = _ROOT.search(pasted.text)
    if root is not None:
        yield "XML", _line_at(pasted, root.start())
    if json_text is not None:
        yield "JSON", str(pasted.path)
    for kind, first in _TEXTS.items():
        line = first(pasted)
        if line is not None:
            yield kind, f"line {line.number}"
    text = pasted.text
    if re.search(r"^\s*npus_count\s*:", text, re.MULTILINE):
        yield "astra-sim", str(pasted.path)
    if re.match(r"\s*([0-9]+\s+){5}\S+(\s+[0-9]+)?\s*(\n|$)", text):
        yield "simai", str(pasted.path)


def _nothing(pasted: Pasted) -> str:
    """Message for a text in which no topology was found."""
    others = (
        (r"^\s*Machine \(", "console output of lstopo; write XML: lstopo --of xml"),
        (r"^\s*Tiers\s+[0-9]+", "an htsim fat-tree description, which names no cables; write its links as SimAI text"),
    )
    for pattern, what in others:
        if re.search(pattern, pasted.text, re.MULTILINE):
            return f"{pasted.path}: is not imported: {what}"
    if pasted.text.lstrip().startswith(("{", "[")):
        try:
            parse_json(pasted.text, str(pasted.path))
        except InvalidInputError as error:
            return error.faults[0]
    first = next((line for line in pasted.lines if not line.blank), None)
    shown = "the file is empty" if first is None else f"line {first.number} begins {first.text.strip()[:40]!r}"
    return f"{pasted.path}: text of no known kind ({shown}); {_hint()}"


def _hint() -> str:
    return f"known kinds: {', '.join(KINDS)} (--kind says which one it is)"


def _line_at(pasted: Pasted, offset: int) -> str:
    return f"line {pasted.numbers[pasted.text.count(chr(10), 0, offset)]}"


# XML


def _xml(pasted: Pasted, kind: str | None) -> Found:
    """The XML element of a topology with the text around it left out."""
    text, path = pasted.text, pasted.path
    roots = list(_ROOT.finditer(text))
    prolog = _PROLOG.match(text)
    begin = 0
    if roots and (prolog is None or prolog.end() < roots[0].start()) and not _XML_FIRST.match(text):
        begin = roots[0].start()
    end = len(text)
    if roots:
        tag = roots[0][1]
        closing = text.find(f"</{tag}>", roots[0].start())
        if closing >= 0:
            end = closing + len(f"</{tag}>")
            again = next((root for root in roots if root.start() > end), None)
            if again is not None:
                raise InvalidInputError(
                    f"{path}: a second <{again[1]}> begins in {_line_at(pasted, again.start())} (the first in "
                    f"{_line_at(pasted, roots[0].start())}): keep the topology of one job; a job of several hosts "
                    "writes all of them into one file"
                )
    numbers = pasted.numbers[text.count("\n", 0, begin) :]
    root = parse_xml_tree(text[begin:end], path, numbers)
    inside = range(text.count("\n", 0, begin), text.count("\n", 0, end) + 1)
    notes = (*pasted.notes, *pasted.skipped({pasted.numbers[k] for k in inside}))
    return Found(kind or _kind_of_xml(root), pasted, root=root, notes=notes)


def _kind_of_xml(root: Element) -> Kind:
    """Kind of an XML file by its root element."""
    if root.tag in ("system", "topology"):
        return "nccl" if root.tag == "system" else "hwloc"
    unknown = f"XML with root <{root.tag}>; <system> (NCCL, RCCL) and <topology> (hwloc) are known"
    raise InvalidInputError(f"{root.at}: is no topology but {_OTHER_XML.get(root.tag, unknown)}")


# JSON


def _json_part(pasted: Pasted) -> str | None:
    """JSON in a text, with empty lines before it so that lines keep their numbers; None if there is none."""
    lines = [line.text for line in pasted.lines]
    begins = [k for k, line in enumerate(lines) if re.match(r"\s*(?:\{|\[\s*(?:\{|\]|$))", line)]
    ends = [k for k, line in enumerate(lines) if re.search(r"[}\]]\s*$", line)]
    if not begins or not ends:
        return None
    part = "\n" * (pasted.numbers[begins[0]] - 1) + "\n".join(lines[begins[0] : ends[-1] + 1])
    try:
        value = json.loads(part)
    except (ValueError, RecursionError):
        return None
    return part if isinstance(value, dict | list) else None


def _json(pasted: Pasted, kind: str | None, part: str | None) -> Found:
    document = parse_json(pasted.text if part is None else part, str(pasted.path))
    return Found(kind or _kind_of_json(document), pasted, document=document, notes=pasted.notes)


def _kind_of_json(document: Document) -> Kind:
    """Kind of a JSON file by its keys."""
    if is_amd_json(document.value):
        return "amd-smi"
    keys = document.value if isinstance(document.value, dict) else {}
    for key, kind in _JSON_KEYS.items():
        if key in keys:
            return kind
    for key, what in _OTHER_JSON.items():
        if key in keys:
            raise InvalidInputError(f"{document.file}: is no topology but {what}")
    raise InvalidInputError(f"{document.file}: JSON of no known kind; {_hint()}")
