"""Links that serve messages in the schedule's order: one pass, no event queue.

Every start is then the maximum over chains of (constants + bytes x constants), so times grow with the size, with every
constant, and are convex in the size: none of the anomalies of list scheduling (Graham 1969) can occur.
"""

from __future__ import annotations

from synth.schedule.simulate.compiled import CompiledTransfers, Timeline, spread
from synth.schedule.simulate.time_model import TimeModel


def run_ordered(compiled: CompiledTransfers, chunk_bytes: float, model: TimeModel) -> Timeline:
    """Run messages in their order; each link and pool serves one at a time.

    Parameters
    ----------
    compiled
        What to run.
    chunk_bytes
        Bytes of one chunk.
    model
        Its ``sharing`` is not looked at.
    """
    free = [model.start] * compiled.rows
    starts: list[float] = []
    arrivals: list[float] = []
    capacity, latency, pools = compiled.capacity, compiled.latency, compiled.pools
    blocking, overhead, hop = model.alpha_mode == "blocking", model.overhead, model.hop_latency
    for count, path, deps, adds in zip(compiled.count, compiled.links, compiled.deps, compiled.adds, strict=True):
        size = count * chunk_bytes
        head, done, extra = model.start, 0.0, overhead
        for d in deps:
            if arrivals[d] > head:
                head = arrivals[d]
        last = path[-1]
        for position, link in enumerate(path):
            if free[link] > head:
                head = free[link]
            for row, _ in pools[link]:
                if free[row] > head:
                    head = free[row]
            alpha = latency[link] + hop if link == last else latency[link]
            hold = alpha if blocking else 0.0
            if not position:
                starts.append(head)
            begun = head + extra
            passed = begun + size / capacity[link]
            free[link] = passed + hold
            for row, per_byte in pools[link]:
                through = begun + size * per_byte
                free[row] = through + hold
                passed = max(passed, through)
            done = max(passed, done) + alpha
            head, extra = begun + alpha, 0.0
        arrivals.append(done + size / model.reduce_rate if adds else done)
    return spread(compiled, starts, arrivals)
