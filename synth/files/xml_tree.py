"""XML as elements that know their line. Entities and anything else that a topology file has no use for are refused."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from xml.parsers import expat

from synth.errors import InvalidInputError
from synth.files.json_text import read_text

_DEEPEST = 200


@dataclass(frozen=True, slots=True)
class Element:
    """An element: tag, attributes, children in order, its own text, and the place for messages."""

    tag: str
    attributes: dict[str, str]
    at: str
    children: list[Element] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)

    def get(self, name: str, default: str = "") -> str:
        """Value of an attribute without blanks around it."""
        return self.attributes.get(name, default).strip()

    def all(self, *tags: str) -> Iterator[Element]:
        """Children with one of the tags."""
        return (child for child in self.children if child.tag in tags)

    def walk(self) -> Iterator[Element]:
        """The element and everything below it, in order."""
        yield self
        for child in self.children:
            yield from child.walk()


def read_xml_tree(path: Path) -> Element:
    """Root element of an XML file.

    Raises
    ------
    InvalidInputError
        Not readable, not well-formed, entities, or nested deeper than any topology.
    """
    # Leading blanks before an XML declaration are an error of XML that hand-edited files have; NCCL does not mind.
    text = read_text(path)
    shift = text[: len(text) - len(text.lstrip())].count("\n")
    reader = _Reader(path, shift)
    try:
        reader.parser.Parse(text.lstrip().encode("utf-8"), True)
    except expat.ExpatError as error:
        reason = expat.errors.messages[error.code]
        raise InvalidInputError(f"{path}:{error.lineno + shift}: not well-formed XML: {reason}") from None
    if reader.root is None:
        raise InvalidInputError(f"{path}: has no XML element")
    return reader.root


class _Reader:
    def __init__(self, path: Path, shift: int) -> None:
        self.path = path
        self.shift = shift
        self.root: Element | None = None
        self._open: list[Element] = []
        self.parser = expat.ParserCreate("utf-8")
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._text
        self.parser.EntityDeclHandler = self._entity

    def _place(self) -> str:
        return f"{self.path}:{self.parser.CurrentLineNumber + self.shift}"

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        element = Element(tag, attributes, self._place())
        if len(self._open) >= _DEEPEST:
            raise InvalidInputError(f"{element.at}: elements are nested deeper than {_DEEPEST}; no topology is")
        if self._open:
            self._open[-1].children.append(element)
        else:
            self.root = element
        self._open.append(element)

    def _end(self, tag: str) -> None:
        self._open.pop()

    def _text(self, text: str) -> None:
        if self._open:
            self._open[-1].texts.append(text)

    def _entity(self, *rest: object) -> None:
        raise InvalidInputError(f"{self._place()}: declares an entity; topology files have none")
