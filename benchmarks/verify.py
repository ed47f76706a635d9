"""Verify the largest programs in reach, from their XML text, and say how long each stage takes and how much memory.

    uv run python benchmarks/verify.py [ring|rings|pairs|big|all]

ring: 128 ranks, 501,248 steps, an all-gather.
rings: 128 ranks, 455,168 steps, an all-reduce whose order is proved all the way round its rings.
pairs: 128 ranks with 255 blocks each, 422,528 steps, an all-reduce in which everyone talks to everyone (with more
blocks than any target takes, which is reported; here for the race check).
big: 256 ranks, 913,920 steps, an all-gather.
"""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable

from synth.program.msccl.model import Draft
from synth.program.msccl.targets import MSCCL
from synth.program.msccl.xml import verify_file
from tests.program.msccl.large import allpairs_allreduce, ring_gather, rings_allreduce
from tests.program.msccl.xml.test_runtime_parser import unchecked_xml

CASES: dict[str, Callable[[], Draft]] = {
    "ring": lambda: ring_gather(128, 11, 102),
    "rings": lambda: rings_allreduce(128, 7),
    "pairs": lambda: allpairs_allreduce(128, 5),
    "big": lambda: ring_gather(256, 7),
}


def measure(name: str) -> None:
    text = unchecked_xml(CASES[name](), MSCCL)
    start = time.perf_counter()
    report = verify_file(text, MSCCL)
    seconds = time.perf_counter() - start
    gigabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    faults = sorted({fault.split(": ", 1)[-1] for fault in (*report.deadlocks, *report.data, *report.races)})
    size = f"{report.ranks} ranks, {report.blocks} blocks, {report.steps} steps"
    print(f"{name}: {len(text) / 1e6:.0f} MB of XML, {size}")
    print(f"  verified in {seconds:.1f} s, peak memory of the process {gigabytes:.2f} GB")
    print(f"  accepted: {report.accepted}; faults of the replay: {faults or 'none'}")


def main() -> None:
    wanted = sys.argv[1] if len(sys.argv) > 1 else "ring"
    for name in CASES if wanted == "all" else [wanted]:
        measure(name)


if __name__ == "__main__":
    main()
