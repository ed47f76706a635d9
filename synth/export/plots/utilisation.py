"""Utilisation of links as a matrix of nodes, with shared pools in a strip below."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.collections import PatchCollection
from matplotlib.colors import Colormap, Normalize
from matplotlib.patches import Rectangle

from synth.export.plots.style import (
    axes_inches,
    colour_bar,
    headline,
    heat,
    label,
    legible,
    new_axes,
    title,
    utilisation,
)
from synth.ground.arrays import Floats
from synth.solver.flow.plan import Plan

#: Nodes beyond this many (the least busy ones) are left out, and the title says so.
MOST_NODES = 160
#: Sky blue stands out from yellow to dark red, to colour-blind eyes too.
OUTLINE = "#56B4E9"
#: Pools beyond this many (the least busy ones) are left out.
MOST_POOLS = 64


def plot_utilisation(plan: Plan, ax: Axes | None = None) -> Axes:
    """Draw a heat map of link utilisation, source node by destination node.

    A cell is the bytes of all parallel links over their capacity x T. Shared pools stand in a strip below. What binds
    and carries a part of the proof (``plan.bottleneck``) is outlined.

    Parameters
    ----------
    plan
        Plan.
    ax
        Where to draw; None makes a new pyplot figure. The pools get an inset of it.

    Returns
    -------
    Axes
    """
    ax = new_axes(8, 7) if ax is None else ax
    cells = utilisation_matrix(plan)
    nodes = _shown(cells)
    image = _matrix(ax, plan, cells[np.ix_(nodes, nodes)], nodes)
    _outline_links(ax, plan, nodes)
    if plan.topology.resources:
        _pools(ax, plan)
    colour_bar(ax, image, "utilisation: bytes / (capacity x T)")
    cut = f", {len(nodes)} busiest of {len(cells)} nodes" if len(nodes) < len(cells) else ""
    note = ", binding ones outlined" if plan.bottleneck else ""
    title(ax, headline(plan), f"utilisation of links{note}{cut}")
    return ax


def utilisation_matrix(plan: Plan) -> Floats:
    """Bytes over capacity x T of all links from row node to column node; NaN where there is no link."""
    count = len(plan.topology.nodes)
    load, room = np.zeros((count, count)), np.zeros((count, count))
    links = len(plan.topology.links)
    if links:
        ends = (plan.network.src, plan.network.dst)
        np.add.at(load, ends, plan.row_bytes[:links])
        np.add.at(room, ends, plan.network.capacity[:links])
    # A plan that moves nothing takes no time, and its links are idle rather than undefined.
    out = np.full((count, count), np.nan)
    np.divide(load, room * (plan.time or 1.0), out=out, where=room > 0)
    return out


def _shown(cells: Floats) -> npt.NDArray[np.int64]:
    """Nodes in order; of too many, the busiest."""
    count = len(cells)
    if count <= MOST_NODES:
        return np.arange(count)
    filled = np.nan_to_num(cells)
    busy = np.maximum(filled.max(axis=0), filled.max(axis=1))
    return np.sort(np.argsort(-busy, kind="stable")[:MOST_NODES])


def _colours() -> Colormap:
    return heat().with_extremes(bad="#F4F4F4")


def _matrix(ax: Axes, plan: Plan, cells: Floats, nodes: Sequence[int] | npt.NDArray[np.int64]) -> object:
    """The heat map with node names on both sides and a line between hosts."""
    count = len(cells)
    image = ax.imshow(
        np.ma.masked_invalid(cells), cmap=_colours(), norm=Normalize(0, 1), aspect="auto", interpolation="nearest"
    )
    names = [label(plan.topology.nodes[k].id, 14) for k in nodes]
    width, height = axes_inches(ax)
    ax.xaxis.tick_top()
    ax.xaxis.set_label_position("top")
    shown, size = legible(count, width)
    flat = max(map(len, names)) * 0.65 * size * count < width * 72
    ax.set_xticks(shown, labels=[names[k] for k in shown], fontsize=size, rotation=0 if flat else 90)
    shown, size = legible(count, height)
    ax.set_yticks(shown, labels=[names[k] for k in shown], fontsize=size)
    ax.set_xlabel("to", fontsize=9)
    ax.set_ylabel("from", fontsize=9)
    ax.tick_params(length=0)
    ax.grid(False)
    for side in ax.spines.values():
        side.set_visible(False)
    hosts = [plan.topology.nodes[k].host for k in nodes]
    for k in range(1, count):
        border = hosts[k] != hosts[k - 1]
        if border or count <= 40:
            ax.axhline(k - 0.5, color="white", lw=2.0 if border else 0.6)
            ax.axvline(k - 0.5, color="white", lw=2.0 if border else 0.6)
    return image


def _outline(ax: Axes, cells: list[tuple[int, int]], line: float) -> None:
    if cells:
        boxes = [Rectangle((col - 0.5, row - 0.5), 1, 1) for row, col in cells]
        found = PatchCollection(boxes, facecolor="none", edgecolor=OUTLINE, linewidth=line, zorder=3)
        found.set_gid("binding")
        ax.add_collection(found, autolim=False)


def _outline_links(ax: Axes, plan: Plan, nodes: npt.NDArray[np.int64]) -> None:
    """A frame around every cell that has a binding link."""
    place = {int(node): k for k, node in enumerate(nodes)}
    binding = set(plan.bottleneck)
    pairs = {ends for link, ends in zip(plan.topology.links, plan.topology.ends, strict=True) if link.id in binding}
    cells = sorted((place[a], place[b]) for a, b in pairs if a in place and b in place)
    _outline(ax, cells, 2.0 if len(nodes) <= 40 else 0.8)


def _pools(ax: Axes, plan: Plan) -> None:
    """Shared pools as one row in an inset below the matrix."""
    links = len(plan.topology.links)
    used = utilisation(plan)[links:]
    order = np.sort(np.argsort(-used, kind="stable")[:MOST_POOLS])
    strip = ax.inset_axes((0.0, -0.09, 1.0, 0.05))
    strip.imshow(used[order][None], cmap=_colours(), norm=Normalize(0, 1), aspect="auto", interpolation="nearest")
    names = [label(plan.topology.resources[k].id, 14) for k in order]
    shown, size = legible(len(order), axes_inches(ax)[0])
    turn = 90 if max(map(len, names)) * 0.65 * size * len(order) > axes_inches(ax)[0] * 72 else 0
    strip.set_xticks(shown, labels=[names[k] for k in shown], fontsize=size, rotation=turn)
    cut = "" if len(order) == len(used) else f" ({len(order)} of {len(used)})"
    strip.set_yticks([0], labels=[f"pools{cut}"], fontsize=8)
    strip.tick_params(length=0)
    for side in strip.spines.values():
        side.set_visible(False)
    binding = set(plan.bottleneck)
    _outline(strip, [(0, k) for k, pool in enumerate(order) if plan.topology.resources[pool].id in binding], 2.0)
