"""The side-car of a program: which path each of its channels stands for (docs/paths.md)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from synth.program.channel_paths import ChannelPaths

FORMAT: Final = "synth-paths/1"


def paths_name(program: str) -> str:
    """File name beside a program: ``msccl.paths.json`` for ``msccl.xml``."""
    return f"{Path(program).stem}.paths.json"


def dump_paths(paths: ChannelPaths, program: str) -> str:
    """Text of the side-car of the program with this file name."""
    return json.dumps({"format": FORMAT, "program": program, **paths.to_dict()}, ensure_ascii=False, indent=1) + "\n"
