"""NVLink, xGMI and C2C elements of NCCL's and RCCL's files as cables, ports and links to the CPU."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from synth.files.xml_tree import Element
from synth.topology.box.gpus import GpuModel
from synth.topology.box.hardware import NVLINK_LATENCY, XGMI_LATENCY, Rate, exactly, nvlink_of, xgmi_of
from synth.topology.box.parts import Cable, Part, Port
from synth.topology.elements import LinkKind
from synth.topology.importing.dumps.linked import Limit, linked
from synth.topology.importing.dumps.pci import CPU_LINK_CLASS, GPU_CLASSES, bus_id, number, whole


@dataclass(frozen=True, slots=True)
class GpuElement:
    """A GPU of the file: its ``gpu`` element if it has one, its ``pci`` element, what it hangs on, its PCIe rate."""

    gpu: Element | None
    pci: Element
    parent: str
    port: Rate | None


@dataclass(frozen=True, slots=True)
class ScaleUp:
    """Scale-up links of a host; ``host_links`` are links to the CPU, by GPU id."""

    cables: tuple[Cable, ...]
    ports: tuple[Port, ...]
    host_links: Mapping[str, Rate]


@dataclass(frozen=True, slots=True)
class _Counted:
    """Links of one GPU: to other GPUs by their id, to switches, to the CPU."""

    peers: dict[str, int]
    switch: int
    cpu: int
    rate: Rate | None
    kind: LinkKind
    most: int | None


def scale_up(
    gpus: list[GpuElement], names: list[str], model: GpuModel | None, faults: list[str], notes: list[str]
) -> ScaleUp:
    """Cables of all pairs, ports on the scale-up switch, links to CPUs.

    Parameters
    ----------
    gpus, names
        GPUs in rank order and their bus ids.
    model
        The GPU of ``--gpu``, which may have fewer links than others of its generation.
    faults, notes
        Grow by what is wrong, and by links that are left out because their other end is.
    """
    ids = {name: f"g{i}" for i, name in enumerate(names)}
    counted = [_count(raw, names[i], ids, faults, notes) for i, raw in enumerate(gpus)]
    host_links: dict[str, Rate] = {}
    for i, (raw, links) in enumerate(zip(gpus, counted, strict=True)):
        rate = _host_link(raw, links, faults)
        if rate is not None:
            host_links[f"g{i}"] = rate
    at = [f"{raw.pci.at}: GPU {name}" for raw, name in zip(gpus, names, strict=True)]
    limit = _limit(counted, model)
    crowded = limit is not None and any(sum(links.peers.values()) > limit.links for links in counted)
    cables, switched = (
        _as_a_switch(counted, names, limit, at, faults, notes) if crowded else ([*_cables(counted, at, notes)], [])
    )
    ports = tuple(
        Port(f"nv-g{i}", names[i], at[i], f"g{i}", links.switch, links.rate, links.kind, NVLINK_LATENCY / 2)
        for i, links in enumerate(counted)
        if links.switch
    )
    return ScaleUp(tuple(cables), (*ports, *switched), host_links)


def _limit(counted: list[_Counted], model: GpuModel | None) -> Limit | None:
    """The most NVLinks of a GPU, by its generation or by its model; xGMI has no switches, and so no such doubt."""
    most = min((links.most for links in counted if links.most is not None), default=None)
    if most is not None and model is not None and model.kind == "nvlink" and 0 < model.links < most:
        return Limit(model.links, f"the {model.name}")
    return None if most is None else Limit(most, "a GPU of its generation")


def _as_a_switch(
    counted: list[_Counted],
    names: list[str],
    limit: Limit | None,
    at: list[str],
    faults: list[str],
    notes: list[str],
) -> tuple[list[Cable], list[Port]]:
    """Links of GPUs that list more of them than they have: what every pair is given is each GPU's part of a switch."""
    gpus = [Part(f"g{i}", name, at[i]) for i, name in enumerate(names)]
    counts: dict[tuple[int, int], int] = {}
    for i, links in enumerate(counted):
        for j in range(i + 1, len(counted)):
            there, back = links.peers.get(f"g{j}", 0), counted[j].peers.get(f"g{i}", 0)
            if there != back:
                faults.append(f"{at[i]}: lists {there} links to {names[j]}, which lists {back} to it, more than it has")
            elif there:
                counts[i, j] = there
    return linked(gpus, counts, limit, faults, notes, counted[0].rate)


def _count(raw: GpuElement, name: str, ids: Mapping[str, str], faults: list[str], notes: list[str]) -> _Counted:
    peers: dict[str, int] = {}
    switch = cpu = 0
    elements = [] if raw.gpu is None else list(raw.gpu.all("nvlink", "xgmi"))
    for link in elements:
        count = whole(link, "count", faults)
        if count is None or not 0 < count <= 256:
            faults.append(f"{link.at}: {link.tag} count={link.get('count')!r}: expected a number of links, 1 to 256")
            continue
        target, kind = bus_id(link.get("target")), link.get("tclass").lower()
        if kind.startswith(CPU_LINK_CLASS):
            cpu += count
        elif target == name:
            notes.append(f"{link.tag} of GPU {name} to itself is left out")
        elif target in ids and (not kind or kind.startswith(GPU_CLASSES)):
            peers[ids[target]] = peers.get(ids[target], 0) + count
        elif kind and not kind.startswith(GPU_CLASSES):
            switch += count  # NVSwitches, seen or not, act as one
        else:
            notes.append(f"{link.tag} of GPU {name} to {target or 'nowhere'} is left out: no such GPU in the file")
    rate, most = _link_rate(raw, faults) if elements else (None, None)
    if most is not None and switch > most:
        notes.append(f"GPU {name} lists {switch} links to switches, {most} is the most that it has: {most} are used")
        switch = most
    xgmi = any(link.tag == "xgmi" for link in elements)
    return _Counted(peers, switch, cpu, rate, "xgmi" if xgmi else "nvlink", most)


def _link_rate(raw: GpuElement, faults: list[str]) -> tuple[Rate | None, int | None]:
    """Rate of one link and the most links, by the GPU's generation; None where it is not known."""
    gpu = raw.gpu
    if gpu is None:
        return None, None
    gcn = gpu.get("gcn")
    if gcn:
        return xgmi_of(gcn), None
    sm = whole(gpu, "sm", faults)
    known = None if sm is None else nvlink_of(sm)
    return known if known is not None else (None, None)


def _host_link(raw: GpuElement, links: _Counted, faults: list[str]) -> Rate | None:
    """NVLink-C2C, or NVLinks to a POWER CPU."""
    total = links.rate.times(links.cpu) if links.rate is not None and links.cpu else None
    for c2c in () if raw.gpu is None else raw.gpu.all("c2c"):
        count, bandwidth = whole(c2c, "count", faults), number(c2c, "bw", faults)
        if bandwidth is None or bandwidth <= 0 or count is None or count < 1:
            faults.append(f"{c2c.at}: c2c needs bw in MB/s and count, both positive")
            continue
        more = exactly(bandwidth * 1e6 * count)
        total = more if total is None else Rate(total.nominal + more.nominal, total.achievable + more.achievable)
    return total


def _cables(counted: list[_Counted], at: list[str], notes: list[str]) -> Iterator[Cable]:
    """Parallel links of each pair: what both ends list goes both ways, what only one lists goes that way."""
    for i, links in enumerate(counted):
        latency = XGMI_LATENCY if links.kind == "xgmi" else NVLINK_LATENCY
        short = "xgmi" if links.kind == "xgmi" else "nv"
        for j in range(i + 1, len(counted)):
            there, back = links.peers.get(f"g{j}", 0), counted[j].peers.get(f"g{i}", 0)
            both = min(there, back)
            if both:
                yield Cable(f"{short}{i}-{j}", "", at[i], f"g{i}", f"g{j}", both, links.rate, links.kind, latency, True)
            if there != back:
                a, b = (i, j) if there > back else (j, i)
                notes.append(f"g{a} lists {abs(there - back)} more links to g{b} than g{b} to it: they go one way")
                one = counted[a]
                yield Cable(
                    f"{short}{a}>{b}",
                    "",
                    at[a],
                    f"g{a}",
                    f"g{b}",
                    abs(there - back),
                    one.rate,
                    one.kind,
                    latency,
                    False,
                )
