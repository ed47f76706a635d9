"""The runtimes' own XML reader, step by step: what it accepts, what it drops, and what it keeps.

Follows ``mscclXmlGetNode`` and ``mscclXmlLoadSub`` of microsoft/msccl ``src/graph/xml.cc``, Azure/msccl-executor-nccl
and ROCm/rccl ``src/misc/msccl/msccl_parser.cc``, which are the same code. Each rank reads the file for itself and keeps
only its own ``gpu``; here all ranks are read in one go, which gives the same answers: inside elements that are not kept
any closing tag closes, and inside those that are, its name must match.

Entities are not expanded, there are no declarations, and no construct makes the work grow faster than the file.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from synth.program.msccl.xml.c_integers import c_int
from synth.program.msccl.xml.tags import ATTRIBUTE, CLOSE, STEP, STEP_ATTRIBUTES, TAG

_SPACE = re.compile(r"[ \r\n]*")
_TOKEN = re.compile(r"[^ >/\n\r=]*")
_ATTRIBUTES: Final = 16
_VALUE_BYTES: Final = 256
_SLOT_BYTES: Final = 512
_LONGEST_NAME: Final = 254
_CHILD: Final = {"": "algo", "algo": "gpu", "gpu": "tb", "tb": "step"}
_ODDITIES: Final = 50
Values = tuple[str | None, ...]


class LexError(Exception):
    """The runtime's reader stops here."""


@dataclass(slots=True)
class Node:
    """An element that is kept.

    Attributes
    ----------
    at
        Offset of its tag in the text.
    attributes
        The first of each name, of the first sixteen slots.
    steps
        Of a ``tb``: per step the values of ``STEP_ATTRIBUTES``, None where one is missing.
    """

    name: str
    at: int
    attributes: dict[str, str]
    children: list[Node] = field(default_factory=list)
    steps: list[Values] = field(default_factory=list)


@dataclass(slots=True)
class Lexed:
    """What was read.

    Attributes
    ----------
    algos
        The ``algo`` elements; the runtimes use the first.
    first
        The file's first element, whatever it is, as the executor's first pass reads it; None when the file has none.
    refusal
        Why the reader stopped, or empty.
    oddities
        What it drops or takes for something else without a word.
    ignored
        How often each unknown element stands inside a kept one.
    """

    algos: list[Node] = field(default_factory=list)
    first: Node | None = None
    refusal: str = ""
    oddities: list[str] = field(default_factory=list)
    ignored: Counter[str] = field(default_factory=Counter)


def lex(text: str) -> Lexed:
    """Read a file's text, one character per byte (latin-1), as the runtimes do."""
    lexer = _Lexer(text)
    try:
        lexer.run()
    except LexError as error:
        lexer.out.refusal = str(error)
    return lexer.out


class _Lexer:
    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0
        self.out = Lexed()
        # Open elements: the node, or None for one that is skipped.
        self.open: list[Node | None] = []
        self.intern: dict[str, str] = {}

    def run(self) -> None:
        """Read all elements."""
        while self.plain() or self.element():
            pass

    # The fast way: whole tags at once.

    def plain(self) -> bool:
        """Read one ordinary tag, or a run of ordinary steps; False when the next thing is something else."""
        parent = self.open[-1] if self.open else None
        if parent is not None and parent.name == "tb":
            self.plain_steps(parent)
        found = TAG.match(self.text, self.at)
        if found is not None:
            begin, self.at = found.start(1) - 1, found.end()
            pairs = ATTRIBUTE.findall(found[2])
            attributes = dict(reversed(pairs))
            if len(attributes) < len(pairs):
                self.odd(begin, f"<{found[1]}> repeats an attribute; only the first counts")
            self.opened(Node(found[1], begin, attributes), bool(found[3]))
            return True
        found = CLOSE.match(self.text, self.at)
        if found is not None:
            self.at = found.end()
            self.closed(found[1])
            return True
        return False

    def plain_steps(self, block: Node) -> None:
        intern, add, at = self.intern.setdefault, block.steps.append, self.at
        while (found := STEP.match(self.text, at)) is not None:
            add(tuple([intern(value, value) for value in found.groups()]))
            at = found.end()
        self.at = at

    # The reader's own way: character by character.

    def element(self) -> bool:
        """Read one element as the runtime does; False at the end of the file."""
        space = _SPACE.match(self.text, self.at)
        self.at = space.end() if space else self.at
        if self.at >= len(self.text):
            if self.open:
                name = self.open[-1].name if self.open[-1] is not None else "(an unknown element)"
                raise self.fault(f"the file ends inside {name}")
            return False
        if self.text[self.at] != "<":
            raise self.fault(f"expected '<', found {self.text[self.at]!r}")
        begin = self.at
        self.at += 1
        name, last = self.token()
        if name.startswith("!--"):
            self.comment(name, last)
        elif not name and last == "/":
            name, last = self.token()
            if last != ">":
                raise self.fault(f"unexpected {last!r} in closing tag {name[:40]}")
            self.closed(name)
        else:
            self.tag(name, last, begin)
        return True

    def tag(self, name: str, last: str, begin: int) -> None:
        attributes: dict[str, str] = {}
        slot = 0
        while last == " ":
            key, value, last = self.attribute()
            if (_ATTRIBUTES + 1 - slot) * _SLOT_BYTES - _VALUE_BYTES < len(value) + 1:
                raise self.fault(f"a value of {len(value)} characters runs over the reader's memory")
            if slot == _ATTRIBUTES:
                self.odd(begin, f"<{name[:40]}> has more than 16 attributes and spaces; {key[:40]!r} is dropped")
                continue
            slot += 1
            if key in attributes and key:
                self.odd(begin, f"<{name[:40]}> repeats {key[:40]!r}; only the first counts")
            attributes.setdefault(key, value[:_VALUE_BYTES])
        single = last == "/"
        if single:
            _, last = self.token()
        if last != ">":
            raise self.fault(f"expected '>' in <{name[:40]}>, found {last!r}")
        attributes.pop("", None)
        self.opened(Node(name, begin, attributes), single)

    def attribute(self) -> tuple[str, str, str]:
        """Read (key, value, next character)."""
        key, last = self.token(valued=True)
        if last != "=":
            return key, "", last
        quote = self.get()
        if quote not in "\"'":
            raise self.fault("expected a double quote")
        end = self.text.find('"', self.at)
        if end < 0:
            raise self.fault("the file ends in a value")
        value = self.text[self.at : end].split("\0", 1)[0]
        self.at = end + 1
        return key, value, self.get()

    def token(self, valued: bool = False) -> tuple[str, str]:
        """Read a name up to and with the character that ends it; the name itself may begin with such a character."""
        found = _TOKEN.match(self.text, self.at)
        name = found.group() if found else ""
        self.at += len(name)
        if len(name) > _LONGEST_NAME:
            raise self.fault(f"a name of {len(name)} characters")
        last = self.get()
        if last == "=":
            if not valued:
                raise self.fault(f"unexpected value with name {name[:40]}")
        elif len(name) == _LONGEST_NAME:
            raise self.fault(f"a name of {len(name)} characters")
        return name.split("\0", 1)[0], last

    def get(self) -> str:
        if self.at >= len(self.text):
            raise self.fault("the file ends in a tag")
        self.at += 1
        return self.text[self.at - 1]

    def comment(self, name: str, last: str) -> None:
        """Skip to ``-->``, which may begin in what was read already."""
        seen = name[3:] + last
        end = self.text.find("-->", max(0, self.at - min(len(seen), 3)))
        if seen[-3:] == "-->":
            return
        if end < 0:
            raise self.fault("unterminated comment")
        self.at = end + 3

    # What the elements mean.

    def opened(self, node: Node, single: bool) -> None:
        """Keep or skip an element."""
        if self.out.first is None:
            self.out.first = node
        parent = self.open[-1] if self.open else Node("", 0, {})
        kept = parent is not None and _CHILD.get(parent.name) == node.name
        if kept and parent is not None:
            if parent.name == "gpu" and not self.read_by_its_rank(parent):
                kept = False
            elif node.name == "gpu" and "id" not in node.attributes:
                raise self.fault("attribute id of gpu not found")
            elif node.name == "step":
                values = node.attributes
                parent.steps.append(tuple(map(values.get, STEP_ATTRIBUTES)))
            else:
                (parent.children if self.open else self.out.algos).append(node)
        elif parent is not None and parent.name == "step":
            raise self.fault("an element inside a step crashes the reader")
        elif parent is not None:
            self.out.ignored[node.name[:40]] += 1
        if not single:
            self.open.append(node if kept else None)

    def read_by_its_rank(self, gpu: Node) -> bool:
        """Whether some rank reads the inside of this element."""
        ngpus = self.out.algos[0].attributes.get("ngpus")
        return ngpus is None or 0 <= c_int(gpu.attributes["id"]) < c_int(ngpus)

    def closed(self, name: str) -> None:
        """Close the innermost element."""
        if not self.open:
            # The reader takes a closing tag that closes nothing for an opening one without attributes.
            self.odd(self.at, f"</{name[:40]}> closes nothing, and counts as opening")
            self.opened(Node(name, self.at, {}), single=False)
            return
        node = self.open.pop()
        if node is not None and node.name != name:
            raise self.fault(f"</{name[:40]}> closes <{node.name}>")

    def odd(self, at: int, text: str) -> None:
        if len(self.out.oddities) < _ODDITIES:
            self.out.oddities.append(f"line {self.line(at)}: {text}")

    def line(self, at: int) -> int:
        return self.text.count("\n", 0, at) + 1

    def fault(self, text: str) -> LexError:
        return LexError(f"line {self.line(min(self.at, len(self.text)))}: {text}")
