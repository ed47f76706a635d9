"""Hypothesis strategies that several test modules use."""

from __future__ import annotations

from hypothesis import strategies as st

from synth.topology import Link, Node, Resource, Topology
from synth.topology.elements import LINK_KINDS

#: Awkward on purpose: blanks, quotes, numbers, a colon, other scripts.
_NAMES = ("a-b", "a_b", "a b", "10", "2", "it's", "g:fwd", "GPU 7", "é", "节点", 'say "x"')


def bandwidths() -> st.SearchStrategy[float]:
    """Bytes/second: round ones mostly, and any double in a sane range."""
    round_ones = st.sampled_from((1e9, 5e9, 10e9, 12.5e9, 25e9, 50e9, 100e9, 300e9))
    return round_ones | st.floats(min_value=1e6, max_value=1e13, allow_nan=False)


def latencies() -> st.SearchStrategy[float]:
    """Seconds."""
    return st.sampled_from((0.0, 0.7e-6, 1e-6, 2.6e-6)) | st.floats(min_value=0, max_value=1e-3)


def node_names() -> st.SearchStrategy[str]:
    """Ids that print on one line."""
    alphabet = st.characters(codec="utf-8", exclude_categories=("C", "Z"))
    return st.sampled_from(_NAMES) | st.text(alphabet, min_size=1, max_size=5)


@st.composite
def topologies(
    draw: st.DrawFn,
    *,
    min_gpus: int = 2,
    max_gpus: int = 7,
    switches: bool = True,
    pools: bool = True,
    connected: bool = True,
    relays: bool = True,
    plain_names: bool = True,
) -> Topology:
    """Small machines with parallel links, asymmetric capacities, switches and shared pools.

    Parameters
    ----------
    draw
        Given by Hypothesis.
    min_gpus, max_gpus
        Limits of the number of GPUs.
    switches
        Whether there may be up to two switches.
    pools
        Whether there may be up to two shared resources.
    connected
        Whether every GPU surely reaches every other one; otherwise nothing is promised.
    relays
        Whether every GPU relays; otherwise some may not, and ``connected`` then holds through one switch.
    plain_names
        Whether ids are ``g0``, ``s0``, ... rather than awkward texts.
    """
    count = draw(st.integers(min_gpus, max_gpus))
    through = draw(st.integers(0, 2)) if switches else 0
    if connected and not relays:
        through = max(through, 1)
    names = [f"g{i}" for i in range(count)] + [f"s{i}" for i in range(through)]
    if not plain_names:
        names = draw(st.lists(node_names(), min_size=len(names), max_size=len(names), unique=True))
    gpus = tuple(Node(name, "gpu", relay=relays or draw(st.booleans())) for name in names[:count])
    nodes = (*gpus, *(Node(name, "switch") for name in names[count:]))
    pairs = draw(_edges(len(nodes), count, connected, relays))
    links = tuple(
        Link(
            f"l{i}",
            names[src],
            names[dst],
            draw(bandwidths()),
            draw(latencies()),
            draw(st.sampled_from(LINK_KINDS)),
            draw(st.sampled_from((1.0, 1.0, 0.8, 0.9266))),
        )
        for i, (src, dst) in enumerate(pairs)
    )
    resources = draw(_pools(tuple(link.id for link in links))) if pools and links else ()
    return Topology("random", nodes, links, resources)


@st.composite
def _edges(draw: st.DrawFn, nodes: int, gpus: int, connected: bool, relays: bool) -> list[tuple[int, int]]:
    """Ordered pairs of different nodes, some of them twice."""
    anyone = st.integers(0, nodes - 1)
    if nodes < 2:
        return []
    pairs = draw(
        st.lists(st.tuples(anyone, anyone).filter(lambda pair: pair[0] != pair[1]), max_size=2 * nodes, unique=False)
    )
    if connected and relays:
        tour = draw(st.permutations(range(nodes)))
        pairs += [(tour[i], tour[(i + 1) % nodes]) for i in range(nodes)]
    elif connected:
        hub = gpus  # the first switch
        pairs += [edge for gpu in range(gpus) for edge in ((gpu, hub), (hub, gpu))]
    return pairs


@st.composite
def _pools(draw: st.DrawFn, links: tuple[str, ...]) -> tuple[Resource, ...]:
    pools = []
    for i in range(draw(st.integers(0, 2))):
        users = draw(st.lists(st.sampled_from(links), min_size=1, max_size=4, unique=True))
        uses = tuple((link, draw(st.sampled_from((1.0, 2.0, 1.2)))) for link in users)
        pools.append(Resource(f"p{i}", draw(bandwidths()), uses))
    return tuple(pools)
