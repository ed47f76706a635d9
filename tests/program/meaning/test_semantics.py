"""Meaning of every collective on hand-made examples."""

from __future__ import annotations

import pytest

from synth.program.meaning.semantics import (
    Semantics,
    buffer_chunks,
    expected_output,
    input_tokens,
    is_standard,
    normalised,
    semantics_faults,
)


def outputs(claim: Semantics) -> list[list[list[int]]]:
    return [[term.tolist() for term in expected_output(claim, rank)] for rank in range(claim.ngpus)]


def inputs(claim: Semantics) -> list[list[int]]:
    return [input_tokens(claim, rank).tolist() for rank in range(claim.ngpus)]


def test_even_collectives_on_two_ranks() -> None:
    """C = 2: tokens 0, 1 are rank 0's chunks, 2, 3 rank 1's."""
    assert inputs(Semantics("allgather", 2, 2)) == [[0], [2]]
    assert outputs(Semantics("allgather", 2, 2)) == [[[0, 2]], [[0, 2]]]
    assert inputs(Semantics("reducescatter", 2, 2)) == [[0, 1], [2, 3]]
    assert outputs(Semantics("reducescatter", 2, 2)) == [[[0], [2]], [[1], [3]]]
    assert outputs(Semantics("allreduce", 2, 2)) == [[[0, 1], [2, 3]]] * 2
    assert outputs(Semantics("alltoall", 2, 2)) == [[[0, 2]], [[1, 3]]]


def test_rooted() -> None:
    assert inputs(Semantics("broadcast", 2, 2, root=1)) == [[], [2, 3]]
    assert outputs(Semantics("broadcast", 2, 2, root=1)) == [[[2, 3]]] * 2
    assert outputs(Semantics("reduce", 2, 2, root=1)) == [[], [[0, 1], [2, 3]]]


def test_uneven() -> None:
    gather = Semantics("allgatherv", 3, 4, members=(0, 2), counts=(1, 0, 2))
    assert inputs(gather) == [[0], [], [8, 9]]
    assert outputs(gather) == [[[0, 8, 9]], [], [[0, 8, 9]]]
    scatter = Semantics("reducescatterv", 3, 4, members=(0, 2), counts=(1, 0, 2))
    assert inputs(scatter) == [[0, 1, 2], [], [8, 9, 10]]
    assert outputs(scatter) == [[[0], [8]], [], [[1, 2], [9, 10]]]
    exchange = Semantics("alltoallv", 2, 4, counts=(1, 2, 0, 1))
    assert inputs(exchange) == [[0, 1, 2], [4]]
    assert outputs(exchange) == [[[0]], [[1, 2, 4]]]


def test_declared_sizes_and_names() -> None:
    assert buffer_chunks(Semantics("allgather", 4, 8), 0) == (2, 8)
    assert buffer_chunks(Semantics("allgatherv", 3, 8, members=(0, 2), counts=(1, 0, 2)), 0) == (8, 8)
    assert buffer_chunks(Semantics("allgatherv", 3, 8, members=(0, 2), counts=(1, 0, 2)), 1) == (0, 0)
    assert is_standard(Semantics("allreduce", 2, 1, members=(0, 1)))
    assert not is_standard(Semantics("allreduce", 3, 1, members=(0, 1)))
    assert normalised(Semantics("allreduce", 2, 1, members=(0, 1))) == Semantics("allreduce", 2, 1)


@pytest.mark.parametrize(
    ("claim", "words"),
    [
        (Semantics("gather", 2, 2), "'gather' is not known"),
        (Semantics("allreduce", 0, 2), "ngpus=0"),
        (Semantics("allreduce", 10**12, 2), "ngpus=1000000000000"),
        (Semantics("allreduce", 2, 0), "nchunks=0"),
        (Semantics("allgather", 3, 4), "nchunks=4 is not a multiple of the 3 ranks"),
        (Semantics("allgather", 3, 3, members=(0, 1)), "use allgatherv"),
        (Semantics("allreduce", 3, 3, members=(1, 0)), "increasing"),
        (Semantics("allreduce", 3, 3, members=(1, 3)), "increasing ranks in 0..2"),
        (Semantics("broadcast", 3, 3, root=3), "root 3 is not a member"),
        (Semantics("reduce", 3, 3, root=0, members=(1, 2)), "root 0 is not a member"),
        (Semantics("allreduce", 3, 3, root=0), "has no root"),
        (Semantics("allreduce", 3, 3, counts=(1, 1, 1)), "counts are only for"),
        (Semantics("allgatherv", 3, 3, counts=(1, 1)), "counts must be 3 numbers"),
        (Semantics("allgatherv", 3, 3, counts=(1, 1, -1)), "counts must be 3 numbers >= 0"),
        (Semantics("allgatherv", 3, 3, counts=(2, 1, 1)), "all shards together have 4 chunks, more than nchunks=3"),
        (Semantics("allgatherv", 3, 3, members=(0, 1), counts=(1, 1, 1)), "rank 2 is not a member"),
        (Semantics("alltoallv", 2, 3, counts=(2, 2, 0, 0)), "input of rank 0 has 4 chunks"),
        (Semantics("alltoallv", 2, 3, counts=(2, 0, 2, 0)), "output of rank 0 has 4 chunks"),
        (Semantics("alltoallv", 2, 3, members=(0,), counts=(0, 1, 0, 0)), "rank 0 sends to rank 1"),
        (Semantics("custom", 2, 3, members=(0,)), "custom has members"),
    ],
)
def test_meaningless_claims(claim: Semantics, words: str) -> None:
    assert any(words in fault for fault in semantics_faults(claim)), semantics_faults(claim)
