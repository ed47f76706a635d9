"""XML as elements that know their line. Entities and anything else that a topology file has no use for are refused."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
    return parse_xml_tree(read_text(path), path)


def parse_xml_tree(text: str, path: Path, numbers: Sequence[int] | None = None) -> Element:
    """Root element of XML text, as :func:`read_xml_tree`.

    Parameters
    ----------
    path
        The file that the text is from, for messages.
    numbers
        Number of each of the text's lines in that file, if it is a part of it.
    """
    # Leading blanks before an XML declaration are an error of XML that hand-edited files have; NCCL does not mind.
    shift = text[: len(text) - len(text.lstrip())].count("\n")
    reader = _Reader(path, (numbers or range(1, text.count("\n") + 2))[shift:])
    try:
        reader.parser.Parse(text.lstrip().encode("utf-8"), True)
    except expat.ExpatError as error:
        reason = expat.errors.messages[error.code]
        raise InvalidInputError(f"{reader.at(error.lineno)}: not well-formed XML: {reason}") from None
    if reader.root is None:
        raise InvalidInputError(f"{path}: has no XML element")
    return reader.root


class _Reader:
    def __init__(self, path: Path, numbers: Sequence[int]) -> None:
        self.path = path
        self.numbers = numbers
        self.root: Element | None = None
        self._open: list[Element] = []
        self.parser = expat.ParserCreate("utf-8")
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._text
        self.parser.EntityDeclHandler = self._entity

    def at(self, line: int) -> str:
        """Place of a line of the text in its file; expat counts a line more behind the last line end."""
        return f"{self.path}:{self.numbers[min(line, len(self.numbers)) - 1]}"

    def _place(self) -> str:
        return self.at(self.parser.CurrentLineNumber)

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
