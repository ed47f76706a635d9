"""What thread blocks cost: constants from a file or a mapping, or nothing."""

from __future__ import annotations

from collections.abc import Mapping

from synth.errors import InvalidInputError
from synth.program.runtime import Runtime, XmlRuntime
from synth.schedule.simulate.time_model import BlockCosts
from synth.timing.constants import load_constants

IDEAL = "ideal"


def chosen_costs(
    constants: Mapping[str, BlockCosts] | str | None, runtime: Runtime
) -> tuple[Mapping[str, BlockCosts], str]:
    """Costs by protocol for a search, and where they are from.

    Parameters
    ----------
    constants
        A file of ``synth calibrate``, a mapping, or ``"ideal"`` (and None) for blocks that cost nothing.
    runtime
        Its protocol is the one that is asked for; a search with costs chooses among all that are known.

    Raises
    ------
    InvalidInputError
        When the constants know no protocol of the target.
    """
    if constants is None or constants == IDEAL:
        return {runtime.options.protocol: BlockCosts()}, IDEAL
    known = load_constants(constants) if isinstance(constants, str) else dict(constants)
    if isinstance(runtime, XmlRuntime):
        known = {name: costs for name, costs in known.items() if runtime.target.protocol(name) is not None}
    if not known:
        raise InvalidInputError(f"constants {constants}: no protocol of {runtime.name} is among them")
    if runtime.options.protocol not in known:
        raise InvalidInputError(f"constants {constants}: nothing is said about {runtime.options.protocol}")
    return known, constants if isinstance(constants, str) else "given"
