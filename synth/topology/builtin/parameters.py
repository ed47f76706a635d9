"""Parameters of built-in topologies: their kinds, defaults and limits, and how a value or a text becomes one."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from synth.errors import InvalidInputError
from synth.ground.units import exact_bandwidth, exact_time, parse_bandwidth, parse_time

ParameterKind = Literal["count", "bandwidth", "time", "flag", "choice", "text"]
#: A count (int), bytes/second or seconds (float), a flag (bool), a choice or a text (str).
Value = int | float | bool | str
#: A value as it is written in messages and in the name of a topology.
_FLAGS = ("false", "true")


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a built-in.

    Attributes
    ----------
    default
        In bytes/second or seconds where it is a quantity; None if ``required`` or if it follows from the machine.
    low, high
        Limits of a count, both allowed.
    choices
        Allowed texts of a choice.
    """

    name: str
    kind: ParameterKind
    help: str
    default: Value | None = None
    required: bool = False
    low: int = 1
    high: int = 1
    choices: tuple[str, ...] = ()

    def read(self, value: object) -> Value:
        """Value in base units from a Python value or a text.

        Raises
        ------
        InvalidInputError
            Not a value of this kind or out of range.
        """
        if self.kind == "count":
            return self._count(value)
        if self.kind in ("bandwidth", "time"):
            return self._quantity(value)
        if self.kind == "flag":
            if isinstance(value, bool):
                return value
            if isinstance(value, str) and value in _FLAGS:
                return value == "true"
            raise InvalidInputError(f"{value!r} is not a flag; use true or false")
        if not isinstance(value, str) or not value or (self.choices and value not in self.choices):
            wanted = f"use one of {', '.join(self.choices)}" if self.choices else "a text is needed"
            raise InvalidInputError(f"{value!r} is not allowed; {wanted}")
        return value

    def _count(self, value: object) -> int:
        if isinstance(value, str) and re.fullmatch("[0-9]{1,9}", value):
            value = int(value)
        if not isinstance(value, int) or isinstance(value, bool) or not self.low <= value <= self.high:
            raise InvalidInputError(f"{value!r} is not allowed; use a whole number from {self.low} to {self.high}")
        return value

    def _quantity(self, value: object) -> float:
        """Take a number in base units, as everywhere inside the package; a text must have a unit."""
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            unit = "bytes/second" if self.kind == "bandwidth" else "seconds"
            number = float(value)
            if not (0 <= number < float("inf")) or (self.kind == "bandwidth" and number == 0):
                raise InvalidInputError(f"{value!r} is not a finite, positive number of {unit}")
            return number
        number = parse_bandwidth(value) if self.kind == "bandwidth" else parse_time(value)
        if self.kind == "bandwidth" and number == 0:
            raise InvalidInputError(f"{value!r} is zero; a bandwidth must be positive")
        return number

    def write(self, value: Value) -> str:
        """Text that :meth:`read` turns back into exactly this value."""
        if self.kind == "flag":
            return _FLAGS[bool(value)]
        if self.kind == "bandwidth":
            return exact_bandwidth(float(value))
        return exact_time(float(value)) if self.kind == "time" else str(value)


def read_parameters(owner: str, parameters: tuple[Parameter, ...], given: Mapping[str, object]) -> dict[str, Value]:
    """Values of all given parameters and of defaults; parameters that follow from the machine may be missing.

    Raises
    ------
    InvalidInputError
        Unknown, missing and wrong parameters, all at once.
    """
    faults: list[str] = []
    values: dict[str, Value] = {}
    known = {parameter.name: parameter for parameter in parameters}
    for name in given:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            meant = f", perhaps {near[0]!r} is meant" if near else ""
            faults.append(f"{owner}: has no parameter {name!r}{meant}; it takes {', '.join(known)}")
    for parameter in parameters:
        if parameter.name in given:
            try:
                values[parameter.name] = parameter.read(given[parameter.name])
            except InvalidInputError as error:
                faults += (f"{owner}: {parameter.name}: {fault}" for fault in error.faults)
        elif parameter.required:
            faults.append(f"{owner}: {parameter.name} is missing ({parameter.help})")
        elif parameter.default is not None:
            values[parameter.name] = parameter.default
    if faults:
        raise InvalidInputError(faults)
    return values
