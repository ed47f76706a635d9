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
    """A GPU's printed name, NVLinks that the text lists for it, those that are active, and the rate of one, bytes/s."""

    name: str
    at: str
    listed: int = 0
    active: int = 0
    rate: float | None = None


def statuses(pasted: Pasted, used: set[int], faults: list[str]) -> dict[int, Status]:
    """What the text says of each GPU by its number.

    Parameters
    ----------
    used
        Grows by the lines that say it.
    faults
        Grows by links that belong to no GPU, and by GPUs of which fewer links are listed than of others.
    """
    out: dict[int, Status] = {}
    current: int | None = None
    for line in pasted.lines:
        name, link = _NAME.fullmatch(line.text), _LINK.fullmatch(line.text)
        if name is not None:
            current = int(name[1])
            out[current] = Status(name[2], pasted.at(line))
        elif link is not None and current is None:
            faults.append(f"{pasted.at(line)}: {line.text.strip()!r} stands below no GPU; take the whole of nvlink -s")
        elif link is not None and current is not None:
            before = out[current]
            rate = before.rate if link[2] is None else float(link[2]) * 1e9
            active = before.active + (link[2] is not None)
            out[current] = Status(before.name, before.at, before.listed + 1, active, rate)
        elif not line.blank and not re.match(r"\s*(?:GPU models|MIG)", line.text):
            current = None
        if name is not None or link is not None:
            used.add(line.number)
    most = max((status.listed for status in out.values()), default=0)
    for number, status in out.items():
        if status.listed < most:
            faults.append(
                f"{status.at}: {status.listed} NVLinks are listed of GPU {number}, {most} of others; is it cut?"
            )
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
