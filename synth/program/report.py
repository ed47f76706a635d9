"""The outcome of a verification."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Report:
    """Everything found about one draft.

    A report without faults says that the program, under the documented semantics of the target, ends, moves exactly the
    right data and has no races. It says nothing about the runtime itself.

    Attributes
    ----------
    name, collective, target, ranks
        What was checked against what.
    modes
        The modes whose data were checked: "in place", "out of place".
    limits
        Target limits that are broken.
    structure, deadlocks, data, races
        Faults by kind. When there are structure faults the program is not run; when it hangs, data are not checked.
    warnings
        Not faults, but worth knowing.
    wrong_chunks
        Output chunks with wrong contents, summed over ranks and modes.
    root
        Root of broadcast and reduce, as claimed or as inferred.
    steps, blocks, scratch_chunks
        Size of the program: steps and thread blocks in all, scratch chunks of the largest rank.
    fifo_depth, chunks_per_message
        FIFO model at the largest message size.
    """

    name: str
    collective: str
    target: str
    ranks: int
    modes: tuple[str, ...] = ()
    limits: tuple[str, ...] = ()
    structure: tuple[str, ...] = ()
    deadlocks: tuple[str, ...] = ()
    data: tuple[str, ...] = ()
    races: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    wrong_chunks: int = 0
    root: int | None = None
    steps: int = 0
    blocks: int = 0
    scratch_chunks: int = 0
    fifo_depth: int = 0
    chunks_per_message: int = 0

    @property
    def faults(self) -> tuple[str, ...]:
        """All faults, limits first."""
        return (*self.limits, *self.structure, *self.deadlocks, *self.data, *self.races)

    @property
    def ok(self) -> bool:
        """Whether there are no faults."""
        return not self.faults

    def summary(self) -> str:
        """Return a few lines for a person."""
        verdict = "verified" if self.ok else f"{len(self.faults)} faults"
        size = f"{self.ranks} ranks, {self.blocks} thread blocks, {self.steps} steps"
        lines = [f"{self.name}: {self.collective} for {self.target}, {size}: {verdict}"]
        if self.modes:
            lines.append(f"  data checked {' and '.join(self.modes)}")
        for kind in ("limits", "structure", "deadlocks", "data", "races", "warnings"):
            lines += [f"  {kind}: {text}" for text in getattr(self, kind)]
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready form, with ``ok`` and ``faults``."""
        return {"format": "synth-verify/1", "ok": self.ok, "faults": list(self.faults), **asdict(self)}
