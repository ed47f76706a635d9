"""Plots: what is drawn equals what the plan or schedule says, whatever names and machines look like."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
from hypothesis import Phase, given, settings
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection, PatchCollection, PolyCollection
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.image import AxesImage

from synth.demand import make_demand
from synth.export.plots.figures import (
    figure_files,
    overview,
    plot_splits,
    plot_timeline,
    plot_topology,
    plot_utilisation,
)
from synth.export.plots.layout import layout
from synth.export.plots.splits import MOST_BARS, split_bars
from synth.export.plots.style import label
from synth.export.plots.timeline import MOST_ROWS, link_uses
from synth.export.plots.topology import RADIUS, link_arcs
from synth.export.plots.utilisation import MOST_NODES, utilisation_matrix
from synth.schedule import Schedule, make_schedule
from synth.solver.flow import solve
from synth.topology import Link, Node, Resource, Topology, resolve
from tests.strategies import topologies

FILES = ["topology.png", "splits.png", "utilisation.png", "timeline.png", "overview.png"]


@pytest.fixture(autouse=True)
def _close() -> Iterator[None]:
    yield
    plt.close("all")


def schedule_of(topology: Topology, collective: str = "allgather", size: float = 8e6, **options: Any) -> Schedule:
    return make_schedule(solve(topology, make_demand(topology, collective, size, **options)), chunks=4)


@pytest.fixture(scope="module")
def dgx1() -> Schedule:
    return schedule_of(resolve("dgx1-v100"))


@pytest.fixture(scope="module")
def boxes() -> Schedule:
    return schedule_of(resolve("cluster:box=dgx-a100,hosts=2"), "alltoall")


def new_axes() -> Axes:
    figure = Figure(figsize=(8, 6), layout="constrained")
    FigureCanvasAgg(figure)
    return figure.subplots()


def draw(ax: Axes) -> None:
    FigureCanvasAgg(ax.figure.figure).draw()  # type: ignore[no-untyped-call]


def found(ax: Any, kind: type[Any], gid: str | None = None) -> list[Any]:
    return [child for child in ax.get_children() if isinstance(child, kind) and gid in (None, child.get_gid())]


def odd_machine() -> Topology:
    """Mathtext, markup, underscores in front, line breaks, other scripts, and a shared pool."""
    names = ("_$x_1$", r"a\$b$", "节点-with-a-name-that-goes-on-and-on", "here <b>&amp;", "{%}^_")
    nodes = tuple(Node(name, "gpu", host) for name, host in zip(names, ("$h_0$", "$h_0$", "é", "é", "é"), strict=True))
    nodes += (Node("__sw$", "switch", "$fab"),)
    links = [Link(f"${k}_{side}", *ends, 1e9) for k, name in enumerate(names) for side, ends in _ends(name)]
    pool = Resource("$root_complex", 1.5e9, tuple((link.id, 1.0) for link in links[:4]))
    return Topology("_odd $\\frac{1}{2}$ %s", nodes, tuple(links), (pool,))


def _ends(name: str) -> list[tuple[str, tuple[str, str]]]:
    return [("up", (name, "__sw$")), ("down", ("__sw$", name))]


def plan_plots() -> list[Callable[..., Axes]]:
    return [plot_topology, plot_splits, plot_utilisation]


# Axes in, axes out


@pytest.mark.parametrize("plot", plan_plots())
def test_given_axes_come_back(plot: Callable[..., Axes], dgx1: Schedule) -> None:
    ax = new_axes()
    assert plot(dgx1.plan, ax) is ax
    assert plot(dgx1.plan, ax=new_axes()).get_title(loc="left")
    assert not plt.get_fignums(), "given axes must not touch pyplot"


def test_given_axes_come_back_from_timeline_and_topology(dgx1: Schedule) -> None:
    ax, other = new_axes(), new_axes()
    assert plot_timeline(dgx1, ax) is ax
    assert plot_topology(dgx1.plan.topology, other) is other
    assert not plt.get_fignums()


@pytest.mark.parametrize("plot", [*plan_plots(), plot_timeline])
def test_without_axes_there_is_one_new_pyplot_figure(plot: Callable[..., Axes], dgx1: Schedule) -> None:
    ax = plot(dgx1 if plot is plot_timeline else dgx1.plan)
    assert ax.figure is plt.figure(plt.get_fignums()[0])
    assert len(plt.get_fignums()) == 1


def test_plots_leave_rc_settings_alone(dgx1: Schedule) -> None:
    before = dict(mpl.rcParams)
    figure_files(dgx1)
    assert dict(mpl.rcParams) == before


# Topology


def test_topology_draws_every_node_and_link(boxes: Schedule) -> None:
    topology = boxes.plan.topology
    ax = plot_topology(topology, new_axes())
    (lines,) = found(ax, LineCollection, "links")
    assert len(lines.get_segments()) == len(topology.links) == 96
    counts = {kind: len(found(ax, PatchCollection, kind)[0].get_paths()) for kind in ("gpu", "switch", "nic")}
    assert counts == Counter(node.kind for node in topology.nodes) == {"gpu": 16, "switch": 3, "nic": 16}
    legend = ax.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == [
        "GPU",
        "switch",
        "NIC",
        "nvlink 300 GB/s",
        "pcie 31 GB/s",
        "nic 25 GB/s",
    ]


def test_topology_links_carry_the_utilisation_of_the_plan(boxes: Schedule) -> None:
    ax = plot_topology(boxes.plan, new_axes())
    (lines,) = found(ax, LineCollection, "links")
    loads = boxes.plan.loads.set_index("resource")["utilisation"]
    assert np.allclose(lines.get_array(), [loads[link.id] for link in boxes.plan.topology.links])
    # 8 MB per rank: half of it (8/16) leaves the box over 25 GB/s NICs, 160 us; NVLink moves 7/16 over 300 GB/s.
    assert boxes.plan.time == pytest.approx(160e-6)
    assert sorted({round(value, 3) for value in lines.get_array()}) == [
        round(3.5e6 / 300e9 / 160e-6, 3),
        round(4e6 / 31e9 / 160e-6, 3),
        1.0,
    ]


def test_opposite_and_parallel_links_are_apart() -> None:
    topology = resolve("dgx1-v100")
    arcs = link_arcs(topology, layout(topology))
    middles = arcs[:, arcs.shape[1] // 2]
    apart = np.linalg.norm(middles[:, None] - middles[None], axis=2) + 10 * np.eye(len(middles))
    for k, pair in enumerate(topology.ends):
        same = [j for j, other in enumerate(topology.ends) if set(other) == set(pair) and j != k]
        assert apart[k, same].min() > 0.05


@pytest.mark.parametrize(
    "name",
    [
        "ring:3",
        "ring:16",
        "line:5",
        "line:30",
        "mesh2d:4x4",
        "torus2d:8x8",
        "torus3d:4x4x4",
        *(f"hypercube:{dim}" for dim in range(1, 7)),
        "fullmesh:8",
        "switch:2",
        "switch:64",
        "dgx1-v100",
        "dgx2",
        "mi250-16",
        "mi300x-8",
        "cluster:box=dgx-a100,hosts=8,fabric=rail",
        "cluster:box=mi250-16,hosts=4",
        "cluster:box=dgx1-v100,hosts=3",
        "cluster:box=ring:4,hosts=17",
    ],
)
def test_layouts_keep_nodes_apart(name: str) -> None:
    places = layout(resolve(name))
    apart = np.linalg.norm(places[:, None] - places[None], axis=2) + 10 * np.eye(len(places))
    assert np.isfinite(places).all()
    assert apart.min() > 2 * RADIUS
    assert np.array_equal(places, layout(resolve(name)))


def test_grids_look_like_grids_and_rings_like_rings() -> None:
    places = layout(resolve("mesh2d:3x5"))
    assert len(set(places[:, 0])) == 5
    assert len(set(places[:, 1])) == 3
    radius = np.linalg.norm(layout(resolve("ring:9")), axis=1)
    assert np.allclose(radius, radius[0], atol=1e-3)


def test_a_name_that_does_not_fit_its_nodes_is_no_shape() -> None:
    whole = resolve("mesh2d:2x3")
    cut = Topology(
        "mesh2d:2x3", whole.nodes[:4], tuple(k for k in whole.links if {k.src, k.dst} <= {"g0", "g1", "g2", "g3"})
    )
    assert len(layout(cut)) == 4


# Splits


def test_splits_have_one_bar_per_root_and_one_segment_per_route(dgx1: Schedule) -> None:
    plan = dgx1.plan
    ax = plot_splits(plan, new_axes())
    assert len(ax.patches) == len(plan.routes)
    assert len(ax.get_yticks()) == 8
    widths: dict[float, float] = {}
    patches: list[Any] = list(ax.patches)
    for bar in patches:
        row = bar.get_y() + bar.get_height() / 2
        widths[row] = widths.get(row, 0.0) + bar.get_width()
    assert len(widths) == 8
    assert list(widths.values()) == pytest.approx([1.0] * 8)
    drawn = sorted(bar.get_width() for bar in patches)
    assert drawn == pytest.approx(sorted(plan.splits["share"]))


def test_splits_of_an_allreduce_show_meeting_points() -> None:
    plan = solve(t := resolve("mesh2d:2x2"), make_demand(t, "allreduce", 8e6))
    bars, _ = split_bars(plan)
    assert sum(s.share for segments in bars.values() for s in segments) == pytest.approx(1.0)
    by_root = plan.splits.groupby("root")["share"].sum()
    assert {root: sum(s.share for s in segments) for root, segments in bars.items()} == pytest.approx(dict(by_root))


def test_splits_of_an_alltoall_show_kinds_of_paths(boxes: Schedule) -> None:
    ax = plot_splits(boxes.plan, new_axes())
    bars, _ = split_bars(boxes.plan)
    assert len(ax.patches) == 32
    # Of 15 equal messages 7 stay in the box and 8 leave it.
    for segments in bars.values():
        assert {s.group: s.share for s in segments} == pytest.approx({"nvlink": 7 / 15, "pcie + nic": 8 / 15})


def test_splits_of_a_scatter_show_destinations() -> None:
    plan = solve(t := resolve("line:4"), make_demand(t, "scatter", 8e6, root=0))
    bars, what = split_bars(plan)
    assert "destination" in what
    assert {bar: [s.group for s in segments] for bar, segments in bars.items()} == {
        1: ["net"],
        2: ["net via 1 GPU"],
        3: ["net via 2 GPUs"],
    }


def test_splits_of_too_many_roots_say_so() -> None:
    plan = solve(t := resolve("switch:70"), make_demand(t, "alltoall", 7e6))
    ax = plot_splits(plan, new_axes())
    assert len(ax.patches) == MOST_BARS
    assert "first 64 of 70" in ax.get_title(loc="left")


# Utilisation


def test_utilisation_cells_equal_the_loads(dgx1: Schedule) -> None:
    plan = dgx1.plan
    topology = plan.topology
    ax = plot_utilisation(plan, new_axes())
    (image,) = found(ax, AxesImage)
    cells = image.get_array()
    assert cells.shape == (8, 8)
    loads = plan.loads.set_index("resource")
    for a, b in {(link.src, link.dst) for link in topology.links}:
        ids = [link.id for link in topology.links if (link.src, link.dst) == (a, b)]
        want = loads.loc[ids, "bytes"].sum() / (1e9 * loads.loc[ids, "capacity_GBps"].sum() * plan.time)
        assert cells[topology.node_index[a], topology.node_index[b]] == pytest.approx(want)
    assert (~np.ma.getmaskarray(cells)).sum() == len(set(topology.ends))


def test_utilisation_outlines_what_binds(boxes: Schedule) -> None:
    plan = boxes.plan
    ax = plot_utilisation(plan, new_axes())
    (frames,) = found(ax, PatchCollection, "binding")
    pairs = {plan.topology.ends[plan.topology.link_index[name]] for name in plan.bottleneck}
    corners = {tuple(path.vertices[0] + 0.5) for path in frames.get_paths()}
    assert corners == {(float(col), float(row)) for row, col in pairs}


def test_utilisation_of_pools_is_a_strip() -> None:
    plan = solve(t := odd_machine(), make_demand(t, "allgather", 8e6))
    ax = plot_utilisation(plan, new_axes())
    (strip,) = ax.child_axes
    (image,) = found(strip, AxesImage)
    want = plan.loads.set_index("resource").loc["$root_complex", "utilisation"]
    assert image.get_array() == pytest.approx(np.array([[want]]))
    assert want == pytest.approx(1.0)
    assert len(found(strip, PatchCollection, "binding")) == 1


def test_utilisation_of_too_many_nodes_keeps_the_busiest() -> None:
    plan = solve(t := resolve("ring:200"), _far(t))
    ax = plot_utilisation(plan, new_axes())
    (image,) = found(ax, AxesImage)
    assert image.get_array().shape == (MOST_NODES, MOST_NODES)
    assert np.nanmax(utilisation_matrix(plan)) == pytest.approx(float(image.get_array().max()))
    assert f"{MOST_NODES} busiest of 200 nodes" in ax.get_title(loc="left")


def _far(topology: Topology) -> Any:
    return make_demand(topology, "broadcast", 8e6, ranks=[190, 191, 192, 193], root=190)


# Timeline


def test_timeline_has_a_bar_per_transfer_and_link(dgx1: Schedule) -> None:
    ax = plot_timeline(dgx1, new_axes())
    (bars,) = found(ax, PolyCollection, "transfers")
    assert len(bars.get_paths()) == sum(len(t.links) for t in dgx1.transfers)
    assert ax.get_xlim()[1] >= dgx1.simulated * 1e6
    capacity = [link.capacity for link in dgx1.plan.topology.links]
    for use, path in zip(link_uses(dgx1), bars.get_paths(), strict=True):
        transfer = dgx1.transfers[use.transfer]
        left, right = path.vertices[:, 0].min(), path.vertices[:, 0].max()
        assert left == pytest.approx(dgx1.starts[use.transfer] * 1e6)
        assert right - left == pytest.approx(1e6 * transfer.count * dgx1.chunk_bytes / capacity[use.link])


def test_timeline_colours_are_those_of_the_roots(dgx1: Schedule) -> None:
    ax = plot_timeline(dgx1, new_axes())
    (bars,) = found(ax, PolyCollection, "transfers")
    colour_of: dict[int, set[str]] = {}
    for use, colour in zip(link_uses(dgx1), bars.get_facecolor(), strict=True):
        root = dgx1.routes[dgx1.transfers[use.transfer].route].root
        colour_of.setdefault(root, set()).add(to_hex(colour))
    assert sorted(colour_of) == list(range(8))
    assert all(len(tones) == 1 for tones in colour_of.values())
    assert len({tone for tones in colour_of.values() for tone in tones}) == 8


def test_timeline_uses_of_a_link_do_not_overlap(boxes: Schedule) -> None:
    uses: dict[int, list[tuple[float, float]]] = {}
    for use in link_uses(boxes):
        uses.setdefault(use.link, []).append((use.start, use.end))
        assert boxes.starts[use.transfer] <= use.start
        assert use.end <= boxes.arrivals[use.transfer] + 1e-12
    for spans in uses.values():
        spans.sort()
        assert all(a[1] <= b[0] + 1e-12 for a, b in pairwise(spans))


def test_timeline_marks_the_four_times(dgx1: Schedule) -> None:
    ax = plot_timeline(dgx1, new_axes())
    at = {str(line.get_label()).split()[0]: float(np.asarray(line.get_xdata())[0]) for line in ax.lines}
    want = {"bound": dgx1.plan.bound, "plan": dgx1.plan.time, "quantised": dgx1.quantized, "simulated": dgx1.simulated}
    assert at == pytest.approx({name: 1e6 * time for name, time in want.items()})
    legend = ax.get_legend()
    assert legend is not None
    assert [text.get_text().split()[-1] for text in legend.get_texts()] == ["us"] * 4


def test_timeline_of_too_many_links_says_so(boxes: Schedule) -> None:
    ax = plot_timeline(boxes, new_axes())
    assert "64 busiest of 96 used links" in ax.get_title(loc="left")
    (bars,) = found(ax, PolyCollection, "transfers")
    counts = Counter(link for t in boxes.transfers for link in t.links)
    links = boxes.plan.topology.links
    busiest = sorted(counts, key=lambda k: (-float(f"{counts[k] / links[k].capacity:.6g}"), k))[:MOST_ROWS]
    assert len(bars.get_paths()) == sum(counts[k] for k in busiest)


# Files


def digests(schedule: Schedule) -> dict[str, str]:
    return {name: hashlib.sha256(data).hexdigest() for name, data in figure_files(schedule).items()}


def sample() -> list[dict[str, str]]:
    """Springs and pools, trees and paths, one meeting point or many."""
    return [
        digests(schedule_of(resolve("mi250-16"), "broadcast")),
        digests(schedule_of(resolve("cluster:box=ring:4,hosts=2"), "alltoall")),
        digests(schedule_of(odd_machine(), "allreduce")),
    ]


SCRIPT = """
import json, locale
from tests.export.plots.test_plots import sample
try:
    locale.setlocale(locale.LC_ALL, "")
except locale.Error:
    pass
print(json.dumps(sample()))
"""


def test_files_are_the_same_bytes_in_another_process() -> None:
    env = {**os.environ, "PYTHONHASHSEED": "4242", "LC_ALL": "de_DE.UTF-8", "TZ": "Asia/Tokyo", "MPLBACKEND": "svg"}
    run = subprocess.run([sys.executable, "-c", SCRIPT], env=env, capture_output=True, text=True, check=True)
    here = sample()
    assert json.loads(run.stdout) == here
    assert [list(files) for files in here] == [FILES] * 3


def test_files_do_not_depend_on_the_users_style(dgx1: Schedule) -> None:
    plain = digests(dgx1)
    with mpl.rc_context({"font.size": 20.0, "axes.grid": True, "axes.facecolor": "black", "savefig.dpi": 30}):
        assert digests(dgx1) == plain


def test_files_are_png_without_metadata(dgx1: Schedule) -> None:
    for data in figure_files(dgx1).values():
        assert data.startswith(b"\x89PNG\r\n\x1a\n")
        assert b"Software" not in data
        assert b"matplotlib" not in data
        assert b"tIME" not in data
    assert not plt.get_fignums()


def test_overview_has_four_panels_and_shows_itself(dgx1: Schedule) -> None:
    figure = overview(dgx1)
    titles = [ax.get_title(loc="left") for ax in figure.axes if ax.get_title(loc="left")]
    assert len(titles) == 4
    assert not plt.get_fignums()
    shown: Any = figure
    assert shown._repr_png_().startswith(b"\x89PNG")


# Odd inputs


@pytest.mark.parametrize("collective", ["allgather", "reducescatter", "allreduce", "alltoall", "broadcast", "gather"])
def test_odd_names_are_drawn_as_they_are(collective: str) -> None:
    schedule = schedule_of(odd_machine(), collective)
    assert list(figure_files(schedule)) == FILES
    draw(plot_topology(schedule.plan.topology, new_axes()))


def test_labels_are_short_and_literal() -> None:
    assert label("a_$b$") == r"a_\$b\$"
    assert label("x" * 30, 9) == "xxxx…xxxx"
    assert len(label("h0.gpu-with-number-17", 10)) == 10
    assert label("h0.gpu-with-number-17", 10).endswith("17")
    assert label("节\n\t") == "□□□"


def test_nothing_to_move() -> None:
    for topology in (resolve("ring:1"), Topology("one", (Node("$a_$", "gpu"),), ())):
        schedule = make_schedule(solve(topology, make_demand(topology, "allgather", 8e6)))
        assert schedule.plan.time == 0
        assert list(figure_files(schedule)) == FILES
        assert not plot_splits(schedule.plan, new_axes()).patches
        assert not found(plot_timeline(schedule, new_axes()), PolyCollection)
        draw(plot_topology(topology, new_axes()))


def test_nothing_to_move_on_idle_links() -> None:
    topology = resolve("mesh2d:2x2")
    plan = solve(topology, make_demand(topology, "allgather", 8e6, ranks=[1]))
    cells = utilisation_matrix(plan)
    assert np.nansum(cells) == 0
    assert np.isfinite(cells).sum() == len(set(topology.ends))
    assert list(figure_files(make_schedule(plan))) == FILES


@given(topologies(plain_names=False))
# No shrinking: a picture takes a tenth of a second, and a thousand of them five minutes.
@settings(max_examples=6, deadline=None, phases=[Phase.explicit, Phase.generate])
def test_any_machine_can_be_drawn(topology: Topology) -> None:
    plan = solve(topology, make_demand(topology, "alltoall", 8e6))
    for plot in plan_plots():
        draw(plot(plan, new_axes()))
    ax = plot_topology(topology, new_axes())
    draw(ax)
    assert len(found(ax, LineCollection, "links")[0].get_segments()) == len(topology.links)
