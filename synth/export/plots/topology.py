"""Picture of a topology, or of a plan's load on it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PatchCollection, PolyCollection
from matplotlib.colors import Normalize
from matplotlib.lines import Line2D
from matplotlib.patches import Circle, FancyBboxPatch, Patch, RegularPolygon

from synth.export.plots.layout import gpu_hosts, layout
from synth.export.plots.style import (
    FAINT,
    axes_inches,
    colour_bar,
    headline,
    heat,
    label,
    legend_below,
    new_axes,
    title,
    utilisation,
)
from synth.ground.arrays import Floats, Ints
from synth.solver.flow.plan import Plan
from synth.topology.elements import Node
from synth.topology.model import Topology

#: Colour and corners (0: a circle) of each kind of node.
NODES = MappingProxyType(
    {
        "gpu": ("#0072B2", 0),
        "switch": ("#009E73", 4),
        "nic": ("#CC79A7", 3),
        "cpu": ("#7F6A3F", 6),
        "memory": ("#666666", 5),
    }
)
#: Colour and dashes (none: solid) of each kind of link.
LINKS: Mapping[str, tuple[str, tuple[float, ...]]] = MappingProxyType(
    {
        "nvlink": ("#009E73", ()),
        "xgmi": ("#D55E00", ()),
        "c2c": ("#CC79A7", ()),
        "pcie": ("#56B4E9", ()),
        "socket": ("#7F6A3F", (4.0, 1.5)),
        "memory": ("#666666", (1.0, 1.5)),
        "nic": ("#E69F00", ()),
        "net": ("#555555", ()),
    }
)
#: Radius of a node; neighbours stand about one unit apart.
RADIUS = 0.36
#: Arrow heads and dodging of nodes up to this many links; beyond, nobody could see them.
MOST_ARROWS = 400


def plot_topology(topology_or_plan: Topology | Plan, ax: Axes | None = None) -> Axes:
    """Draw nodes and directed links; of a plan, with the utilisation of each link.

    Every directed link is an arc of its own that keeps to the right of the straight line, so opposite and parallel
    links stay apart.

    Parameters
    ----------
    topology_or_plan
        A topology (links coloured by kind) or a plan (links coloured by bytes / (capacity x T)).
    ax
        Where to draw; None makes a new pyplot figure.

    Returns
    -------
    Axes
    """
    plan = topology_or_plan if isinstance(topology_or_plan, Plan) else None
    topology = topology_or_plan.topology if isinstance(topology_or_plan, Plan) else topology_or_plan
    ax = new_axes(8, 7) if ax is None else ax
    places = layout(topology)
    arcs = link_arcs(topology, places)
    _frame(ax, topology, places, arcs)
    _draw_links(ax, topology, arcs, plan)
    _draw_nodes(ax, topology, places)
    _legend(ax, topology, plan)
    if plan is None:
        counts = f"{len(topology.gpus)} GPUs, {len(topology.links)} directed links"
        pools = f", {len(topology.resources)} shared pools" if topology.resources else ""
        title(ax, label(topology.name, 60), f"{counts}{pools}; GB/s per direction")
    else:
        title(ax, headline(plan), "utilisation of each directed link (arcs keep to the right, binding ones are thick)")
    return ax


def _frame(ax: Axes, topology: Topology, places: Floats, arcs: Floats) -> None:
    """Limits, and one box per host when there are several."""
    # The data limits give way, not the box: titles and colour bars of a wide and a high machine stand the same.
    ax.set_aspect("equal", adjustable="datalim")
    ax.set_axis_off()
    least = np.array(((-1.5, -1.5), (1.5, 1.5)))
    ax.update_datalim(np.concatenate((least, places - 0.9, places + 0.9, arcs.reshape(-1, 2))))
    ax.margins(0.0)
    ax.autoscale_view()
    hosts = gpu_hosts(topology)
    if not 1 < len(hosts) <= 64:
        return
    margin = np.array((0.6, 0.8))
    for host in hosts:
        inside = places[[k for k, node in enumerate(topology.nodes) if node.host == host]]
        (x0, y0), (x1, y1) = inside.min(axis=0) - margin, inside.max(axis=0) + margin
        style = f"round,pad=0,rounding_size={RADIUS}"
        box = FancyBboxPatch((x0, y0), x1 - x0, y1 - y0, style, fc="#F6F6F6", ec=FAINT, lw=0.8, zorder=0)
        ax.add_patch(box)
        upper = (y0 + y1) / 2 >= 0
        y, side = (y1 - 0.1, "top") if upper else (y0 + 0.1, "bottom")
        size = min(9.0, _points(ax) * 0.5)
        ax.text(x0 + 0.15, y, label(host, 16), va=side, ha="left", fontsize=size, color="#666666", zorder=1)


def _points(ax: Axes) -> float:
    """Points per unit of length."""
    width, height = axes_inches(ax)
    (x0, x1), (y0, y1) = ax.get_xlim(), ax.get_ylim()
    return 72 * min(width / (x1 - x0), height / (y1 - y0))


def _draw_links(ax: Axes, topology: Topology, arcs: Floats, plan: Plan | None) -> None:
    """All links as one collection of arcs in link order, then their arrow heads."""
    if not topology.links:
        return
    width = float(np.clip(_points(ax) * 0.035, 0.5, 1.6)) if len(arcs) <= 1000 else 0.2
    lines = LineCollection(list(arcs), linewidths=width, capstyle="round", zorder=2)
    if plan is None:
        styles = [LINKS[link.kind] for link in topology.links]
        lines.set_color([colour for colour, _ in styles])
        lines.set_linestyle([(0.0, dashes) for _, dashes in styles])
    else:
        used = utilisation(plan)[: len(topology.links)]
        binding = set(plan.bottleneck)
        lines.set(array=used, cmap=heat(), norm=Normalize(0, 1))
        lines.set_linewidth([1.5 * width if link.id in binding else width for link in topology.links])
        colour_bar(ax, lines, "utilisation: bytes / (capacity x T)")
    lines.set_gid("links")
    ax.add_collection(lines, autolim=False)
    if len(arcs) <= MOST_ARROWS:
        heads = PolyCollection(list(_arrow_heads(arcs)), closed=True, zorder=2.5, linewidths=0)
        if plan is None:
            heads.set_facecolor([LINKS[link.kind][0] for link in topology.links])
        else:
            heads.set(array=lines.get_array(), cmap=lines.get_cmap(), norm=lines.norm)
        ax.add_collection(heads, autolim=False)


def link_arcs(topology: Topology, places: Floats, points: int = 17) -> Floats:
    """Points of each link's arc (links x points x 2), bent past nodes that stand in its way."""
    ends = np.array(topology.ends, dtype=np.int64).reshape(-1, 2)
    start, stop = places[ends[:, 0]], places[ends[:, 1]]
    along = stop - start
    length = np.maximum(np.linalg.norm(along, axis=1), 1e-9)
    right = np.column_stack((along[:, 1], -along[:, 0])) / length[:, None]
    offset = _offsets(topology)
    t = np.linspace(0, 1, points)[None, :, None]

    def arcs(bend: Floats) -> Floats:
        bow = 4 * t * (1 - t) * bend[:, None, None]
        return np.asarray(start[:, None] + t * along[:, None] + bow * right[:, None])

    bend = offset.copy()
    if len(ends) <= MOST_ARROWS:
        for more in (0.12, 0.2, 0.3, 0.0):
            hits = _hits(arcs(bend), places, ends)
            bend = np.where(hits, offset + np.minimum(more * length, 1.5), bend)
    return arcs(bend)


def _offsets(topology: Topology) -> Floats:
    """Distance of each arc's middle from the straight line: parallel links one beside the other."""
    total = Counter(topology.ends)
    seen: Counter[tuple[int, int]] = Counter()
    out = np.zeros(len(topology.links))
    for k, pair in enumerate(topology.ends):
        step = min(0.11, 0.4 / total[pair])
        out[k] = 0.07 + step * seen[pair]
        seen[pair] += 1
    return out


def _hits(arcs: Floats, places: Floats, ends: Ints) -> npt.NDArray[np.bool_]:
    """Whether an arc runs over a node that is not one of its ends."""
    out = np.zeros(len(arcs), dtype=bool)
    for node, place in enumerate(places):
        near = np.linalg.norm(arcs - place, axis=2).min(axis=1) < RADIUS + 0.04
        out |= near & (ends != node).all(axis=1)
    return out


def _arrow_heads(arcs: Floats) -> Floats:
    """A small triangle in the middle of each arc, pointing along it."""
    middle = arcs.shape[1] // 2
    tip, tangent = arcs[:, middle], arcs[:, middle + 1] - arcs[:, middle - 1]
    tangent = tangent / np.maximum(np.linalg.norm(tangent, axis=1), 1e-9)[:, None]
    normal = np.column_stack((-tangent[:, 1], tangent[:, 0]))
    return np.stack(
        (tip + 0.09 * tangent, tip - 0.06 * tangent + 0.06 * normal, tip - 0.06 * tangent - 0.06 * normal), 1
    )


def _draw_nodes(ax: Axes, topology: Topology, places: Floats) -> None:
    """One collection per kind, with names inside where they fit."""
    for kind, (colour, corners) in NODES.items():
        group = [k for k, node in enumerate(topology.nodes) if node.kind == kind]
        if group:
            shapes = [_marker(places[k], corners) for k in group]
            marks = PatchCollection(shapes, facecolor=colour, edgecolor="white", linewidth=0.8, zorder=3)
            marks.set_gid(kind)
            ax.add_collection(marks, autolim=False)
    for k, node in enumerate(topology.nodes):
        _name(ax, topology, node, places[k], topology.rank_of.get(k))


def _marker(place: Floats, corners: int) -> Patch:
    centre = (float(place[0]), float(place[1]))
    if not corners:
        return Circle(centre, RADIUS)
    return RegularPolygon(centre, corners, radius=RADIUS * (1.25 if corners < 5 else 1.1))


def _name(ax: Axes, topology: Topology, node: Node, place: Floats, rank: int | None) -> None:
    """Write a node's id without its host's prefix: inside if short, else a GPU's rank, else beside the node."""
    text = node.id.removeprefix(f"{node.host}.")
    if node.kind == "nic":
        text = text.removeprefix("nic") or text
    short = len(text) <= 4
    if not short and rank is not None:
        text, short = str(rank), True
    size = min(10.0, _points(ax) * RADIUS * (1.0 if len(text) < 3 else 0.78 if len(text) < 4 else 0.6))
    if size < 2.5:
        return
    x, y = float(place[0]), float(place[1])
    if short:
        ax.text(x, y, label(text), ha="center", va="center_baseline", fontsize=size, color="white", zorder=4)
    elif sum(other.kind == node.kind for other in topology.nodes) <= 16:
        near = {"boxstyle": "round,pad=0.1", "fc": "white", "ec": "none", "alpha": 0.8}
        size = min(9.0, _points(ax) * 0.3)
        ax.text(x, y - 1.35 * RADIUS, label(text, 12), ha="center", va="top", fontsize=size, zorder=4, bbox=near)


def _legend(ax: Axes, topology: Topology, plan: Plan | None) -> None:
    """Kinds of nodes and, without a plan, of links."""
    handles: list[Line2D] = []
    markers = {0: "o", 4: "D", 3: "^", 6: "h", 5: "p"}
    names = {"gpu": "GPU", "nic": "NIC", "cpu": "CPU"}
    for kind, (colour, corners) in NODES.items():
        if any(node.kind == kind for node in topology.nodes):
            name = names.get(kind, kind)
            handles.append(Line2D([], [], color=colour, marker=markers[corners], ls="", ms=7, label=name))
    kinds = dict.fromkeys(link.kind for link in topology.links) if plan is None else {}
    for kind in kinds:
        colour, dashes = LINKS[kind]
        rates = sorted({link.capacity / 1e9 for link in topology.links if link.kind == kind})
        rate = f"{rates[0]:.4g}" if len(rates) == 1 else f"{rates[0]:.4g} to {rates[-1]:.4g}"
        handles.append(Line2D([], [], color=colour, ls=(0, dashes), lw=1.8, label=f"{kind} {rate} GB/s"))
    legend_below(ax, handles, 0.5)
