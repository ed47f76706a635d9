"""What the user says about speeds that a topology file leaves open: a PCIe generation, or a link-speed table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from synth.errors import InvalidInputError
from synth.files.faults import validate
from synth.files.json_text import read_json
from synth.topology.box.hardware import PCIE_GENERATIONS, Rate, exactly, pcie_rate
from synth.topology.file import BandwidthText, Entry, positive

SPEEDS_FORMAT = "synth-speeds/1"
SpeedClass = Literal["pcie", "nic", "socket", "memory", "root_complex", "nvlink", "xgmi", "link"]

#: NIC, socket and host memory of the servers of each PCIe generation: 100 to 800 Gb/s NICs; NCCL's constants for
#: Skylake, AMD, Sapphire Rapids and Emerald Rapids; DDR channels of a socket, each 8 bytes wide.
_GENERATION_NIC = MappingProxyType({"gen3": 12.5e9, "gen4": 25e9, "gen5": 50e9, "gen6": 100e9})
_GENERATION_SOCKET = MappingProxyType({"gen3": 10e9, "gen4": 16e9, "gen5": 22e9, "gen6": 40e9})
_GENERATION_MEMORY = MappingProxyType(
    {
        "gen3": (6 * 2666e6 * 8, "6 channels of DDR4-2666"),
        "gen4": (8 * 3200e6 * 8, "8 channels of DDR4-3200"),
        "gen5": (8 * 4800e6 * 8, "8 channels of DDR5-4800"),
        "gen6": (12 * 6400e6 * 8, "12 channels of DDR5-6400"),
    }
)


@dataclass(frozen=True)
class Assumptions:
    """Speeds that stand in for missing ones, and speeds of single elements, which replace what the file says.

    Attributes
    ----------
    label
        Where they come from, for notes.
    classes
        Rate per class of element and a remark on it.
    elements
        Rate per element, by its name in the file (a bus id, a network device) or its id.
    """

    label: str = ""
    classes: Mapping[str, tuple[Rate, str]] = field(default_factory=dict)
    elements: Mapping[str, Rate] = field(default_factory=dict)


class _SpeedTable(Entry):
    format: Literal["synth-speeds/1"] = Field(description=f'"{SPEEDS_FORMAT}"')
    pcie: Annotated[BandwidthText, AfterValidator(positive)] | None = None
    nic: Annotated[BandwidthText, AfterValidator(positive)] | None = None
    socket: Annotated[BandwidthText, AfterValidator(positive)] | None = None
    memory: Annotated[BandwidthText, AfterValidator(positive)] | None = None
    root_complex: Annotated[BandwidthText, AfterValidator(positive)] | None = None
    nvlink: Annotated[BandwidthText, AfterValidator(positive)] | None = None
    xgmi: Annotated[BandwidthText, AfterValidator(positive)] | None = None
    link: Annotated[BandwidthText, AfterValidator(positive)] | None = None
    elements: dict[str, Annotated[BandwidthText, AfterValidator(positive)]] = Field(default_factory=dict)


def read_assumptions(text: str | Path | None) -> Assumptions:
    """Assumptions of ``--assume``.

    Parameters
    ----------
    text
        ``gen3`` to ``gen6``, or the path of a JSON file ``{"format": "synth-speeds/1", "pcie": "24 GB/s",
        "elements": {"0000:41:00.0": "12 GB/s"}}`` with the classes of :data:`SpeedClass`; None for none.

    Raises
    ------
    InvalidInputError
        Neither a generation nor a file; every fault of the file.
    """
    if text is None:
        return Assumptions()
    if str(text) in PCIE_GENERATIONS:
        return _generation(str(text))
    path = Path(text)
    if path.suffix != ".json" and not path.exists():
        known = ", ".join(PCIE_GENERATIONS)
        raise InvalidInputError(f"assume {str(text)!r}: is no PCIe generation ({known}) and no link-speed table file")
    document = read_json(path)
    parsed, faults = validate(document, _SpeedTable, {})
    if faults or parsed is None:
        raise InvalidInputError(sorted(dict.fromkeys(faults), key=document.line_of))
    values = parsed.model_dump(exclude={"format", "elements"}, exclude_none=True)
    classes = {name: (exactly(rate), "") for name, rate in values.items()}
    elements = {name.lower(): exactly(rate) for name, rate in parsed.elements.items()}
    return Assumptions(path.name, classes, elements)


def _generation(name: str) -> Assumptions:
    pcie = pcie_rate(PCIE_GENERATIONS[name], 16)
    memory, channels = _GENERATION_MEMORY[name]
    classes: dict[str, tuple[Rate, str]] = {
        "nic": (exactly(_GENERATION_NIC[name]), ""),
        "socket": (exactly(_GENERATION_SOCKET[name]), ""),
        "memory": (exactly(memory), f"{channels} per socket"),
    }
    if pcie is not None:
        classes["pcie"] = (pcie, "16 lanes")
    return Assumptions(name, classes)
