"""How each root's bytes are split over its routes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.patches import Patch

from synth.export.plots.style import (
    PALETTE,
    axes_inches,
    headline,
    label,
    legend_below,
    legible,
    new_axes,
    plain,
    say_nothing_moves,
    title,
)
from synth.formulation.flow.orbits import OrbitRoutes
from synth.formulation.flow.routes import Route
from synth.solver.flow.plan import Plan
from synth.topology.elements import Link

#: Red, green, blue, alpha.
Tone = tuple[float, float, float, float]
#: Bars beyond this many are left out, and the title says so.
MOST_BARS = 64
#: Routes beyond this many are drawn by one of each orbit.
MOST_ROUTES = 100_000
#: Colours that a legend can still explain.
MOST_CLASSES = 8


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of a bar: ``share`` of the bar's bytes, coloured by ``group``."""

    share: float
    group: str


def plot_splits(plan: Plan, ax: Axes | None = None) -> Axes:
    """Draw one stacked bar per root: what part of its bytes takes which route.

    All-gather, broadcast, reduce-scatter and reduce: a bar per shard, a segment per tree, coloured by its depth.
    All-reduce: a bar per meeting point, as long as its part of the buffer. All-to-all and the like: a bar per source
    (per destination when there is one source), segments by kind of path.

    Parameters
    ----------
    plan
        Plan.
    ax
        Where to draw; None makes a new pyplot figure.

    Returns
    -------
    Axes
    """
    bars, what = split_bars(plan)
    shown = dict(list(bars.items())[:MOST_BARS])
    ax = new_axes(8, 2.2 + 0.22 * max(4, len(shown))) if ax is None else ax
    _draw(ax, plan, shown)
    cut = f", first {MOST_BARS} of {len(bars)}" if len(bars) > MOST_BARS else ""
    title(ax, headline(plan), what + cut)
    if not shown:
        say_nothing_moves(ax)
    return ax


def split_bars(plan: Plan) -> tuple[dict[int, list[Segment]], str]:
    """Segments per bar (rank of the root), and what the bars are."""
    pattern = plan.demand.pattern
    bars: dict[int, list[Segment]] = {}
    if pattern == "unicast":
        return _paths(plan)
    routes, some = _shown(plan)
    for route in routes:
        bars.setdefault(route.root, []).append(Segment(route.share, _depth(route)))
    if pattern == "allreduce":
        return dict(sorted(bars.items())), f"share of the buffer per meeting point{some}; a segment is a pair of trees"
    side = "receiver" if pattern == "reduction" else "owner"
    return dict(sorted(bars.items())), f"share of each shard per tree, one bar per {side}{some}"


def _shown(plan: Plan) -> tuple[Sequence[Route], str]:
    """All routes, or of a large plan one per orbit of the symmetry, and what to say of that."""
    routes = plan.routes
    if not isinstance(routes, OrbitRoutes) or len(routes) <= MOST_ROUTES:
        return routes, ""
    return routes.representatives, " (one for each of equal ranks)"


def _depth(route: Route) -> str:
    return f"{route.depth} hop{'s' if route.depth > 1 else ''} deep"


def _paths(plan: Plan) -> tuple[dict[int, list[Segment]], str]:
    """Unicast: bytes per source (or destination) and kind of path."""
    items = plan.demand.commodities
    single = not plan.demand.uniform and len({item.root for item in items}) == 1
    sums: dict[int, dict[str, float]] = {}
    routes, some = _shown(plan)
    links = plan.routes.bundles.bundled.links if some and isinstance(plan.routes, OrbitRoutes) else plan.topology.links
    for route in routes:
        item = items[route.commodity]
        bar = item.dest if single and item.dest is not None else item.root
        groups = sums.setdefault(bar, {})
        kind = _path_kind(links, route)
        groups[kind] = groups.get(kind, 0.0) + route.share * item.size
    order = sorted({kind for groups in sums.values() for kind in groups})
    bars = {
        bar: [Segment(groups[kind] / sum(groups.values()), kind) for kind in order if kind in groups]
        for bar, groups in sorted(sums.items())
    }
    return bars, f"share of the bytes of each {'destination' if single else 'source'}{some} per kind of path"


def _path_kind(links: Sequence[Link], route: Route) -> str:
    """Kinds of links in the order met, and how many GPUs forward."""
    kinds = [links[k].kind for hop in route.hops for k in hop.links]
    relays = len(route.hops) - 1
    by = f" via {relays} GPU{'s' if relays > 1 else ''}" if relays else ""
    return " + ".join(dict.fromkeys(kinds)) + by


def _group_colours(bars: dict[int, list[Segment]], ordered: bool) -> dict[str, Tone]:
    """Colour per group; an ordered map for depths, the palette for kinds, grey for kinds beyond a legend."""
    weight: dict[str, float] = {}
    for segments in bars.values():
        for segment in segments:
            weight[segment.group] = weight.get(segment.group, 0.0) + segment.share
    if ordered:
        groups = sorted(weight, key=lambda text: int(text.split()[0]))
        tones = colormaps["viridis_r"](np.linspace(0.15, 0.95, len(groups)))
        return {group: to_rgba(tone) for group, tone in zip(groups, tones, strict=True)}
    groups = sorted(weight, key=lambda text: (-weight[text], text))
    return {group: to_rgba(PALETTE[min(k, len(PALETTE) - 1)]) for k, group in enumerate(groups)}


def _draw(ax: Axes, plan: Plan, bars: dict[int, list[Segment]]) -> None:
    paint = _group_colours(bars, plan.demand.pattern != "unicast")
    edge = 0.8 if max((len(s) for s in bars.values()), default=0) <= 24 else 0.3
    rows: list[tuple[float, float, float, str]] = []
    for row, segments in enumerate(bars.values()):
        left = 0.0
        # Deep routes last; equal colours side by side keep the white seams that separate routes.
        for segment in sorted(segments, key=lambda s: (list(paint).index(s.group), -s.share)):
            rows.append((row, left, segment.share, segment.group))
            left += segment.share
    if rows:
        ys, lefts, widths, groups = zip(*rows, strict=True)
        tones = [paint[group] for group in groups]
        ax.barh(ys, widths, left=lefts, height=0.82, color=tones, edgecolor="white", linewidth=edge)
    shown, size = legible(len(bars), axes_inches(ax)[1])
    names = [label(f"{rank}: {plan.topology.gpu_name(rank)}", 14) for rank in bars]
    ax.set_yticks(shown, labels=[names[k] for k in shown], fontsize=size)
    ax.set_ylim(max(len(bars), 1) - 0.4, -0.6)
    end = max((row[1] + row[2] for row in rows), default=1.0)
    ax.set_xlim(0, end * (1.0 if end > 0.999 else 1.04))
    ax.xaxis.set_major_formatter(lambda value, _: f"{100 * value:.3g} %")
    ax.set_ylabel("rank: GPU", fontsize=9)
    ax.tick_params(axis="x", labelsize=8)
    plain(ax)
    _legend(ax, paint)


def _legend(ax: Axes, paint: dict[str, Tone]) -> None:
    """Groups below the axes; of many, the first, last and some between."""
    groups = list(paint)
    if len(groups) > MOST_CLASSES:
        picked = np.unique(np.linspace(0, len(groups) - 1, MOST_CLASSES).round().astype(int))
        groups = [groups[k] for k in picked]
    handles = [Patch(facecolor=paint[group], label=label(group, 40)) for group in groups]
    legend_below(ax, handles, 3.0)
