"""``synth compare``: gains by hand, against the table of machines.md section 5, and by a second method."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import synth
from synth.demand import make_demand
from synth.errors import InfeasibleError, InvalidInputError
from synth.study.multipath.gains import COLUMNS, SCENARIOS, compare, in_band, ranks_text
from synth.study.multipath.shares import KINDS, kind_shares
from synth.topology import Topology, catalogue, resolve, select_paths
from synth.topology.box.build import build_topology
from synth.topology.box.hardware import exactly
from synth.topology.box.parts import Box, Cable, Gpu, Nic, Numa, PcieSwitch
from tests import places
from tests.reference_lp import duplex, machine, reference_time
from tests.topology.test_box import boxes

GB = 1e9


def gains(table: pd.DataFrame) -> dict[str, float]:
    return dict(zip(table["paths"], table["gain_percent"], strict=True))


def pair(nvlink: float, port: float, nic: float, memory: float = 1000.0, peer: bool = True) -> Topology:
    """Two GPUs with a cable, each with its own PCIe switch and NIC below one CPU."""
    gpus = tuple(Gpu(f"g{k}", parent=f"pcie{k}", port=exactly(port * GB), peer=peer) for k in range(2))
    numa = Numa("cpu0", memory=exactly(memory * GB))
    switches = tuple(PcieSwitch(f"pcie{k}", parent="cpu0", uplink=exactly(1000 * GB)) for k in range(2))
    nics = tuple(
        Nic(f"nic{k}", parent=f"pcie{k}", card=f"card{k}", port=exactly(1000 * GB), rate=exactly(nic * GB))
        for k in range(2 if nic else 0)
    )
    cables = (Cable("nv", src="g0", dst="g1", rate=exactly(nvlink * GB)),) if nvlink else ()
    return build_topology("pair", [Box(gpus, (numa,), switches, nics, cables=cables)])


@pytest.mark.parametrize(
    ("topology", "expected"),
    [
        # 50 of NVLink; a port of 20 carries the PCIe, host and NIC paths together.
        (pair(50, 20, 0), (0, 40, 0, 40)),
        (pair(50, 20, 5), (0, 40, 10, 40)),
        # Host memory of 16: each way's byte is written and read, both ways share it: 16 / 4 = 4.
        (pair(50, 20, 0, memory=16, peer=False), (0, 8, 0, 8)),
        # Without peer access NICs are staged in the same memory, which is full already.
        (pair(50, 20, 1, memory=16, peer=False), (0, 8, 2, 8)),
    ],
)
def test_gains_by_hand(topology: Topology, expected: tuple[float, ...]) -> None:
    table = compare(topology, "alltoall", "2 GB", simulate=False)
    assert table["gain_percent"].tolist() == pytest.approx(expected, abs=1e-3)
    for paths, time in zip(table["paths"], table["plan_us"], strict=True):
        part = select_paths(topology, dict(SCENARIOS)[paths])
        assert time * 1e-6 == pytest.approx(reference_time(part, make_demand(part, "alltoall", 2e9)), rel=1e-5)


#: machines.md section 5, rounded there: machine, ranks, NIC only, everything the PCIe port carries.
SECTION_5 = [
    ("dgx1-v100-box", None, 4, 10),
    ("a100-box", None, 8, 10),
    ("a800-box", None, 12, 16),
    ("h800-box", None, 25, 31),
    ("h100-box", None, 11, 14),
    ("h200-box", None, 11, 14),
    ("h20-box", None, 11, 14),
    ("b200-box", None, 6, 7),
    ("mi300x-box", None, 11, 14),
    ("mi300x-box", [0, 1, 2, 3], 26, 33),
    ("mi300x-box", [0, 1], 78, 98),
    ("ascend910b-box", None, 13, 13 + 16),  # the PCIe part is additive there: the NIC is on the chip
    ("ascend910b-box", [0, 2, 4, 6], 30, None),
    ("ascend910b-box", [0, 2], 89, None),
    ("gaudi2-box", None, 14, 14),
    ("gaudi3-box", None, 14, 14),
    ("maia100-box", None, 33, 33),
    ("br100-box", None, 22, 28),
    ("mlu370-x8-box", [0, 1, 2, 3], 25, 31),
    ("a40-box", [0, 1], 44, 55),
]


@pytest.mark.parametrize(("name", "ranks", "nic", "every"), SECTION_5)
def test_table_of_machines(name: str, ranks: list[int] | None, nic: float, every: float | None) -> None:
    """All-gather, nominal capacities, the others idle: within 1 point of the arithmetic per GPU's ingress."""
    table = compare(name, "allgather", "1 GB", ranks=ranks, relay=False, simulate=False)
    found = gains(table)
    assert found["+nic"] == pytest.approx(nic, abs=1)
    if every is not None:
        assert found["all"] == pytest.approx(every, abs=1)
    assert set(table["status"]) == {"optimal"}
    assert (table["bound_us"] <= table["plan_us"]).all()


def test_machines_without_enough_scale_up() -> None:
    table = compare("mi50-8-box", "allgather", "1 GB", simulate=False)
    assert list(table["status"]) == ["infeasible", "optimal", "optimal", "optimal"]
    assert "no path" in table["reason"][0]
    assert table["gain_percent"].isna().all()
    assert table["plan_us"].isna().tolist() == [True, False, False, False]


def test_t28_in_the_table() -> None:
    """Two GPUs under one uplink of 12, no peer access: 12 GB each way cross it twice, once up and once down: 2 s."""
    gpus = tuple(Gpu(f"g{k}", parent="x", port=exactly(12 * GB), peer=False) for k in range(2))
    numa = Numa("cpu0", memory=exactly(1000 * GB))
    box = Box(gpus, (numa,), (PcieSwitch("x", parent="cpu0", uplink=exactly(12 * GB)),))
    table = compare(build_topology("t28", [box]), "alltoall", "24 GB", simulate=False)
    assert table["plan_us"].tolist()[1::2] == pytest.approx([2e6, 2e6], rel=1e-6)
    assert table["status"].tolist() == ["infeasible", "optimal", "infeasible", "optimal"]
    assert table["share_host"].tolist()[1] == pytest.approx(1.0)


def test_simulated_times_and_columns() -> None:
    table = compare(pair(50, 20, 5), "allgather", "64 MB")
    assert list(table.columns) == list(COLUMNS)
    assert (table["simulated_us"] >= table["plan_us"]).all()
    assert table["simulated_gain_percent"][0] == 0
    assert table["ranks"].tolist() == ["0-1"] * 4


def test_fair_sharing_of_a_port() -> None:
    """Messages of PCIe and NIC paths through one port: one at a time they wait for each other, packets do not."""
    options: dict[str, Any] = {"ranks": [0, 1], "relay": False}
    ordered = compare("a40-box", "allgather", "1 GB", **options).set_index("paths")
    fair = compare("a40-box", "allgather", "1 GB", sharing="fair", **options).set_index("paths")
    assert ordered["plan_us"].tolist() == fair["plan_us"].tolist()
    assert fair["simulated_us"]["+nic"] < 0.9 * ordered["simulated_us"]["+nic"]
    assert (fair["simulated_us"] >= fair["plan_us"]).all()
    assert ordered["simulated_us"].round().tolist() == [8889, 6550, 7782, 6550]
    assert fair["simulated_us"].round().tolist()[1] == 5807
    with pytest.raises(InvalidInputError, match="sharing"):
        compare("a40-box", "allgather", "1 GB", sharing="luck", **options)  # type: ignore[arg-type]


#: The README's table: machines of a row, ranks of its cases.
README_ROWS: list[tuple[tuple[str, ...], str, list[list[int] | None]]] = [
    (("dgx1-v100-box",), "all", [None]),
    (("a100-box",), "all", [None]),
    (("a800-box",), "all", [None]),
    (("h100-box", "h200-box", "h20-box"), "all", [None]),
    (("h800-box",), "all", [None]),
    (("b200-box",), "all", [None]),
    (("mi300x-box",), "all; 4; 2 of 8", [None, [0, 1, 2, 3], [0, 1]]),
    (("ascend910b-box",), "all; 4; 2 of 8", [None, [0, 2, 4, 6], [0, 2]]),
    (("gaudi2-box", "gaudi3-box"), "all", [None]),
    (("maia100-box",), "all", [None]),
    (("br100-box",), "all; 4 of 8", [None, [0, 1, 2, 3]]),
    (("mlu370-x8-box",), "4 of 8", [[0, 1, 2, 3]]),
    (("a40-box",), "a bridged pair", [[0, 1]]),
]


@pytest.mark.parametrize(("names", "what", "cases"), README_ROWS)
def test_the_readmes_table(names: tuple[str, ...], what: str, cases: list[list[int] | None]) -> None:
    lines = (places.ROOT / "README.md").read_text().splitlines()
    for name in names:
        tables = [compare(name, "allgather", "1 GB", ranks=ranks, relay=False, simulate=False) for ranks in cases]
        cells = []
        for paths in ("+nic", "all"):
            values = [gains(table)[paths] for table in tables]
            cells.append("; ".join(f"**{g:.1f} %**" if 23 <= g <= 54 else f"{g:.1f} %" for g in values))
        shown = ", ".join(f"`{name}`" for name in names)
        assert f"| {shown} | {what} | {' | '.join(cells)} |" in lines


def test_errors() -> None:
    with pytest.raises(InfeasibleError, match="no path"):
        compare(machine(2, [(0, 1, 1.0)]), "allgather", "1 GB")
    with pytest.raises(InvalidInputError, match="one topology"):
        compare(None, "allgather", "1 GB", ranks=[0, 1])
    with pytest.raises(InvalidInputError, match="made already"):
        compare(machine(2, [(0, 1, 1.0)]), "allgather", "1 GB", capacities="nominal")
    with pytest.raises(InvalidInputError):
        compare("h100-box", "allgather", "1 GB", ranks=[9])


def test_paths_that_cannot_be_told_apart_are_said() -> None:
    """NVLink, PCIe and NIC links at one switch: a NIC path's link in and its link out also make a PCIe path."""
    plain = machine(2, duplex([(0, 2, 10), (1, 2, 10)]), switches=1)
    nvlink = tuple(replace(link, kind="nvlink") for link in plain.links)
    extra = (replace(plain.links[0], id="n", kind="nic"), replace(plain.links[3], id="p", kind="pcie"))
    table = compare(replace(plain, links=(*nvlink, *extra)), "allgather", "1 GB", simulate=False)
    assert table["status"].tolist() == ["optimal", "optimal", "refused", "optimal"]
    assert "cannot be told apart" in table["reason"][2]
    assert table["gain_percent"].isna().tolist() == [False, False, True, False]


def test_catalogue_with_its_rented_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    few = {name: catalogue()[name] for name in ("b200-box", "mi300x-box")}
    monkeypatch.setattr("synth.study.multipath.gains.catalogue", lambda: few)
    said: list[str] = []
    table = compare(None, "allgather", "1 GB", capacities="achievable", progress=said.append)
    assert table.groupby(["machine", "ranks", "relay"], sort=False).ngroups == 4
    assert table["relay"].tolist() == [True] * 8 + [False] * 8
    assert table["machine"][0] == "b200-box:capacities=achievable"
    assert table["simulated_us"].isna().all()
    assert said[0] == "b200-box:capacities=achievable, 8 ranks, scale-up"
    assert len(said) == 16
    helped = compare(None, "allgather", "1 GB", relay=True)
    assert helped["relay"].all()


def test_in_band() -> None:
    table = compare("h800-box", "allgather", "1 GB", simulate=False)
    assert in_band(table, 23, 54)["paths"].tolist() == ["+pcie/host", "+nic", "all"]
    assert in_band(table, 30, 54)["paths"].tolist() == ["all"]
    assert in_band(table, 54, 60).empty


@settings(max_examples=25, deadline=None)
@given(boxes(), st.sampled_from(("allgather", "reducescatter", "alltoall", "broadcast")), st.data())
def test_more_paths_never_slow_down_and_shares_add_up(box: Box, collective: str, data: st.DataObject) -> None:
    ring = [(a, (a + 1) % len(box.gpus)) for a in range(len(box.gpus))]
    rate = exactly(data.draw(st.integers(1, 60)) * GB)
    cables = tuple(Cable(f"nv{a}-{b}", src=f"g{a}", dst=f"g{b}", rate=rate, both_ways=False) for a, b in ring)
    topology = build_topology("random", [replace(box, cables=cables)])
    root = 0 if collective == "broadcast" else None
    table = compare(topology, collective, 1e9, root=root, simulate=False).set_index("paths")
    time = table["plan_us"]
    some = 1 + 1e-6
    assert time["+pcie/host"] <= time["scale-up"] * some
    assert time["+nic"] <= time["scale-up"] * some
    assert time["all"] <= min(time["+pcie/host"], time["+nic"]) * some
    shares = table.filter(like="share_")
    assert shares.sum(axis=1).tolist() == pytest.approx([1.0] * 4)
    share = {
        name: dict(zip(shares.columns, row, strict=True))
        for name, row in zip(time.index, shares.to_numpy(), strict=True)
    }
    assert share["scale-up"]["share_pcie"] == share["scale-up"]["share_host"] == share["scale-up"]["share_nic"] == 0
    assert share["+pcie/host"]["share_nic"] == 0
    assert share["+nic"]["share_pcie"] == share["+nic"]["share_host"] == 0


@settings(max_examples=12, deadline=None)
@given(boxes(), st.sampled_from(("allgather", "alltoall", "reducescatter")))
def test_plans_are_the_optimum_of_another_lp(box: Box, collective: str) -> None:
    """Every arborescence, or every link, in scipy's LP, on each set of paths."""
    small = replace(
        box, gpus=box.gpus[:2], cables=(Cable("nv", src="g0", dst="g1", rate=exactly(7 * GB)),), switches=box.switches
    )
    topology = build_topology("small", [small])
    table = compare(topology, collective, 1e9, simulate=False).set_index("paths")
    for name, groups in SCENARIOS:
        part = select_paths(topology, groups)
        best = reference_time(part, make_demand(part, collective, 1e9))
        assert table["plan_us"][name] == pytest.approx(best * 1e6, rel=1e-5)


def shares_of(topology: Topology, collective: str, **options: object) -> dict[str, float]:
    plan = synth.solve(topology, collective, 1e9, **options)  # type: ignore[arg-type]
    return {kind: share for kind, share in kind_shares(plan).items() if share > 1e-9}


def test_shares_by_hand() -> None:
    line = machine(3, duplex([(0, 1, 10), (1, 2, 10)]))
    assert shares_of(line, "allgather") == {"direct": pytest.approx(1.0)}
    assert shares_of(line, "allgather", ranks=[0, 2]) == {"relay": pytest.approx(1.0)}
    assert shares_of(line, "reduce", ranks=[0, 2], root=2) == {"relay": pytest.approx(1.0)}
    # All-to-all on a line: 4 of 6 pairs are neighbours.
    assert shares_of(line, "alltoall") == {"direct": pytest.approx(2 / 3), "relay": pytest.approx(1 / 3)}
    # An all-reduce delivers once inwards and once outwards per rank but one.
    assert shares_of(line, "allreduce") == {"direct": pytest.approx(1.0)}
    star = machine(3, duplex([(0, 3, 10), (1, 3, 10), (2, 3, 10)]), switches=1)
    assert shares_of(star, "reducescatter") == {"switch": pytest.approx(1.0)}
    # 50 direct and 20 through the port.
    both = shares_of(pair(50, 20, 0), "alltoall")
    assert both["direct"] == pytest.approx(5 / 7, rel=1e-4)
    assert sum(both.values()) == pytest.approx(1.0)


def test_nothing_moves_nothing_shares() -> None:
    plan = synth.solve("ring:3", "allgather", 1e9, ranks=[1])
    assert set(kind_shares(plan)) == set(KINDS)
    assert not any(kind_shares(plan).values())


def test_numbers_are_numbers() -> None:
    table = compare("mtt-s4000-box", "allgather", 10**9, simulate=False)
    assert table["gain_percent"].tolist() == [0.0] * 4  # nothing to add: one plan, looked up thrice
    assert all(math.isnan(value) for value in table["simulated_us"])
    assert resolve("mtt-s4000-box").gpus


@pytest.mark.parametrize(
    ("ranks", "text"), [([0, 1, 2, 3, 7], "0-3,7"), ([5], "5"), ([3, 2, 1], "3,2,1"), ([0, 2, 3], "0,2-3")]
)
def test_ranks_text(ranks: list[int], text: str) -> None:
    assert ranks_text(ranks) == text
