"""What stands beside a matrix: names of GPUs (``nvidia-smi -L``) and their NVLinks (``nvidia-smi nvlink -s``)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from synth.topology.box.gpus import GpuModel, find_gpu
from synth.topology.importing.pasted import Pasted

_NAME = re.compile(r"\s*GPU ([0-9]{1,4}): (\S.*?)(?: \(UUID:.*)?\s*")
_LINK = re.compile(r"\s*Link ([0-9]{1,3}): (?:([0-9]{1,4}(?:\.[0-9]{1,6})?) GB/s|<inactive>|.*[Ii]nactive.*)\s*")


@dataclass(frozen=True, slots=True)
class Status:
    """A GPU's printed name, its active NVLinks (None if the text does not list them) and the rate of one, bytes/s."""

    name: str
    active: int | None = None
    rate: float | None = None


def statuses(pasted: Pasted, used: set[int]) -> dict[int, Status]:
    """What the text says of each GPU by its number; ``used`` grows by the lines that say it."""
    out: dict[int, Status] = {}
    current: int | None = None
    for line in pasted.lines:
        name, link = _NAME.fullmatch(line.text), _LINK.fullmatch(line.text)
        if name is not None:
            current = int(name[1])
            out[current] = Status(name[2])
            used.add(line.number)
        elif link is not None and current is not None:
            before = out[current]
            active = (before.active or 0) + (link[2] is not None)
            rate = before.rate if link[2] is None else float(link[2]) * 1e9
            out[current] = Status(before.name, active, rate)
            used.add(line.number)
        elif not line.blank and link is None and not re.match(r"\s*(?:GPU models|MIG|Link)", line.text):
            current = None
    return out


def printed_model(found: dict[int, Status], notes: list[str]) -> GpuModel | None:
    """GPU that all printed names are; None if there is none, if they differ, or if it is not known."""
    names = sorted({status.name for status in found.values()})
    if len(names) != 1:
        if names:
            notes.append(f"the file names different GPUs ({', '.join(names)}): give --gpu for what is missing")
        return None
    model = find_gpu(names[0])
    if model is None:
        notes.append(f"the GPU that the file names, {names[0]!r}, is not known; give --gpu for what is missing")
    else:
        notes.append(f"the file names the GPU: {names[0]}, taken as --gpu {model.name}")
    return model
