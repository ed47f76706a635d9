"""A Program cannot exist unverified."""

from __future__ import annotations

import copy
import pickle
from dataclasses import FrozenInstanceError, replace

import pytest

from synth.errors import NotExpressibleError, VerificationError
from synth.program.meaning.semantics import Semantics
from synth.program.msccl.model import Draft
from synth.program.msccl.program import Program
from synth.program.msccl.targets import MSCCL
from tests.program.msccl.builders import draft, edit_step, gpu, ring_allgather, ring_allreduce

GOOD = ring_allreduce(3)


def wrong() -> Draft:
    return edit_step(GOOD, 0, 0, 0, lambda s: replace(s, srcoff=1))


def test_good() -> None:
    program = Program(GOOD)
    assert program.target is MSCCL
    assert program.report.ok
    assert program == Program(GOOD, MSCCL)
    assert len({program, Program(GOOD)}) == 1


def test_exit_codes() -> None:
    with pytest.raises(VerificationError) as wrong_data:
        Program(wrong())
    assert wrong_data.value.exit_code == 5
    with pytest.raises(NotExpressibleError) as too_long:
        Program(replace(GOOD, name="x" * 64))
    assert too_long.value.exit_code == 6


def test_no_way_round_the_constructor() -> None:
    program = Program(GOOD)
    with pytest.raises(FrozenInstanceError):
        program.draft = wrong()  # type: ignore[misc]
    with pytest.raises(VerificationError):
        replace(program, draft=wrong())
    with pytest.raises(ValueError, match="report"):
        replace(program, report=program.report)
    with pytest.raises(TypeError):
        type("Loose", (Program,), {"__post_init__": lambda self: None})
    with pytest.raises(TypeError):
        Program.__new__(Program).__setstate__({"draft": wrong(), "target": MSCCL})
    assert copy.copy(program) == copy.deepcopy(program) == program


def test_pickles_verify_again() -> None:
    program = Program(GOOD)
    data = pickle.dumps(program)
    assert pickle.loads(data) == program
    object.__setattr__(program, "draft", wrong())
    with pytest.raises(VerificationError):
        pickle.loads(pickle.dumps(program))


def test_mutable_or_foreign_drafts() -> None:
    for bad in (None, "draft", replace(GOOD, gpus=list(GOOD.gpus))):  # type: ignore[arg-type]
        with pytest.raises(VerificationError):
            Program(bad)  # type: ignore[arg-type]
    with pytest.raises(VerificationError, match="target must be a Target"):
        Program(GOOD, "msccl")  # type: ignore[arg-type]


def test_claims_nothing() -> None:
    claim = Semantics("custom", 1, 1)
    with pytest.raises(VerificationError, match="claims nothing"):
        Program(draft(claim, [gpu(claim, 0, [])]))
    rootless = Semantics("broadcast", 1, 1)
    with pytest.raises(VerificationError, match="must name its root"):
        Program(draft(rootless, [gpu(rootless, 0, [])], inplace=True))
    with pytest.raises(VerificationError, match="not a multiple"):
        Program(replace(ring_allgather(3), semantics=Semantics("allgather", 3, 4)))


def test_one_rank_has_nothing_to_do() -> None:
    claim = Semantics("allreduce", 1, 1)
    assert Program(draft(claim, [gpu(claim, 0, [])], inplace=True)).report.ok
