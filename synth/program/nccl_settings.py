"""Environment settings that steer NCCL to a kind of path, as far as there are any.

Source: NVIDIA's NCCL user guide, "Environment Variables": NCCL_P2P_DISABLE (no direct access over NVLink or PCIe),
NCCL_P2P_LEVEL (farthest distance for it: NVL, PIX, PXB, PHB, SYS), NCCL_SHM_DISABLE (no host memory; the network is
then used instead), NCCL_NET_GDR_LEVEL (farthest distance between GPU and NIC without host memory; LOC: never). They
hold for a whole job, not for a channel.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from synth.topology.model import Topology
from synth.topology.paths import PathKind

#: Distances in NCCL's words, nearest first.
LEVELS = ("LOC", "NVL", "PIX", "PXB", "PHB", "SYS")


def settings_for(topology: Topology, links: Sequence[int], kind: PathKind, scale_up: bool) -> dict[str, str] | None:
    """Settings under which NCCL takes a path of this kind between its two GPUs.

    Parameters
    ----------
    links
        The path, link indices in order.
    kind
        Its kind.
    scale_up
        Whether the two GPUs also reach each other over scale-up links.

    Returns
    -------
    dict or None
        None when no setting leads there: between GPUs with NVLink, peer access always takes NVLink, not PCIe.
    """
    if kind == "pcie":
        return None if scale_up else {"NCCL_P2P_DISABLE": "0", "NCCL_P2P_LEVEL": _distance(topology, links)}
    if kind == "host":
        return {"NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "0"}
    if kind == "nic":
        inside = len({topology.nodes[k].host for k in (topology.ends[links[0]][0], topology.ends[links[-1]][1])}) == 1
        off = {"NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1"} if inside else {}
        return off | _gpudirect(topology, links)
    return {"NCCL_P2P_DISABLE": "0"}


def merged(wanted: Iterable[Mapping[str, str]]) -> tuple[dict[str, str], dict[str, tuple[str, ...]]]:
    """Settings that suit all, and those of which several values are wanted.

    A distance is a limit, so the farthest suits all; but "never" (LOC) suits nobody else.
    """
    values: dict[str, dict[str, None]] = {}
    for settings in wanted:
        for name, value in settings.items():
            values.setdefault(name, {})[value] = None
    agreed: dict[str, str] = {}
    torn: dict[str, tuple[str, ...]] = {}
    for name, found in sorted(values.items()):
        levels = name.endswith("_LEVEL") and "LOC" not in found
        if len(found) == 1 or levels:
            agreed[name] = max(found, key=LEVELS.index) if levels else next(iter(found))
        else:
            torn[name] = tuple(sorted(found))
    return agreed, torn


def _gpudirect(topology: Topology, links: Sequence[int]) -> dict[str, str]:
    """How far GPUDirect reaches on both sides of a path through NICs; LOC where host memory is between."""
    kinds = [topology.nodes[topology.ends[link][1]].kind for link in links[:-1]]
    nics = [k for k, kind in enumerate(kinds) if kind == "nic"]
    if not nics:
        return {}
    sides = (links[: nics[0] + 1], links[nics[-1] + 1 :])
    far = [_distance(topology, side) for side in sides if len(side) > 1]
    if not far:
        return {}
    return {"NCCL_NET_GDR_LEVEL": "LOC" if "LOC" in far else max(far, key=LEVELS.index)}


def _distance(topology: Topology, links: Sequence[int]) -> str:
    """Distance between the ends of some links over PCIe: one switch, several, one CPU, several; LOC with memory."""
    between = [topology.nodes[topology.ends[link][1]].kind for link in links[:-1]]
    if "memory" in between:
        return "LOC"
    cpus = between.count("cpu")
    if cpus:
        return "PHB" if cpus == 1 else "SYS"
    return "PIX" if len(between) <= 1 else "PXB"
