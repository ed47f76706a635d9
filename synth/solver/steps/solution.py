"""A step schedule: which chunk goes over which links in which step, and how good that is."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from synth.demand.model import Demand
from synth.ground.onward import onward
from synth.ground.text import aligned
from synth.topology.model import Topology

if TYPE_CHECKING:
    import pandas as pd

    from synth.schedule.model import Schedule

FORMAT = "synth-steps/1"


@dataclass(frozen=True, slots=True, order=True)
class StepSend:
    """One chunk over one hop.

    Attributes
    ----------
    step
        From 0.
    shard, chunk
        Index into ``Demand.commodities``, and the chunk of that shard. The chunks of an all-reduce are numbered by
        the rank at which they are summed.
    src, dst
        Ranks.
    links
        Link indices of the topology, in order.
    reduce
        Whether a partial sum is on its way: a member adds it to what it has, any other rank passes it on.
    """

    step: int
    shard: int
    chunk: int
    src: int
    dst: int
    links: tuple[int, ...]
    reduce: bool


@dataclass(frozen=True)
class StepSolution:
    """Synchronous steps with their rounds, and a proven bound.

    Attributes
    ----------
    topology, demand
        Instance.
    chunks
        Chunks of the largest shard (an all-reduce's shard is its buffer / ranks).
    shard_chunks
        Chunks of each commodity.
    rounds_per_step
        Rounds of each step: a link may send so many times what it sends in one round.
    sends
        By step.
    bound
        No schedule with so many steps and chunks takes fewer rounds.
    reason
        What proves the bound.
    unit
        Bytes/second of a link that sends one chunk per round.
    symmetry
        Order of the group whose automorphisms map the schedule found to itself (1: none was imposed).
    engine, seconds
        Who solved, and the wall-clock seconds it took.
    """

    topology: Topology
    demand: Demand
    chunks: int
    shard_chunks: tuple[int, ...]
    rounds_per_step: tuple[int, ...]
    sends: tuple[StepSend, ...]
    bound: int
    reason: str
    unit: float
    symmetry: int
    engine: str
    seconds: float

    @property
    def steps(self) -> int:
        """Number of steps."""
        return len(self.rounds_per_step)

    @property
    def rounds(self) -> int:
        """Rounds of all steps together."""
        return sum(self.rounds_per_step)

    @property
    def rounds_per_chunk(self) -> Fraction:
        """Bandwidth cost: rounds / chunks."""
        return Fraction(self.rounds, self.chunks)

    @property
    def gap(self) -> float:
        """(rounds - bound) / rounds."""
        return (self.rounds - self.bound) / self.rounds if self.rounds else 0.0

    @property
    def status(self) -> Literal["optimal", "feasible"]:
        """``optimal`` when no schedule with these steps and chunks takes fewer rounds."""
        return "optimal" if self.rounds <= self.bound else "feasible"

    @property
    def chunk_bytes(self) -> float:
        """Bytes of a chunk at the demand's size."""
        return chunk_bytes(self.demand, self.chunks)

    @property
    def time(self) -> float:
        """Seconds when every step ends with a barrier: sum of its rounds x chunk_bytes / unit + largest latency."""
        used: list[set[tuple[int, ...]]] = [set() for _ in self.rounds_per_step]
        for send in self.sends:
            used[send.step].add(send.links)
        links = self.topology.links
        latency = sum(max((sum(links[k].latency for k in hop) for hop in hops), default=0.0) for hops in used)
        return latency + self.rounds * self.chunk_bytes / self.unit

    @cached_property
    def table(self) -> pd.DataFrame:
        """One row per send: step (from 1), shard, chunk, src, dst, links, reduce."""
        import pandas as pd  # slow to import, and most runs make no table

        ids = [link.id for link in self.topology.links]
        return pd.DataFrame(
            {
                "step": [s.step + 1 for s in self.sends],
                "shard": [s.shard for s in self.sends],
                "chunk": [s.chunk for s in self.sends],
                "src": [s.src for s in self.sends],
                "dst": [s.dst for s in self.sends],
                "links": [" ".join(ids[k] for k in s.links) for s in self.sends],
                "reduce": [s.reduce for s in self.sends],
            }
        )

    def schedule(self) -> Schedule:
        """The same sends as a :class:`Schedule` with dependencies (see :func:`synth.schedule.step_schedule`)."""
        made: Schedule = onward("StepSolution.schedule")(self)
        return made

    def to_dict(self) -> dict[str, Any]:
        """Facts for ``--json``."""
        return {
            "format": FORMAT,
            "topology": self.topology.name,
            "collective": self.demand.collective,
            "ranks": list(self.demand.ranks),
            "size_bytes": self.demand.size_bytes,
            "chunks": self.chunks,
            "steps": self.steps,
            "rounds": self.rounds,
            "rounds_per_step": list(self.rounds_per_step),
            "rounds_per_chunk": str(self.rounds_per_chunk),
            "status": self.status,
            "bound_rounds": self.bound,
            "bound_reason": self.reason,
            "gap": self.gap,
            "sends": len(self.sends),
            "round_GBps": self.unit / 1e9,
            "synchronous_us": self.time * 1e6,
            "symmetry": self.symmetry,
            "engine": self.engine,
            "solve_s": self.seconds,
        }

    def sends_to_dict(self) -> list[dict[str, Any]]:
        """Every send for a file: step from 1, ranks, link ids."""
        ids = [link.id for link in self.topology.links]
        return [
            {
                "step": send.step + 1,
                "shard": send.shard,
                "chunk": send.chunk,
                "src": send.src,
                "dst": send.dst,
                "links": [ids[k] for k in send.links],
                "reduce": send.reduce,
            }
            for send in self.sends
        ]

    def summary(self) -> str:
        """A few lines for a person."""
        per_step = Counter(send.step for send in self.sends)
        sends = ", ".join(str(per_step[k]) for k in range(self.steps))
        return aligned(
            [
                ("topology", f"{self.topology.name}, {len(self.demand.ranks)} ranks"),
                ("collective", f"{self.demand.collective}, {self.demand.size_bytes:,.0f} bytes"),
                ("chunks, steps, rounds", f"({self.chunks}, {self.steps}, {self.rounds})"),
                ("rounds per step", " + ".join(map(str, self.rounds_per_step)) or "none"),
                ("sends per step", sends or "none"),
                ("status", f"{self.status}, at least {self.bound} rounds, gap {100 * self.gap:.3g} %"),
                ("because", self.reason),
                ("synchronous time", f"{self.time * 1e6:,.2f} us (a round: {self.unit / 1e9:g} GB/s per link)"),
                ("solved", f"with {self.engine}; sends are equal under {self.symmetry} automorphisms"),
            ]
        )


def chunk_bytes(demand: Demand, chunks: int) -> float:
    """Bytes of a chunk when the largest shard has so many (an all-reduce's shard is its buffer / ranks)."""
    if demand.empty:
        return demand.size_bytes / chunks
    whole = max(item.size for item in demand.commodities)
    return whole / len(demand.ranks) / chunks if demand.pattern == "allreduce" else whole / chunks
