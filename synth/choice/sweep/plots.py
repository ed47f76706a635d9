"""Plots of a sweep over message sizes: bandwidth against size, and latency against bandwidth."""

from __future__ import annotations

from typing import TYPE_CHECKING

import matplotlib.style
import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter

from synth.export.plots.figures import drawn
from synth.export.plots.style import INK, colours, label, new_axes, plain, title
from synth.ground.arrays import Floats
from synth.ground.units import format_size
from synth.rivals.at_sizes import family_of
from synth.rivals.baselines.kinds import KINDS

if TYPE_CHECKING:
    from synth.choice.sweep.result import Sweep

#: Points of the Pareto front this close (relative) share one label.
CLOSE = 0.06


def plot_bandwidths(sweep: Sweep, ax: Axes | None = None) -> Axes:
    """Draw algorithm bandwidth (GB/s) against size: each file over its range, the bound, and the baselines.

    Parameters
    ----------
    sweep
        See :func:`synth.sweep`.
    ax
        Where to draw; None makes a new pyplot figure.

    Returns
    -------
    Axes
    """
    ax = new_axes(8, 5) if ax is None else ax
    sizes = np.array(sweep.sizes, dtype=float)
    ax.plot(sizes, sizes / np.array(sweep.bounds) / 1e9, color=INK, lw=1.2, ls="--", label="bound")
    for name, times in _baselines(sweep).items():
        ax.plot(sizes, sizes / times / 1e9, color="#999999", lw=0.8, zorder=1)
        at = int(np.argmax(sizes / times >= 0.5 * (sizes / times).max()))
        ax.annotate(label(name), (sizes[at], sizes[at] / times[at] / 1e9), fontsize=6.5, color="#777777")
    for k, (span, tone) in enumerate(zip(sweep.ranges, colours(len(sweep.ranges)), strict=True), 1):
        begin, end = span.swept
        row = sweep.times[list(sweep.candidates).index(span.name), begin:end]
        text = f"file {k}: {label(span.name)}"
        ax.plot(sizes[begin:end], sizes[begin:end] / row / 1e9, color=tone, lw=2.2, marker="o", ms=3, label=text)
        if k > 1:
            ax.axvline(span.first, color=tone, lw=0.8, ls=":")
    ax.set(xscale="log", yscale="log", ylabel="algorithm bandwidth (GB/s)")
    ax.set_xscale("log", base=2)
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: format_size(round(value))))
    ax.set_xlabel("message size")
    ax.legend(fontsize=8, frameon=False, labelcolor=INK)
    plain(ax)
    title(ax, _headline(sweep), f"{len(sweep.ranges)} files, at most {100 * sweep.worst_excess:.2g} % over the best")
    return ax


def plot_front(sweep: Sweep, ax: Axes | None = None) -> Axes:
    """Draw the time at the smallest size (us) against the bandwidth at the largest (GB/s), and the Pareto front.

    Parameters
    ----------
    sweep
        See :func:`synth.sweep`.
    ax
        Where to draw; None makes a new pyplot figure.

    Returns
    -------
    Axes
    """
    ax = new_axes(8, 5) if ax is None else ax
    latency, bandwidth = sweep.times[:, 0] * 1e6, sweep.sizes[-1] / sweep.times[:, -1] / 1e9
    names = list(sweep.candidates)
    library = [k for k, c in enumerate(sweep.candidates.values()) if _kind(c.rival) is not None]
    others = sorted(set(range(len(names))) - set(library))
    ax.scatter(latency[others], bandwidth[others], s=12, color="#56B4E9", label="plan, trees")
    ax.scatter(latency[library], bandwidth[library], s=12, color="#999999", label="baselines")
    front = sweep.front
    ax.step(latency[front], bandwidth[front], where="post", color=INK, lw=1.2, marker="o", ms=4, label="Pareto front")
    for k in _apart(front, latency, bandwidth):
        place = (latency[k], bandwidth[k])
        ax.annotate(label(names[k]), place, (5, -9), textcoords="offset points", fontsize=7, color=INK)
    chosen = [names.index(span.name) for span in sweep.ranges]
    ax.scatter(
        latency[chosen],
        bandwidth[chosen],
        s=70,
        facecolors="none",
        edgecolors="#D55E00",
        linewidths=1.5,
        label="in a file",
    )
    ax.set(xscale="log", yscale="log")
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_formatter("{x:g}")
        axis.set_minor_formatter("{x:g}")
    ax.tick_params(which="both", labelsize=8)
    ax.set_xlabel(f"time at {format_size(sweep.sizes[0])} (us)")
    ax.set_ylabel(f"algorithm bandwidth at {format_size(sweep.sizes[-1])} (GB/s)")
    ax.legend(fontsize=8, frameon=False, labelcolor=INK)
    plain(ax)
    title(ax, _headline(sweep), f"{len(names)} rivals, {len(front)} on the front of latency and bandwidth")
    return ax


def sweep_files(sweep: Sweep) -> dict[str, bytes]:
    """PNG files ``bandwidth.png`` and ``pareto.png``; nothing is written and pyplot is not touched."""
    with matplotlib.style.context("default", after_reset=True):
        return {
            "bandwidth.png": drawn(8, 5, lambda ax: plot_bandwidths(sweep, ax)),
            "pareto.png": drawn(8, 5, lambda ax: plot_front(sweep, ax)),
        }


def _headline(sweep: Sweep) -> str:
    demand = sweep.plan.demand
    return f"{demand.collective} on {label(sweep.plan.topology.name, 40)} for {sweep.judge.target.name}"


def _apart(front: list[int], latency: Floats, bandwidth: Floats) -> list[int]:
    """Points of the front whose labels do not touch, those of the highest bandwidth first."""
    kept: list[int] = []
    for k in reversed(front):
        near = [abs(latency[k] / latency[j] - 1) < CLOSE and abs(bandwidth[k] / bandwidth[j] - 1) < CLOSE for j in kept]
        if not any(near):
            kept.append(k)
    return kept


def _kind(rival: str) -> str | None:
    """Which baseline a rival is, if it is one: forms of one (``2d-1``, ``2d-2``) count together."""
    family = family_of(rival)
    return next((name for name in KINDS if family == name or family.startswith(f"{name}-")), None)


def _baselines(sweep: Sweep) -> dict[str, Floats]:
    """Seconds per size of each baseline at its best chunk count."""
    out: dict[str, Floats] = {}
    for k, candidate in enumerate(sweep.candidates.values()):
        name = _kind(candidate.rival)
        if name is not None:
            out[name] = np.minimum(out[name], sweep.times[k]) if name in out else sweep.times[k]
    return out
