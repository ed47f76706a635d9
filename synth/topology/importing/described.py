"""What an importer of machines hands on: hosts as boxes, with everything that is not plain from the file."""

from __future__ import annotations

from dataclasses import dataclass

from synth.topology.box import Box


@dataclass(frozen=True, slots=True)
class Described:
    """Hosts of a file.

    Attributes
    ----------
    what
        Kind of file, for the topology's source.
    notes
        What was left out or read in a way that the user should know.
    faults
        What is wrong with the file; the importer reports it together with missing speeds.
    """

    what: str
    boxes: tuple[Box, ...]
    notes: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()
