"""Gantt chart of a schedule: what each link carries when."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import PolyCollection
from matplotlib.colors import BoundaryNorm, ListedColormap
from matplotlib.lines import Line2D

from synth.export.plots.style import (
    axes_inches,
    colour_bar,
    colours,
    headline,
    label,
    legend_below,
    legible,
    microseconds,
    new_axes,
    plain,
    say_nothing_moves,
    title,
)
from synth.schedule.model import Schedule

#: Rows beyond this many (the least busy links) are left out, and the title says so.
MOST_ROWS = 64
#: Colour, width and dashes of the vertical lines; later ones are thinner, so equal times show as one line in another.
MARKS = MappingProxyType(
    {
        "bound": ("#009E73", 5.0, "-"),
        "plan": ("#56B4E9", 3.0, "-"),
        "quantised": ("#D55E00", 1.4, "-"),
        "simulated": ("#222222", 1.2, "--"),
    }
)


@dataclass(frozen=True, slots=True)
class Use:
    """One transfer on one link, seconds."""

    transfer: int
    link: int
    start: float
    end: float


def plot_timeline(schedule: Schedule, ax: Axes | None = None) -> Axes:
    """Draw what each link carries over time in the simulation, busiest link on top.

    Bars are transfers, as long as their bytes take on the link, coloured by the rank at the root of their shard (for
    all-reduce, the meeting point). Vertical lines: certified bound, plan, whole chunks, simulation with latency.

    Parameters
    ----------
    schedule
        Schedule; its starts and arrivals are drawn. They fix the bars of hops over a single link; on the later links
        of a hop through switches or NICs a bar stands as early as its predecessors allow.
    ax
        Where to draw; None makes a new pyplot figure.

    Returns
    -------
    Axes
    """
    uses = link_uses(schedule)
    busy: dict[int, float] = {}
    for use in uses:
        busy[use.link] = busy.get(use.link, 0.0) + use.end - use.start
    # Rounded, so that links which are equally busy up to the last bits keep the topology's order.
    rows = sorted(busy, key=lambda link: (-float(f"{busy[link]:.6g}"), link))
    shown = rows[:MOST_ROWS]
    ax = new_axes(9, 2.4 + 0.16 * max(6, len(shown))) if ax is None else ax
    _bars(ax, schedule, uses, shown)
    _marks(ax, schedule)
    _dress(ax, schedule, shown)
    cut = f", {len(shown)} busiest of {len(rows)} used links" if len(rows) > len(shown) else ""
    chunks = f"transfers: {len(schedule.transfers)}, chunks per shard: {schedule.chunks_per_shard}"
    title(ax, headline(schedule.plan), chunks + cut)
    if not schedule.transfers:
        say_nothing_moves(ax)
    return ax


def link_uses(schedule: Schedule) -> list[Use]:
    """Every transfer on every one of its links, in order of transfers.

    A schedule keeps the start on the first link and the arrival. A later link can start one latency after the one
    before and must end by the arrival; in between, transfers take it in the order of their latest ends.
    """
    fixed: list[list[Use]] = [[] for _ in schedule.transfers]
    waiting: dict[int, list[tuple[float, float, int, int]]] = {}
    links = schedule.plan.topology.links
    for k, transfer in enumerate(schedule.transfers):
        size = transfer.count * schedule.chunk_bytes
        spans = [size / links[link].capacity for link in transfer.links]
        delays = [links[link].latency for link in transfer.links]
        for i, link in enumerate(transfer.links):
            earliest = schedule.starts[k] + sum(delays[:i])
            latest = max(earliest, schedule.arrivals[k] - sum(delays[i:]) - spans[i])
            waiting.setdefault(link, []).append((earliest if i == 0 else latest, earliest, k, i))
            fixed[k].append(Use(k, link, earliest, earliest + spans[i]))
    for queue in waiting.values():
        free = 0.0
        for latest, earliest, k, i in sorted(queue):
            use = fixed[k][i]
            start = min(max(earliest, free), latest)
            fixed[k][i] = Use(k, use.link, start, start + use.end - use.start)
            free = fixed[k][i].end
    return [use for group in fixed for use in group]


def _owner(schedule: Schedule, transfer: int) -> int:
    """Rank that colours a transfer: its route's root."""
    return schedule.routes[schedule.transfers[transfer].route].root


def _bars(ax: Axes, schedule: Schedule, uses: list[Use], rows: list[int]) -> None:
    """All bars as one collection, and a colour bar of ranks."""
    owners = sorted({route.root for route in schedule.routes})
    place = {link: row for row, link in enumerate(rows)}
    drawn = [use for use in uses if use.link in place]
    if not drawn:
        return
    tones = dict(zip(owners, colours(len(owners)), strict=True))
    left = np.array([use.start for use in drawn]) * 1e6
    right = np.array([use.end for use in drawn]) * 1e6
    low = np.array([place[use.link] - 0.42 for use in drawn])
    corners = np.stack((left, low, left, low + 0.84, right, low + 0.84, right, low), axis=1).reshape(-1, 4, 2)
    # Seams between bars only while bars are some pixels wide; otherwise they would bleach the picture.
    width = float(np.median(right - left)) / max(schedule.simulated * 1e6, 1e-12) * axes_inches(ax)[0] * 72
    bars = PolyCollection(
        list(corners),
        facecolors=[tones[_owner(schedule, use.transfer)] for use in drawn],
        edgecolors="white",
        linewidths=0.4 if width > 4 else 0.0,
    )
    bars.set_gid("transfers")
    ax.add_collection(bars, autolim=False)
    _owner_bar(ax, schedule, owners, list(tones.values()))


def _owner_bar(ax: Axes, schedule: Schedule, owners: list[int], tones: list[tuple[float, float, float, float]]) -> None:
    """Colour bar that names the ranks, at most 16 of them."""
    edges = np.arange(len(owners) + 1) - 0.5
    if len(owners) == 1:  # a norm needs two classes; both are this one
        edges, tones = np.array((-0.5, 0.0, 0.5)), tones * 2
    norm = BoundaryNorm(edges.tolist(), len(edges) - 1)
    ticks = np.unique(np.linspace(0, len(owners) - 1, min(16, len(owners))).round().astype(int))
    meeting = schedule.plan.demand.pattern == "allreduce"
    bar = colour_bar(
        ax,
        ScalarMappable(norm, ListedColormap(tones)),
        "meeting point (rank: GPU)" if meeting else "root of the shard (rank: GPU)",
        [float(k) for k in ticks],
    )
    names = [label(f"{owners[k]}: {schedule.plan.topology.gpu_name(owners[k])}", 12) for k in ticks]
    bar.set_ticks([float(k) for k in ticks], labels=names)
    bar.minorticks_off()


def _marks(ax: Axes, schedule: Schedule) -> None:
    """Vertical lines for the four times, named in a legend because they are often equal."""
    if schedule.plan.time <= 0:
        return
    plan = schedule.plan
    times = {"bound": plan.bound, "plan": plan.time, "quantised": schedule.quantized, "simulated": schedule.simulated}
    lines: list[Line2D] = []
    for name, time in times.items():
        colour, width, dashes = MARKS[name]
        text = f"{name} {microseconds(time)}"
        lines.append(ax.axvline(time * 1e6, color=colour, lw=width, ls=dashes, label=text, zorder=3))
    legend_below(ax, lines, 5.0)


def _dress(ax: Axes, schedule: Schedule, rows: list[int]) -> None:
    """Axes, ticks and names."""
    names = [label(schedule.plan.topology.links[link].id, 20) for link in rows]
    shown, size = legible(len(rows), axes_inches(ax)[1])
    ax.set_yticks(shown, labels=[names[k] for k in shown], fontsize=size)
    ax.set_ylim(max(len(rows), 1) - 0.4, -0.6)
    end = max(schedule.simulated, schedule.quantized, schedule.plan.time) * 1e6
    ax.set_xlim(0, 1.02 * end if end > 0 else 1.0)
    ax.set_xlabel("time (us)", fontsize=9)
    ax.ticklabel_format(axis="x", style="plain", useOffset=False)
    ax.tick_params(axis="x", labelsize=8)
    ax.tick_params(axis="y", length=2)
    plain(ax)
