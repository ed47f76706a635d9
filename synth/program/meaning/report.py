"""The outcome of a verification."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

_SHOWN = 20
# Kinds whose messages say themselves what they are.
_SPEAKING = ("deadlocks", "data", "races")


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
    accepted, reject_reasons
        Whether the target's own lexer and parser take the file, and if not, why.
    launch_reasons
        What an accepted file is then refused for when it is to run.
    hazards
        What the target does not notice, although the file then hangs, corrupts data, or is read differently from what
        its author meant; and everything in ``dead``.
    limits
        Target limits that are broken.
    structure, deadlocks, data, races
        Faults by kind. When there are structure faults the program is not run; when it hangs, data are not checked.
    dead
        Reads of undefined chunks, races and overlaps that no claimed output depends on. They change no result in any
        interleaving, hence are no faults; the strict verdict counts them.
    served_bytes
        Smallest and largest message size, both inclusive, for which the target selects the file, 2^63-1 when there is
        no end; None when it never does, or is not asked (mscclpp).
    count_multiple
        Element counts that are served, for the call's own count, are multiples of this; 0 when not asked.
    deadlock_free_max_bytes
        Largest message size in the file's range at which it cannot hang; 2^63-1 when the range has no end. None when it
        always hangs, or was not run.
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
    accepted: bool = True
    reject_reasons: tuple[str, ...] = ()
    launch_reasons: tuple[str, ...] = ()
    hazards: tuple[str, ...] = ()
    limits: tuple[str, ...] = ()
    structure: tuple[str, ...] = ()
    deadlocks: tuple[str, ...] = ()
    data: tuple[str, ...] = ()
    races: tuple[str, ...] = ()
    dead: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    served_bytes: tuple[int, int] | None = None
    count_multiple: int = 0
    deadlock_free_max_bytes: int | None = None
    wrong_chunks: int = 0
    root: int | None = None
    steps: int = 0
    blocks: int = 0
    scratch_chunks: int = 0
    fifo_depth: int = 0
    chunks_per_message: int = 0

    @property
    def faults(self) -> tuple[str, ...]:
        """All faults, each once, refusals first."""
        kinds = (self.reject_reasons, self.launch_reasons, self.limits, self.structure)
        return tuple(dict.fromkeys(text for kind in (*kinds, self.deadlocks, self.data, self.races) for text in kind))

    @property
    def ok(self) -> bool:
        """Whether the file is accepted and there are no faults."""
        return self.accepted and not self.faults

    @property
    def strict_faults(self) -> tuple[str, ...]:
        """All faults, those on dead data included."""
        return (*self.faults, *self.dead)

    @property
    def strict_ok(self) -> bool:
        """Whether the file is accepted and not even dead data are touched in the wrong order."""
        return self.ok and not self.dead

    def summary(self, strict: bool = False) -> str:
        """Return a few lines for a person; ``strict`` counts what touches dead data only as faults."""
        faults = self.strict_faults if strict else self.faults
        verdict = "verified" if self.accepted and not faults else f"{len(faults)} faults"
        if self.ok and self.dead:
            other = f"{len(self.dead)} faults" if not strict else "verified"
            verdict += f" ({other} {'with' if not strict else 'without'} --strict: on data that no output depends on)"
        size = f"{self.ranks} ranks, {self.blocks} thread blocks, {self.steps} steps"
        lines = [f"{self.name}: {self.collective} for {self.target}, {size}: {verdict}"]
        lines.append(f"  {self.target} {'accepts' if self.accepted else 'rejects'} the file")
        if self.modes:
            lines.append(f"  data checked {' and '.join(self.modes)}")
        lines += self._served_lines()
        if self.deadlock_free_max_bytes is not None:
            end = self.deadlock_free_max_bytes
            lines.append(f"  cannot hang {'at any size' if end >= (1 << 63) - 1 else f'up to {end} bytes'}")
        told: set[str] = set()
        for kind in ("reject_reasons", "launch_reasons", "hazards", "deadlocks", "data", "races", "warnings"):
            texts = [text for text in getattr(self, kind) if text not in told]
            told.update(texts)
            label = kind.removesuffix("_reasons").removesuffix("s") + ": " if kind not in _SPEAKING else ""
            lines += [f"  {label}{text}" for text in texts[:_SHOWN]]
            if len(texts) > _SHOWN:
                lines.append(f"  {label}and {len(texts) - _SHOWN} more")
        return "\n".join(lines)

    def _served_lines(self) -> list[str]:
        if self.served_bytes is None:
            return []
        low, high = self.served_bytes
        sizes = f"{low} B and more" if high >= (1 << 63) - 1 else f"{low}..{high} B"
        return [f"  selected for messages of {sizes}, element counts that are multiples of {self.count_multiple}"]

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready form, with ``ok``, ``strict_ok``, ``faults`` and ``strict_faults``."""
        verdicts = {"ok": self.ok, "strict_ok": self.strict_ok}
        faults = {"faults": list(self.faults), "strict_faults": list(self.strict_faults)}
        return {"format": "synth-verify/1", **verdicts, **faults, **asdict(self)}
