"""Demands: sizes by the nccl-tests convention, subsets, uneven shards, matrices, and every refusal."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from synth.demand import COLLECTIVES, make_demand, read_matrix
from synth.errors import InvalidInputError
from synth.topology import resolve

RING = resolve("ring:4")


@pytest.mark.parametrize(
    ("collective", "shards", "each"),
    [
        ("allgather", 4, 2e9),
        ("reducescatter", 4, 2e9),
        ("allreduce", 1, 8e9),
        ("alltoall", 12, 2e9),
        ("broadcast", 1, 8e9),
        ("reduce", 1, 8e9),
        ("gather", 3, 2e9),
        ("scatter", 3, 2e9),
        ("sendrecv", 4, 8e9),
    ],
)
def test_sizes_follow_nccl_tests(collective: str, shards: int, each: float) -> None:
    demand = make_demand(RING, collective, "8 GB")
    assert len(demand.commodities) == shards
    assert {c.size for c in demand.commodities} == {each}
    assert demand.size_bytes == 8e9


def test_bus_factors_of_oracle_t34() -> None:
    eight = resolve("fullmesh:8")
    factor = {c: make_demand(eight, c, 1e9).bus_factor for c in COLLECTIVES if c != "alltoallv"}
    assert factor["allreduce"] == 1.75
    assert {factor[c] for c in ("allgather", "reducescatter", "alltoall", "gather", "scatter")} == {0.875}
    assert factor["broadcast"] == factor["reduce"] == factor["sendrecv"] == 1
    assert make_demand(eight, "allgather", 1e9, ranks=[3]).bus_factor == 0


def test_pairs_point_the_way_the_data_flows() -> None:
    assert set(make_demand(RING, "broadcast", 1.0, root=2).pairs) == {(2, 0), (2, 1), (2, 3)}
    assert set(make_demand(RING, "reduce", 1.0, root=2).pairs) == {(0, 2), (1, 2), (3, 2)}
    assert len(make_demand(RING, "allreduce", 1.0).pairs) == 12
    assert set(make_demand(RING, "sendrecv", 1.0, ranks=[0, 2]).pairs) == {(0, 2), (2, 0)}
    assert set(make_demand(RING, "sendrecv", 1.0, ranks=[0, 2], root=0).pairs) == {(0, 2)}


def test_subset_and_default_root() -> None:
    demand = make_demand(RING, "gather", 4.0, ranks=[3, 1])
    assert demand.root == 3
    assert [(c.root, c.dest, c.size) for c in demand.commodities] == [(1, 3, 2.0)]
    assert demand.local == (2.0, 0.0)


def test_uneven_shards_and_zero_shards() -> None:
    demand = make_demand(RING, "allgather", shards=[1.0, 0.0, 2.0, 3.0])
    assert demand.size_bytes == 6
    assert [(c.root, c.size) for c in demand.commodities] == [(0, 1.0), (2, 2.0), (3, 3.0)]


def test_matrix_is_bytes_unless_a_size_scales_it() -> None:
    matrix = np.array([[5, 1, 0], [2, 0, 2], [0, 4, 0]], dtype=float)
    three = resolve("ring:3")
    demand = make_demand(three, "alltoallv", matrix=matrix)
    assert [(c.root, c.dest, c.size) for c in demand.commodities] == [
        (0, 1, 1.0),
        (1, 0, 2.0),
        (1, 2, 2.0),
        (2, 1, 4.0),
    ]
    assert demand.local == (5.0, 0.0, 0.0)
    assert demand.size_bytes == 6
    assert make_demand(three, "alltoallv", 12.0, matrix=matrix).commodities[0].size == 2.0


def test_nothing_to_do() -> None:
    assert make_demand(resolve("switch:1"), "allgather", 1e9).empty
    assert make_demand(RING, "alltoallv", matrix=np.zeros((4, 4))).empty
    assert make_demand(RING, "allgather", 0).empty


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"collective": "allgathr", "size": 1.0}, "unknown collective 'allgathr'"),
        ({"collective": "allgather"}, "needs a size"),
        ({"collective": "allgather", "size": float("nan")}, "finite"),
        ({"collective": "allgather", "size": -1.0}, "0 or more"),
        ({"collective": "allgather", "size": "1 parsec"}, "parsec"),
        ({"collective": "allgather", "size": 1.0, "ranks": [0, 4]}, "rank 4 out of range"),
        ({"collective": "allgather", "size": 1.0, "ranks": [1, 1]}, "rank 1 is listed twice"),
        ({"collective": "allgather", "size": 1.0, "ranks": []}, "no ranks"),
        ({"collective": "allgather", "size": 1.0, "root": 0}, "has no root"),
        ({"collective": "broadcast", "size": 1.0, "ranks": [0, 1], "root": 2}, "root 2 is not one of the ranks"),
        ({"collective": "alltoallv"}, "needs a matrix"),
        ({"collective": "alltoall", "size": 1.0, "matrix": np.ones((4, 4))}, "takes no demand matrix"),
        ({"collective": "alltoallv", "matrix": np.ones((7, 8))}, "7 x 8; 4 ranks need 4 x 4"),
        ({"collective": "alltoallv", "matrix": -np.ones((4, 4))}, "row 0, column 0"),
        ({"collective": "alltoallv", "matrix": "abc"}, "matrix"),
        ({"collective": "allgather", "shards": [1.0, 2.0]}, "2 shards are given for 4 ranks"),
        ({"collective": "allreduce", "shards": [1.0] * 4}, "takes no shards"),
        ({"collective": "allgather", "size": 5.0, "shards": [1.0] * 4}, "add up to 4"),
    ],
)
def test_refusals(options: dict[str, object], words: str) -> None:
    with pytest.raises(InvalidInputError, match=words.replace("(", r"\(")):
        make_demand(RING, **options)  # type: ignore[arg-type]


def test_all_faults_at_once() -> None:
    with pytest.raises(InvalidInputError) as caught:
        make_demand(RING, "allgather", -1.0, ranks=[0, 9, 9], root=1)
    assert len(caught.value.faults) == 4


def test_matrix_file(tmp_path: Path) -> None:
    path = tmp_path / "m.csv"
    path.write_text("# bytes\n0, 1 MiB\n\nx,0\n", encoding="utf-8")
    with pytest.raises(InvalidInputError, match="line 4, column 1"):
        read_matrix(path)
    path.write_text("# bytes\n0, 1 MiB\n\n2000,0\n", encoding="utf-8")
    assert read_matrix(path).tolist() == [[0, 2**20], [2000, 0]]


@pytest.mark.parametrize(
    ("text", "words"), [("1,2\n3\n", "2 rows of 1/2 values"), ("", "0 rows"), ("1,x\n2,3\n", "line 1, column 2")]
)
def test_bad_matrix_files(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "m.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InvalidInputError, match=words):
        read_matrix(path)


def test_missing_matrix_file(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="cannot be read"):
        read_matrix(tmp_path / "none.csv")
