"""Plots of topologies, plans and schedules; each takes and returns matplotlib Axes.

In a notebook or script, call a ``plot_*`` function without axes for a new pyplot figure, or with axes of your own.
:func:`figure_files` and :func:`overview` do not touch pyplot.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import matplotlib.style
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from synth.export.plots.splits import plot_splits, split_bars
from synth.export.plots.style import headline
from synth.export.plots.timeline import link_uses, plot_timeline
from synth.export.plots.topology import plot_topology
from synth.export.plots.utilisation import plot_utilisation
from synth.schedule.model import Schedule
from synth.solver.flow.plan import Plan

__all__ = [
    "figure_files",
    "overview",
    "plan_files",
    "plot_splits",
    "plot_timeline",
    "plot_topology",
    "plot_utilisation",
]

#: Dots per inch of files.
DPI = 120


class Overview(Figure):
    """A figure that a notebook shows although pyplot does not know it."""

    def _repr_png_(self) -> bytes:
        return png_bytes(self)


def overview(schedule: Schedule) -> Figure:
    """Topology with loads, utilisation, splits and timeline of a schedule in one figure.

    Parameters
    ----------
    schedule
        Schedule; its plan is drawn too.

    Returns
    -------
    Figure
        Shows itself in a notebook; ``savefig`` writes it.
    """
    figure = Overview(figsize=(16, 12), layout="constrained")
    FigureCanvasAgg(figure)
    (a, b), (c, d) = figure.subplots(2, 2)
    plot_topology(schedule.plan, a)
    plot_utilisation(schedule.plan, b)
    plot_splits(schedule.plan, c)
    plot_timeline(schedule, d)
    for ax in (a, b, c, d):
        # All four say the same in their first line; one line over all of them is enough.
        ax.set_title(ax.get_title(loc="left").split("\n")[-1], loc="left", fontsize=11)
    figure.suptitle(headline(schedule.plan), fontsize=15)
    return figure


def figure_files(schedule: Schedule) -> dict[str, bytes]:
    """PNG files of a schedule: ``topology``, ``splits``, ``utilisation``, ``timeline`` and ``overview``, each ``.png``.

    The bytes depend on the schedule and on matplotlib's version alone, not on the user's style, locale or hash seed.

    Parameters
    ----------
    schedule
        Schedule; its plan is drawn too.

    Returns
    -------
    dict
        File name to contents; nothing is written.
    """
    rows = len({use.link for use in link_uses(schedule)})
    files = plan_files(schedule.plan)
    with matplotlib.style.context("default", after_reset=True):
        return files | {
            "timeline.png": drawn(10, 2.4 + 0.16 * min(max(rows, 6), 64), lambda ax: plot_timeline(schedule, ax)),
            "overview.png": png_bytes(overview(schedule)),
        }


def plan_files(plan: Plan) -> dict[str, bytes]:
    """PNG files of a plan: ``topology``, ``splits`` and ``utilisation``, each ``.png`` (see :func:`figure_files`)."""
    bars = len(split_bars(plan)[0])
    with matplotlib.style.context("default", after_reset=True):
        return {
            "topology.png": drawn(9, 7.5, lambda ax: plot_topology(plan, ax)),
            "splits.png": drawn(9, 2.2 + 0.22 * min(max(bars, 4), 64), lambda ax: plot_splits(plan, ax)),
            "utilisation.png": drawn(9, 7.5, lambda ax: plot_utilisation(plan, ax)),
        }


def drawn(width: float, height: float, draw: Callable[[Axes], Any]) -> bytes:
    """PNG of one pair of axes on a figure of that many inches."""
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    draw(figure.subplots())
    return png_bytes(figure)


def png_bytes(figure: Figure) -> bytes:
    """PNG without the name and version of the software and without a date."""
    out = io.BytesIO()
    figure.savefig(out, format="png", dpi=DPI, metadata={"Software": None})
    return out.getvalue()
