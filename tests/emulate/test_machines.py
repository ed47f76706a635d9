"""Every built-in of at most 16 GPUs and every standard collective, executed; targets and modes take turns."""

from __future__ import annotations

import itertools

import pytest

import synth
from synth.emulate import run_program
from synth.program.msccl import TARGETS, Program
from synth.program.runtime import fitted, runtime_named
from tests.emulate.programs import size_of
from tests.program.msccl.test_lowering import SMALL, STANDARD

CASES = tuple(itertools.product(SMALL, STANDARD))


@pytest.mark.parametrize(("number", "name", "collective"), [(k, *case) for k, case in enumerate(CASES)])
def test_programs_compute_the_right_numbers(number: int, name: str, collective: str) -> None:
    target = TARGETS[number % len(TARGETS)]
    inplace = collective != "alltoall" and number // len(TARGETS) % 2 == 1
    runtime = runtime_named(target.name, {"inplace": inplace})
    _, draft = fitted(runtime, synth.solve(name, collective, 1e9), 1, 0.02, None)
    program = runtime.program(draft)
    assert isinstance(program, Program)
    report = run_program(program.draft, size_of(program.draft), target=target)
    assert report.ok
    assert report.inplace == inplace
    assert report.max_difference == 0
