"""Facts as text and HTML for a person."""

from __future__ import annotations

import html
from collections.abc import Sequence

Facts = Sequence[tuple[str, str]]


def aligned(rows: Facts) -> str:
    """Facts as aligned lines."""
    width = max(len(label) for label, _ in rows)
    return "\n".join(f"{label:<{width}}  {text}" for label, text in rows)


def html_table(rows: Facts) -> str:
    """Facts as an HTML table, for notebooks."""
    cells = "".join(
        f"<tr><th style='text-align:left'>{html.escape(label)}</th><td>{html.escape(text)}</td></tr>"
        for label, text in rows
    )
    return f"<table>{cells}</table>"
