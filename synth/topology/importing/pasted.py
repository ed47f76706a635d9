"""Text as people paste it: what terminals, launchers, logs and issue trackers put around a file is taken off.

Only whole, known forms are taken off (ANSI colours, rank prefixes, times, quotes, ...), line by line, so that every
line keeps its number. What a line means is for the readers of the kinds; they say which lines they did not use.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

#: Colours and cursor movements; also as caret notation, and colours whose escape character a browser has eaten.
_ANSI = re.compile(r"\x1b\][^\x07\n]*\x07|(?:\x1b|\^\[)\[[0-9;?]*[ -/]*[@-~]|\[[0-9;]{1,7}m")
_BLANKS = re.compile("[\u00a0\u2007\u202f\u3000]")
_INVISIBLE = re.compile("[\u200b\u200c\u200d\u2060\ufeff]")
#: Prefixes that say which of several processes prints the line.
_STREAM = re.compile(
    r"\[(?:[\w.-]+@)?[0-9]+,[0-9]+\]<std(?:out|err)>:? ?"  # mpirun --tag-output
    r"|\[(?:rank|default)[0-9]+\]: ?"  # torchrun
    r"| {0,3}[0-9]{1,4}: "  # srun --label
    r"|\([\w.:-]+(?: [\w.:-]+)* pid=[0-9]+(?:, ip=[0-9.]+)?\) ?"  # ray
    r"|[\w.-]+ +\| ?"  # docker compose
)
#: Prefixes that say when, how grave, or who is quoted.
_OTHER = re.compile(
    r"\s*>(?:(?: ?>)+)?(?: |\t|(?=\S))(?=.*\S)"
    r"|\[?[0-9]{4}[-/][0-9]{2}[-/][0-9]{2}[T ]"
    r"[0-9]{2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]+)?(?:Z|[+-][0-9]{2}:?[0-9]{2})?\]?:? ?"
    r"|\[?[0-9]{2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]+)?\]? "
    r"|[A-Z][a-z]{2} +[0-9]{1,2} [0-9]{2}:[0-9]{2}:[0-9]{2} [\w.-]+ [\w./-]+(?:\[[0-9]+\])?: ?"
    r"|\[?(?:INFO|WARNING|WARN|ERROR|DEBUG)\]?(?: [0-9]{2}-[0-9]{2} [0-9:]{8})?(?: \[[\w./-]+:[0-9]+\])?:? "
)
#: A line of pdsh or clush: the host's name, then what a topology begins with.
_PDSH = re.compile(r"([\w.-]+):\s+(?:GPU[0-9]+\s|<system\b|=+ ROCm System|(?:ACCESS|WEIGHT|LINK TYPE) TABLE:)")
_MOST_PREFIXES = 6


@dataclass(frozen=True, slots=True)
class Line:
    """A line: its number in the file, its text without what was put around it, and the process or host it is from."""

    number: int
    text: str
    stream: str = ""

    @property
    def blank(self) -> bool:
        """Whether nothing but a quote's mark is left."""
        return not self.text.strip(" \t>")


@dataclass(frozen=True, slots=True)
class Pasted:
    """A file's lines; lines of one process or host (``stream``) stand together, in the order in which these begin."""

    path: Path
    lines: tuple[Line, ...]
    notes: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """All lines joined."""
        return "\n".join(line.text for line in self.lines)

    @property
    def numbers(self) -> tuple[int, ...]:
        """Number of each line in the file."""
        return tuple(line.number for line in self.lines)

    def at(self, line: Line) -> str:
        """Place of a line, for messages."""
        return f"{self.path}:{line.number}"

    def skipped(self, used: Collection[int]) -> Iterator[str]:
        """A note that names the lines that are neither blank nor among the ``used`` numbers; none if there are none."""
        left = [line for line in self.lines if not line.blank and line.number not in used]
        left.sort(key=lambda line: line.number)
        if left:
            parts = ", ".join(_named(group) for group in _runs(left))
            yield f"skipped, no part of the topology: {parts}"


def clean(text: str, path: Path) -> Pasted:
    """Lines of a file without colours, prefixes and quotes.

    Parameters
    ----------
    text
        The file's text, with line ends of any system.

    Returns
    -------
    Pasted
        ``notes`` say what was taken off and from how many lines.
    """
    raw = _ANSI.sub("", _INVISIBLE.sub("", _BLANKS.sub(" ", text)))
    rows = raw.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    bare = [_without_prefixes(row) for row in rows]
    hosts = {match[1] for rest, _, _ in bare if (match := _PDSH.match(rest)) is not None}
    hosts = {host for host in hosts if not re.fullmatch("(?:GPU|NIC)[0-9]+", host)}
    lines: list[Line] = []
    taken: list[str] = []
    for number, (rest, stream, prefix) in enumerate(bare, start=1):
        head, colon, tail = rest.partition(":")
        if colon and head in hosts:
            rest, stream, prefix = tail, head, prefix + head + ":"
        taken += [prefix] if prefix.strip() else []
        lines.append(Line(number, rest, stream))
    order = {stream: k for k, stream in enumerate(dict.fromkeys(line.stream for line in lines))}
    lines.sort(key=lambda line: order[line.stream])
    notes = [f"prefixes such as {taken[0].strip()!r} were taken off {len(taken)} lines"] if taken else []
    return Pasted(path, tuple(lines), tuple(notes))


def _without_prefixes(row: str) -> tuple[str, str, str]:
    """Rest of a line, the process it is from, and everything that was taken off."""
    rest, stream = row, ""
    for _ in range(_MOST_PREFIXES):
        match = _STREAM.match(rest)
        if match is not None and not stream:
            stream = match[0].strip()
        else:
            match = _OTHER.match(rest)
        if match is None or not match[0]:
            break
        rest = rest[match.end() :]
    return rest, stream, row[: len(row) - len(rest)]


def _runs(lines: Sequence[Line]) -> Iterator[list[Line]]:
    """Groups of lines whose numbers follow each other."""
    group: list[Line] = []
    for line in lines:
        if group and line.number > group[-1].number + 1:
            yield group
            group = []
        group.append(line)
    if group:
        yield group


def _named(group: Sequence[Line]) -> str:
    text = " ".join(group[0].text.split())
    shown = f"{text[:37]}..." if len(text) > 40 else text
    first, last = group[0].number, group[-1].number
    return f"line {first} ({shown!r})" if first == last else f"lines {first}-{last} ({shown!r}, ...)"
