"""TACCL topology JSON: costs in microseconds per chunk, of a machine named in the file or of matrices in it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from types import MappingProxyType
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from synth.errors import InvalidInputError
from synth.files.faults import validate
from synth.files.json_text import Document
from synth.topology.catalogue.scale_up import DGX1_NVLINKS
from synth.topology.elements import Link, LinkKind, Node
from synth.topology.importing.assume import Assumptions
from synth.topology.model import Topology
from synth.topology.shapes import both_ways

#: In TACCL's profiles for small chunks the costs are in smaller units (so that its solver sees numbers near one):
#: chunk size to microseconds per unit. Its alpha of 0.3 us is 30 at 1 KB, 3 at 32 KB and 0.3 at 1 MB.
_UNIT_US = MappingProxyType({"1KB": 0.01, "32KB": 0.1, "1MB": 1.0})
_BYTES = MappingProxyType({"KB": 2**10, "MB": 2**20, "GB": 2**30})

_Cost = Annotated[float, Field(ge=0, allow_inf_nan=False, le=1e12)]
_Row = list[_Cost]


class _Profile(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    name: str = Field(description="a text such as NDv2_1MB")
    gpus_per_node: Annotated[int, Field(ge=1, le=1024, description="a number of GPUs")]
    nics_per_node: Annotated[int, Field(ge=0, le=1024)] = 0
    alpha: _Cost = Field(description="the latency of a link")
    node_betas_list: list[_Cost] = []
    node_invbws_list: list[_Cost] = []
    remote_alpha: _Cost = 0.0
    remote_beta: _Cost = 0.0
    remote_invbw: _Cost = 0.0
    links: list[_Row] = []
    betas: list[_Row] = []
    invbws: list[_Row] = []


def taccl_topology(document: Document, assumptions: Assumptions) -> Topology:
    """One node of a TACCL profile.

    ``links`` with ``betas`` (or ``invbws``, which are alpha + beta) are taken as they stand, ``links[dst][src]`` as
    TACCL has them. Without them the name says what it is: NDv2 (costs of two links and of one) or DGX2 (a switch).

    Raises
    ------
    InvalidInputError
        Faults of the JSON; a name without a chunk size (``_1MB``) or machine; matrices of the wrong shape.
    """
    parsed, faults = validate(document, _Profile, {})
    if faults or parsed is None:
        raise InvalidInputError(sorted(dict.fromkeys(faults), key=document.line_of))
    size, unit, notes = _scale(parsed.name, document)
    alpha = parsed.alpha * unit * 1e-6

    def rate(beta: float) -> float:
        """Bytes/second of a cost per chunk."""
        if not beta * unit > 0:
            raise InvalidInputError(
                f"{document.file}: a cost per chunk of {beta} leaves no finite bandwidth; give a beta"
            )
        return size / (beta * unit * 1e-6)

    nodes = [Node(f"g{i}", "gpu") for i in range(parsed.gpus_per_node)]
    if parsed.links:
        links = list(_matrix_links(parsed, document, rate, alpha))
    elif parsed.name.upper().startswith("DGX2"):
        nodes.append(Node("sw", "switch"))
        links = _switched(parsed, document, rate, alpha)
    elif parsed.name.upper().startswith("NDV2"):
        links = _cube_mesh(parsed, document, rate, alpha)
    else:
        raise InvalidInputError(
            f"{document.place('name')}: {parsed.name!r} has no links matrix and is neither NDv2 nor DGX2, whose wiring "
            "TACCL knows by name; add links and betas"
        )
    if parsed.nics_per_node:
        notes.append(
            f"one node: its {parsed.nics_per_node} NICs (remote_alpha, remote_beta) lead to other nodes, left out"
        )
    source = f"{document.file.rpartition('/')[2]} (TACCL topology)"
    return Topology(parsed.name, tuple(nodes), tuple(links), source=source, notes=tuple(notes))


_RateOf = Callable[[float], float]


def _single(parsed: _Profile, document: Document, count: int, what: str) -> list[float]:
    """The costs per link of a named machine, fewest first."""
    if len(parsed.node_betas_list) != count:
        raise InvalidInputError(
            f"{document.place('node_betas_list')}: {parsed.name} has {what}, so {count} costs are needed, not "
            f"{len(parsed.node_betas_list)}"
        )
    return sorted(parsed.node_betas_list)


def _switched(parsed: _Profile, document: Document, rate: _RateOf, alpha: float) -> list[Link]:
    (beta,) = _single(parsed, document, 1, "one kind of link")
    bandwidth = rate(beta)
    # TACCL's alpha is from GPU to GPU; half of it lies on each side of the switch.
    gpus = range(parsed.gpus_per_node)
    return [k for i in gpus for k in both_ways(f"g{i}-sw", f"g{i}", "sw", bandwidth, alpha / 2, "nvlink")]


def _cube_mesh(parsed: _Profile, document: Document, rate: _RateOf, alpha: float) -> list[Link]:
    """NDv2: the hybrid cube mesh in TE-CCL's numbering, which is TACCL's; two NVLinks of a pair act as one link."""
    double, single = _single(parsed, document, 2, "pairs with two links and with one")
    if parsed.gpus_per_node != 8:
        raise InvalidInputError(f"{document.place('gpus_per_node')}: NDv2 has 8 GPUs, not {parsed.gpus_per_node}")
    rates = {"2": rate(double), "1": rate(single)}
    return [
        link
        for a in range(8)
        for b in range(a + 1, 8)
        if DGX1_NVLINKS[a][b] != "0"
        for link in both_ways(f"g{a}-g{b}", f"g{a}", f"g{b}", rates[DGX1_NVLINKS[a][b]], alpha, "nvlink")
    ]


def _matrix_links(parsed: _Profile, document: Document, rate: _RateOf, alpha: float) -> Iterator[Link]:
    """Links of the matrices, whose rows are destinations."""
    n = parsed.gpus_per_node
    costs, field = (parsed.betas, "betas") if parsed.betas else (parsed.invbws, "invbws")
    for name, matrix in (("links", parsed.links), (field, costs)):
        if len(matrix) != n or any(len(row) != n for row in matrix):
            raise InvalidInputError(
                f"{document.place(name)}: {n} GPUs need {n} rows of {n} numbers, there are {len(matrix)} rows of "
                f"{sorted({len(row) for row in matrix})}"
            )
    kind: LinkKind = "net"
    for dst in range(n):
        for src in range(n):
            if parsed.links[dst][src] and src == dst:
                raise InvalidInputError(f"{document.place('links', dst, src)}: a link from a GPU to itself")
            if parsed.links[dst][src]:
                beta = costs[dst][src] - (0.0 if parsed.betas else parsed.alpha)
                yield Link(f"g{src}-g{dst}", f"g{src}", f"g{dst}", rate(beta), alpha, kind)


def _scale(name: str, document: Document) -> tuple[int, float, list[str]]:
    """Bytes of the chunk and microseconds per unit of cost."""
    match = re.search(r"_([0-9]{1,6})(KB|MB|GB)$", name)
    if match is None:
        raise InvalidInputError(
            f"{document.place('name')}: {name!r} does not end in the chunk size that the costs are for, such as _1MB"
        )
    unit = _UNIT_US.get(match[1] + match[2])
    notes = []
    if unit is None:
        unit = 1.0
        notes.append(f"costs are read as microseconds per {match[1]} {match[2]}")
    elif unit != 1.0:
        notes.append(f"costs are read in units of {unit} us, as TACCL's profiles for {match[1]} {match[2]} have them")
    return int(match[1]) * _BYTES[match[2]], unit, notes
