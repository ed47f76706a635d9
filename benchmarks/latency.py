"""The fastest schedules against TACOS's and TE-CCL's: same instance, same time model, one line each.

    uv run python benchmarks/latency.py --data FOLDER [--only NAME] [--seeds 8] [--time-limit 60] [--target msccl]

FOLDER holds the plain-number instances (``[src, dst, GB/s, us]`` links). Prints instance, collective, size, our
simulated time, theirs (best finish time in us), the lower bound with latency, the winner and seconds. Every schedule is
lowered to the target and its program verified. Nothing here is asserted by a test.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import synth
from synth.schedule.simulate.time_model import AlphaMode
from synth.topology.importing.plain import import_plain_instance

LINK = "bandwidth=50 GiB/s,latency=0.5 us"
#: TACOS's all-gather of 1 MB and 1 GB in us, best of 20 over 1, 4 and 16 chunks per rank; blocking.
TACOS = {
    "mesh2d_3x3": (10.278, 8280.42),
    "torus2d_4x4": (6.657, 4373.08),
    "mesh2d_4x4": (13.313, 8746.15),
    "torus2d_5x5": (8.715, 4518.35),
    "mesh2d_5x5": (14.941, 8946.70),
    "hypercube3d": (8.485, 5548.73),
    "torus3d_3x3x3": (5.949, 3053.17),
    f"torus3d:4x4x4,{LINK}": (8.701, 3076.90),
    "ring4": (19.2, 15004.2),
    "teccl_dgx1_a0.7": (9.6, 5950.8),
}
#: 1 GB in us, pipelined: at most these (TE-CCL's own finish times are larger).
TECCL = (
    ("teccl_dgx1", "allgather", 5833.4),
    ("teccl_ndv2_2ch_fixed", "allgather", 40_400.0),
    ("teccl_amd_1ch", "allgather", 2946.0),
    ("teccl_dgx1", "alltoall", 13_467.0),
    ("teccl_amd_1ch", "alltoall", 13_467.0),
    ("fc_a100_2x8", "alltoall", 20_200.0),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--only", default="")
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--time-limit", type=float, default=60.0)
    parser.add_argument("--target", default="msccl")
    asked = parser.parse_args()
    cases: list[tuple[str, str, float, float, AlphaMode]] = [
        (name, "allgather", size, theirs, "blocking")
        for name, both in TACOS.items()
        for size, theirs in zip((1e6, 1e9), both, strict=True)
    ]
    cases += [(name, collective, 1e9, theirs, "pipelined") for name, collective, theirs in TECCL]
    print("instance, collective, size, model, ours_us, theirs_us, bound_us, at most theirs, over bound, winner, s")
    for name, collective, size, theirs, mode in cases:
        if asked.only not in name:
            continue
        topology = synth.resolve(name) if ":" in name else import_plain_instance(asked.data / f"{name}.json")
        model = synth.TimeModel("blocking" if mode == "blocking" else "pipelined")
        began = time.perf_counter()
        choice = synth.fastest(
            topology, collective, size, model=model, seeds=asked.seeds, time_limit=asked.time_limit, target=asked.target
        )
        ours, bound = choice.seconds * 1e6, choice.bound.seconds * 1e6
        verdict = "yes" if round(ours, len(f"{theirs:g}".partition(".")[2]) or 1) <= theirs else "NO"
        print(
            f"{name.split(',')[0]:22} {collective:10} {size:7.0e} {mode:9} {ours:11.3f} {theirs:11.3f} {bound:11.3f} "
            f"{verdict:3} {ours / bound:6.3f}  {choice.winner.rival} {choice.schedule.chunks_per_shard} "
            f"{time.perf_counter() - began:.1f} verified {choice.program is not None and choice.program.report.ok}",
            flush=True,
        )


if __name__ == "__main__":
    main()
