"""ASTRA-sim's analytical ``network.yml``: lists of topology, npus_count, bandwidth and latency per dimension."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path

import yaml

from synth.errors import InvalidInputError
from synth.files.json_text import read_text
from synth.ground.units import parse_bandwidth, parse_time
from synth.topology.elements import Link, Node
from synth.topology.model import Topology
from synth.topology.shapes import both_ways

_KEYS = ("topology", "npus_count", "bandwidth", "latency")
_BLOCKS = ("Ring", "FullyConnected", "Switch")
_MOST = 65536


def astra_topology(path: Path) -> Topology:
    """Topology of all dimensions: GPU ``g{i}`` has coordinates with the first dimension fastest.

    A dimension's ``bandwidth`` (GB/s) and ``latency`` (ns) are those of each of its links, as in the analytical
    backend: a ring's links to both neighbours, one link to each other GPU, or one port on a switch.

    Raises
    ------
    InvalidInputError
        Not YAML, a list that is missing or has another length, an unknown block, numbers out of range.
    """
    dimensions = _dimensions(path)
    total = math.prod(count for _, count, _, _ in dimensions)
    if total > _MOST:
        raise InvalidInputError(f"{path}: npus_count: {total} NPUs together, {_MOST} is the most")
    nodes = [Node(f"g{i}", "gpu") for i in range(total)]
    links: list[Link] = []
    stride = 1
    for axis, (block, count, bandwidth, latency) in enumerate(dimensions):
        for start in (i for i in range(total) if i // stride % count == 0):
            row = [start + k * stride for k in range(count)]
            if block == "Switch":
                switch = f"sw{axis}.{start}"
                nodes.append(Node(switch, "switch"))
                pairs = [(f"g{i}", switch) for i in row]
            else:
                pairs = [(f"g{a}", f"g{b}") for a, b in _pairs(block, row)]
            for a, b in pairs:
                links += both_ways(f"{a}-{b}.{axis}", a, b, bandwidth, latency)
        stride *= count
    return Topology(path.stem, tuple(nodes), tuple(links), source=f"{path.name} (ASTRA-sim network.yml)")


def _pairs(block: str, row: list[int]) -> Iterator[tuple[int, int]]:
    n = len(row)
    if block == "FullyConnected":
        yield from ((a, b) for a, b in product(row, row) if a < b)
    elif n == 2:
        yield row[0], row[1]
    elif n > 2:
        yield from ((row[i], row[(i + 1) % n]) for i in range(n))


def _dimensions(path: Path) -> list[tuple[str, int, float, float]]:
    try:
        value = yaml.safe_load(read_text(path))
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        place = f"{path}:{mark.line + 1}" if mark is not None else str(path)
        reason = (getattr(error, "problem", None) or str(error) or "nested too deep").splitlines()[0]
        raise InvalidInputError(f"{place}: not YAML: {reason}") from None
    if not isinstance(value, dict):
        raise InvalidInputError(f"{path}: must have the lists {', '.join(_KEYS)}")
    faults = list(_shape_faults(value, path))
    if faults:
        raise InvalidInputError(faults)
    out = []
    for k, (block, count) in enumerate(zip(value["topology"], value["npus_count"], strict=True)):
        if block not in _BLOCKS:
            faults.append(f"{path}: topology[{k}]: {block!r} is no building block; use {', '.join(_BLOCKS)}")
        if not isinstance(count, int) or isinstance(count, bool) or not 1 <= count <= _MOST:
            faults.append(f"{path}: npus_count[{k}]: {count!r} is not a number of NPUs")
        bandwidth = _number(value["bandwidth"][k], f"{path}: bandwidth[{k}]", "GB/s", faults)
        latency = _number(value["latency"][k], f"{path}: latency[{k}]", "ns", faults)
        if not faults:
            out.append((str(block), int(count), bandwidth, latency))
    if faults:
        raise InvalidInputError(faults)
    return out


def _shape_faults(value: Mapping[object, object], path: Path) -> Iterator[str]:
    lengths = {}
    for key in _KEYS:
        items = value.get(key)
        if not isinstance(items, list) or not items:
            yield f"{path}: {key}: must be a list with one entry per dimension"
        else:
            lengths[key] = len(items)
    if len(set(lengths.values())) > 1:
        counts = ", ".join(f"{key} {n}" for key, n in lengths.items())
        yield f"{path}: the lists have different lengths ({counts}); each needs one entry per dimension"


def _number(value: object, place: str, unit: str, faults: list[str]) -> float:
    """A number through text, so that 936.25 ns is the double nearest to it."""
    try:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise InvalidInputError(f"{value!r} is not a number of {unit}")
        # Whole numbers of hundreds of digits are no bandwidth, and Python refuses to write them.
        text = f"{float(value)!r} {unit}"
        number = parse_bandwidth(text) if unit == "GB/s" else parse_time(text)
        if unit == "GB/s" and number == 0:
            raise InvalidInputError("is zero; a link needs a positive bandwidth")
        return number
    except (InvalidInputError, OverflowError) as error:
        faults.append(f"{place}: {error}")
        return 0.0
