"""What all plots share: colours that colour-blind people can tell apart, safe labels, new axes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib import colormaps, font_manager
from matplotlib.axes import Axes
from matplotlib.colors import Colormap, ListedColormap, to_rgba

from synth.ground.arrays import Floats
from synth.ground.units import format_size

if TYPE_CHECKING:
    from matplotlib.colorbar import Colorbar

    from synth.solver.flow.plan import Plan

#: Okabe and Ito's palette without yellow and black, which vanish on white and in text.
PALETTE = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#56B4E9", "#CC79A7", "#7F6A3F", "#999999")
INK = "#222222"
FAINT = "#DDDDDD"
#: A character that every text font has, for one that the font in use has not.
MISSING = "\u25a1"


def new_axes(width: float, height: float) -> Axes:
    """Axes of a new pyplot figure (inches), which a notebook shows and a script may ``plt.show()``."""
    # Not at the top: whoever brings axes (all files do) never touches pyplot's state.
    from matplotlib import pyplot as plt

    _, ax = plt.subplots(figsize=(width, height), layout="constrained")
    return ax


@lru_cache(maxsize=8)
def _glyphs(path: str) -> frozenset[int]:
    return frozenset(font_manager.get_font(path).get_charmap())


def label(text: str, most: int = 24) -> str:
    """Text for a figure: cut in the middle to ``most`` characters, no mathtext, only glyphs that the font has."""
    if len(text) > most:
        head = (most - 1) // 2
        text = f"{text[:head]}\u2026{text[len(text) - (most - 1 - head) :]}"
    known = _glyphs(str(font_manager.findfont(font_manager.FontProperties())))
    clean = "".join(c if c.isprintable() and ord(c) in known else MISSING for c in text)
    return clean.replace("$", r"\$")


def heat() -> Colormap:
    """Utilisation, 0 to 1: pale to dark, monotone in lightness; the palest part is left out as lines need contrast."""
    return ListedColormap(colormaps["YlOrRd"](np.linspace(0.18, 1.0, 256)), name="utilisation")


def colours(count: int) -> list[tuple[float, float, float, float]]:
    """One colour per item: a palette for few, an ordered map for many."""
    if count <= len(PALETTE):
        return [to_rgba(name) for name in PALETTE[:count]]
    return [to_rgba(row) for row in colormaps["viridis"](np.linspace(0.0, 0.95, count))]


def microseconds(seconds: float) -> str:
    """For titles: six digits, no exponent for anything that a collective takes."""
    value = seconds * 1e6
    return f"{value:.0f} us" if value >= 1e5 else f"{value:.6g} us"


def utilisation(plan: Plan) -> Floats:
    """Load of each row of ``Network.row_ids`` over capacity x T; zeros when nothing moves."""
    full = plan.network.capacity * plan.time
    return np.divide(plan.row_bytes, full, out=np.zeros_like(full), where=full > 0)


def headline(plan: Plan) -> str:
    """Collective, size, machine and what it takes, for the first line of a title."""
    demand = plan.demand
    what = f"{demand.collective} of {format_size(demand.size_bytes)} on {label(plan.topology.name, 40)}"
    if plan.time <= 0:
        return f"{what}: nothing to move"
    return f"{what}: {microseconds(plan.time)}, {plan.algbw / 1e9:.4g} GB/s"


def title(ax: Axes, first: str, second: str) -> None:
    """Two lines above the axes, aligned with their left edge."""
    ax.set_title(f"{first}\n{second}", loc="left", fontsize=10, color=INK)


def say_nothing_moves(ax: Axes) -> None:
    """What an empty plot shows instead of marks."""
    ax.text(0.5, 0.5, "nothing to move", transform=ax.transAxes, ha="center", va="center", color="#777777")


def legible(rows: int, inches: float) -> tuple[range, float]:
    """Which of ``rows`` evenly spaced labels to write, and in how many points, so that neighbours do not touch."""
    room = 0.75 * inches * 72 / max(rows, 1)
    # Below five points nobody can read; every second, third, ... label then.
    every = max(1, int(np.ceil(5.0 / room)))
    return range(0, rows, every), float(np.clip(every * room, 5.0, 9.0))


def legend_below(ax: Axes, handles: Sequence[Any], lines: float) -> None:
    """Legend under the axes, some text lines down, in as many columns as fit: a wider one would squeeze the axes."""
    if handles:
        widest = 8 * (5 + 0.6 * max(len(handle.get_label()) for handle in handles))
        fitting = int(72 * axes_inches(ax)[0] / widest)
        ax.legend(
            handles=handles,
            loc="upper center",
            bbox_to_anchor=(0.5, 0.0),
            borderaxespad=lines,
            ncols=max(1, min(4, fitting)),
            fontsize=8,
            frameon=False,
            labelcolor=INK,
        )


def axes_inches(ax: Axes) -> tuple[float, float]:
    """Width and height of axes now; a layout engine may still shrink them a little."""
    box = ax.get_window_extent()
    dpi = ax.figure.dpi
    return box.width / dpi, box.height / dpi


def colour_bar(ax: Axes, mappable: Any, text: str, ticks: Sequence[float] | None = None) -> Colorbar:
    """Colour bar beside axes, in the style of all plots."""
    bar = ax.figure.colorbar(mappable, ax=ax, ticks=ticks, shrink=0.8, aspect=30, pad=0.02)
    bar.set_label(text, fontsize=9)
    bar.ax.tick_params(labelsize=8)
    return bar


def plain(ax: Axes) -> None:
    """Take away the frame's top and right edge."""
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
