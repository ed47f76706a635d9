"""Plots of the studies: rates, shares and lost bytes over time, and time over message size with thresholds."""

from __future__ import annotations

import matplotlib.style
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from synth.export.plots.figures import png_bytes
from synth.export.plots.style import INK, colours, label, new_axes, plain, title
from synth.ground.arrays import Floats
from synth.ground.units import format_size, format_time
from synth.study.adaptive.engine import Run
from synth.study.adaptive.report import ADAPTIVE, Comparison
from synth.study.threshold.pairs import Thresholds

#: Points of a curve over time or size.
POINTS = 400
#: Bins of a curve of rates: finer ones would show single chunks.
BINS = 80


def plot_rates(comparison: Comparison, policy: str = ADAPTIVE, ax: Axes | None = None) -> Axes:
    """Draw the rate of each path over time (GB/s, stacked), under the largest rate that the best split reaches.

    Parameters
    ----------
    comparison
        See :func:`synth.study.compare_splits`.
    policy
        Whose run: ``adaptive``, ``static LP``, ...
    ax
        Where to draw; None makes a new pyplot figure.

    Returns
    -------
    Axes
    """
    ax = new_axes(8, 4) if ax is None else ax
    run = comparison[policy]
    edges, rates = binned_rates(run)
    names = [label(name) for name in comparison.paths.labels]
    ax.stackplot(
        np.repeat(edges, 2)[1:-1] * 1e3,
        *(np.repeat(rates, 2, axis=0).T / 1e9),
        labels=names,
        colors=colours(len(names)),
    )
    starts, best = comparison.best
    ends = np.append(starts[starts < run.sent_end], run.sent_end)
    ax.stairs(best[: len(ends) - 1] / 1e9, ends * 1e3, color=INK, lw=1.2, ls="--", baseline=None, label="best split")
    _dress(ax, "rate (GB/s)")
    done, lost = format_time(run.finish), format_size(round(comparison.lost(run)))
    title(ax, _headline(comparison), f"{policy}: rate per path, done after {done}, {lost} lost")
    return ax


def plot_shares(comparison: Comparison, ax: Axes | None = None) -> Axes:
    """Draw the adaptive run's split over time: share of the bytes now under way per path, and of the LP re-solved.

    Parameters
    ----------
    comparison
        See :func:`synth.study.compare_splits`.
    ax
        Where to draw; None makes a new pyplot figure.

    Returns
    -------
    Axes
    """
    ax = new_axes(8, 4) if ax is None else ax
    for policy, style in ((ADAPTIVE, "-"), ("re-solved LP", ":")):
        edges, rates = binned_rates(comparison[policy])
        shares = rates / np.maximum(rates.sum(axis=1, keepdims=True), 1e-300)
        tones = colours(shares.shape[1])
        for k, name in enumerate(comparison.paths.labels):
            named = label(name) if policy == ADAPTIVE else None
            # Later ones are thinner, so equal shares show as one line in another.
            width = max(4.0 - 1.2 * k, 1.0) if policy == ADAPTIVE else 1.4
            ax.stairs(100 * shares[:, k], edges * 1e3, color=tones[k], ls=style, lw=width, baseline=None, label=named)
    ax.set_ylim(0, 100)
    _dress(ax, "share of the rate (%)")
    title(ax, _headline(comparison), "share per path: adaptive (solid), re-solved LP (dotted)")
    return ax


def plot_lost(comparison: Comparison, ax: Axes | None = None) -> Axes:
    """Draw the bytes lost to a wrong split so far (MB), one curve per policy.

    Parameters
    ----------
    comparison
        See :func:`synth.study.compare_splits`.
    ax
        Where to draw; None makes a new pyplot figure.

    Returns
    -------
    Axes
    """
    ax = new_axes(8, 4) if ax is None else ax
    for run, colour in zip(comparison.runs, colours(len(comparison.runs)), strict=True):
        when = np.linspace(0.0, run.sent_end, POINTS)
        ax.plot(when * 1e3, lost_bytes(comparison, run, when) / 1e6, color=colour, lw=1.6, label=label(run.policy))
    # From nothing to half of the transfer: only a logarithm shows both.
    ax.set_yscale("symlog", linthresh=1.0)
    ax.set_ylim(bottom=0)
    _dress(ax, "bytes lost so far (MB)")
    title(ax, _headline(comparison), "what the best split could have sent by then, minus what was sent")
    return ax


def plot_thresholds(found: Thresholds, ax: Axes | None = None) -> Axes:
    """Draw time over message size: the cheapest path alone, each further one opened at once, and the rule.

    Parameters
    ----------
    found
        See :func:`synth.study.pair_thresholds`.
    ax
        Where to draw; None makes a new pyplot figure.

    Returns
    -------
    Axes
    """
    ax = new_axes(8, 4) if ax is None else ax
    steps = [(name, start) for name, start in found.starts.items() if start is not None]
    top = max([start for _, start in steps] + [1e6])
    sizes = np.geomspace(top / 1e3, top * 30, POINTS)
    names = [name for name, _ in steps]
    for k, (colour, (name, start)) in enumerate(zip(colours(len(steps)), steps, strict=True)):
        if found.rate(frozenset(names[: k + 1])) > 0:
            times = [found.opened_time(size, names[: k + 1]) * 1e6 for size in sizes]
            ax.plot(sizes, times, color=colour, lw=1.4, label=label(f"{'+ ' if k else ''}{name}"))
        if start:
            ax.axvline(start, color=colour, lw=0.8, ls="--")
            ax.text(
                start, 0.98, f" {format_size(round(start))}", transform=ax.get_xaxis_transform(), va="top", fontsize=8
            )
    ax.plot(sizes, [found.time(size) * 1e6 for size in sizes], color=INK, lw=1.0, ls=":", label="rule")
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlabel("message size (bytes)", fontsize=9)
    ax.set_ylabel("time (us)", fontsize=9)
    _legend(ax)
    title(ax, label(found.what, 60), "time when these paths are all opened; dashed: from here on one more pays")
    return ax


def binned_rates(run: Run) -> tuple[Floats, Floats]:
    """(bin edges in seconds, bins x paths mean rates in bytes/second) until the last byte is sent."""
    edges = np.linspace(0.0, run.sent_end, BINS + 1)
    return edges, np.diff(run.sent_at(edges), axis=0) / np.diff(edges)[:, None]


def lost_bytes(comparison: Comparison, run: Run, when: Floats) -> Floats:
    """Bytes lost to a wrong split by the times ``when`` (seconds)."""
    movable = np.array([comparison.movable(float(t)) for t in when])
    return np.asarray(np.maximum(movable - run.sent_at(when).sum(axis=1), 0.0))


def adaptive_files(comparison: Comparison) -> dict[str, bytes]:
    """PNG file ``adaptive.png``: rates of the static and the adaptive run, shares and lost bytes."""
    with matplotlib.style.context("default", after_reset=True):
        figure = Figure(figsize=(14, 8), layout="constrained")
        FigureCanvasAgg(figure)
        (a, b), (c, d) = figure.subplots(2, 2)
        plot_rates(comparison, "static LP", a)
        plot_rates(comparison, ADAPTIVE, b)
        plot_shares(comparison, c)
        plot_lost(comparison, d)
        top = max(ax.get_ylim()[1] for ax in (a, b))
        for ax in (a, b):
            ax.set_ylim(0, top)
        return {"adaptive.png": png_bytes(figure)}


def threshold_files(found: Thresholds) -> dict[str, bytes]:
    """PNG file ``threshold.png``."""
    with matplotlib.style.context("default", after_reset=True):
        figure = Figure(figsize=(8, 4.5), layout="constrained")
        FigureCanvasAgg(figure)
        plot_thresholds(found, figure.subplots())
        return {"threshold.png": png_bytes(figure)}


def _headline(comparison: Comparison) -> str:
    machine = comparison.paths.topology
    ends = f"{machine.gpu_name(comparison.paths.src)} to {machine.gpu_name(comparison.paths.dst)}"
    return f"{format_size(comparison.size)} from {label(ends, 30)} of {label(machine.name, 30)}"


def _dress(ax: Axes, what: str) -> None:
    ax.set_xlim(left=0)
    ax.set_xlabel("time (ms)", fontsize=9)
    ax.set_ylabel(what, fontsize=9)
    _legend(ax)


def _legend(ax: Axes) -> None:
    plain(ax)
    ax.tick_params(labelsize=8)
    ax.legend(fontsize=8, frameon=False, labelcolor=INK)
