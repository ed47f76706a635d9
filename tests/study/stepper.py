"""The simulation again, by brute force: small fixed time steps, plain lists, its own sharing. Slow and simple."""

from __future__ import annotations

from collections.abc import Sequence

from synth.study import Change, PathSet

#: Rounds in which the sharing hands out capacity, crumb by crumb.
CRUMBS = 4000


def crumbs(uses: list[list[float]], capacity: Sequence[float], busy: Sequence[bool]) -> list[float]:
    """Max-min fair rates: all busy paths take crumbs in turn while every row of theirs has room."""
    count = len(busy)
    left = list(capacity)
    crumb = max(capacity) / CRUMBS
    rates = [0.0] * count
    growing = [k for k in range(count) if busy[k]]
    while growing:
        for k in list(growing):
            if all(left[r] >= uses[r][k] * crumb for r in range(len(left)) if uses[r][k]):
                rates[k] += crumb
                for r in range(len(left)):
                    left[r] -= uses[r][k] * crumb
            else:
                growing.remove(k)
    return rates


def step_adaptive(
    paths: PathSet, primary: Sequence[bool], size: int, chunk: int, changes: Sequence[Change], dt: float
) -> float:
    """Finish of adaptive windows of two chunks and one latency, in steps of ``dt`` seconds."""
    count = len(paths.paths)
    uses = [list(map(float, row)) for row in paths.uses]
    index = {name: k for k, name in enumerate(paths.network.row_ids)}
    queue: list[list[list[float]]] = [[] for _ in range(count)]  # [bytes left, bytes, begun]
    flying: list[tuple[float, int, float]] = []
    rate = [path.bandwidth for path in paths.paths]
    window = [2 * chunk + path.bandwidth * path.latency + 1 for path in paths.paths]
    memory: dict[tuple[object, ...], list[float]] = {}
    left, now, finish = float(size), 0.0, 0.0
    while left > 0 or flying or any(queue):
        capacity = list(map(float, paths.network.capacity))
        for change in sorted(changes, key=lambda c: c.time):
            if change.time <= now:
                capacity[index[change.resource]] = float(paths.network.capacity[index[change.resource]]) * change.factor
        flying = [item for item in flying if item[0] > now]
        while left > 0:
            part = min(float(chunk), left)
            backlog = [sum(item[0] for item in queue[k]) for k in range(count)]
            held = [sum(item[1] for item in queue[k]) + sum(f[2] for f in flying if f[1] == k) for k in range(count)]
            room = [held[k] == 0 or held[k] + part <= window[k] for k in range(count)]
            due = [(backlog[k] + part) / rate[k] + paths.paths[k].latency for k in range(count)]
            ready = [k for k in range(count) if primary[k] and room[k]]
            if not ready:
                for k in range(count):
                    others = [j for j in range(count) if j != k]
                    rest = (left + sum(backlog[j] for j in others)) / sum(rate[j] for j in others)
                    if not primary[k] and room[k] and due[k] <= rest + min(paths.paths[j].latency for j in others):
                        ready.append(k)
            if not ready:
                break
            queue[min(ready, key=lambda k: due[k])].append([part, part, now])
            left -= part
        key = (tuple(capacity), tuple(map(bool, queue)))
        if key not in memory:
            first = crumbs(uses, capacity, [bool(queue[k]) and primary[k] for k in range(count)])
            rest_of = [
                c - sum(u * r for u, r in zip(row, first, strict=True)) for c, row in zip(capacity, uses, strict=True)
            ]
            second = crumbs(uses, rest_of, [bool(queue[k]) and not primary[k] for k in range(count)])
            memory[key] = [a + b for a, b in zip(first, second, strict=True)]
        for k, rate_now in enumerate(memory[key]):
            budget = rate_now * dt
            while queue[k] and budget > 0:
                head = queue[k][0]
                taken = min(budget, head[0])
                head[0] -= taken
                budget -= taken
                if head[0] <= 0:
                    at = now + dt - budget / rate_now
                    queue[k].pop(0)
                    rate[k] = 2.0 / ((at - head[2]) / head[1] + 1.0 / rate[k])
                    if queue[k]:
                        queue[k][0][2] = at
                    flying.append((at + paths.paths[k].latency, k, head[1]))
                    finish = max(finish, at + paths.paths[k].latency)
        now += dt
    return finish
