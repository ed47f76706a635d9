"""Small transfers for the tests of the studies: two GPUs and parallel links of given kinds, with shared pools."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from synth.study import Change, PathSet, find_paths
from synth.topology import Link, Node, Resource, Topology, resolve
from tests import places

H800 = places.ROOT / "instances" / "study" / "h800-pair.json"
#: Link kind of a parallel link g0 -> g1 and the kind of path that it makes.
KINDS = (("nvlink", "direct"), ("pcie", "pcie"), ("memory", "host"), ("nic", "nic"))


def h800_paths() -> PathSet:
    return find_paths(resolve(str(H800)), 0, 1)


def parallel(
    rates: Sequence[float], latencies: Sequence[float] = (), pools: Sequence[tuple[float, dict[int, float]]] = ()
) -> PathSet:
    """Links ``l0``, ``l1``, ... from g0 to g1: NVLink, PCIe, memory, NIC in turn; pools ``p0``, ... share them."""
    late = list(latencies) or [0.0] * len(rates)
    links = tuple(
        Link(f"l{k}", "g0", "g1", rate, late[k], KINDS[k % 4][0])  # type: ignore[arg-type]
        for k, rate in enumerate(rates)
    )
    shared = tuple(
        Resource(f"p{k}", rate, tuple((f"l{i}", times) for i, times in uses.items()))
        for k, (rate, uses) in enumerate(pools)
    )
    nodes = (Node("g0", "gpu"), Node("g1", "gpu"))
    return find_paths(Topology("parallel", nodes, links, shared), 0, 1)


@st.composite
def transfers(draw: st.DrawFn, latency: bool = True, pools: bool = True) -> tuple[PathSet, list[Change]]:
    """Two to four parallel paths (rates of 1 to 50 MB/s), some in shared pools, and up to four changes within 0.2 s."""
    count = draw(st.integers(2, 4))
    rates = [1e6 * draw(st.integers(1, 50)) for _ in range(count)]
    late = [draw(st.sampled_from((0.0, 1e-4, 3e-3))) if latency else 0.0 for _ in range(count)]
    shared = []
    for _ in range(draw(st.integers(0, 2)) if pools else 0):
        users = draw(st.lists(st.integers(0, count - 1), min_size=1, max_size=count, unique=True))
        shared.append((1e6 * draw(st.integers(5, 60)), {k: draw(st.sampled_from((1.0, 2.0, 1.2))) for k in users}))
    paths = parallel(rates, late, shared)
    names = st.sampled_from(paths.network.row_ids)
    change = st.builds(Change, st.floats(0, 0.2), names, st.floats(0.3, 1.2))
    return paths, draw(st.lists(change, max_size=4))
