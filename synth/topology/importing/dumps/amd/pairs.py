"""What AMD's tools say of pairs of GPUs, as a box: which pairs have xGMI links, how many and how fast.

Hops are 1 for every xGMI pair, wired directly or not (ROCm/rocm-systems issue 5763); the weight tells them apart: 15 a
hop of xGMI, 20 a segment of PCIe (pull request 7372).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from synth.topology.box.gpus import GpuModel
from synth.topology.box.hardware import XGMI_LATENCY, Rate, exactly
from synth.topology.box.parts import Box, Cable, Gpu, Numa
from synth.topology.importing.dumps.sockets import joined

Pair = tuple[int, int]
_HOP_WEIGHT = 15


@dataclass(frozen=True)
class Pairs:
    """Matrices of a host, by positions of GPUs.

    Attributes
    ----------
    names, at
        GPUs as the file names them, and the place of each.
    types
        ``XGMI`` or ``PCIE`` of each ordered pair of different GPUs.
    weights, hops
        Of each ordered pair, if the file has them.
    bandwidths
        MB/s of one link and of all links of a pair; (0, 0) where no link is.
    numa, packages
        NUMA node of each GPU, and of each node the socket; empty if the file has none.
    no_peer
        GPUs that no other may access.
    """

    names: Sequence[str]
    at: Sequence[str]
    types: Mapping[Pair, str]
    weights: Mapping[Pair, int] = field(default_factory=dict)
    hops: Mapping[Pair, int] = field(default_factory=dict)
    bandwidths: Mapping[Pair, tuple[int, int]] = field(default_factory=dict)
    numa: Mapping[int, int] = field(default_factory=dict)
    packages: Mapping[int, int] = field(default_factory=dict)
    no_peer: frozenset[int] = frozenset()


def symmetry_faults(pairs: Pairs) -> list[str]:
    """Pairs that a table describes in two ways, by direction."""
    faults = []
    tables: tuple[tuple[str, Mapping[Pair, object]], ...] = (
        ("link type", pairs.types),
        ("weight", pairs.weights),
        ("bandwidth", pairs.bandwidths),
    )
    for what, table in tables:
        for (i, j), there in table.items():
            back = table.get((j, i))
            if i > j and there != back:
                a, b = pairs.names[i], pairs.names[j]
                faults.append(f"{pairs.at[i]}: {what}: {a} to {b} is {there}, {b} to {a} is {back}")
    return faults


def box_of(pairs: Pairs, model: GpuModel | None, faults: list[str], notes: list[str]) -> Box:
    """The host as a box.

    Parameters
    ----------
    faults
        Grows by weights and rates that cannot be.
    notes
        Grows by everything that the file does not say.
    """
    nodes = sorted({pairs.numa.get(i, 0) for i in range(len(pairs.names))})
    numas = tuple(Numa(f"cpu{node}", f"numa {node}", pairs.at[0]) for node in nodes)
    if not pairs.numa:
        notes.append("NUMA nodes are not in the file: all GPUs are taken to be on one")
    homes = [f"socket{pairs.packages[node]}" for node in nodes] if pairs.packages else None
    gpus = tuple(
        Gpu(f"g{i}", name, pairs.at[i], f"cpu{pairs.numa.get(i, 0)}", peer=i not in pairs.no_peer)
        for i, name in enumerate(pairs.names)
    )
    if pairs.no_peer:
        names = ", ".join(pairs.names[i] for i in sorted(pairs.no_peer))
        notes.append(f"no other GPU may access these (ACCESS): host memory only: {names}")
    cables = tuple(_cables(pairs, gpus, model, faults, notes))
    sockets = joined(numas, notes, packages=homes, numbers=nodes)
    return Box(gpus, numas, sockets=sockets, cables=cables)


def _cables(
    pairs: Pairs, gpus: Sequence[Gpu], model: GpuModel | None, faults: list[str], notes: list[str]
) -> list[Cable]:
    wired = [pair for pair in combinations(range(len(gpus)), 2) if pairs.types[pair] == "XGMI"]
    direct = [pair for pair in wired if _direct(pair, pairs, faults)]
    if wired and not pairs.bandwidths:
        notes.append("the number of xGMI links per pair is not in the file: one link is taken where the type is XGMI")
        unsure = [pair for pair in direct if pair not in pairs.weights]
        if unsure:
            notes.append(
                "weights are not in the file, and hops are 1 also for pairs that are not wired directly: XGMI pairs of "
                "one hop are taken to be wired directly, which may be more than there are"
            )
    out = []
    for i, j in direct:
        count, rate = _links((i, j), pairs, model, faults, notes)
        name = f"{gpus[i].name}-{gpus[j].name}"
        out.append(Cable(f"xgmi{i}-{j}", name, gpus[i].at, f"g{i}", f"g{j}", count, rate, "xgmi", XGMI_LATENCY))
    return out


def _direct(pair: Pair, pairs: Pairs, faults: list[str]) -> bool:
    """Whether an XGMI pair is wired directly; the most reliable of what the file has decides."""
    i, j = pair
    where = f"{pairs.at[i]}: {pairs.names[i]} to {pairs.names[j]}"
    weight = pairs.weights.get(pair)
    if pairs.bandwidths and pairs.bandwidths.get(pair, (0, 0))[1] == 0:
        if weight is not None and weight <= _HOP_WEIGHT:
            faults.append(f"{where}: the weight {weight} is that of a direct xGMI link, and its bandwidth is 0")
        return False
    if weight is None:
        return pairs.hops.get(pair, 1) == 1
    if weight < 1 or (weight > _HOP_WEIGHT and weight % _HOP_WEIGHT):
        faults.append(f"{where}: weight {weight} of an XGMI pair; expected {_HOP_WEIGHT} a hop")
    return weight <= _HOP_WEIGHT


def _links(
    pair: Pair, pairs: Pairs, model: GpuModel | None, faults: list[str], notes: list[str]
) -> tuple[int, Rate | None]:
    """Number of links of a pair, and the rate of one if the file has it and the model does not."""
    if pair not in pairs.bandwidths:
        return 1, None
    one, every = pairs.bandwidths[pair]
    if one <= 0 or every % one:
        names = " to ".join(pairs.names[i] for i in pair)
        faults.append(
            f"{pairs.at[pair[0]]}: {names}: bandwidth {one}-{every}: expected one link's and a multiple of it"
        )
        return 1, None
    rate = exactly(one * 1e6)
    if model is None or model.link is None or model.kind != "xgmi":
        return every // one, rate
    if model.link.nominal == rate.nominal:
        return every // one, None
    said = f"{one / 1000:g} GB/s per xGMI link are in the file, the {model.name} has {model.link.nominal / 1e9:g}"
    notes.append(f"{said}: the file's rate is taken")
    return every // one, rate
