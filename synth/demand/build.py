"""Building demands: sizes, rank subsets, uneven shards and all-to-all-v matrices, with every fault reported."""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from synth.demand.model import COLLECTIVES, ROOTED, Commodity, Demand, EvenPairs
from synth.errors import InvalidInputError
from synth.ground.units import parse_size
from synth.topology.model import Topology


def make_demand(
    topology: Topology,
    collective: str,
    size: float | str | None = None,
    *,
    ranks: Sequence[int] | None = None,
    root: int | None = None,
    matrix: Any = None,
    shards: Sequence[float] | None = None,
) -> Demand:
    """Build the demand of a collective.

    Parameters
    ----------
    topology
        Its GPU nodes in order are the ranks.
    collective
        One of ``synth.demand.COLLECTIVES``.
    size
        nccl-tests size in bytes, or text such as ``"1GiB"``. With ``shards`` it may be left out. With ``matrix`` it
        scales the matrix so that the largest send buffer has this size; left out, the matrix is in bytes.
    ranks
        Ranks that take part (default: all GPUs); the others may relay.
    root
        Root rank of broadcast, reduce, gather, scatter (default: the first of ``ranks``). For send/recv the only
        sender; without it every rank sends to the next one in ``ranks``, as nccl-tests does.
    matrix
        All-to-all-v: n x n array of bytes for the n ``ranks``, row = source; the diagonal is a local copy.
    shards
        All-gather and reduce-scatter with uneven shards: bytes of each of ``ranks``.

    Returns
    -------
    Demand

    Raises
    ------
    InvalidInputError
        Unknown collective, rank out of range, bad size, wrong shape: all faults at once.
    """
    if collective not in COLLECTIVES:
        raise InvalidInputError(f"unknown collective {collective!r}: use one of {', '.join(COLLECTIVES)}")
    count = len(topology.gpus)
    members = tuple(range(count)) if ranks is None else tuple(int(r) for r in ranks)
    faults = _rank_faults(topology, members, root, collective)
    total = _size(size, faults)
    grid = _matrix(matrix, len(members), collective, faults)
    parts = _shards(shards, len(members), collective, faults)
    if total is None and grid is None and parts is None and not faults:
        faults.append(f"{collective} needs a size, for example --size 1GiB")
    if total is not None and parts is not None and not math.isclose(total, sum(parts), rel_tol=1e-9):
        faults.append(f"size is {total:g} bytes but the shards add up to {sum(parts):g}: leave one of them out")
    if faults:
        raise InvalidInputError(faults)
    at = members[0] if root is None and collective in ROOTED else root
    return _assemble(collective, members, total, at, grid, parts)


def _assemble(
    collective: str,
    members: tuple[int, ...],
    total: float | None,
    root: int | None,
    grid: np.ndarray | None,
    parts: tuple[float, ...] | None,
) -> Demand:
    n = len(members)
    if grid is not None:
        largest = float(grid.sum(axis=1).max(initial=0.0))
        if total is not None and largest > 0:
            grid = grid * (total / largest)
        items = [
            Commodity(s, d, float(grid[i, j])) for i, s in enumerate(members) for j, d in enumerate(members) if s != d
        ]
        own = tuple(map(float, grid.diagonal()))
        return _demand(collective, members, largest if total is None else total, items, None, own)
    if parts is None:
        parts = tuple((total or 0.0) / n for _ in members)
    size = sum(parts) if total is None else total
    local: tuple[float, ...] = ()
    if collective in ("allgather", "reducescatter"):
        items = [Commodity(r, None, part) for r, part in zip(members, parts, strict=True)] if n > 1 else []
    elif collective == "alltoall":
        local = (size / n,) * n
        return _demand(collective, members, size, EvenPairs(members, size / n), root, local)
    elif collective == "sendrecv":
        shift = [(s, members[(i + 1) % n]) for i, s in enumerate(members)]
        items = [Commodity(s, d, size) for s, d in shift if s != d and root in (None, s)]
    elif collective in ("gather", "scatter"):
        ends = [(r, root) if collective == "gather" else (root, r) for r in members if r != root]
        items = [Commodity(s, d, size / n) for s, d in ends if s is not None]
        local = tuple(size / n if r == root else 0.0 for r in members)
    else:
        items = [Commodity(-1 if root is None else root, None, size)] if n > 1 else []
    return _demand(collective, members, size, items, root, local)


def _demand(
    collective: str,
    members: tuple[int, ...],
    size: float,
    items: Sequence[Commodity],
    root: int | None,
    local: tuple[float, ...],
) -> Demand:
    even = isinstance(items, EvenPairs) and items.size > 0
    shards = items if even else tuple(c for c in items if c.size > 0)
    return Demand(collective, members, float(size), shards, root, local)


def _rank_faults(topology: Topology, members: tuple[int, ...], root: int | None, collective: str) -> list[str]:
    count = len(topology.gpus)
    faults = []
    if count == 0:
        faults.append(f"topology {topology.name!r} has no gpu node")
    elif not members:
        faults.append("no ranks are given")
    bad = [rank for rank in members if not 0 <= rank < count]
    if bad and count:
        faults.append(f"rank {', '.join(map(str, bad))} out of range: {topology.name!r} has ranks 0 to {count - 1}")
    twice = sorted({rank for rank in members if members.count(rank) > 1})
    if twice:
        faults.append(f"rank {', '.join(map(str, twice))} is listed twice")
    if root is None:
        return faults
    if collective not in ROOTED and collective != "sendrecv":
        faults.append(f"{collective} has no root: leave --root out")
    elif root not in members:
        faults.append(f"root {root} is not one of the ranks {', '.join(map(str, members))}")
    return faults


def _size(size: float | str | None, faults: list[str]) -> float | None:
    if size is None:
        return None
    try:
        value = parse_size(size) if isinstance(size, str) else float(size)
    except (InvalidInputError, TypeError, ValueError) as error:
        faults.append(f"size {size!r}: {error}")
        return None
    if isinstance(size, bool) or not math.isfinite(value) or value < 0:
        faults.append(f"size {size!r} must be a finite number of bytes, 0 or more")
        return None
    return value


def _matrix(matrix: Any, n: int, collective: str, faults: list[str]) -> np.ndarray | None:
    if matrix is None:
        if collective == "alltoallv":
            faults.append("alltoallv needs a matrix of bytes, row = source (--demand matrix.csv)")
        return None
    if collective != "alltoallv":
        faults.append(f"{collective} takes no demand matrix; alltoallv does")
        return None
    try:
        grid = np.asarray(matrix, dtype=float)
    except (TypeError, ValueError) as error:
        faults.append(f"the demand matrix must be numbers: {error}")
        return None
    if grid.shape != (n, n):
        faults.append(f"the demand matrix is {' x '.join(map(str, grid.shape))}; {n} ranks need {n} x {n}")
        return None
    wrong = np.argwhere(~(np.isfinite(grid) & (grid >= 0)))
    faults.extend(f"demand matrix row {i}, column {j}: {grid[i, j]} is not a number of bytes" for i, j in wrong[:20])
    return grid


def _shards(shards: Sequence[float] | None, n: int, collective: str, faults: list[str]) -> tuple[float, ...] | None:
    if shards is None:
        return None
    if collective not in ("allgather", "reducescatter"):
        faults.append(f"{collective} takes no shards; allgather and reducescatter do")
    if len(shards) != n:
        faults.append(f"{len(shards)} shards are given for {n} ranks")
    parts = tuple(float(part) for part in shards)
    bad = [part for part in parts if not math.isfinite(part) or part < 0]
    faults.extend(f"shard of {part} bytes: must be finite and 0 or more" for part in bad)
    return parts


def read_matrix(path: str | Path) -> np.ndarray:
    """Read a square matrix of sizes from a CSV file (plain bytes, or values with units such as ``1 MiB``).

    Lines that are empty or start with ``#`` are skipped.

    Raises
    ------
    InvalidInputError
        Unreadable file, ragged rows, or cells that are not sizes: all at once, with line and column.
    """
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInputError(f"{path}: cannot be read: {error}") from error
    rows: list[list[float]] = []
    faults: list[str] = []
    for line, cells in enumerate(csv.reader(text.splitlines()), start=1):
        if not cells or cells[0].lstrip().startswith("#"):
            continue
        rows.append([_cell(cell, f"{path}: line {line}, column {col}", faults) for col, cell in enumerate(cells, 1)])
    widths = {len(row) for row in rows}
    if widths != {len(rows)}:
        shape = "/".join(map(str, sorted(widths))) or "0"
        faults.append(f"{path}: {len(rows)} rows of {shape} values; the matrix must be square, one row per source rank")
    if faults:
        raise InvalidInputError(faults)
    return np.array(rows)


def _cell(cell: str, place: str, faults: list[str]) -> float:
    try:
        return parse_size(cell.strip())
    except InvalidInputError as error:
        faults.append(f"{place}: {error}")
        return 0.0
