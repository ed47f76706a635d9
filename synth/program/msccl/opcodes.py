"""What each step type does with its buffers and its connection.

Source: the device interpreters (microsoft/msccl ``msccl_interpreter.h``). The operand of ``rrc``, ``rrs`` and ``rrcs``
is the *local* source buffer, never the sender's.
"""

from __future__ import annotations

from typing import Final

STEP_ORDER: Final = ("s", "r", "rcs", "rrs", "rrc", "rrcs", "cpy", "re", "nop")
BUFFER_ORDER: Final = ("i", "o", "s")
SENDS: Final = frozenset({"s", "rcs", "rrs", "rrcs"})
RECEIVES: Final = frozenset({"r", "rcs", "rrs", "rrc", "rrcs"})
READS_SRC: Final = frozenset({"s", "rrs", "rrc", "rrcs", "cpy", "re"})
READS_DST: Final = frozenset({"re"})
WRITES_DST: Final = frozenset({"r", "rcs", "rrc", "rrcs", "cpy", "re"})
USES_DST: Final = READS_DST | WRITES_DST
STEP_TYPES: Final = frozenset(STEP_ORDER)
# Without the steps that receive and do something else as well; RCCL refuses those at launch.
UNFUSED_TYPES: Final = frozenset({"s", "r", "cpy", "re", "nop"})
BUFFERS: Final = frozenset(BUFFER_ORDER)
# The offsets that the runtimes' parsers compare with the buffer's size (start only; they never look at the count).
PARSER_CHECKS_SRC: Final = frozenset({"s", "rrs", "rrcs", "cpy", "re"})
PARSER_CHECKS_DST: Final = frozenset({"r", "rcs", "rrcs", "cpy", "re"})


def place(rank: int, block: int, step: int) -> str:
    """Name of a step in messages, for example ``g0.tb2.step5``."""
    return f"g{rank}.tb{block}.step{step}"
