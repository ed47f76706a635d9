"""Scale-up links that a file does not have, by the GPU's name; and the check that no GPU has more than it can have."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from synth.errors import InvalidInputError
from synth.topology.box.gpus import GpuModel
from synth.topology.box.hardware import NVLINK_LATENCY, XGMI_LATENCY, Rate
from synth.topology.box.parts import Box, Cable, Port

_Note = Callable[[str], None]


def wired(box: Box, model: GpuModel | None, stated: bool, note: _Note) -> Box:
    """The box with the links that the name of its GPUs implies, where the file does not say that there are none.

    Raises
    ------
    InvalidInputError
        How so many of these GPUs are wired does not follow from the name.
    """
    if model is None or model.link is None or box.cables or box.ports or len(box.gpus) < 2:
        return box
    if stated:
        note(
            f"the file states how each pair of GPUs is linked, and none has {model.kind}: none is taken, though the "
            f"{model.name} can have {model.links} links"
        )
        return box
    if model.wiring == "bridge":
        note(f"the file has no {model.kind} bridges between {model.name} cards: none is taken")
        return box
    if model.wiring == "switch":
        ports = tuple(
            Port(f"nv{gpu.id}", gpu.name, gpu.at, gpu.id, model.links, model.link, model.kind, NVLINK_LATENCY / 2)
            for gpu in box.gpus
        )
        note(f"{model.links} {model.kind} links per {model.name} to one switch (--gpu), the file has none")
        return replace(box, ports=ports)
    if model.wiring == "mesh" and len(box.gpus) - 1 <= model.links:
        cables = tuple(
            Cable(f"xgmi{a.id}-{b.id}", "", a.at, a.id, b.id, 1, model.link, model.kind, XGMI_LATENCY)
            for i, a in enumerate(box.gpus)
            for b in box.gpus[i + 1 :]
        )
        note(f"one {model.kind} link between any two {model.name} (--gpu), the file has none")
        return replace(box, cables=cables)
    raise InvalidInputError(
        f"--gpu {model.name}: the file has no scale-up links, and how those of {len(box.gpus)} {model.name} are wired "
        "does not follow from the name; take a file that has them (nvidia-smi topo -m, an NCCL or RCCL topology dump)"
    )


def link_faults(box: Box, model: GpuModel | None) -> Iterator[str]:
    """A fault for links of another make, and for each GPU with more of them, out or in, than its model has."""
    if model is None:
        return
    parts: tuple[Cable | Port, ...] = (*box.cables, *box.ports)
    other = next((part for part in parts if part.kind != model.kind), None)
    if other is not None and model.links:
        yield f"{other.at or other.id}: the file has {other.kind}, the {model.name} has {model.kind}; is --gpu right?"
    for gpu in box.gpus:
        ports = sum(_links(port.count, port.rate, model) for port in box.ports if port.gpu == gpu.id)
        out = sum(
            _links(c.count, c.rate, model) for c in box.cables if c.src == gpu.id or (c.both_ways and c.dst == gpu.id)
        )
        back = sum(
            _links(c.count, c.rate, model) for c in box.cables if c.dst == gpu.id or (c.both_ways and c.src == gpu.id)
        )
        links = ports + max(out, back)
        if links > model.links:
            has = f"has {model.links}" if model.links else "has none"
            who = f"{gpu.at or gpu.id}: GPU {gpu.name or gpu.id}"
            yield f"{who} has {links} scale-up links in the file, the {model.name} {has}; is --gpu right?"


def _links(count: int, rate: Rate | None, model: GpuModel) -> int:
    """Links of the model that ``count`` links of the file are: one that is faster is several that the file adds up."""
    if rate is None or model.link is None:
        return count
    # An achieved total is compared with what links achieve. A tenth more is another rounding, not another link.
    one = model.link.nominal if rate.nominal_known else model.link.achievable
    times = rate.nominal / one
    return count * max(1, int(times + 0.9))
