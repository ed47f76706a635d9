"""What may be asked of a lowering, whatever the runtime."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Final

from synth.errors import InvalidInputError


@dataclass(frozen=True)
class Lowering:
    """Options of a lowering; those that a runtime does not know are refused by it unless they have the default.

    Attributes
    ----------
    inplace
        For calls that pass one buffer for both sides (all-gather, reduce-scatter, all-reduce, broadcast, reduce).
    name
        Name in the file; default made from collective, topology and chunks.
    min_bytes, max_bytes
        Sizes for which the file is active; default from 0 to the power of two above the demand's size.
    protocol
        Simple, LL or LL128.
    instances
        Least number of channels per path (msccl), or blocks that share each chunk (mscclpp).
    pipelined
        Sums and copies of an all-reduce on channels of their own: the copies of one loop iteration of the runtime then
        run beside the sums of the next one, for twice the blocks (msccl).
    max_channels
        Most channels that the program may use.
    sms
        Thread blocks that the GPU can hold at once; None for the target's default.
    """

    inplace: bool = False
    name: str | None = None
    min_bytes: int = 0
    max_bytes: int | None = None
    protocol: str = "Simple"
    instances: int = 1
    pipelined: bool = False
    max_channels: int | None = None
    sms: int | None = None

    @staticmethod
    def of(options: Any) -> Lowering:
        """Options as they are, from a mapping, or the defaults for None.

        Raises
        ------
        InvalidInputError
            On a misspelt option, which is named.
        """
        if isinstance(options, Lowering):
            return options
        given = dict(options or {})
        known = [field.name for field in fields(Lowering)]
        wrong = [name for name in given if name not in known]
        if wrong:
            raise InvalidInputError(
                f"unknown lowering option {', '.join(map(repr, wrong))}: use one of {', '.join(known)}"
            )
        return Lowering(**given)


DEFAULT: Final = Lowering()
