"""One machine of the catalogue."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from synth.topology.box.parts import Box


@dataclass(frozen=True, slots=True)
class CatalogueEntry:
    """A machine as a whole box.

    Attributes
    ----------
    source
        Where its numbers come from. What no source confirms is called UNVERIFIED.
    make
        Its parts.
    rents
        Parts of the machine that are usually asked for alone, as ranks: ``synth compare --catalogue`` has a line each.
    """

    name: str
    summary: str
    source: str
    make: Callable[[], Box]
    rents: tuple[tuple[int, ...], ...] = ()

    @staticmethod
    def of(
        name: str,
        summary: str,
        sources: Sequence[str],
        make: Callable[[], Box],
        rents: tuple[tuple[int, ...], ...] = (),
    ) -> CatalogueEntry:
        """Entry with its sources joined."""
        return CatalogueEntry(name, summary, "; ".join(sources), make, rents)
