"""The expectation itself, by hand; and the numbers that are sent."""

from __future__ import annotations

import numpy as np
import pytest

from synth.emulate.check import compare
from synth.emulate.collective import result, sides_of
from synth.emulate.values import DTYPES, as_dtype, write_input
from synth.errors import InvalidInputError
from synth.program.meaning.semantics import Semantics, expected_output, input_tokens


def arrays(*rows: list[int]) -> list[np.ndarray[tuple[int], np.dtype[np.int64]]]:
    return [np.array(row, dtype=np.int64) for row in rows]


def lists(claim: Semantics, *rows: list[int], op: str = "sum", chunk: int = 1) -> list[list[int] | None]:
    return [None if x is None else x.tolist() for x in result(claim, arrays(*rows), chunk, op)]


def test_by_hand() -> None:
    one, ten = [1, 2, 3, 4], [10, 20, 30, 40]
    assert lists(Semantics("allreduce", 2, 4), one, ten) == [[11, 22, 33, 44]] * 2
    assert lists(Semantics("allreduce", 2, 4), one, ten, op="prod") == [[10, 40, 90, 160]] * 2
    assert lists(Semantics("allreduce", 2, 2), one, ten, op="min", chunk=2) == [one] * 2
    assert lists(Semantics("reduce", 2, 4, root=1), one, ten) == [None, [11, 22, 33, 44]]
    assert lists(Semantics("broadcast", 2, 4, root=1), [], ten) == [ten, ten]
    assert lists(Semantics("allgather", 2, 8), one, ten) == [one + ten] * 2
    assert lists(Semantics("reducescatter", 2, 4), one, ten) == [[11, 22], [33, 44]]
    assert lists(Semantics("alltoall", 2, 2), one, ten, chunk=2) == [[1, 2, 10, 20], [3, 4, 30, 40]]
    assert lists(Semantics("custom", 2, 4), one, ten) == [None, None]
    assert lists(Semantics("allreduce", 3, 4, members=(0, 2)), one, [], ten) == [
        [11, 22, 33, 44],
        None,
        [11, 22, 33, 44],
    ]
    assert lists(Semantics("allgatherv", 2, 4, counts=(1, 3)), [1], [10, 20, 30]) == [[1, 10, 20, 30]] * 2
    assert lists(Semantics("reducescatterv", 2, 4, counts=(1, 3)), one, ten) == [[11], [22, 33, 44]]
    matrix = Semantics("alltoallv", 2, 4, counts=(1, 2, 0, 3))
    assert lists(matrix, [1, 2, 3], [10, 20, 30]) == [[1], [2, 3, 10, 20, 30]]


def test_nothing_shares_memory_with_the_inputs() -> None:
    for claim in (Semantics("broadcast", 1, 2, root=0), Semantics("allreduce", 1, 2), Semantics("allgather", 1, 2)):
        inputs = arrays([1, 2])
        (wanted,) = result(claim, inputs, 1, "sum")
        inputs[0][:] = 9
        assert wanted is not None
        assert wanted.tolist() == [1, 2]


@pytest.mark.parametrize(
    "claim",
    [
        Semantics("allgather", 3, 6),
        Semantics("reducescatter", 3, 6),
        Semantics("allreduce", 3, 6, members=(0, 2)),
        Semantics("alltoall", 3, 6),
        Semantics("broadcast", 3, 6, root=2),
        Semantics("reduce", 3, 6, root=1, members=(1, 2)),
        Semantics("allgatherv", 3, 6, members=(0, 2), counts=(2, 0, 4)),
        Semantics("reducescatterv", 3, 6, counts=(1, 2, 3)),
        Semantics("alltoallv", 3, 6, counts=(1, 2, 3, 0, 1, 0, 2, 2, 0)),
    ],
    ids=lambda claim: claim.collective,
)
def test_agrees_with_the_verifier(claim: Semantics) -> None:
    """Two definitions, written apart: the verifier's token of a chunk is 1 in a number system of its own."""
    inputs = []
    for rank in range(claim.ngpus):
        tokens = input_tokens(claim, rank)
        assert sides_of(claim, rank).given == tokens.size
        inputs.append(np.array([3.0 ** int(t) for t in tokens]))
    wanted = result(claim, inputs, 1, "sum")
    for rank in range(claim.ngpus):
        terms, mine = expected_output(claim, rank), wanted[rank]
        if not terms:
            assert mine is None
        else:
            assert mine is not None
            np.testing.assert_array_equal(mine, sum(3.0 ** t.astype(float) for t in terms))
            assert sides_of(claim, rank).wanted == mine.size


@pytest.mark.parametrize("op", ["sum", "prod", "max"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_numbers_reduce_without_rounding(dtype: str, op: str) -> None:
    kind, ranks = as_dtype(dtype), 16
    inputs = [np.empty(1000, kind) for _ in range(ranks)]
    for rank, values in enumerate(inputs):
        write_input(values, rank, op, ranks)
        assert np.isfinite(values).all()
    claim = Semantics("allreduce", ranks, 1)
    forward = result(claim, inputs, 1000, op)[0]
    backward = result(claim, inputs[::-1], 1000, op)[0]
    assert forward is not None
    assert backward is not None
    assert np.isfinite(forward).all()
    np.testing.assert_array_equal(forward, backward)
    # Any two ranks differ, and so do any two places, nearly everywhere; signs and halves are few, but not the same.
    assert np.count_nonzero(inputs[0] == inputs[1]) < 600


def test_pattern_does_not_repeat() -> None:
    values = np.empty(2_500_000, np.float32)
    write_input(values, 0, "sum", 4)
    for distance in (1 << 20, 1_048_573, 1000):
        assert np.count_nonzero(values[distance:] == values[:-distance]) < 1000
    with pytest.raises(InvalidInputError, match="float128"):
        as_dtype("float128")


def test_compare_says_where() -> None:
    want = np.arange(6.0)
    have = want.copy()
    have[4:] = 0
    verdict = compare([have] * 10, [want] * 10, 2, 0.0)
    assert verdict.wrong == 20
    assert verdict.max_difference == 5
    text = "output element 4 (chunk 2, element 0 of it) of rank 0: expected 4.0, got 0.0; 2 of 6 elements of this rank"
    assert verdict.faults[0] == text + " are wrong"
    assert verdict.faults[-1] == "and 2 more ranks"
    assert compare([want + 1e-9], [want], 2, 1e-6).wrong == 0
