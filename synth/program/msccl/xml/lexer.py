"""The XML that NCCL-derived runtimes read, step by step: what their reader accepts, what it drops, and what it keeps.

Follows ``mscclXmlGetNode`` and ``mscclXmlLoadSub`` of microsoft/msccl ``src/graph/xml.cc``, Azure/msccl-executor-nccl
and ROCm/rccl ``src/misc/msccl/msccl_parser.cc``, which are the same code. Each rank reads the file for itself and keeps
only its own ``gpu``; here all ranks are read in one go, which gives the same answers: inside elements that are not kept
any closing tag closes, and inside those that are, its name must match.

The strict form of the same reader is for our own files: it refuses the file at the first place where the runtimes drop
something, or take it for something else, without a word.

Entities are not expanded, there are no declarations, and no construct makes the work grow faster than the file.
"""

from __future__ import annotations

import re
from typing import Final

from synth.program.msccl.xml.c_integers import c_int
from synth.program.msccl.xml.nodes import Lexed, Node
from synth.program.msccl.xml.tags import ATTRIBUTE, CLOSE, STEP, STEP_ATTRIBUTES, TAG

_SPACE = re.compile(r"[ \r\n]*")
_TOKEN = re.compile(r"[^ >/\n\r=]*")
_ATTRIBUTES: Final = 16
_VALUE_BYTES: Final = 256
_SLOT_BYTES: Final = 512
_LONGEST_NAME: Final = 254
_CHILD: Final = {"": "algo", "algo": "gpu", "gpu": "tb", "tb": "step"}
_ODDITIES: Final = 50


class LexError(Exception):
    """The reader stops here."""


def lex(text: str, *, strict: bool = False) -> Lexed:
    """Read a file's text as the runtimes do.

    Parameters
    ----------
    text
        One character per byte (latin-1), so that lengths are the runtimes'; in the strict form, the decoded text.
    strict
        Whether to refuse what the runtimes drop or misread. Then the inside of every ``gpu`` is kept, whatever its id,
        and a ``gpu`` without one is left to the caller.
    """
    lexer = _Lexer(text, strict)
    try:
        lexer.run()
    except LexError as error:
        lexer.out.refusal = str(error)
    return lexer.out


class _Lexer:
    def __init__(self, text: str, strict: bool) -> None:
        self.text, self.at, self.strict = text, 0, strict
        self.out = Lexed()
        # Open elements by name: the node, or None for one that is skipped.
        self.open: list[tuple[str, Node | None]] = []
        self.intern: dict[str, str] = {}

    def run(self) -> None:
        """Read all elements."""
        while self.plain() or self.element():
            pass

    # The fast way: whole tags at once.

    def plain(self) -> bool:
        """Read one ordinary tag, or a run of ordinary steps; False when the next thing is something else."""
        parent = self.open[-1][1] if self.open else None
        if parent is not None and parent.name == "tb":
            self.plain_steps(parent)
        found = TAG.match(self.text, self.at)
        if found is not None:
            begin, pairs = found.start(1) - 1, ATTRIBUTE.findall(found[2])
            attributes = dict(reversed(pairs))
            if len(attributes) < len(pairs):
                if self.strict:
                    return False
                self.odd(begin, f"<{found[1]}> repeats an attribute; only the first counts")
            self.at = found.end()
            self.opened(Node(found[1], begin, attributes), bool(found[3]))
            return True
        found = CLOSE.match(self.text, self.at)
        if found is not None:
            self.at = found.end()
            self.closed(found[1])
            return True
        return False

    def plain_steps(self, block: Node) -> None:
        intern, add, place, at = self.intern.setdefault, block.steps.append, block.step_at.append, self.at
        while (found := STEP.match(self.text, at)) is not None:
            add(tuple([intern(value, value) for value in found.groups()]))
            at = found.end()
            place(at - 1)  # the tag has no line break, so that its end is as good a place as its beginning
        self.at = at

    # The reader's own way: character by character.

    def element(self) -> bool:
        """Read one element as the runtime does; False at the end of the file."""
        space = _SPACE.match(self.text, self.at)
        self.at = space.end() if space else self.at
        if self.at >= len(self.text):
            if self.open:
                raise self.fault(f"the file ends inside <{self.open[-1][0][:40]}>")
            return False
        if self.text[self.at] != "<":
            found = self.text[self.at]
            raise self.fault(f"expected '<', found {found!r}: only spaces and newlines separate elements")
        begin = self.at
        self.at += 1
        name, last = self.token()
        if name.startswith("!--"):
            self.comment(name, last)
        elif not name and last == "/":
            name, last = self.token()
            if last != ">":
                raise self.fault(f"unexpected {last!r} in closing tag {name[:40]}: expected '>'", self.at - 1)
            self.closed(name)
        else:
            self.tag(name, last, begin)
        return True

    def tag(self, name: str, last: str, begin: int) -> None:
        """Read the rest of an opening or empty tag."""
        if not name or name[0] in "!?":
            self.lenient(f"<{name[:40] or last} is not an element (declarations and DOCTYPE are not readable)", begin)
        attributes: dict[str, str] = {}
        slot, tag = 0, f"<{name[:40]}>"
        while last == " ":
            key, value, last = self.attribute(tag)
            if (_ATTRIBUTES + 1 - slot) * _SLOT_BYTES - _VALUE_BYTES < len(value) + 1:
                raise self.fault(f"a value of {len(value)} characters runs over the reader's memory")
            if key in attributes and key:
                self.lenient(f"attribute {key[:40]!r} stands twice in {tag}", begin)
            if slot == _ATTRIBUTES:
                if key:
                    self.lenient(f"{tag} has over 16 attributes and spaces; {key[:40]!r} would be dropped", begin)
                self.odd(begin, f"{tag} has more than 16 attributes and spaces; {key[:40]!r} is dropped")
                continue
            slot += 1
            if key in attributes and key:
                self.odd(begin, f"{tag} repeats {key[:40]!r}; only the first counts")
            attributes.setdefault(key, value if self.strict else value[:_VALUE_BYTES])
        single = last == "/"
        if single:
            junk, last = self.token()
            if junk:
                self.lenient(f"expected '>' in {tag}, found {junk[0]!r}")
        if last != ">":
            raise self.fault(f"expected '>' in {tag}, found {last!r}", self.at - 1)
        attributes.pop("", None)
        self.opened(Node(name, begin, attributes), single)

    def attribute(self, tag: str) -> tuple[str, str, str]:
        """Read (key, value, next character)."""
        key, last = self.token(valued=True)
        if last != "=":
            if key or last not in " />":
                self.lenient(f"attribute {key[:40]!r} of {tag} has no value", self.at - 1)
            return key, "", last
        quote = self.get()
        if quote != '"':
            self.lenient(f"expected a double quote, found {quote!r}", self.at - 1)
        if quote not in "\"'":
            raise self.fault(f"expected a double quote, found {quote!r}", self.at - 1)
        end = self.text.find('"', self.at)
        if end < 0:
            raise self.fault("the file ends in a value: unterminated attribute value")
        value = self.c_string(self.text[self.at : end])
        self.at = end + 1
        return key, value, self.get()

    def token(self, valued: bool = False) -> tuple[str, str]:
        """Read a name up to and with the character that ends it; the name itself may begin with such a character."""
        found = _TOKEN.match(self.text, self.at)
        name = found.group() if found else ""
        self.at += len(name)
        if len(name) > _LONGEST_NAME:
            raise self.fault(f"a name of {len(name)} characters, limit {_LONGEST_NAME}")
        last = self.get()
        if last == "=":
            if not valued:
                why = ": '=' in the first word of a comment is not readable" if name.startswith("!--") else ""
                raise self.fault(f"unexpected value with name {name[:40]}{why}")
        elif len(name) == _LONGEST_NAME:
            raise self.fault(f"a name of {len(name)} characters, limit {_LONGEST_NAME - 1}")
        return self.c_string(name), last

    def c_string(self, text: str) -> str:
        """What C takes a text for; the strict form keeps it as it is."""
        return text if self.strict else text.split("\0", 1)[0]

    def get(self) -> str:
        if self.at >= len(self.text):
            raise self.fault("the file ends in the middle of a tag")
        self.at += 1
        return self.text[self.at - 1]

    def comment(self, name: str, last: str) -> None:
        """Skip to ``-->``, which may begin in what was read already."""
        seen = name[3:] + last
        end = self.text.find("-->", max(0, self.at - min(len(seen), 3)))
        if seen[-3:] == "-->":
            return
        if end < 0:
            raise self.fault("unterminated comment", self.at - 1)
        self.at = end + 3

    # What the elements mean.

    def opened(self, node: Node, single: bool) -> None:
        """Keep or skip an element."""
        if self.out.first is None:
            self.out.first = node
        parent = self.open[-1][1] if self.open else Node("", 0, {})
        kept = parent is not None and _CHILD.get(parent.name) == node.name
        if kept and parent is not None:
            if parent.name == "gpu" and not self.read_by_its_rank(parent):
                kept = False
            elif node.name == "gpu" and "id" not in node.attributes and not self.strict:
                raise self.fault("attribute id of gpu not found")
            elif node.name == "step":
                parent.steps.append(tuple(map(node.attributes.get, STEP_ATTRIBUTES)))
                parent.step_at.append(node.at)
            else:
                (parent.children if self.open else self.out.algos).append(node)
        elif parent is not None and parent.name == "step":
            raise self.fault("an element inside a step crashes the reader")
        elif parent is not None:
            self.out.ignored[node.name[:40]] += 1
        if not single:
            self.open.append((node.name, node if kept else None))

    def read_by_its_rank(self, gpu: Node) -> bool:
        """Whether some rank reads the inside of this element."""
        ngpus = self.out.algos[0].attributes.get("ngpus")
        return self.strict or ngpus is None or 0 <= c_int(gpu.attributes["id"]) < c_int(ngpus)

    def closed(self, name: str) -> None:
        """Close the innermost element."""
        if not self.open:
            # The reader takes a closing tag that closes nothing for an opening one without attributes.
            self.lenient(f"</{name[:40]}> closes nothing")
            self.odd(self.at, f"</{name[:40]}> closes nothing, and counts as opening")
            self.opened(Node(name, self.at, {}), single=False)
            return
        opened, node = self.open.pop()
        if opened != name:
            text = f"</{name[:40]}> closes <{opened[:40]}>"
            if node is not None:
                raise self.fault(text)
            self.lenient(text)

    # What goes wrong.

    def lenient(self, text: str, at: int | None = None) -> None:
        """Something that the runtimes let through: a fault in the strict form."""
        if self.strict:
            raise self.fault(text, at)

    def odd(self, at: int, text: str) -> None:
        if len(self.out.oddities) < _ODDITIES:
            self.out.oddities.append(f"line {self.line(at)}: {text}")

    def line(self, at: int) -> int:
        return self.text.count("\n", 0, at) + 1

    def fault(self, text: str, at: int | None = None) -> LexError:
        return LexError(f"line {self.line(min(self.at, len(self.text)) if at is None else at)}: {text}")
