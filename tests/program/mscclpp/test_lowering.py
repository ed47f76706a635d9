"""Lowering for MSCCL++: every built-in and collective verifies in both modes; limits are named."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import synth
from synth.demand import COLLECTIVES
from synth.errors import InvalidInputError, NotExpressibleError
from synth.program.meaning.claims import claim_of
from synth.program.meaning.semantics import IN_PLACE
from synth.program.mscclpp.files import checked_json
from synth.program.mscclpp.lowering.lower import lower_mscclpp, make_mscclpp_draft
from synth.program.mscclpp.model import MSCCLPP_LIMITS, MscclppDraft, MscclppLimits, flat_ops
from synth.program.mscclpp.program import MscclppProgram
from synth.topology import Topology
from tests.program.msccl.test_lowering import SMALL, uneven
from tests.strategies import topologies

ASKED = ("allgather", "reducescatter", "allreduce", "alltoall", "broadcast")
FEW_GPUS = ("ring:4", "line:3", "mesh2d:2x3", "fullmesh:5", "switch:4", "cluster:box=ring:3,hosts=2")


@cache
def schedule_of(name: str, collective: str, chunks: int) -> synth.Schedule:
    """A schedule; how near to the optimum does not matter here, so little time goes into rounding."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("synth.schedule.chunks.quantise.EXACT_PRICINGS", 4)
        patch.setattr("synth.schedule.chunks.quantise.MOST_INTEGERS", 0)
        return synth.solve(name, collective, 1e9, gap=0.2).schedule(chunks)


def within_limits(draft: MscclppDraft, limits: MscclppLimits = MSCCLPP_LIMITS) -> None:
    """Counted here once more, not with the code that checks."""
    for gpu in draft.gpus:
        assert 1 <= len(gpu.blocks) <= limits.max_blocks
        for block in gpu.blocks:
            ops = flat_ops(block.ops)
            assert 1 <= len(ops) <= limits.max_ops
            for kind in ("memory", "port"):
                assert len(block.channel_list(kind)) <= 16
                assert len(block.buffer_list(kind)) <= 16
            assert all(len(op.channel_ids) <= 8 and len(op.src) <= 10 and len(op.dst) <= 10 for op in ops)


def good(program: MscclppProgram, inplace: bool) -> None:
    assert program.report.ok
    assert program.report.modes == ("in place" if inplace else "out of place",)
    assert all("port channels read" in note for note in program.report.warnings)
    within_limits(program.draft, program.limits)
    checked_json(program)


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("collective", ASKED)
def test_every_builtin_and_collective_verifies(name: str, collective: str) -> None:
    for inplace in (False, True):
        schedule = schedule_of(name, collective, 1)
        if inplace and collective not in IN_PLACE:
            with pytest.raises(InvalidInputError, match="no in-place form"):
                lower_mscclpp(schedule, inplace=True)
            continue
        good(lower_mscclpp(schedule, inplace=inplace), inplace)


@pytest.mark.parametrize("name", FEW_GPUS)
@pytest.mark.parametrize("collective", COLLECTIVES)
def test_two_chunks_and_the_other_collectives(name: str, collective: str) -> None:
    machine = synth.resolve(name)
    if collective == "alltoallv":
        schedule = synth.solve(machine, collective, matrix=uneven(len(machine.gpus))).schedule(2)
    else:
        schedule = schedule_of(name, collective, 2)
    good(lower_mscclpp(schedule), False)
    if claim_of(schedule).collective in IN_PLACE:
        good(lower_mscclpp(schedule, inplace=True, instances=2), True)


def on_hosts(topology: Topology, count: int) -> Topology:
    """GPUs of equal hosts, in rank order."""
    hosts = {node: f"h{rank // count}" for rank, node in enumerate(topology.gpus)}
    nodes = tuple(replace(node, host=hosts.get(k, node.host)) for k, node in enumerate(topology.nodes))
    return replace(topology, nodes=nodes)


@given(topologies(min_gpus=2, max_gpus=5), st.data())
@settings(max_examples=25, deadline=None, derandomize=True)
def test_random_topologies_verify(topology: Topology, data: st.DataObject) -> None:
    n = len(topology.gpus)
    machine = on_hosts(topology, data.draw(st.sampled_from([k for k in range(1, n + 1) if n % k == 0])))
    collective = data.draw(st.sampled_from(COLLECTIVES))
    if collective == "alltoallv":
        plan = synth.solve(machine, collective, matrix=uneven(n), gap=0.1)
    else:
        ranks = data.draw(st.none() | st.lists(st.integers(0, n - 1), min_size=1, max_size=n, unique=True))
        plan = synth.solve(machine, collective, 1e6, ranks=ranks, gap=0.1)
    schedule = plan.schedule(data.draw(st.integers(1, 3)))
    inplace = data.draw(st.booleans()) and claim_of(schedule).collective in IN_PLACE
    good(lower_mscclpp(schedule, inplace=inplace, instances=data.draw(st.integers(1, 3))), inplace)


def test_channels_by_host() -> None:
    draft = make_mscclpp_draft(schedule_of("cluster:box=ring:3,hosts=2", "allreduce", 1))
    for gpu in draft.gpus:
        assert all(peer // 3 == gpu.id // 3 for peer in gpu.peers("memory"))
        assert all(peer // 3 != gpu.id // 3 for peer in gpu.peers("port"))


def test_idle_ranks_launch_too_and_nothing_has_no_chunks() -> None:
    nothing = lower_mscclpp(synth.solve("ring:3", "alltoallv", matrix=np.zeros((3, 3))).schedule())
    assert [[op.name for op in block.ops] for gpu in nothing.draft.gpus for block in gpu.blocks] == [["nop"]] * 3
    subset = lower_mscclpp(synth.solve("ring:4", "broadcast", 1e6, ranks=[0, 1]).schedule(1)).draft
    assert all(gpu.input_chunks and gpu.output_chunks and gpu.blocks for gpu in subset.gpus)


@pytest.mark.parametrize(("collective", "chunks"), [("allreduce", 32), ("broadcast", 300), ("alltoall", 50)])
def test_long_routes_are_merged_into_64_operations(collective: str, chunks: int) -> None:
    schedule = synth.solve("line:3", collective, 1e9).schedule(chunks)
    good(lower_mscclpp(schedule), False)


def test_direct_routes_are_one_put_per_peer() -> None:
    draft = make_mscclpp_draft(synth.solve("fullmesh:4", "alltoall", 1e9).schedule(4))
    puts = [op for block in draft.gpus[0].blocks for op in block.ops if op.name == "put"]
    assert [(len(op.src), op.src[0].size) for op in puts] == [(1, 4)] * 3


def test_instances_divide_every_chunk() -> None:
    draft = make_mscclpp_draft(synth.solve("fullmesh:4", "allreduce", 1e9).schedule(1), instances=3)
    assert draft.semantics is not None
    assert draft.semantics.nchunks == draft.gpus[0].input_chunks == 12
    assert len(draft.gpus[0].blocks) == 12
    with pytest.raises(InvalidInputError, match="instances 0"):
        make_mscclpp_draft(synth.solve("fullmesh:4", "allreduce", 1e9).schedule(1), instances=0)


def test_names_tell_plans_apart() -> None:
    schedule = schedule_of("ring:4", "allgather", 1)
    assert make_mscclpp_draft(schedule).name == "synth_allgather_ring_4_4ranks_1hosts_k1_outofplace"
    assert make_mscclpp_draft(schedule, inplace=True).name == "synth_allgather_ring_4_4ranks_1hosts_k1_inplace"
    assert make_mscclpp_draft(schedule, name="a b/ç").name == "a_b_"


def test_sizes_are_whole_aligned_chunks_below_4_gib() -> None:
    schedule = schedule_of("ring:4", "allgather", 1)
    draft = make_mscclpp_draft(schedule)
    assert (draft.min_message_size, draft.max_message_size) == (64, 1 << 30)
    assert make_mscclpp_draft(schedule, max_bytes=1000).max_message_size == 960
    with pytest.raises(NotExpressibleError, match="smallest size is 64 bytes"):
        make_mscclpp_draft(schedule, max_bytes=63)
    with pytest.raises(NotExpressibleError, match="32 bits: the largest size is 4294967232 bytes"):
        make_mscclpp_draft(schedule, max_bytes=1 << 32)
    large = synth.solve("ring:4", "allgather", 8e9).schedule(1)
    with pytest.raises(NotExpressibleError, match="32 bits"):
        make_mscclpp_draft(large)
    assert lower_mscclpp(large, max_bytes=1 << 30).report.ok


def test_limits_are_named() -> None:
    schedule = schedule_of("ring:4", "allreduce", 2)
    with pytest.raises(
        NotExpressibleError, match=r"operations in a block of rank .*, at most 10, .*: use fewer chunks"
    ):
        make_mscclpp_draft(schedule, limits=MscclppLimits(max_ops=10))
    with pytest.raises(NotExpressibleError, match="operations in a block of rank"):
        make_mscclpp_draft(schedule, limits=MscclppLimits(max_blocks=2, max_ops=24))
    with pytest.raises(NotExpressibleError, match=r"4 memory channels in a block of rank .* at most 3 others"):
        make_mscclpp_draft(schedule_of("switch:5", "allreduce", 1), limits=MscclppLimits(max_channels=3))
    with pytest.raises(NotExpressibleError, match="remote buffers in a block of rank"):
        make_mscclpp_draft(schedule_of("switch:5", "allreduce", 1), limits=MscclppLimits(max_remote_buffers=3))
    good(lower_mscclpp(schedule, limits=MscclppLimits(max_blocks=4)), False)


def test_hosts_that_the_executor_would_mistake() -> None:
    mixed = synth.resolve("ring:4")
    nodes = tuple(replace(node, host=f"h{k % 2}") for k, node in enumerate(mixed.nodes))
    with pytest.raises(NotExpressibleError, match="ranks host by host"):
        make_mscclpp_draft(synth.solve(replace(mixed, nodes=nodes), "allgather", 1e9).schedule(1))
    boxes = schedule_of("cluster:box=ring:3,hosts=2", "broadcast", 1)
    with pytest.raises(NotExpressibleError, match="hosts of 3 GPUs: the executor knows 2"):
        make_mscclpp_draft(boxes, limits=MscclppLimits(max_port_gpus=2))
