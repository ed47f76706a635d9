"""What an importer of machines hands on: hosts as boxes, with everything that is not plain from the file."""

from __future__ import annotations

from dataclasses import dataclass

from synth.topology.box.gpus import GpuModel
from synth.topology.box.parts import Box


@dataclass(frozen=True, slots=True)
class Described:
    """Hosts of a file.

    Attributes
    ----------
    what
        Kind of file, for the topology's source.
    notes
        What was left out or read in a way that the user should know.
    stated
        Whether the file says which GPUs have scale-up links, so that none means none.
    gpu
        The GPU that the file itself names, if it does.
    """

    what: str
    boxes: tuple[Box, ...]
    notes: tuple[str, ...] = ()
    stated: bool = True
    gpu: GpuModel | None = None
