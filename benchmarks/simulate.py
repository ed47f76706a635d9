"""Speed of the time model: seconds for schedules of about a million transfers, and for large programs.

    uv run python benchmarks/simulate.py [--transfers 1000000]

Prints one line per way to share links and per program. Nothing here is asserted by a test.
"""

from __future__ import annotations

import argparse
import time

import synth
from synth.schedule import BlockCosts, TimeModel, Transfer
from synth.schedule.simulate.compiled import compile_transfers
from synth.schedule.simulate.run import run
from synth.schedule.simulate.time_model import Sharing
from synth.timing.image import timed
from synth.timing.programs import program_time

QUEUES: tuple[Sharing, ...] = ("order", "fifo")
FAIR: Sharing = "fair"


def ring_transfers(topology: synth.Topology, ranks: int, chunks: int) -> list[Transfer]:
    """Ring all-gather, chunk by chunk."""
    out: list[Transfer] = []
    last: dict[tuple[int, int], int] = {}
    link = {ends: k for k, ends in enumerate(topology.ends)}
    gpus = topology.gpus
    for hop in range(ranks - 1):
        for chunk in range(chunks):
            for shard in range(ranks):
                src, dst = gpus[(shard + hop) % ranks], gpus[(shard + hop + 1) % ranks]
                deps = (last[shard, chunk],) if hop else ()
                last[shard, chunk] = len(out)
                out.append(Transfer(shard, chunk, 1, shard, src, dst, (link[src, dst],), False, deps))
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--transfers", type=int, default=1_000_000)
    wanted = parser.parse_args().transfers
    ranks = 64
    topology = synth.resolve(f"ring:{ranks}")
    for sharing, count in (*((name, wanted) for name in QUEUES), (FAIR, max(1, wanted // 50))):
        transfers = ring_transfers(topology, ranks, max(1, round(count / ranks / (ranks - 1))))
        began = time.perf_counter()
        compiled = compile_transfers(topology, transfers)
        middle = time.perf_counter()
        end = run(compiled, 1e5, TimeModel(sharing=sharing)).end
        took = time.perf_counter() - middle
        line = f"{len(transfers)} transfers, {sharing}: compile {middle - began:.2f} s, run {took:.2f} s"
        print(f"{line}, {len(transfers) / took:,.0f} transfers/s; ends at {end * 1e3:.3f} ms")
    machine = synth.resolve("dgx-a100")
    program = synth.synthesize(machine, "allgather", 1e9).program
    if isinstance(program, synth.Program):
        put, costs = timed(program.draft, machine), BlockCosts(5e-6, 1e-6, 5e-7, 1e-6, 20e9, 20e9)
        for size in (1 << 20, 1 << 30, 1 << 36):
            began = time.perf_counter()
            result = program_time(put, size, costs)
            took = time.perf_counter() - began
            loops = f"{result.simulated} of {result.iterations} iterations"
            print(
                f"{put.image.ops} steps at {size} bytes: {took:.3f} s ({loops}); ends at {result.seconds * 1e3:.3f} ms"
            )


if __name__ == "__main__":
    main()
