"""Anybody's file as the runtime runs it, together with the calls that it gives to it."""

from __future__ import annotations

import os

from synth.errors import InvalidInputError
from synth.files.source import source_text
from synth.program.msccl.judging import refusals
from synth.program.msccl.model import Draft
from synth.program.msccl.selection import Selection, selection_of
from synth.program.msccl.targets import MSCCL, Target
from synth.program.msccl.xml.foreign import foreign_draft
from synth.program.msccl.xml.lexer import lex
from synth.program.msccl.xml.runtime_parser import judge


def read_selected(
    source: str | os.PathLike[str], target: Target = MSCCL, *, ranks: int | None = None
) -> tuple[Draft, Selection]:
    """Read a file as a runtime would, whether or not it then refuses it, and say which calls it serves.

    Parameters
    ----------
    source
        A path, or the text itself (a string that contains ``<``).
    target
        The runtime whose attributes and rules count.
    ranks
        Number of ranks of the job; by default that of the file.

    Raises
    ------
    InvalidInputError
        When the file cannot be read, or the runtime's lexer stops in it.
    """
    lexed = lex(source_text(source))
    draft = foreign_draft(lexed, target)
    if draft is None or lexed.refusal:
        raise InvalidInputError(lexed.refusal or "there is no <algo> element")
    verdict = judge(lexed, target, ranks)
    return draft, selection_of(draft, target, refusals(target, verdict.reasons, verdict.launch))
