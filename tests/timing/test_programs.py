"""Programs against the clock: hand-derived times, agreement with schedules, and what must always hold."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import synth
from synth.errors import InvalidInputError, VerificationError
from synth.program.msccl import Draft, GpuProgram, Semantics, Step, ThreadBlock, make_draft
from synth.schedule import BlockCosts, TimeModel, simulate_schedule
from synth.schedule.simulate.time_model import AlphaMode
from synth.timing import programs as timing
from synth.timing.image import TimedProgram, schedule_paths, timed
from synth.timing.programs import program_time
from synth.topology import Link, Node, Topology, resolve
from tests.strategies import topologies

CAPACITY = 1e9
LATENCY = 1e-6


def pair() -> Topology:
    nodes = (Node("0", "gpu"), Node("1", "gpu"))
    return Topology("pair", nodes, (Link("f", "0", "1", CAPACITY, LATENCY), Link("b", "1", "0", CAPACITY, LATENCY)))


def step(kind: str, cnt: int = 1, offset: int = 0) -> Step:
    return Step(kind, "o", offset, "o", offset, cnt)  # type: ignore[arg-type]


def broadcast(*offsets: int, cnt: int = 1, chunks: int = 4, proto: str = "Simple") -> Draft:
    """Rank 0 sends chunks to rank 1, in place."""
    sends = tuple(step("s", cnt, k) for k in offsets)
    gets = tuple(step("r", cnt, k) for k in offsets)
    gpus = (
        GpuProgram(0, 0, chunks, 0, (ThreadBlock(0, 1, -1, 0, sends),)),
        GpuProgram(1, 0, chunks, 0, (ThreadBlock(0, -1, 0, 0, gets),)),
    )
    return Draft("b", Semantics("broadcast", 2, chunks, 0), 1, proto, True, False, 0, 1 << 40, gpus)


def seconds(
    draft: Draft, size: float, costs: BlockCosts | None = None, alpha: AlphaMode = "pipelined", **more: float
) -> float:
    return program_time(timed(draft, pair()), size, costs, TimeModel(alpha_mode=alpha, **more)).seconds  # type: ignore[arg-type]


def test_one_message() -> None:
    """4000 B in 4 chunks: a chunk takes 1 us on the link, 1 us of latency."""
    assert seconds(broadcast(0), 4000) == pytest.approx(2e-6)
    # Simple: the receiver takes up the first half when it has come, and copies the second when it has: 1.5 us + 1 us
    # of latency + half of 2 us; the sender is as slow, so the message is there after 2 us.
    slow = BlockCosts(copy_rate=0.5e9)
    assert seconds(broadcast(0), 4000, slow) == pytest.approx(2e-6 + 1e-6 + 1e-6)
    # LL streams, and doubles the bytes on the wire.
    assert seconds(broadcast(0, proto="LL"), 4000) == pytest.approx(2e-6 + 1e-6)
    fixed = BlockCosts(start=5e-6, latency=2e-6, overhead=0.25e-6)
    assert seconds(broadcast(0), 4000, fixed) == pytest.approx(5e-6 + 0.25e-6 + 1e-6 + 1e-6 + 2e-6)


def test_slots_limit_what_is_under_way() -> None:
    """Three messages, two slots: the third waits until the first has been received; blocking links have no such gap."""
    assert seconds(broadcast(0, 1), 4000) == pytest.approx(3e-6)
    assert seconds(broadcast(0, 1, 2), 4000) == pytest.approx(4e-6)
    slow = BlockCosts(latency=9e-6)  # messages end at 1 and 2 us; slot 1 is back at 1 + 1 + 9 + 9 us
    assert seconds(broadcast(0, 1, 2), 4000, slow) == pytest.approx((20 + 1 + 10) * 1e-6)
    assert seconds(broadcast(0, 1, 2, proto="LL128"), 120_000 * 4, slow) == pytest.approx((3 * 128 + 10) * 1e-6)
    assert seconds(broadcast(0, 1, 2), 4000, alpha="blocking") == pytest.approx(6e-6)


def test_chunks_go_together_in_a_message_and_large_ones_in_slices() -> None:
    """Simple moves 2 MiB per message: 4 chunks of 512 KiB in one, of 1 MiB in two, of 4 MiB in two loop iterations."""
    together, program = broadcast(0, cnt=4), timed(broadcast(0, cnt=4), pair())
    mib = 1 << 20
    overhead = BlockCosts(overhead=1e-3)  # per message; the receiver's fits into the time of the second half
    assert seconds(together, 2 * mib, overhead) == pytest.approx(1e-3 + 2 * mib / CAPACITY + LATENCY)
    assert seconds(together, 4 * mib, overhead) == pytest.approx(2e-3 + 4 * mib / CAPACITY + LATENCY)
    assert program.messages_at(2 * mib) == 4
    assert program.messages_at(4 * mib) == 2
    assert program.messages_at(16 * mib) == 1
    time = program_time(program, 16 * mib)
    assert time.iterations == 2
    assert time.seconds == pytest.approx(16 * mib / CAPACITY + LATENCY)


def test_dependencies_cost_a_wait() -> None:
    """Rank 1 gets a chunk, and another block copies it when it has: 2 us + 1 us + 1000 B at 1 GB/s."""
    draft = broadcast(0)
    got = ThreadBlock(0, -1, 0, 0, (replace(step("r"), hasdep=True),))
    copies = ThreadBlock(1, -1, -1, 0, (Step("cpy", "o", 0, "o", 1, 1, 0, 0),))
    draft = replace(draft, gpus=(draft.gpus[0], replace(draft.gpus[1], blocks=(got, copies))))
    assert seconds(draft, 4000, BlockCosts(wait=1e-6, local_rate=1e9)) == pytest.approx(4e-6)


def test_a_hang_is_said_to_be_one() -> None:
    """T18: both send three times before they receive; two slots."""
    steps = (*(step("s", 1, k) for k in range(3)), *(step("r", 1, 3 + k) for k in range(3)))
    gpus = tuple(GpuProgram(k, 0, 6, 0, (ThreadBlock(0, 1 - k, 1 - k, 0, steps),)) for k in range(2))
    draft = Draft("t18", Semantics("custom", 2, 6), 1, "Simple", True, False, 0, 1 << 40, gpus)
    with pytest.raises(VerificationError, match=r"t18 hangs at 6000 bytes: g0\.tb0"):
        seconds(draft, 6000)
    assert seconds(replace(draft, proto="LL"), 6000) > 0


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(InvalidInputError, match=r"for 2 ranks, .* has 4 GPUs"):
        timed(broadcast(0), resolve("ring:4"))
    with pytest.raises(InvalidInputError, match="no path without a GPU on it"):
        timed(synth.solve("ring:4", "allgather", 1e6).schedule(1).lower().draft, resolve("line:4"))
    with pytest.raises(InvalidInputError, match="positive number of bytes"):
        seconds(broadcast(0), 0)
    with pytest.raises(InvalidInputError, match="fair sharing is for schedules"):
        program_time(timed(broadcast(0), pair()), 1e6, None, TimeModel(sharing="fair"))


COLLECTIVES = ("allgather", "alltoall", "broadcast", "reducescatter", "allreduce", "reduce")


@st.composite
def lowered(draw: st.DrawFn, direct: bool) -> tuple[synth.Schedule, TimedProgram]:
    topology = draw(topologies(min_gpus=2, max_gpus=4, switches=not direct, pools=not direct))
    plan = synth.solve(topology, draw(st.sampled_from(COLLECTIVES)), draw(st.sampled_from((1e3, 1e6))))
    schedule = plan.schedule(draw(st.integers(1, 3)))
    return schedule, timed(make_draft(schedule), topology, paths=schedule_paths(schedule))


def unlimited(program: TimedProgram) -> TimedProgram:
    return replace(program, protocol=replace(program.protocol, depth=1000))


@given(lowered(direct=True), st.sampled_from(("pipelined", "blocking")))
@settings(max_examples=35, deadline=None, derandomize=True)
def test_program_and_schedule_agree_on_direct_links(
    pair: tuple[synth.Schedule, TimedProgram], alpha: AlphaMode
) -> None:
    """Blocks that cost nothing, slots without limit: a connection is a link, so the times are the same.

    Sums are the exception: a program adds one after the other into one place, which can only delay. FIFO slots delay
    too, where more messages are under way than there are slots.
    """
    schedule, program = pair
    size, model = schedule.plan.demand.size_bytes, TimeModel(alpha_mode=alpha)
    want = simulate_schedule(schedule, size, model).end
    got = program_time(unlimited(program), size, None, model).seconds
    assert got >= want * (1 - 1e-9)
    if schedule.plan.demand.pattern in ("multicast", "unicast"):
        assert got == pytest.approx(want, rel=1e-9)
    assert got <= want * 1.1
    assert program_time(program, size, None, model).seconds >= got * (1 - 1e-9)


@given(lowered(direct=False), st.floats(1.0, 1e8) | st.floats(1.0, 1e3), st.sampled_from(("pipelined", "blocking")))
@settings(max_examples=40, deadline=None, derandomize=True)
def test_no_program_is_below_the_bound(
    pair: tuple[synth.Schedule, TimedProgram], size: float, alpha: AlphaMode
) -> None:
    schedule, program = pair
    costs = BlockCosts(start=1e-6, latency=2e-6, overhead=1e-6, wait=1e-6, copy_rate=20e9, local_rate=20e9)
    (row,) = synth.simulate_program(
        program.draft,
        program.topology,
        [max(1, round(size))],
        costs=costs,
        model=TimeModel(alpha_mode=alpha),
        reference=schedule.plan,
    )
    if row.bound is not None and row.seconds is not None:
        assert row.bound <= row.seconds * (1 + 1e-9)


@given(lowered(direct=True), st.sampled_from((0.0, 1e-6)), st.sampled_from((float("inf"), 3e9)))
@settings(max_examples=15, deadline=None, derandomize=True)
def test_extrapolated_iterations_are_those_of_the_whole_run(
    pair: tuple[synth.Schedule, TimedProgram], latency: float, rate: float
) -> None:
    program = pair[1]
    size = 100.3 * program.protocol.payload_bytes * program.draft.semantics.nchunks
    costs = BlockCosts(latency=latency, overhead=latency / 3, copy_rate=rate)
    short = program_time(program, size, costs)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(timing, "FIRST_ITERATIONS", 1000)
        whole = program_time(program, size, costs)
    assert short.iterations == whole.simulated == 101
    assert short.seconds == pytest.approx(whole.seconds, rel=1e-6)


@given(lowered(direct=True), st.lists(st.integers(1, 1 << 22), min_size=2, max_size=5))
@settings(max_examples=20, deadline=None, derandomize=True)
def test_monotone_in_the_size_while_messages_stay_the_same(
    pair: tuple[synth.Schedule, TimedProgram], sizes: list[int]
) -> None:
    """Across sizes at which chunks stop to share a message, or are cut, a program may get faster: it pipelines more."""
    program = pair[1]
    sizes = sorted(s for s in sizes if program.messages_at(s) == program.messages_at(max(sizes)))
    times = [program_time(program, size, BlockCosts(1e-6, 1e-6, 1e-7, 1e-7, 20e9, 20e9)) for size in sizes]
    assert len({time.iterations for time in times}) <= 2
    assert all(a.seconds <= b.seconds * (1 + 1e-12) for a, b in itertools.pairwise(times))
