"""Verification of anybody's file: the runtime's verdict first, then what a replay of it finds."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from synth.errors import InvalidInputError
from synth.files.source import source_text
from synth.program.meaning.report import Report
from synth.program.msccl.targets import MSCCL, Target
from synth.program.msccl.verifying.verify import verify
from synth.program.msccl.xml.foreign import foreign_draft, reading_notes
from synth.program.msccl.xml.lexer import lex
from synth.program.msccl.xml.runtime_parser import judge


def verify_file(
    source: str | os.PathLike[str],
    target: Target = MSCCL,
    *,
    ranks: int | None = None,
    protocol: str | None = None,
    depth: int | None = None,
) -> Report:
    """Say whether a runtime loads a file, and what happens when it runs it.

    Parameters
    ----------
    source
        A path, or the text itself (a string that contains ``<``). At most 256 MiB.
    target
        The runtime.
    ranks
        Number of ranks of the job; by default that of the file.
    protocol
        Protocol whose FIFO is replayed, in place of the file's.
    depth
        FIFO messages per connection; by default the protocol's.

    Returns
    -------
    Report
        ``ok`` when the file is accepted and has no faults. A file that the runtime refuses is still replayed as far as
        it can be read.

    Raises
    ------
    InvalidInputError
        When the file cannot be read, or the target has no such protocol.
    """
    if protocol is not None and target.protocol(protocol) is None:
        known = ", ".join(p.name for p in target.protocols)
        raise InvalidInputError(f"unknown protocol {protocol!r}: {target.name} has {known}")
    lexed = lex(source_text(source))
    verdict = judge(lexed, target, ranks)
    draft = foreign_draft(lexed, target)
    notes = reading_notes(lexed, target)
    if draft is None or lexed.refusal:
        name = Path(source).name if "<" not in str(source) else "text"
        empty = Report(name, "unknown", target.name, 0, accepted=False)
        return replace(empty, reject_reasons=verdict.reasons, hazards=notes)
    if protocol is not None:
        draft = replace(draft, proto=protocol)
    report = verify(draft, target, ranks=ranks, depth=depth)
    # What only our own checks refuse is a hazard: the runtime does not notice it.
    unnoticed = report.reject_reasons if verdict.accepted else ()
    return replace(
        report,
        accepted=verdict.accepted,
        reject_reasons=verdict.reasons,
        launch_reasons=verdict.launch or report.launch_reasons,
        hazards=(*notes, *unnoticed, *report.hazards),
    )
