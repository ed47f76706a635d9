"""Programs that synth makes, executed: every collective, both modes, all kinds of numbers, and what mutations do."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest

import synth
from synth.demand import COLLECTIVES
from synth.emulate import RunReport, run_program
from synth.errors import InvalidInputError, LimitReachedError, VerificationError
from synth.program.meaning.semantics import Semantics
from synth.program.msccl import verify
from synth.program.msccl.model import Draft, Step, ThreadBlock
from tests.emulate.programs import program, size_of
from tests.program.msccl.builders import (
    block,
    direct_alltoall,
    draft,
    edit_block,
    edit_step,
    gpu,
    ring_allgather,
    ring_allreduce,
    scratch_allreduce,
    step,
    without_step,
)

TOPOLOGIES = ("ring:4", "dgx1-v100", "mesh2d:2x3", "cluster:box=ring:3,hosts=2")
IN_PLACE = ("allgather", "reducescatter", "allreduce", "broadcast", "reduce")


def ran(program: Draft, size: int, **options: object) -> RunReport:
    report = run_program(program, size, **options)  # type: ignore[arg-type]
    assert report.ok
    assert report.checked
    assert report.max_difference == 0
    return report


@pytest.mark.parametrize("collective", [name for name in COLLECTIVES if name != "alltoallv"])
@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_every_collective(topology: str, collective: str) -> None:
    for inplace in (False, True) if collective in IN_PLACE else (False,):
        made = program(topology, collective, inplace=inplace)
        report = ran(made, size_of(made))
        assert report.inplace == inplace
        assert report.notes == ()
        assert report.steps == sum(s.type != "nop" for g in made.gpus for b in g.blocks for s in b.steps)
        sends = {(g.id, b.send, b.chan): b for g in made.gpus for b in g.blocks if b.send >= 0}
        assert {(c.src, c.dst, c.chan) for c in report.connections} == set(sends)
        for c in report.connections:
            counts = [s.cnt for s in sends[c.src, c.dst, c.chan].steps if s.type in ("s", "rcs", "rrs", "rrcs")]
            assert (c.bytes, c.messages) == (sum(counts) * report.chunk_bytes, len(counts))


@pytest.mark.parametrize("collective", ["allgather", "allreduce", "alltoall", "broadcast", "reduce", "reducescatter"])
def test_some_ranks_only_relay(collective: str) -> None:
    made = program("ring:4", collective, ranks=(0, 2, 3))
    assert made.semantics.members == (0, 2, 3)
    ran(made, size_of(made))


def test_uneven_collectives() -> None:
    for collective in ("allgather", "reducescatter"):
        made = synth.synthesize("ring:4", collective, shards=[1e6, 2e6, 1e6, 3e6]).xml_program.draft
        assert made.semantics.collective == collective + "v"
        ran(made, size_of(made))
    matrix = np.array([[2, 1, 0, 3], [0, 1, 4, 0], [1, 1, 1, 1], [0, 0, 0, 0]]) * 1e6
    made = synth.synthesize("ring:4", "alltoallv", matrix=matrix).xml_program.draft
    assert made.semantics.collective == "alltoallv"
    ran(made, size_of(made))


@pytest.mark.parametrize(
    ("dtype", "op"),
    [(dtype, op) for dtype in ("float32", "int64") for op in ("sum", "prod", "min", "max")]
    + [
        ("float16", "sum"),
        ("float64", "prod"),
        ("int8", "prod"),
        ("uint8", "sum"),
        ("int32", "max"),
        ("uint64", "sum"),
    ],
)
def test_types_and_operations(dtype: str, op: str) -> None:
    made = ring_allreduce(3)
    item = np.dtype(dtype).itemsize
    report = ran(made, size_of(made, 1000, item), dtype=dtype, op=op)
    assert (report.dtype, report.op, report.chunk_bytes) == (dtype, op, 1000 * item)
    if dtype not in ("float32", "int8"):
        return
    # A rank that is left out is noticed, whatever the operation.
    wrong = edit_step(made, 1, 0, 1, lambda s: replace(s, type="rcs", dstbuf=s.srcbuf, dstoff=s.srcoff))
    report = run_program(wrong, size_of(made, 1000, item), dtype=dtype, op=op, check=False)
    assert not report.ok
    assert report.max_difference > 0


def test_several_iterations_and_split_messages() -> None:
    """LL messages hold 32 KiB: chunks of 100,000 bytes take four iterations; small ones travel together, 71 at most."""
    made = replace(program("ring:4", "allreduce"), proto="LL")
    report = ran(made, size_of(made, 25_000))
    assert (report.iterations, report.chunks_per_message, report.fifo_depth) == (4, 1, 8)
    assert all(c.messages * 32768 > c.bytes for c in report.connections)
    cut = replace(direct_alltoall(3, 100), proto="LL")
    report = ran(cut, size_of(cut, 1000))
    assert (report.iterations, report.chunks_per_message) == (1, 8)
    # 71 chunks in messages of 8 are nine, 29 more are four.
    assert {(c.bytes, c.messages) for c in report.connections} == {(400_000, 13)}
    assert ran(cut, size_of(cut, 1)).chunks_per_message == 71


def test_simple_messages_of_two_mebibytes() -> None:
    made = ring_allgather(2)
    report = ran(made, 2 * ((5 << 20) + 4))
    assert (report.iterations, report.chunks_per_message) == (3, 1)
    assert {c.messages for c in report.connections} == {3}


def test_t21_real_numbers() -> None:
    """Rank r holds (r+1)*10^c in chunk c: 6, 60, 600 on every rank; rank 0 added twice gives 7 in chunk 0."""
    made = ring_allreduce(3)
    inputs = [np.array([1, 10, 100]) * (r + 1) for r in range(3)]
    assert ran(made, 12, inputs=inputs).max_difference == 0
    twice = scratch_allreduce(3)
    adds = twice.gpus[1].blocks[0].steps
    again = step("re", ("s", 0), ("i", 0))
    twice = edit_block(twice, 1, 0, lambda b: replace(b, steps=(*adds, again)))
    assert ran(scratch_allreduce(3), 4, inputs=[[1], [2], [3]]).ok
    with pytest.raises(VerificationError, match=r"element 0 \(chunk 0.*\) of rank 1: expected 6\.0, got 7\.0"):
        run_program(twice, 4, inputs=[[1], [2], [3]])  # type: ignore[list-item]


def test_rounding_of_foreign_numbers_is_no_fault() -> None:
    rng = np.random.default_rng(1)
    inputs = [rng.normal(size=3 * 50) for _ in range(3)]
    report = run_program(ring_allreduce(3), 3 * 50 * 4, inputs=inputs)
    assert 0 <= report.max_difference < 1e-5


def flip(s: Step) -> Step:
    return replace(s, srcoff=s.srcoff ^ 1 if s.srcoff >= 0 else -1, dstoff=s.dstoff ^ 1 if s.dstoff >= 0 else -1)


def test_every_mutation_that_shows_is_one_that_the_verifier_finds() -> None:
    """Dropped steps and wrong chunks: caught here too, unless they only make a race."""
    good = ring_allgather(3, 2)
    caught = 0
    for b, written in enumerate(good.gpus[1].blocks):
        for i in range(len(written.steps)):
            moved = edit_step(good, 1, b, i, lambda s: flip(replace(s, cnt=1)))
            for wrong in (moved, without_step(good, 1, b, i)):
                report = run_program(wrong, size_of(good), check=False, timeout=20)
                assert verify(wrong).ok == report.ok
                caught += not report.ok
    assert caught == 8


def test_swapped_destinations_of_alltoall() -> None:
    good = direct_alltoall(3)
    wrong = edit_step(good, 0, 2, 0, lambda s: replace(s, srcoff=2, dstoff=2))
    with pytest.raises(VerificationError, match=r"rank 0: expected .* got") as caught:
        run_program(wrong, size_of(good))
    assert "1 of 9" not in str(caught.value)
    assert "3 of 9 elements of this rank are wrong" in str(caught.value) or "6 of 9" in str(caught.value)


def test_missing_wait() -> None:
    """T19: block 0 of rank 1 receives into scratch, block 1 sends it on without waiting.

    Blocks of a rank take turns, and block 1's turn comes before anything can have arrived, so this one shows. In
    general a missing dependency shows only if the blocks meet in the wrong order: that is the verifier's work.
    """
    claim = Semantics("broadcast", 3, 1, root=0)

    def made(wait: bool) -> Draft:
        dep = (0, 0) if wait else (-1, -1)
        middle = [
            block(0, -1, 0, [step("r", ("o", 0), ("o", 0), hasdep=True)]),
            block(1, 2, -1, [step("s", ("o", 0), ("o", 0), dep=dep)]),
        ]
        first = [block(0, 1, -1, [step("s", ("i", 0), ("o", 0))]), block(1, -1, -1, [step("cpy", ("i", 0), ("o", 0))])]
        last = [block(0, -1, 1, [step("r", ("o", 0), ("o", 0))])]
        return draft(claim, [gpu(claim, r, blocks) for r, blocks in enumerate((first, middle, last))])

    ran(made(True), 40)
    with pytest.raises(VerificationError, match=r"rank 2: expected .* got nan, probably never written"):
        run_program(made(False), 40)


def test_dropping_every_wait_never_breaks_the_emulator() -> None:
    """May be caught or not, depending on the order of the blocks; it must end either way."""

    def deaf(b: ThreadBlock) -> ThreadBlock:
        return replace(b, steps=tuple(replace(s, depid=-1, deps=-1) for s in b.steps))

    made = program("ring:4", "allreduce")
    gpus = tuple(replace(g, blocks=tuple(deaf(b) for b in g.blocks)) for g in made.gpus)
    report = run_program(replace(made, gpus=gpus), size_of(made), check=False)
    assert report.steps > 0


def test_overwritten_input() -> None:
    made = ring_allgather(3)
    wrong = edit_block(made, 0, 1, lambda b: replace(b, steps=(*b.steps, step("cpy", ("o", 1), ("i", 0), 1))))
    with pytest.raises(VerificationError, match=r"input element 0 \(chunk 0\) of rank 0 was overwritten"):
        run_program(wrong, size_of(made))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"size": 13}, "3 chunks of whole elements; nearest valid: 12 B and 24 B"),
        ({"size": 0}, "nearest valid: 12 B"),
        ({"size": 1 << 44}, "nearest valid"),
        ({"size": 12 << 40}, "GiB of shared memory, the machine has"),
        ({"dtype": "float8"}, "dtype 'float8'"),
        ({"op": "avg"}, "operation 'avg'"),
        ({"timeout": 0.0}, "timeout"),
        ({"inplace": False}, "in place only"),
        ({"depth": 0}, "depth of 0"),
        ({"inputs": [[1], [2], [3]]}, "inputs have"),
    ],
)
def test_wrong_arguments(options: dict[str, object], words: str) -> None:
    arguments: dict[str, object] = {"size": 12, **options}
    with pytest.raises(InvalidInputError, match=words):
        run_program(ring_allreduce(3), **arguments)  # type: ignore[arg-type]


def test_modes_that_a_program_does_not_have() -> None:
    with pytest.raises(InvalidInputError, match="out of place only"):
        run_program(ring_allgather(3), 12, inplace=True)
    with pytest.raises(InvalidInputError, match="no in-place form"):
        run_program(replace(direct_alltoall(3), inplace=True), 36, inplace=True)
    with pytest.raises(InvalidInputError, match="protocol 'Fast'"):
        run_program(replace(ring_allgather(3), proto="Fast"), 12)
    with pytest.raises(InvalidInputError, match="257 ranks"):
        run_program(replace(ring_allgather(3), semantics=Semantics("allreduce", 257, 1)), 12)


def test_time_limit_is_no_verdict_about_the_program() -> None:
    made = replace(ring_allgather(2), proto="LL")
    with pytest.raises(LimitReachedError, match=r"still running after 0\.05 s: \d+ of \d+ steps done"):
        run_program(made, 48 << 20, timeout=0.05, dtype="int8")


def test_report() -> None:
    made = ring_allgather(3)
    report = run_program(made, 24)
    facts = json.loads(json.dumps(report.to_dict()))
    assert facts["format"] == "synth-run/1"
    assert facts["ok"] is True
    assert facts["moved_bytes"] == 3 * 2 * 8
    assert facts["connections"][0] == {"src": 0, "dst": 1, "chan": 0, "bytes": 16, "messages": 2}
    assert "every number right" in report.summary()
    wrong = run_program(without_step(made, 0, 1, 0), 24, check=False)
    assert wrong.max_difference == math.inf
    assert wrong.to_dict()["max_difference"] is None
    assert "1 faults" in wrong.summary()
    beyond = run_program(replace(made, min_bytes=100), 24)
    assert beyond.ok
    assert not beyond.served
    # The legacy runtime's maxBytes is not served itself.
    assert "24 B is outside the range of the file, 100..1048575 B" in beyond.unserved[0]
    assert beyond.unserved[0] in beyond.summary()


def test_custom_runs_unchecked() -> None:
    report = run_program(replace(ring_allgather(3), semantics=Semantics("custom", 3, 3)), 12)
    assert report.ok
    assert not report.checked
    assert "data not checked" in report.summary()
