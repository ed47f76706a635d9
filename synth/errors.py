"""Errors for a person; the exit code of the process is a property of the error's class."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar


class SynthError(Exception):
    """Base of every error that synth raises on purpose.

    Attributes
    ----------
    exit_code
        The process exit code that the CLI uses for this class of error.
    faults
        One message per fault, each with its place; a file's faults are reported all at once.
    """

    exit_code: ClassVar[int] = 1

    def __init__(self, faults: str | Iterable[str]) -> None:
        self.faults: tuple[str, ...] = (faults,) if isinstance(faults, str) else tuple(faults)
        super().__init__("\n".join(self.faults))

    def __reduce__(self) -> tuple[type[SynthError], tuple[tuple[str, ...]]]:
        return type(self), (self.faults,)


class InvalidInputError(SynthError):
    """A file, an option or an argument is wrong (exit code 2)."""

    exit_code = 2


class InfeasibleError(SynthError):
    """What is asked cannot be done on this topology; the message says why (exit code 3)."""

    exit_code = 3


class LimitReachedError(SynthError):
    """A limit (time, iterations) was reached with nothing to show (exit code 4)."""

    exit_code = 4


class VerificationError(SynthError):
    """A program does not do what it claims, or could hang (exit code 5)."""

    exit_code = 5


class NotExpressibleError(SynthError):
    """A schedule does not fit into the target runtime's limits (exit code 6)."""

    exit_code = 6
