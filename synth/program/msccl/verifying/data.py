"""One mode of a program that does not hang: wrong outputs, undefined reads, overlaps and races, live and dead ones.

Whatever no claimed output depends on (:mod:`synth.program.msccl.verifying.liveness`) cannot make the result wrong. It
is told apart, and only looked at when there is something to tell: a clean program costs no more than the strict check.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from synth.program.meaning.report import Report
from synth.program.meaning.semantics import Semantics, input_tokens
from synth.program.msccl.columns import Flags, Ints
from synth.program.msccl.verifying.contents import Contents, execute
from synth.program.msccl.verifying.image import Image, overlap_text, overlapping_ops
from synth.program.msccl.verifying.liveness import Liveness
from synth.program.msccl.verifying.outputs import data_faults
from synth.program.msccl.verifying.races.check import RaceCheck
from synth.program.msccl.verifying.races.live import split_races

_SHOWN = 12


@dataclass(slots=True)
class _Findings:
    """Messages of one mode; ``dead`` ones stand for what no claimed output depends on."""

    data: list[str] = field(default_factory=list)
    races: list[str] = field(default_factory=list)
    dead_data: list[str] = field(default_factory=list)
    dead_races: list[str] = field(default_factory=list)


class _Mode:
    """A program in one mode, with its liveness at hand when it is asked for."""

    def __init__(self, image: Image, claim: Semantics, order: Ints) -> None:
        self.image, self.claim, self.order = image, claim, order
        self.contents: Contents = execute(image, claim, order)
        self.found = _Findings()

    @cached_property
    def liveness(self) -> Liveness:
        return Liveness(self.image, self.claim, self.order)

    def overlaps(self) -> None:
        for op in overlapping_ops(self.image):
            live = self.liveness.reads_any(op)
            (self.found.data if live else self.found.dead_data).append(overlap_text(self.image, op))

    def undefined_reads(self) -> None:
        for read in self.contents.undefined_reads:
            live = self.liveness.read(read.op, np.array(read.chunks)).any()
            (self.found.data if live else self.found.dead_data).append(read.text(self.image))

    def races(self) -> None:
        check = RaceCheck(self.image, self.order, self._defined())
        if len(check.late):
            live, dead = split_races(check, self.liveness)
            self.found.races, self.found.dead_races = check.worded(live), check.worded(dead)

    def _defined(self) -> list[Flags]:
        """Per rank, which addresses hold data before the program starts."""
        defined = []
        for rank, at in enumerate(self.image.layouts):
            flags = np.zeros(at.total, dtype=np.bool_)
            flags[at.i : at.i + len(input_tokens(self.claim, rank))] = True
            defined.append(flags)
        return defined


def check_mode(report: Report, image: Image, claim: Semantics, order: Ints, mode: str) -> Report:
    """Add what is found about one mode to a report.

    Parameters
    ----------
    report
        So far.
    image, claim, order
        The program in this mode, what it promises, and its ops in the order of a replay that did not hang.
    mode
        "in place" or "out of place".
    """
    check = _Mode(image, claim, order)
    check.overlaps()
    check.undefined_reads()
    check.races()
    found = check.found
    wrong, faults = data_faults(image, claim, check.contents)
    warnings = list(report.warnings)
    written = check.contents.input_written
    if written and mode == "out of place":
        name = image.name(written[0])
        warnings.append(f"{len(written)} steps write into an input buffer out of place, first {name}")
    dead = _labelled(mode, found.dead_data) + _labelled(mode, found.dead_races)
    return replace(
        report,
        modes=report.modes if claim.collective == "custom" else (*report.modes, mode),
        data=report.data + _labelled(mode, [*found.data, *faults]),
        races=report.races + _labelled(mode, found.races),
        dead=report.dead + dead,
        hazards=report.hazards + tuple(f"{text}; no claimed output depends on it" for text in dead),
        warnings=tuple(warnings),
        wrong_chunks=report.wrong_chunks + wrong,
    )


def _labelled(mode: str, faults: list[str]) -> tuple[str, ...]:
    shown = [f"{mode}: {fault}" for fault in faults[:_SHOWN]]
    hidden = len(faults) - len(shown)
    return (*shown, *([f"{mode}: and {hidden} more"] if hidden else []))
