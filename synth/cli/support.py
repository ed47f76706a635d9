"""What the commands share: output, progress, and options that need parsing."""

from __future__ import annotations

import contextlib
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from synth.errors import InvalidInputError, NotExpressibleError, SynthError


def shortened(error: SynthError, most: int = 8) -> list[str]:
    """Faults to print: all of an input's, but of a target's limits (often the same on every GPU) the first and last."""
    faults = list(error.faults)
    if not isinstance(error, NotExpressibleError) or len(faults) <= most:
        return faults
    return [*faults[: most - 2], f"and {len(faults) - most + 1} more like these", faults[-1]]


def say(message: str | dict[str, Any]) -> None:
    """Print a result on stdout; everything else goes to stderr."""
    text = message if isinstance(message, str) else json.dumps(message, ensure_ascii=False, indent=1)
    sys.stdout.write(text + "\n")


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table on stdout; all columns but the first are numbers."""
    table = Table(*columns, box=None)
    for column in table.columns[1:]:
        column.justify = "right"
    for row in rows:
        table.add_row(*row)
    Console(width=None if sys.stdout.isatty() else 160).print(table)


def number_text(value: float | None, digits: int = 2) -> str:
    """A number for people, thousands apart; ``-`` for None."""
    return "-" if value is None else f"{value:,.{digits}f}".replace(",", " ")


def parse_ranks(text: str | None) -> list[int] | None:
    """``0-3,7`` as numbers."""
    if text is None:
        return None
    out: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d{1,6})(?:-(\d{1,6}))?\s*", part)
        if match is None:
            raise InvalidInputError(f"--ranks {text!r}: {part!r} is not a rank or a range such as 0-3")
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first:
            raise InvalidInputError(f"--ranks {text!r}: the range {part!r} runs backwards")
        out.extend(range(first, last + 1))
    return out


def matrix_from(path: Path | None) -> Any:
    """Demand matrix of a CSV file, if there is one."""
    from synth.demand import read_matrix

    return None if path is None else read_matrix(path)


def write_lp_file(plan: Any, path: Path) -> None:
    """Write a plan's finished master as an LP file."""
    from synth.files.writing import replacing

    with replacing(path) as temporary:
        plan.to_pulp().writeLP(str(temporary))


@contextlib.contextmanager
def progress() -> Iterator[Callable[[Any], None] | None]:
    """A status line on stderr while it is a terminal."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    with console.status("reading") as status:

        def report(now: Any) -> None:
            gap = (now.plan - now.bound) / now.plan
            status.update(
                f"round {now.iteration}: {now.plan * 1e6:.1f} us, bound {now.bound * 1e6:.1f} us, gap {gap:.1e}, "
                f"{now.columns} columns, {now.elapsed:.1f} s"
            )

        yield report
