"""The XML that NCCL-derived runtimes read: a small dialect with its own refusals.

Follows ``src/graph/xml.cc`` of microsoft/msccl, which RCCL and the executor share (formats.md 1.2). Refused: XML
declarations, DOCTYPE, byte order marks, tabs and text between elements, newlines between attributes, spaces around
``=``, single quotes, and anything after the last element. Accepted: comments, CRLF, several spaces, unknown elements.
Entities are not expanded except the five predefined ones; there is no document type, hence no entity definitions.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from synth.errors import InvalidInputError
from synth.program.msccl.xml.tags import ATTRIBUTE, CLOSE, STEP, STEP_ATTRIBUTES, TAG

_SPACE = re.compile(r"[ \r\n]*")
_NAME = re.compile(r"[^ >/\n\r=]*")
_MAX_NAME = 254
_MAX_SLOTS = 16
_CHILD = {None: "algo", "algo": "gpu", "gpu": "tb", "tb": "step"}
_ENTITIES = (("&lt;", "<"), ("&gt;", ">"), ("&quot;", '"'), ("&apos;", "'"), ("&amp;", "&"))


Values = tuple[str | None, ...]


@dataclass(slots=True)
class Element:
    """An element of the expected nesting algo, gpu, tb; others are skipped while reading.

    Attributes
    ----------
    steps
        Of a ``tb``: (line, values of ``STEP_ATTRIBUTES``, None where one is missing) of each step.
    """

    name: str
    line: int
    attributes: dict[str, str]
    children: list[Element] = field(default_factory=list)
    steps: list[tuple[int, Values]] = field(default_factory=list)


def parse_elements(text: str) -> list[Element]:
    """Top-level ``algo`` elements of a text.

    Raises
    ------
    InvalidInputError
        At the first place, with its line number, where the runtimes' reader stops; and on repeated, valueless or
        surplus attributes, which that reader accepts but silently drops.
    """
    return _Lexer(text).parse()


def unescape(value: str) -> str:
    """Replace the five predefined entities; anything else stays as it is."""
    for entity, char in _ENTITIES:
        value = value.replace(entity, char)
    return value


class _Lexer:
    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0
        self.counted, self.lines = 0, 1
        self.top: list[Element] = []
        # Open elements by name, with the element itself or None inside something that is skipped.
        self.open: list[tuple[str, Element | None]] = []
        self.intern: dict[str, str] = {}

    def parse(self) -> list[Element]:
        while True:
            if self.plain():
                continue
            if not self.skip_space():
                break
            if self.peek() != "<":
                raise self.fault(f"expected '<', found {self.peek()!r}: only spaces and newlines separate elements")
            self.at += 1
            name = self.name()
            if name.startswith("!--"):
                self.comment(name)
            elif not name and self.peek() == "/":
                self.close()
            else:
                self.element(name)
        if self.open:
            raise self.fault(f"the file ends inside <{self.open[-1][0]}>")
        return self.top

    def plain(self) -> bool:
        """Read one ordinary tag, or a run of ordinary steps; False when the next thing needs a closer look."""
        block = self.open[-1][1] if self.open else None
        if block is not None and block.name == "tb":
            self.plain_steps(block)
        found = TAG.match(self.text, self.at)
        if found is not None:
            pairs = ATTRIBUTE.findall(found[2])
            attributes = dict(pairs)
            if len(attributes) == len(pairs):
                self.at = found.start(1)
                line = self.line()
                self.at = found.end()
                self.opened(found[1], line, attributes, bool(found[3]))
                return True
        found = CLOSE.match(self.text, self.at)
        if found is not None and self.open and self.open[-1][0] == found[1]:
            self.at = found.end()
            self.open.pop()
            return True
        return False

    def plain_steps(self, block: Element) -> None:
        intern = self.intern.setdefault
        while (found := STEP.match(self.text, self.at)) is not None:
            self.at = found.end()
            block.steps.append((self.line(), tuple([intern(value, value) for value in found.groups()])))

    def line(self) -> int:
        self.lines += self.text.count("\n", self.counted, self.at)
        self.counted = max(self.counted, self.at)
        return self.lines

    def fault(self, text: str) -> InvalidInputError:
        return InvalidInputError(f"line {self.line()}: {text}")

    def peek(self) -> str:
        if self.at >= len(self.text):
            raise self.fault("the file ends in the middle of a tag")
        return self.text[self.at]

    def skip_space(self) -> bool:
        found = _SPACE.match(self.text, self.at)
        self.at = found.end() if found else self.at
        return self.at < len(self.text)

    def name(self) -> str:
        found = _NAME.match(self.text, self.at)
        name = found.group() if found else ""
        if len(name) > _MAX_NAME:
            raise self.fault(f"a name of {len(name)} characters, limit {_MAX_NAME}")
        self.at += len(name)
        return name

    def comment(self, name: str) -> None:
        if self.peek() == "=":
            raise self.fault("'=' in the first word of a comment is not readable")
        end = self.text.find("-->", self.at - len(name) + 3)
        if end < 0:
            raise self.fault("unterminated comment")
        self.at = end + 3

    def close(self) -> None:
        self.at += 1
        name = self.name()
        if self.peek() != ">":
            raise self.fault(f"expected '>' after </{name}, found {self.peek()!r}")
        if not self.open or self.open[-1][0] != name:
            raise self.fault(f"</{name}> closes <{self.open[-1][0]}>" if self.open else f"</{name}> closes nothing")
        self.at += 1
        self.open.pop()

    def element(self, name: str) -> None:
        if not name or name[0] in "!?":
            raise self.fault(f"<{name or self.peek()} is not an element (declarations and DOCTYPE are not readable)")
        line = self.line()
        attributes = self.attributes(name)
        single = self.peek() == "/"
        self.at += single
        if self.peek() != ">":
            raise self.fault(f"expected '>' in <{name}>, found {self.peek()!r}")
        self.at += 1
        self.opened(name, line, attributes, single)

    def opened(self, name: str, line: int, attributes: dict[str, str], single: bool) -> None:
        """Keep or skip an element."""
        parent = self.open[-1] if self.open else (None, None)
        known = name == _CHILD.get(parent[0]) and (not self.open or parent[1] is not None)
        element = Element(name, line, attributes) if known else None
        if element is not None and parent[1] is not None and name == "step":
            parent[1].steps.append((line, tuple(map(attributes.get, STEP_ATTRIBUTES))))
        elif element is not None:
            (parent[1].children if parent[1] is not None else self.top).append(element)
        if not single:
            self.open.append((name, element))

    def attributes(self, element: str) -> dict[str, str]:
        found: dict[str, str] = {}
        slots = 0
        while self.peek() == " ":
            self.at += 1
            slots += 1
            key = self.name()
            if not key and self.peek() in " />":
                continue
            if self.peek() != "=":
                raise self.fault(f"attribute {key!r} of <{element}> has no value")
            self.at += 1
            value = self.value()
            if key in found:
                raise self.fault(f"attribute {key!r} stands twice in <{element}>")
            if slots > _MAX_SLOTS:
                raise self.fault(f"<{element}> has over {_MAX_SLOTS} attributes and spaces; {key!r} would be dropped")
            found[key] = value
        return found

    def value(self) -> str:
        if self.peek() != '"':
            raise self.fault(f"expected a double quote, found {self.peek()!r}")
        end = self.text.find('"', self.at + 1)
        if end < 0:
            raise self.fault("unterminated attribute value")
        value = self.text[self.at + 1 : end]
        self.at = end + 1
        return value
