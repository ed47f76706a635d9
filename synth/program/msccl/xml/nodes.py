"""What the lexer reads: the elements that the runtimes keep, and what it noticed on the way."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

Values = tuple[str | None, ...]


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
    step_at
        Of a ``tb``: offset of each step's tag in the text.
    """

    name: str
    at: int
    attributes: dict[str, str]
    children: list[Node] = field(default_factory=list)
    steps: list[Values] = field(default_factory=list)
    step_at: list[int] = field(default_factory=list)


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
