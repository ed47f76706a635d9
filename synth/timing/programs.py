"""How long a program takes: blocks, FIFO slots, loop iterations and links, event by event (docs/time-model.md)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from synth.errors import InvalidInputError, VerificationError
from synth.program.msccl.verifying.deadlocks import hang_at
from synth.schedule.simulate.time_model import BlockCosts, TimeModel
from synth.timing.image import TimedProgram
from synth.timing.run import BlockRun

# Loop iterations that are run before the rest may be extrapolated, and from which on an average has to do.
FIRST_ITERATIONS = 16
MOST_ITERATIONS = 4096
PERIODS = (1, 2, 3, 4, 5, 6, 7)
# Relative difference of two periods that counts as rounding.
STEADY = 1e-9


@dataclass(frozen=True, slots=True)
class ProgramTime:
    """What a program takes at one size.

    Attributes
    ----------
    seconds
        From the call to the end of the last block.
    iterations
        Loop iterations of the runtime; a chunk that does not fit into a FIFO message is cut into so many slices.
    simulated
        Iterations that were run; the others are the blocks' steady period times their number.
    steady
        Whether the blocks had a steady period, so that nothing was averaged.
    """

    seconds: float
    iterations: int
    simulated: int
    steady: bool = True


def program_time(
    program: TimedProgram,
    size_bytes: float,
    costs: BlockCosts | None = None,
    model: TimeModel | None = None,
) -> ProgramTime:
    """Simulate a program at one size.

    Parameters
    ----------
    program
        See :func:`synth.timing.image.timed`.
    size_bytes
        nccl-tests size.
    costs
        What blocks cost; default: nothing, so that only links and FIFO slots take time.
    model
        What links cost. Links serve messages as they come: ``sharing`` ``order`` and ``fifo`` are alike here.

    Raises
    ------
    VerificationError
        When the program hangs at this size.
    InvalidInputError
        On a size of 0 or less, and for fair sharing: blocks wait for each message, so links have queues.
    """
    costs, model = costs or BlockCosts(), model or TimeModel()
    if not 0 < size_bytes < math.inf:
        raise InvalidInputError(f"size {size_bytes!r} must be a positive number of bytes")
    if model.sharing == "fair":
        raise InvalidInputError("fair sharing is for schedules: the blocks of a program queue at links (order or fifo)")
    chunk = size_bytes / program.draft.semantics.nchunks
    payload = program.protocol.payload_bytes
    iterations = max(1, math.ceil(chunk / payload - 1e-12))
    last = chunk - (iterations - 1) * payload
    window = FIRST_ITERATIONS
    while True:
        count = min(window, iterations)
        block_run = _run(program, [float(payload)] * (count - 1) + [last], size_bytes, costs, model)
        if count == iterations:
            return ProgramTime(block_run.end, iterations, iterations)
        period = _period(block_run)
        if period:
            rest = (iterations - count) % period
            if rest:
                block_run = _run(program, [float(payload)] * (count + rest - 1) + [last], size_bytes, costs, model)
            skipped = iterations - count - rest
            return ProgramTime(_extrapolated(block_run, period, skipped), iterations, count + rest)
        if window >= MOST_ITERATIONS:
            average = count // 2
            return ProgramTime(_extrapolated(block_run, average, iterations - count), iterations, count, False)
        window *= 2


def _run(program: TimedProgram, slices: list[float], size: float, costs: BlockCosts, model: TimeModel) -> BlockRun:
    block_run = BlockRun(program, slices, program.messages_at(size), costs, model)
    block_run.run()
    if block_run.hung:
        cycle = hang_at(program.draft, program.target, max(1, round(size)))
        raise VerificationError(f"{program.draft.name} hangs at {round(size)} bytes: {cycle or 'blocks wait forever'}")
    return block_run


def _period(block_run: BlockRun) -> int:
    """Iterations after which every block repeats itself, or 0. The last iteration is not a full one."""
    for period in PERIODS:
        if all(_repeats(marks[:-1], period) for marks in block_run.marks if marks):
            return period
    return 0


def _repeats(marks: list[float], period: int) -> bool:
    """Whether the last period took as long as the one before, at each of its iterations."""
    return len(marks) >= 3 * period and all(
        abs(marks[-k] - 2 * marks[-k - period] + marks[-k - 2 * period]) <= STEADY * marks[-1]
        for k in range(1, period + 1)
    )


def _extrapolated(block_run: BlockRun, period: int, skipped: int) -> float:
    """End of the last block when each takes its period over and over for the skipped iterations."""
    return max(marks[-1] + skipped * (marks[-2] - marks[-2 - period]) / period for marks in block_run.marks if marks)
