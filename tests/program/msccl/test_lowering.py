"""Lowering: every collective on every small built-in verifies; limits are named; claims are the right ones."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import synth
from synth.demand import COLLECTIVES
from synth.errors import InvalidInputError, NotExpressibleError
from synth.program.meaning.lowering_options import Lowering
from synth.program.meaning.semantics import IN_PLACE
from synth.program.msccl import MSCCL, TARGETS, Draft, Step, Target, lower, make_draft, verify
from synth.program.msccl.xml import read_xml, to_xml
from synth.program.runtime import fitted, runtime_named
from synth.topology import Topology
from tests.program.msccl.builders import edit_step, without_step
from tests.program.msccl.interpreter import run as interpret
from tests.strategies import topologies

SMALL = (
    "ring:4",
    "line:3",
    "mesh2d:2x3",
    "torus2d:3x3",
    "torus3d:2x2x2",
    "hypercube:3",
    "fullmesh:5",
    "switch:4",
    "dgx1-v100",
    "dgx2",
    "dgx-a100",
    "hgx-h100",
    "mi250-16",
    "mi300x-8",
    "cluster:box=ring:3,hosts=2",
    "cluster:box=dgx-a100,hosts=2,fabric=rail",
)


def uneven(n: int) -> np.ndarray:
    return (np.arange(n * n).reshape(n, n) * 7919 % 5) * 1e6


def schedule_of(topology: str | Topology, collective: str, chunks: int | None = None) -> synth.Schedule:
    machine = synth.resolve(topology) if isinstance(topology, str) else topology
    if collective == "alltoallv":
        return synth.solve(machine, collective, matrix=uneven(len(machine.gpus))).schedule(chunks)
    return synth.solve(machine, collective, 1e9).schedule(chunks)


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("collective", COLLECTIVES)
def test_every_builtin_and_collective_verifies(name: str, collective: str) -> None:
    schedule = schedule_of(name, collective, 2)
    for inplace in (False, True):
        draft = make_draft(schedule)
        if inplace:
            if draft.semantics.collective not in IN_PLACE:
                with pytest.raises(InvalidInputError, match="no in-place form"):
                    lower(schedule, inplace=True)
                continue
            draft = make_draft(schedule, options=Lowering(inplace=True))
        program = synth.Program(draft, MSCCL)
        assert program.report.ok
        assert verify(read_xml(to_xml(program))).ok
        assert not program.report.warnings


@given(topologies(min_gpus=2, max_gpus=5), st.sampled_from(COLLECTIVES), st.integers(1, 4))
@settings(max_examples=40, deadline=None, derandomize=True)
def test_random_topologies_verify(topology: Topology, collective: str, chunks: int) -> None:
    assert lower(schedule_of(topology, collective, chunks)).report.ok


@given(topologies(min_gpus=3, max_gpus=5), st.data())
@settings(max_examples=25, deadline=None, derandomize=True)
def test_subsets_verify_and_the_rest_relays(topology: Topology, data: st.DataObject) -> None:
    count = len(topology.gpus)
    ranks = data.draw(st.lists(st.integers(0, count - 1), min_size=1, max_size=count, unique=True))
    collective = data.draw(st.sampled_from([c for c in COLLECTIVES if c != "alltoallv"]))
    program = lower(synth.solve(topology, collective, 1e6, ranks=ranks).schedule(2))
    assert program.report.ok
    for gpu in program.draft.gpus:
        if gpu.id not in ranks:
            assert (gpu.i_chunks, gpu.o_chunks) == (0, 0) or len(ranks) == count


@pytest.mark.parametrize(
    ("collective", "i_chunks", "o_chunks"),
    [("allgather", 2, 8), ("reducescatter", 8, 2), ("allreduce", 8, 8), ("alltoall", 8, 8)],
)
def test_chunk_bookkeeping_of_t17(collective: str, i_chunks: int, o_chunks: int) -> None:
    draft = lower(schedule_of("ring:4", collective, 2)).draft
    assert draft.semantics.nchunks == 8
    assert {(gpu.i_chunks, gpu.o_chunks) for gpu in draft.gpus} == {(i_chunks, o_chunks)}


def test_uneven_shards_become_allgatherv() -> None:
    program = lower(synth.solve("ring:3", "allgather", shards=[1e6, 2e6, 0.0]).schedule(2))
    assert program.draft.semantics.collective == "allgatherv"
    assert program.draft.semantics.counts == (1, 2, 0)


def test_one_rank_and_nothing_at_all() -> None:
    alone = lower(synth.solve("switch:1", "allgather", 1e9).schedule())
    assert [step.type for block in alone.draft.gpus[0].blocks for step in block.steps] == ["cpy"]
    nothing = lower(synth.solve("ring:3", "alltoallv", matrix=np.zeros((3, 3))).schedule())
    assert not any(gpu.blocks for gpu in nothing.draft.gpus)
    assert nothing.report.ok


def test_long_blocks_are_spread_over_channels() -> None:
    """300 chunks on one connection: 257 steps do not fit into one block (oracle T16)."""
    program = lower(synth.solve("line:2", "broadcast", 1e9).schedule(300))
    sends = [block for block in program.draft.gpus[0].blocks if block.send >= 0]
    assert len(sends) == 2
    assert max(len(block.steps) for block in sends) <= MSCCL.max_steps_per_block
    assert program.draft.nchannels == 2


def test_a_run_of_72_chunks_is_cut() -> None:
    schedule = synth.solve("line:2", "broadcast", 1e9).schedule(72)
    first = schedule.transfers[0]
    whole = type(first)(first.shard, 0, 72, first.route, first.src, first.dst, first.links, False, ())
    merged = synth.Schedule(
        schedule.plan,
        72,
        schedule.chunk_bytes,
        schedule.shard_chunks,
        schedule.routes,
        schedule.counts,
        (whole,),
        (0.0,),
        (1.0,),
        schedule.quantized,
        schedule.simulated,
    )
    sends = [step.cnt for block in lower(merged).draft.gpus[0].blocks if block.send >= 0 for step in block.steps]
    assert sends == [71, 1]


def test_offset_limit_is_refused_and_named() -> None:
    """Oracle T16; the smaller chunk count that is named does fit."""
    with pytest.raises(NotExpressibleError, match="32767") as caught:
        synth.synthesize("fullmesh:8", "alltoall", 1e9, chunks=4200)
    hint = caught.value.faults[-1]
    fits = int(hint.removeprefix("with --chunks ").removesuffix(" it fits"))
    assert 1000 < fits < 4105
    assert lower(synth.solve("fullmesh:8", "alltoall", 1e9).schedule(fits)).report.ok


STANDARD = ("allgather", "reducescatter", "allreduce", "alltoall", "broadcast", "reduce")


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("collective", STANDARD)
def test_every_xml_target(name: str, collective: str) -> None:
    """RCCL refuses fused steps at launch, the executor and RCCL have 64 steps per block: the lowering adapts."""
    plan = synth.solve(name, collective, 1e9)
    for target in TARGETS:
        for inplace in (False, True):
            if inplace and collective == "alltoall":
                continue
            runtime = runtime_named(target.name, {"inplace": inplace})
            schedule, draft = fitted(runtime, plan, None, 0.02, None)
            program = runtime.program(draft)
            assert isinstance(program, synth.Program)
            assert program.report.ok
            assert {s.type for g in program.draft.gpus for b in g.blocks for s in b.steps} <= target.step_types
            assert schedule.loss <= 0.02 + 1e-9


@given(topologies(min_gpus=3, max_gpus=6), st.sampled_from(STANDARD), st.integers(1, 6), st.sampled_from(TARGETS))
@settings(max_examples=30, deadline=None, derandomize=True)
def test_random_topologies_on_every_target(topology: Topology, collective: str, chunks: int, target: Target) -> None:
    schedule = synth.solve(topology, collective, 1e6).schedule(chunks)
    for inplace in (False, True) if collective != "alltoall" else (False,):
        assert lower(schedule, target, inplace=inplace).report.ok


def test_finer_chunks_give_way_to_the_limits() -> None:
    """On 64 steps per block and 64 blocks per GPU a broadcast cannot be cut as finely as on 256 and 216."""
    plan = synth.solve("fullmesh:8", "broadcast", 1e9)
    fine, _ = fitted(runtime_named("msccl"), plan, None, 0.02, None)
    coarse, draft = fitted(runtime_named("rccl", {"max_channels": 2}), plan, None, 0.02, None)
    assert coarse.chunks_per_shard <= fine.chunks_per_shard
    assert isinstance(draft, Draft)
    assert draft.nchannels <= 2


def test_many_peers_are_spread_over_channels() -> None:
    """39 peers: more than the 32 senders and receivers that a channel may have at a GPU."""
    program = lower(synth.solve("switch:40", "alltoall", 1e9).schedule(1))
    assert program.draft.nchannels == 2
    for gpu in program.draft.gpus:
        for chan in (0, 1):
            assert sum(block.send >= 0 and block.chan == chan for block in gpu.blocks) < 32


def test_options_of_the_lowering() -> None:
    schedule = schedule_of("ring:4", "allgather", 4)
    draft = lower(schedule, protocol="LL", instances=2, min_bytes=1024, max_bytes=2**20).draft
    assert (draft.proto, draft.nchannels, draft.min_bytes, draft.max_bytes) == ("LL", 2, 1024, 2**20)
    with pytest.raises(NotExpressibleError, match="needs 2 channels, 1 are allowed"):
        lower(schedule, instances=2, max_channels=1)
    with pytest.raises(InvalidInputError) as caught:
        lower(schedule, protocol="LL256", instances=0, min_bytes=2**40)
    assert len(caught.value.faults) == 3


def test_names_are_short_and_plain() -> None:
    schedule = schedule_of("ring:4", "allgather", 1)
    assert lower(schedule, name="a b/ç" + "x" * 99).draft.name == "a_b_" + "x" * 59
    assert lower(schedule).draft.name == "synth_allgather_ring_4_k1"


def test_active_range_covers_the_size() -> None:
    draft = lower(schedule_of("ring:4", "allgather", 1)).draft
    assert draft.min_bytes == 0
    assert draft.max_bytes == 2**30  # 1e9 bytes are below it, and the runtime wants n < maxBytes
    assert lower(synth.solve("ring:4", "allgather", 2.0**30).schedule(1)).draft.max_bytes == 2**31


def mutated(draft: Draft, data: st.DataObject) -> Draft:
    """One step of a random block dropped, or one of its fields changed."""
    places = [
        (g, b, k)
        for g, gpu in enumerate(draft.gpus)
        for b, block in enumerate(gpu.blocks)
        for k in range(len(block.steps))
    ]
    g, b, k = data.draw(st.sampled_from(places))
    if data.draw(st.booleans()):
        return without_step(draft, g, b, k)
    field = data.draw(st.sampled_from(("srcoff", "dstoff", "srcbuf", "dstbuf", "depid", "deps", "hasdep", "type")))

    def change(step: Step) -> Step:
        old: Any = getattr(step, field)
        new: Any = old - 1 if isinstance(old, int) and old > 0 else old + 1 if isinstance(old, int) else old
        if field in ("srcbuf", "dstbuf"):
            new = "i" if old == "o" else "o"
        elif field == "type":
            new = {"rrc": "r", "r": "rrc"}.get(old, old)
        elif field == "hasdep":
            new = not old
        return replace(step, **{field: new})

    return edit_step(draft, g, b, k, change)


@given(
    topologies(min_gpus=3, max_gpus=9),
    st.sampled_from(("allgather", "allreduce", "alltoall")),  # what the interpreter knows
    st.integers(1, 3),
    st.data(),
)
@settings(max_examples=40, deadline=None, derandomize=True)
def test_single_step_mutations_are_caught_or_harmless(
    topology: Topology, collective: str, chunks: int, data: st.DataObject
) -> None:
    """Every emitted program verifies; a spoilt one is refused, or an independent interpreter finds nothing wrong."""
    inplace = collective != "alltoall" and data.draw(st.booleans())
    # At this size every chunk is a message of its own, as in the interpreter.
    draft = lower(synth.solve(topology, collective, 1e6).schedule(chunks), inplace=inplace, max_bytes=1 << 33).draft
    for _ in range(5):
        mutant = mutated(draft, data)
        if verify(mutant).ok:
            assert all(interpret(mutant, inplace, seed) == [] for seed in range(3))
