"""Verification of an MSCCL++ plan: what the executor refuses, what it does not check, deadlocks, data, races."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain

from synth.program.meaning.report import Report
from synth.program.meaning.semantics import EVEN, ROOTED, UNEVEN, Semantics, buffer_chunks, semantics_faults
from synth.program.mscclpp.model import MSCCLPP_LIMITS, MscclppDraft, MscclppLimits, flat_ops
from synth.program.mscclpp.verifying.concrete import Concrete, concretise, probe_sizes
from synth.program.mscclpp.verifying.hazards import plan_hazards, plan_notes
from synth.program.mscclpp.verifying.loader import draft_faults
from synth.program.mscclpp.verifying.simulate import Simulation

TARGET = "mscclpp"


def verify_mscclpp(
    draft: MscclppDraft,
    semantics: Semantics | None = None,
    *,
    limits: MscclppLimits = MSCCLPP_LIMITS,
    chunk_bytes: tuple[int, ...] | None = None,
) -> Report:
    """Check everything that can be checked about a plan.

    Parameters
    ----------
    draft
        A plan as written, for example from ``read_plan``.
    semantics
        What the plan should compute, in its chunks; default: what it claims, or what its collective and chunk counts
        say (broadcast and reduce of foreign plans need this argument, because the format has no root).
    limits
        Limits of the executor and the GPU.
    chunk_bytes
        Sizes of a chunk to simulate, in bytes; default: the smallest of the plan's range and a larger one that cuts
        pipelines and block groups unevenly.

    Returns
    -------
    Report
        ``reject_reasons`` is what the executor refuses, ``structure`` what it does not check. Never raises for a faulty
        plan.
    """
    ops = [op for gpu in draft.gpus for block in gpu.blocks for op in flat_ops(block.ops)]
    claim = semantics or draft.semantics or guess_semantics(draft)
    refused = tuple(draft_faults(draft, limits))
    report = Report(
        draft.name,
        draft.collective,
        TARGET,
        len(draft.gpus),
        root=claim.root if claim else None,
        steps=len(ops),
        blocks=sum(len(gpu.blocks) for gpu in draft.gpus),
        scratch_chunks=max((gpu.scratch_chunks for gpu in draft.gpus), default=0),
        accepted=not refused,
        reject_reasons=refused,
    )
    if refused:
        return report
    report = replace(report, structure=tuple(plan_hazards(draft, limits)), warnings=tuple(plan_notes(draft)))
    if report.structure:
        return report
    if claim is None:
        return replace(report, warnings=(*report.warnings, "what the plan computes is not known: not simulated"))
    faults = claim_faults(draft, claim)
    if faults:
        return replace(report, structure=tuple(faults))
    runs: dict[tuple[object, ...], Concrete] = {}
    for size in chunk_bytes or probe_sizes(draft):
        concrete = concretise(draft, size)
        runs.setdefault((concrete.cells, concrete.blocks, concrete.faults, concrete.unknown), concrete)
    for concrete in runs.values():
        report = _simulated(draft, claim, report, concrete)
    return report


def guess_semantics(draft: MscclppDraft) -> Semantics | None:
    """What a foreign plan computes, from the name of its collective and its chunk counts; None when they do not say."""
    n, counts = len(draft.gpus), {(gpu.input_chunks, gpu.output_chunks) for gpu in draft.gpus}
    if draft.collective not in EVEN or draft.collective in ROOTED or len(counts) != 1:
        return None
    i, o = next(iter(counts))
    claim = Semantics(draft.collective, n, o if draft.collective == "allgather" else i)
    return None if semantics_faults(claim) or claim_faults(draft, claim) else claim


def claim_faults(draft: MscclppDraft, claim: Semantics) -> list[str]:
    """Where a claim is meaningless or does not fit the plan's ranks and buffers."""
    faults = semantics_faults(claim)
    if faults:
        return faults
    if claim.collective not in (*EVEN, *UNEVEN):
        return [f"collective {claim.collective} claims nothing, so there is nothing to verify"]
    if claim.collective in ROOTED and claim.root is None:
        return [f"{claim.collective} must name its root"]
    if claim.ngpus != len(draft.gpus):
        return [f"the claim is for {claim.ngpus} ranks, the plan has {len(draft.gpus)}"]
    for gpu in draft.gpus:
        want = tuple(count or claim.nchunks for count in buffer_chunks(claim, gpu.id))
        if (gpu.input_chunks, gpu.output_chunks) != want:
            have = f"{gpu.input_chunks} input and {gpu.output_chunks} output chunks"
            return [f"rank {gpu.id} has {have}, {claim.collective} wants {want[0]} and {want[1]}"]
    return []


def _simulated(draft: MscclppDraft, claim: Semantics, report: Report, concrete: Concrete) -> Report:
    at = f"chunks of {concrete.chunk_bytes} bytes"
    if concrete.unknown:
        note = f"data not checked: {', '.join(concrete.unknown)} cannot be simulated"
        return replace(report, warnings=tuple(dict.fromkeys((*report.warnings, note))))
    if concrete.faults:
        return replace(report, structure=(*report.structure, *(f"{at}: {fault}" for fault in concrete.faults[:12])))
    run = Simulation(draft, concrete, claim).run()
    if run.deadlock:
        return replace(report, deadlocks=(*report.deadlocks, *(f"{at}: deadlock: {text}" for text in run.deadlock)))
    data, races = run.memory.faults()
    mode = "in place" if draft.inplace else "out of place"
    warnings = list(report.warnings)
    if run.memory.input_writes and not draft.inplace:
        warnings.append(f"{run.memory.input_writes} writes into an input buffer out of place")
    return replace(
        report,
        modes=tuple(dict.fromkeys((*report.modes, mode))),
        # Signals do not depend on the size, so a plan that ends at one size ends at every size of its range.
        deadlock_free_max_bytes=min(draft.max_message_size, (1 << 63) - 1),
        data=(*report.data, *(f"{at}: {text}" for text in chain(data, run.leftover))),
        races=(*report.races, *(f"{at}: {text}" for text in races)),
        wrong_chunks=report.wrong_chunks + run.memory.wrong,
        warnings=tuple(dict.fromkeys(warnings)),
    )
