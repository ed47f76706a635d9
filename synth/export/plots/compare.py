"""Bars of what each kind of path adds (see :func:`synth.compare`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import matplotlib.style
import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Patch

from synth.export.plots.figures import drawn
from synth.export.plots.style import INK, PALETTE, label, legend_below, legible, new_axes, plain, title
from synth.ground.units import format_size

if TYPE_CHECKING:
    import pandas as pd

_HEIGHT = 0.26
_CASE = ["machine", "ranks", "relay"]


def plot_compare(table: pd.DataFrame, ax: Axes | None = None) -> Axes:
    """Draw the gain over scale-up alone: a group of bars per machine, one bar per set of paths.

    Where scale-up alone is not feasible there is no gain; the group then says so.

    Parameters
    ----------
    table
        What :func:`synth.compare` returns.
    ax
        Where to draw; None makes a new pyplot figure.

    Returns
    -------
    Axes
    """
    cases = list(table.groupby(_CASE, sort=False))
    ax = new_axes(8, _inches(len(cases))) if ax is None else ax
    sets = [name for name in dict.fromkeys(table["paths"]) if name != "scale-up"]
    colours = dict(zip(sets, PALETTE, strict=False))
    for k, (_, rows) in enumerate(cases):
        gains = rows.set_index("paths")["gain_percent"]
        if gains.reindex(sets).isna().all():
            ax.text(0, k, " not feasible on scale-up alone", va="center", fontsize=7, color="#777777")
        for i, name in enumerate(sets):
            gain = float(gains.get(name, np.nan))
            if not np.isnan(gain):
                ax.barh(k + (i - (len(sets) - 1) / 2) * _HEIGHT, gain, _HEIGHT, color=colours[name])
    shown, points = legible(len(cases), _inches(len(cases)))
    names = [f"{machine} [{ranks}]{'' if relay else ', others idle'}" for (machine, ranks, relay), _ in cases]
    ax.set_yticks(list(shown), [label(names[k], 48) for k in shown], fontsize=points, color=INK)
    ax.set_ylim(len(cases) - 0.4, -0.6)
    ax.set_xlabel("bandwidth above scale-up alone, %")
    plain(ax)
    first = table.iloc[0]
    title(ax, f"{first['collective']} of {format_size(first['size_bytes'])}", "gain of the plan by paths used")
    legend_below(ax, [Patch(color=colours[name], label=name) for name in sets], 4)
    return ax


def compare_file(table: pd.DataFrame) -> bytes:
    """PNG of :func:`plot_compare`; its bytes depend on the table alone."""
    cases = table.groupby(_CASE, sort=False).ngroups
    with matplotlib.style.context("default", after_reset=True):
        return drawn(8, _inches(cases), lambda ax: plot_compare(table, ax))


def _inches(cases: int) -> float:
    return 1.6 + 0.3 * max(cases, 3)
