"""Real files: agreement with the legacy runtime's own parser, and with an independent replay of them.

The files stand beside the repository and are not part of it; without them these tests are skipped.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

import pytest

from synth.errors import InvalidInputError
from synth.export.msccl_xml import read_xml
from synth.program.limits import parser_faults
from synth.program.model import Draft
from synth.program.targets import MSCCL
from synth.program.verify import verify
from tests.program.builders import DATA

pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason="the shared data are absent")

# Stricter than the runtime on purpose: each of these loads there, and then is not what its author meant.
STRICTER_LEX = {
    "17_17attrs.xml": "'maxBytes' would be dropped",
    "27_inplace_true.xml": "must be 0 or 1",
    "44_s_out_of_order.xml": "in document order",
    "45_s64.xml": "in document order",
    "46_type_ra.xml": 'type="ra"',
}
STRICTER_FILES = {
    # Two algorithms in one file: the runtime silently takes the first.
    "ar_ring_LL128_4_1__51257cb4.xml": "there are 2",
    "ar_ring_LL128_8_1__9a962f18.xml": "there are 2",
}
# Right output, but they send scratch chunks that were never written and race on them.
GARBAGE_READS = {"allreduce.A.n1.gpu4.i3__15c3067c.xml", "allreduce.B.n2.gpu4.i3__98604166.xml"}


def table(path: Path) -> Iterator[dict[str, str]]:
    if path.exists():
        with path.open(encoding="utf-8", newline="") as file:
            yield from csv.DictReader(file, delimiter="\t")


def load(path: Path) -> tuple[Draft | None, list[str]]:
    try:
        draft = read_xml(path)
    except InvalidInputError as error:
        return None, list(error.faults)
    return draft, parser_faults(draft, MSCCL)


def index() -> dict[str, dict[str, str]]:
    return {row["file"]: row for row in table(DATA / "msccl_xml" / "INDEX.tsv")}


@pytest.mark.parametrize("row", list(table(DATA / "lex" / "VERDICTS.tsv")), ids=lambda row: row["file"])
def test_lexer_verdicts(row: dict[str, str]) -> None:
    """``memory-error`` counts as a refusal: the runtime writes out of bounds while it loads the file."""
    _, faults = load(DATA / "lex" / row["file"])
    if row["file"] in STRICTER_LEX:
        assert row["legacy"] == "accept"
        assert STRICTER_LEX[row["file"]] in faults[0]
    else:
        assert (not faults) == (row["legacy"] == "accept"), faults


@pytest.mark.parametrize("row", index().values(), ids=lambda row: row["file"])
def test_parser_verdicts(row: dict[str, str]) -> None:
    _, faults = load(DATA / "msccl_xml" / row["file"])
    if row["file"] in STRICTER_FILES:
        assert row["legacy_parser"] == "OK"
        assert STRICTER_FILES[row["file"]] in faults[0]
    else:
        assert (not faults) == (row["legacy_parser"] == "OK"), faults


@pytest.mark.parametrize("row", index().values(), ids=lambda row: row["file"])
def test_replay_verdicts(row: dict[str, str]) -> None:
    """The index counts wrong chunks over two loop iterations, we over one."""
    draft, _ = load(DATA / "msccl_xml" / row["file"])
    if draft is None:
        pytest.skip("does not read")
    report = verify(draft)
    verdict = row["exec_model"].partition("=")[2]
    if verdict.startswith("DEADLOCK"):
        assert report.deadlocks
    elif verdict.startswith("WRONG"):
        assert report.structure or report.data
        # The index's count of a reduce leaves the iterations apart; files that break the structure are not run at all.
        if not report.structure and "reduce.A" not in row["file"]:
            assert f"WRONG({2 * report.wrong_chunks})" == verdict
    elif verdict.startswith("RAN"):
        assert not report.deadlocks
        assert report.modes == ()
    elif row["file"] in GARBAGE_READS:
        assert report.wrong_chunks == 0
        assert report.races
        assert all("reads g" in fault or "more" in fault for fault in report.data)
    else:
        assert (*report.structure, *report.deadlocks, *report.data, *report.races) == ()


@pytest.mark.parametrize("path", sorted((DATA / "measured_mi300x" / "xml").glob("*.xml")), ids=lambda path: path.name)
def test_files_that_ran_on_hardware(path: Path) -> None:
    """They ran with right results, except that large messages hang where steps are split (maxBytes 0: no limit)."""
    draft, faults = load(path)
    assert draft is not None
    assert faults == []
    report = verify(draft)
    assert (*report.structure, *report.data, *report.races) == ()
    hangs = path.name.startswith("ar_allpair_simple")
    assert bool(report.deadlocks) == hangs, report.summary()
