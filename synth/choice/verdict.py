"""From a contest to its verdict: where the winner's time goes, and what a library would take."""

from __future__ import annotations

from dataclasses import replace

from synth.choice.contest import Contest, Timed
from synth.choice.judge import Entry
from synth.export.judgement import Judgement
from synth.program.runtime import XmlRuntime
from synth.rivals.baselines.kinds import KINDS
from synth.schedule.simulate.time_model import BlockCosts, TimeModel
from synth.solver.flow.plan import Plan


def judgement(plan: Plan, contest: Contest, winner: Timed, constants: str) -> Judgement:
    """Say what the winner takes and why.

    Parameters
    ----------
    plan
        The certified plan that was to be met.
    contest
        The search that found the winner; its baselines are used when it timed some.
    winner
        What is written.
    constants
        Where the costs of blocks are from.
    """
    library = best_library(contest)
    options = {"blocks": winner.entry.blocks}
    runtime = winner.entry.runtime
    if isinstance(runtime, XmlRuntime):
        asked = runtime.options
        options |= {"protocol": asked.protocol, "instances": asked.instances, "pipelined": asked.pipelined}  # type: ignore[dict-item]
    return Judgement(
        winner.seconds,
        winner.entry.name,
        options,
        lost(plan, winner.entry, contest.size),
        None if library is None else library.entry.name,
        None if library is None else library.seconds,
        winner.served,
        len(contest.seen),
        constants,
    )


def lost(plan: Plan, entry: Entry, size: float) -> dict[str, float]:
    """Seconds over the plan, by reason: each stage of the program is timed once more without what comes later."""
    ideal = BlockCosts()
    without = replace(entry.model, start=0.0, hop_latency=0.0, overhead=0.0)
    stages = {
        "chunks": entry.schedule.quantized,
        "order": _at_once(entry, without).seconds(size, ideal),
        "latency": entry.seconds(size, ideal),
        "blocks": entry.seconds(size),
    }
    before, out = plan.time, {}
    for reason, seconds in stages.items():
        out[reason] = max(0.0, seconds - before)
        before = max(before, seconds)
    return out


def _at_once(entry: Entry, model: TimeModel) -> Entry:
    """The same program on links without latency."""
    plan = entry.schedule.plan
    links = tuple(replace(link, latency=0.0) for link in plan.topology.links)
    topology = replace(plan.topology, links=links)
    return replace(entry, schedule=replace(entry.schedule, plan=replace(plan, topology=topology)), model=model)


def best_library(contest: Contest) -> Timed | None:
    """The fastest program that the contest timed of what libraries run."""
    timed = [t for t in contest.seen if t.rival.rpartition("-")[0] in KINDS or t.rival in KINDS]
    return min([t for t in timed if t.served] or timed, key=lambda t: t.rank, default=None)
