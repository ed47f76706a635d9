"""The file of calibrated constants: per protocol what thread blocks cost, with units in the names."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from synth.errors import InvalidInputError
from synth.files.writing import write_text
from synth.schedule.simulate.time_model import BlockCosts

FORMAT = "synth-constants/1"


class _Costs(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    start_us: float = Field(0.0, ge=0, allow_inf_nan=False)
    latency_us: float = Field(0.0, ge=0, allow_inf_nan=False)
    overhead_us: float = Field(0.0, ge=0, allow_inf_nan=False)
    wait_us: float = Field(0.0, ge=0, allow_inf_nan=False)
    copy_GBps: float | None = Field(None, gt=0, allow_inf_nan=False)  # noqa: N815 (GB, not gb)
    local_GBps: float | None = Field(None, gt=0, allow_inf_nan=False)  # noqa: N815


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    format: Literal["synth-constants/1"]
    topology: str = ""
    source: str = ""
    protocols: dict[str, _Costs]


def load_constants(path: str | Path) -> dict[str, BlockCosts]:
    """Read a file that :func:`save_constants` wrote, or one written by hand.

    Returns
    -------
    dict
        Protocol name -> costs. A rate that is left out costs nothing.

    Raises
    ------
    InvalidInputError
        All faults at once.
    """
    try:
        data = _File.model_validate_json(Path(path).read_bytes())
    except OSError as error:
        raise InvalidInputError(f"{path}: cannot be read: {error.strerror}") from error
    except ValidationError as error:
        faults = [f"{path}: {'.'.join(map(str, e['loc'])) or 'file'}: {e['msg']}" for e in error.errors()]
        raise InvalidInputError(faults) from error
    return {name: _costs(costs) for name, costs in data.protocols.items()}


def _costs(costs: _Costs) -> BlockCosts:
    return BlockCosts(
        costs.start_us * 1e-6,
        costs.latency_us * 1e-6,
        costs.overhead_us * 1e-6,
        costs.wait_us * 1e-6,
        math.inf if costs.copy_GBps is None else costs.copy_GBps * 1e9,
        math.inf if costs.local_GBps is None else costs.local_GBps * 1e9,
    )


def constants_dict(protocols: Mapping[str, BlockCosts], topology: str = "", source: str = "") -> dict[str, Any]:
    """The file's object."""
    return {
        "format": FORMAT,
        "topology": topology,
        "source": source,
        "protocols": {name: _record(costs) for name, costs in sorted(protocols.items())},
    }


def _record(costs: BlockCosts) -> dict[str, float | None]:
    rate = {"copy_GBps": costs.copy_rate, "local_GBps": costs.local_rate}
    return {
        "start_us": costs.start * 1e6,
        "latency_us": costs.latency * 1e6,
        "overhead_us": costs.overhead * 1e6,
        "wait_us": costs.wait * 1e6,
        **{name: None if math.isinf(value) else value / 1e9 for name, value in rate.items()},
    }


def save_constants(path: str | Path, protocols: Mapping[str, BlockCosts], topology: str = "", source: str = "") -> None:
    """Write constants, whole or not at all."""
    write_text(path, json.dumps(constants_dict(protocols, topology, source), indent=1, ensure_ascii=False) + "\n")
