"""Adaptive splitting against the re-solved LP when one link drops to half, over links, moments, sizes and chunks.

    uv run python benchmarks/adaptive.py [TOPOLOGY] [--factor 0.5] [--csv FILE]

Every link of every path drops, at 10, 20, ..., 90 % of the LP's time. Prints one line per size and chunk: worst and
mean finish over the re-solved LP's, how often adaptive beats equal striping, the static LP and scale-up only, and the
most that the primary window was ever behind. Nothing here is asserted by a test.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import pandas as pd

from synth.files.writing import write_text
from synth.study import Change, PathSet, compare_splits, find_paths
from synth.study.sharing import best_rates
from synth.topology import resolve

HERE = Path(__file__).parent.parent
CASES = ((10**9, 2**20), (10**9, 2**22), (10**8, 2**18), (10**8, 2**20), (10**7, 2**16), (10**7, 2**18))


def measure(paths: PathSet, size: int, chunk: int, factor: float) -> dict[str, object]:
    nominal = size / float(best_rates(paths.uses, paths.network.capacity).sum())
    rows = []
    for link in dict.fromkeys(link for path in paths.paths for link in path.links):
        for part in range(1, 10):
            compared = compare_splits(paths, size, chunk=chunk, changes=[Change(part / 10 * nominal, link, factor)])
            finish = {run.policy: run.finish for run in compared.runs}
            mine = finish["adaptive"]
            wins = {f"beats {name}": mine < finish[name] for name in ("equal striping", "static LP", "scale-up only")}
            lag, lost = compared.primary_lag, compared.lost(compared["adaptive"])
            rows.append({"over": mine / finish["re-solved LP"] - 1, **wins, "lag": lag, "lost": lost})
    table = pd.DataFrame(rows)
    beats = {name: f"{int(table[name].sum())}/{len(table)}" for name in table.columns if name.startswith("beats")}
    return {
        "size": size,
        "chunk": chunk,
        "worst_%": round(100 * table["over"].max(), 2),
        "mean_%": round(100 * table["over"].mean(), 2),
        **beats,
        "lag_bytes": round(table["lag"].max(), 1),
        "lost_MB": round(table["lost"].mean() / 1e6, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("topology", nargs="?", default=str(HERE / "instances" / "study" / "h800-pair.json"))
    parser.add_argument("--factor", type=float, default=0.5)
    parser.add_argument("--csv", type=Path)
    options = parser.parse_args()
    paths = find_paths(resolve(options.topology), 0, 1)
    table = pd.DataFrame([measure(paths, size, chunk, options.factor) for size, chunk in CASES])
    print(table.to_string(index=False))
    if options.csv is not None:
        write_text(options.csv, table.to_csv(index=False))


if __name__ == "__main__":
    main()
