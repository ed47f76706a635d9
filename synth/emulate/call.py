"""What the caller asked for, checked against the program before anything is started."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from synth.emulate.build import Cut, cut_size
from synth.emulate.collective import ALIASING, OPERATIONS, REDUCING, sides_of
from synth.emulate.values import as_dtype, write_input
from synth.errors import InvalidInputError
from synth.program.meaning.semantics import semantics_faults
from synth.program.msccl.judging import judged
from synth.program.msccl.model import Draft
from synth.program.msccl.selection import Selection
from synth.program.msccl.targets import Target

MAX_RANKS: Final = 256
_LONGEST_S: Final = 86_400.0


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """One run to make.

    Attributes
    ----------
    draft, size, dtype, op, inplace, timeout
        As asked for; ``inplace`` decided.
    cut
        How the size is cut up.
    counts
        Elements that each rank contributes.
    given
        The caller's own numbers per rank, or None.
    selection
        Which calls the runtime gives to the program.
    """

    draft: Draft
    size: int
    dtype: np.dtype[Any]
    op: str
    inplace: bool
    timeout: float
    cut: Cut
    counts: tuple[int, ...]
    given: tuple[NDArray[Any], ...] | None
    selection: Selection

    @property
    def rounding(self) -> float:
        """Relative rounding to allow for: our own numbers reduce exactly, anybody else's may not."""
        rounds = self.op in ("sum", "prod") and self.draft.semantics.collective in REDUCING
        if self.given is None or self.dtype.kind != "f" or not rounds:
            return 0.0
        return self.draft.semantics.ngpus * float(np.finfo(self.dtype).eps)

    def write(self, rank: int, out: NDArray[Any]) -> None:
        """Write the contribution of a rank."""
        if self.given is not None:
            out[:] = self.given[rank]
        else:
            # Numbers that are only moved may be large.
            op = self.op if self.draft.semantics.collective in REDUCING else "max"
            write_input(out, rank, op, self.draft.semantics.ngpus)


def make_call(
    draft: Draft,
    size: int,
    *,
    inplace: bool | None,
    dtype: str,
    op: str,
    timeout: float,
    target: Target,
    depth: int | None,
    inputs: Sequence[NDArray[Any]] | None,
    selection: Selection | None = None,
) -> Call:
    """Check the arguments of :func:`synth.emulate.run_program`.

    Raises
    ------
    InvalidInputError
        When they do not fit the program.
    """
    claim, kind = draft.semantics, as_dtype(dtype)
    faults = semantics_faults(claim)
    if os.name != "posix":
        faults.append("programs are only run on POSIX systems (Linux, macOS): the ranks are forked")
    if op not in OPERATIONS:
        faults.append(f"operation {op!r} is not one of {', '.join(OPERATIONS)}")
    if claim.ngpus > MAX_RANKS:
        faults.append(f"{claim.ngpus} ranks are more processes than the {MAX_RANKS} that are run here")
    if not 0 < timeout <= _LONGEST_S:
        faults.append(f"a timeout of {timeout} s is not in (0, {_LONGEST_S:g}]")
    if faults:
        raise InvalidInputError(faults)
    mode = _mode(draft, inplace)
    cut = cut_size(draft, size, kind, target, depth)
    counts = tuple(n * cut.chunk for n in _given_chunks(draft))
    given = None
    if inputs is not None:
        given = tuple(np.array(values, dtype=kind).ravel() for values in inputs)
        sizes = tuple(values.size for values in given)
        if sizes != counts:
            raise InvalidInputError(f"inputs have {list(sizes)} elements per rank, the program takes {list(counts)}")
    return Call(draft, size, kind, op, mode, timeout, cut, counts, given, selection or judged(draft, target))


def _given_chunks(draft: Draft) -> list[int]:
    claim = draft.semantics
    if claim.collective == "custom":
        declared = {gpu.id: gpu.i_chunks for gpu in draft.gpus}
        return [declared.get(rank, 0) for rank in range(claim.ngpus)]
    return [sides_of(claim, rank).given for rank in range(claim.ngpus)]


def _mode(draft: Draft, inplace: bool | None) -> bool:
    """In place or not; a mode that the file does not offer, no runtime would run."""
    name = draft.semantics.collective
    mode = (draft.inplace and not draft.outofplace) if inplace is None else inplace
    if mode and name not in (*ALIASING, "custom"):
        raise InvalidInputError(f"{name} has no in-place form")
    if mode and not draft.inplace:
        raise InvalidInputError("the program is for calls out of place only (inplace=0)")
    if not mode and draft.inplace and not draft.outofplace:
        raise InvalidInputError("the program is for calls in place only (outofplace=0)")
    return mode
