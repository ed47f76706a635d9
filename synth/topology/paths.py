"""Path kinds: what a transfer between two GPUs goes through, and topologies with some kinds turned off.

A hop (from GPU to GPU through no other GPU) is judged by all its links and vertices: through a NIC or the network it is
a NIC path, else through host memory it is host-staged, else over PCIe or between sockets it is a PCIe peer path, else
a scale-up path, direct or through a switch.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from types import MappingProxyType
from typing import Literal, get_args

from synth.errors import InvalidInputError
from synth.topology.elements import Resource
from synth.topology.model import Topology

#: Direct link; relay through a GPU; through scale-up switches; PCIe peer; staged in host memory; through NICs.
PathKind = Literal["direct", "relay", "switch", "pcie", "host", "nic"]
#: What ``--paths`` turns on and off, and the path kinds of each.
PathGroup = Literal["nvlink", "pcie", "host", "nic"]
PATH_GROUPS: tuple[PathGroup, ...] = get_args(PathGroup)
_GROUP: Mapping[str, PathGroup] = MappingProxyType(
    {"direct": "nvlink", "relay": "nvlink", "switch": "nvlink", "pcie": "pcie", "host": "host", "nic": "nic"}
)


def parse_groups(text: str) -> frozenset[PathGroup]:
    """Groups of ``nvlink,pcie,host,nic``.

    Raises
    ------
    InvalidInputError
        An unknown group, or none.
    """
    names = [part.strip() for part in text.split(",") if part.strip()]
    wrong = [name for name in names if name not in PATH_GROUPS]
    if wrong or not names:
        what = f"unknown path kind {', '.join(map(repr, wrong))}" if wrong else "no path kind is left"
        raise InvalidInputError(f"--paths {text!r}: {what}; use any of {', '.join(PATH_GROUPS)}")
    return frozenset(group for group in PATH_GROUPS if group in names)


def path_kind(topology: Topology, links: Sequence[int]) -> PathKind:
    """Kind of a path between two GPUs.

    Parameters
    ----------
    links
        Link indices in order; a path that passes other GPUs on its way is a relay.

    Raises
    ------
    InvalidInputError
        The links are no path from a GPU to a GPU.
    """
    ends = [topology.ends[link] for link in links]
    broken = any(a[1] != b[0] for a, b in pairwise(ends))
    if not ends or broken or ends[0][0] not in topology.rank_of or ends[-1][1] not in topology.rank_of:
        raise InvalidInputError(f"links {[topology.links[k].id for k in links]} are no path from a GPU to a GPU")
    if any(end in topology.rank_of for _, end in ends[:-1]):
        return "relay"
    state = max(_link_group(topology, link) for link in links)
    group = PATH_GROUPS[state]
    if group != "nvlink":
        return group
    return "direct" if len(links) == 1 else "switch"


def group_of(kind: PathKind) -> PathGroup:
    """Group of a path kind. A relay's group is that of its hops; as a whole it counts as scale-up."""
    return _GROUP[kind]


def link_group(topology: Topology, link: int) -> PathGroup:
    """Group that a path over a link (index) belongs to, if none of its other links is of a later group."""
    return PATH_GROUPS[_link_group(topology, link)]


def _link_group(topology: Topology, link: int) -> int:
    """Position in ``PATH_GROUPS`` of the group that a link makes its path belong to."""
    entry = topology.links[link]
    kinds = {topology.nodes[end].kind for end in topology.ends[link]}
    if "nic" in kinds or entry.kind == "nic":
        return PATH_GROUPS.index("nic")
    if "memory" in kinds or entry.kind == "memory":
        return PATH_GROUPS.index("host")
    if "cpu" in kinds or entry.kind in ("pcie", "socket"):
        return PATH_GROUPS.index("pcie")
    return PATH_GROUPS.index("nvlink")


_State = tuple[int, int]  # node, group of the links so far


def select_paths(topology: Topology, groups: Collection[PathGroup]) -> Topology:
    """The topology with only the paths of some groups.

    Links that lie on no such path go, with the vertices and the shares of resources that only they used. NIC paths may
    still cross PCIe when ``pcie`` is off: groups are about paths, not about links.

    Raises
    ------
    InvalidInputError
        Links of the wanted paths also make an unwanted path, so that no subset of links is right.
    """
    wanted = frozenset(PATH_GROUPS.index(group) for group in groups)
    if len(wanted) == len(PATH_GROUPS):
        return topology
    steps = [(*topology.ends[k], _link_group(topology, k)) for k in range(len(topology.links))]
    keep = _useful(topology, steps, wanted)
    stray = _stray(topology, [step for step, kept in zip(steps, keep, strict=True) if kept], wanted)
    if stray is not None:
        node, group = topology.nodes[stray[0]].id, PATH_GROUPS[stray[1]]
        raise InvalidInputError(
            f"{topology.name}: paths cannot be told apart: without {group} paths GPU {node!r} would still be reached "
            f"by one, over links that {', '.join(groups)} paths need; give {group} paths vertices of their own"
        )
    return without_links(topology, keep)


def _useful(topology: Topology, steps: Sequence[tuple[int, int, int]], wanted: Collection[int]) -> list[bool]:
    """Per link, whether it lies on a hop of a wanted group."""
    ahead = _forward(topology, steps)
    before: dict[_State, set[_State]] = defaultdict(set)
    for a, b, group in steps:
        for state in ahead.get(a, ()):
            if _open(topology, a, state):
                before[b, max(state, group)].add((a, state))
    good = {(gpu, state) for gpu in topology.gpus for state in ahead.get(gpu, ()) if state in wanted}
    queue = deque(good)
    while queue:
        earlier = before[queue.popleft()] - good
        good |= earlier
        queue.extend(earlier)
    return [
        any(_open(topology, a, s) and (b, max(s, group)) in good and (a, s) in good for s in ahead.get(a, ()))
        for a, b, group in steps
    ]


_START = -1


def _open(topology: Topology, node: int, state: int) -> bool:
    """Whether a hop may go on from here: from a GPU only if it starts there."""
    return (state == _START) == (node in topology.rank_of)


def _forward(topology: Topology, steps: Sequence[tuple[int, int, int]]) -> dict[int, set[int]]:
    """Per node, the groups of the ways from any GPU to it through no other GPU."""
    out: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for a, b, group in steps:
        out[a].append((b, group))
    reached: dict[int, set[int]] = defaultdict(set)
    queue: deque[_State] = deque((gpu, _START) for gpu in topology.gpus)
    while queue:
        node, state = queue.popleft()
        if state in reached[node]:
            continue
        reached[node].add(state)
        if _open(topology, node, state):
            queue.extend((b, max(state, group)) for b, group in out[node])
    return reached


def _stray(topology: Topology, steps: Sequence[tuple[int, int, int]], wanted: Collection[int]) -> _State | None:
    """A GPU that an unwanted hop reaches, and that hop's group."""
    ahead = _forward(topology, steps)
    arrivals = ((gpu, state) for gpu in topology.gpus for state in sorted(ahead.get(gpu, ())))
    return next(((gpu, state) for gpu, state in arrivals if state != _START and state not in wanted), None)


def without_links(topology: Topology, keep: Iterable[bool]) -> Topology:
    """The topology with some links only (one flag per link), and without vertices that have none, GPUs excepted."""
    links = tuple(link for link, kept in zip(topology.links, keep, strict=True) if kept)
    left = {link.id for link in links}
    ends = {end for link in links for end in (link.src, link.dst)}
    nodes = tuple(node for node in topology.nodes if node.kind == "gpu" or node.id in ends)
    names = {node.id for node in nodes}
    return replace(
        topology,
        nodes=nodes,
        links=links,
        resources=tuple(_left_resources(topology.resources, left)),
        symmetry=tuple(hint for hint in topology.symmetry if all({a, b} <= names for a, b in hint)),
    )


def _left_resources(resources: Iterable[Resource], left: Collection[str]) -> Iterator[Resource]:
    for pool in resources:
        uses = tuple((link, times) for link, times in pool.uses if link in left)
        if uses:
            yield replace(pool, uses=uses)
