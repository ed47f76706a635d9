"""Topologies from other tools' files: SimAI/ns-3 text and plain-number JSON instances.

GPU ids are the numbers of the file as text, so a rank is found again in the file it came from.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from synth.errors import InvalidInputError
from synth.files.faults import validate
from synth.files.json_text import Document, read_json, read_text
from synth.ground.units import parse_bandwidth, parse_time
from synth.topology.elements import Link, LinkKind, Node
from synth.topology.model import Topology
from synth.topology.shapes import both_ways

_HEADER = "node_num gpus_per_server nvswitch_num switch_num link_num gpu_type, and perhaps ngpus_per_node"
_Row = tuple[int, list[str]]


class _PlainInstance(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    name: str = Field(description="a text")
    num_nodes: Annotated[int, Field(ge=1, description="the number of nodes")]
    switches: list[Annotated[int, Field(ge=0)]] = Field(description="a list of node numbers")
    links: list[Annotated[list[Annotated[float, Field(ge=0, allow_inf_nan=False)]], Field(min_length=4, max_length=4)]]
    note: str = ""
    units: Literal["GB/s (1e9), microseconds"]


def import_plain_instance(path: Path | str) -> Topology:
    """Read a JSON instance with ``num_nodes``, ``switches`` and ``links`` of ``[src, dst, GB/s, microseconds]``.

    Parameters
    ----------
    path
        The file. Node numbers become ids; ``switches`` become switches, all others GPUs; a second link between the
        same nodes gets ``.1`` behind its id ``src-dst``.

    Returns
    -------
    Topology
        Links of bandwidth zero are left out with a note.

    Raises
    ------
    InvalidInputError
        All faults of the file at once, each with its place.
    """
    return plain_topology(read_json(Path(path)))


def plain_topology(document: Document) -> Topology:
    """Topology of a parsed plain-number instance; errors as :func:`import_plain_instance`."""
    path = Path(document.file)
    parsed, faults = validate(document, _PlainInstance, {})
    if parsed is not None:
        for i, link in enumerate(parsed.links):
            faults += (f"{document.place('links', i)}: {fault}" for fault in _plain_link_faults(link, parsed.num_nodes))
        for i, number in enumerate(parsed.switches):
            if number >= parsed.num_nodes:
                faults.append(f"{document.place('switches', i)}: {_out_of_range(number, parsed.num_nodes)}")
    if faults or parsed is None:
        raise InvalidInputError(sorted(dict.fromkeys(faults), key=document.line_of))
    switches = frozenset(parsed.switches)
    nodes = tuple(Node(str(i), "switch" if i in switches else "gpu") for i in range(parsed.num_nodes))
    links, notes = _without_dead(_plain_links(parsed))
    source = f"{path.name}: {parsed.note}" if parsed.note else path.name
    return _built(path, lambda: Topology(parsed.name, nodes, links, source=source, notes=notes))


def _plain_link_faults(link: list[float], nodes: int) -> Iterator[str]:
    for end in link[:2]:
        if not end.is_integer() or end >= nodes:
            yield _out_of_range(end, nodes)
    if link[0] == link[1]:
        yield f"joins node {link[0]:g} to itself; a link joins two different nodes"


def _plain_links(parsed: _PlainInstance) -> Iterator[Link]:
    seen: Counter[str] = Counter()
    for src, dst, rate, delay in parsed.links:
        name = f"{int(src)}-{int(dst)}"
        again = f".{seen[name]}" if seen[name] else ""
        seen[name] += 1
        # Through text, so that 0.7 us is the double nearest to 0.7e-6 and not 0.7 * 1e-6.
        bandwidth, latency = parse_bandwidth(f"{rate!r} GB/s"), parse_time(f"{delay!r} us")
        yield Link(name + again, str(int(src)), str(int(dst)), bandwidth, latency)


def import_simai_text(path: Path | str) -> Topology:
    """Read a SimAI/ns-3 text topology.

    The first line is the header ``node_num gpus_per_server nvswitch_num switch_num link_num gpu_type`` (a seventh
    number is not used), then the ids of NVSwitches and of switches, then one line ``src dst bandwidth delay
    error_rate`` per cable. ns-3 cables carry both ways at once, so each becomes ``src-dst:fwd`` and ``src-dst:rev``.

    Parameters
    ----------
    path
        The file.

    Returns
    -------
    Topology
        Hosts are ``gpus_per_server`` consecutive GPUs; a loss rate above zero is in the notes, nothing models it.

    Raises
    ------
    InvalidInputError
        All faults of the file at once, each with its line: above all a header that does not count what follows.
    """
    path = Path(path)
    text = read_text(path)
    rows = [(i, line.split()) for i, line in enumerate(text.split("\n"), start=1) if line.strip()]
    header = _read_header(path, rows)
    body = _Body(path, header)
    ids, rest = _switch_ids(rows[1:], header)
    body.check_ids(ids)
    for row in rest:
        body.read_cable(row)
    if len(rest) != header.links:
        body.fault(rows[0][0], f"the header says {header.links} links, the body has {len(rest)}")
    if body.faults:
        raise InvalidInputError(body.faults)
    switches = [int(name) for name in ids]
    nodes = _simai_nodes(header, frozenset(switches[: header.nvswitches]), frozenset(switches), body.links)
    links, notes = _without_dead(iter(body.links))
    source = f"{path.name} (SimAI/ns-3 text, GPU type {header.gpu_type})"
    return _built(path, lambda: Topology(path.name, nodes, links, source=source, notes=(*notes, *body.notes)))


@dataclass(frozen=True, slots=True)
class _Header:
    nodes: int
    gpus_per_server: int
    nvswitches: int
    switches: int
    links: int
    gpu_type: str


def _read_header(path: Path, rows: list[_Row]) -> _Header:
    line, tokens = rows[0] if rows else (1, [])
    if len(tokens) not in (6, 7) or not all(_is_count(token) for token in tokens[:5] + tokens[6:]):
        raise InvalidInputError(f"{path}:{line}: {' '.join(tokens)!r} is not a header; needed: {_HEADER}")
    nodes, per_server, nvswitches, switches, links = (int(token) for token in tokens[:5])
    if nodes <= nvswitches + switches or per_server == 0:
        raise InvalidInputError(
            f"{path}:{line}: {nodes} nodes with {nvswitches} NVSwitches and {switches} switches and {per_server} "
            "GPUs per server leave no GPU; the first number counts all nodes"
        )
    return _Header(nodes, per_server, nvswitches, switches, links, tokens[5])


def _is_count(token: str) -> bool:
    return re.fullmatch("[0-9]{1,9}", token) is not None


def _switch_ids(rows: list[_Row], header: _Header) -> tuple[list[str], list[_Row]]:
    """Ids of all switches, which may stand in one line or in two, and the lines that follow."""
    ids: list[str] = []
    at = 0
    while len(ids) < header.nvswitches + header.switches and at < len(rows):
        if not all(_is_count(token) for token in rows[at][1]):
            break
        ids += rows[at][1]
        at += 1
    return ids, rows[at:]


class _Body:
    """What the lines after the header say, with the faults found on the way."""

    def __init__(self, path: Path, header: _Header) -> None:
        self.path = path
        self.header = header
        self.links: list[Link] = []
        self.faults: list[str] = []
        self.notes: list[str] = []
        self._nvswitches: frozenset[str] = frozenset()
        self._switches: frozenset[str] = frozenset()
        self._seen: Counter[str] = Counter()

    def fault(self, line: int, reason: str) -> None:
        self.faults.append(f"{self.path}:{line}: {reason}")

    def check_ids(self, ids: list[str]) -> None:
        """Switch ids: as many as the header says, within range, each once."""
        header = self.header
        wanted = header.nvswitches + header.switches
        if len(ids) != wanted:
            self.fault(2, f"the header says {wanted} NVSwitches and switches, {len(ids)} ids follow")
        for name, times in Counter(ids).items():
            if int(name) >= header.nodes:
                self.fault(2, f"switch {_out_of_range(int(name), header.nodes)}")
            if times > 1:
                self.fault(2, f"switch {name} is listed {times} times")
        self._nvswitches = frozenset(ids[: header.nvswitches])
        self._switches = frozenset(ids)

    def read_cable(self, row: _Row) -> None:
        """Read one line ``src dst bandwidth delay error_rate``."""
        line, tokens = row
        if len(tokens) != 5:
            self.fault(
                line, f"{' '.join(tokens)!r} has {len(tokens)} fields; needed: src dst bandwidth delay error_rate"
            )
            return
        src, dst = tokens[:2]
        before = len(self.faults)
        for end in (src, dst):
            if not _is_count(end) or int(end) >= self.header.nodes:
                self.fault(line, _out_of_range(end, self.header.nodes))
        if src == dst:
            self.fault(line, f"joins node {src} to itself; a link joins two different nodes")
        bandwidth = self._number(line, tokens[2], parse_bandwidth)
        latency = self._number(line, tokens[3], parse_time)
        loss = self._number(line, tokens[4], _read_share)
        if len(self.faults) > before:
            return
        name = f"{int(src)}-{int(dst)}"
        again = f".{self._seen[name]}" if self._seen[name] else ""
        self._seen[name] += 1
        if loss > 0:
            self.notes.append(f"link {name + again!r} has error rate {tokens[4]}, which is not modelled")
        self.links += both_ways(name + again, str(int(src)), str(int(dst)), bandwidth, latency, self._kind(src, dst))

    def _number(self, line: int, token: str, parse: Callable[[object], float]) -> float:
        try:
            return parse(token)
        except InvalidInputError as error:
            self.fault(line, str(error))
            return 0.0

    def _kind(self, src: str, dst: str) -> LinkKind:
        """NVLink to an NVSwitch, NIC from a GPU to any other switch, network between two switches or two GPUs."""
        if {src, dst} & self._nvswitches:
            return "nvlink"
        return "nic" if len({src, dst} & self._switches) == 1 else "net"


def _read_share(value: object) -> float:
    if not isinstance(value, str) or not re.fullmatch(r"[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?", value):
        raise InvalidInputError(f"{value!r} is not an error rate; write a number from 0 to 1")
    if float(value) > 1:
        raise InvalidInputError(f"{value!r} is not an error rate, it is above 1; write a number from 0 to 1")
    return float(value)


def _simai_nodes(
    header: _Header, nvswitches: frozenset[int], switches: frozenset[int], links: list[Link]
) -> tuple[Node, ...]:
    """Nodes in the file's numbering; an NVSwitch is on the host of the GPUs it serves."""
    gpus = [i for i in range(header.nodes) if i not in switches]
    hosts = {str(gpu): f"h{k // header.gpus_per_server}" for k, gpu in enumerate(gpus)}
    for link in links:
        if int(link.dst) in nvswitches and link.src in hosts:
            hosts.setdefault(link.dst, hosts[link.src])
    names = [str(i) for i in range(header.nodes)]
    return tuple(Node(k, "switch" if int(k) in switches else "gpu", hosts.get(k, "fabric")) for k in names)


def _out_of_range(number: object, nodes: int) -> str:
    shown = f"{number:g}" if isinstance(number, float) else str(number)
    return f"node {shown} is not declared; nodes are 0 to {nodes - 1}"


def _without_dead(links: Iterator[Link]) -> tuple[tuple[Link, ...], tuple[str, ...]]:
    """Links that carry something, and a note for each that does not."""
    every = list(links)
    notes = tuple(f"link {link.id!r} has bandwidth 0 and is left out" for link in every if link.bandwidth == 0)
    return tuple(link for link in every if link.bandwidth > 0), notes


def _built(path: Path, make: Callable[[], Topology]) -> Topology:
    """Topology whose faults name the file."""
    try:
        return make()
    except InvalidInputError as error:
        raise InvalidInputError(f"{path}: {fault}" for fault in error.faults) from None
