"""Real files: agreement with the three runtimes' own parsers, with an independent replay, and with hardware.

The files stand beside the repository and are not part of it; without them these tests are skipped.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

import pytest

from synth.errors import InvalidInputError
from synth.program.meaning.report import Report
from synth.program.msccl.limits.check import parser_faults
from synth.program.msccl.targets import MSCCL, RCCL, TARGETS
from synth.program.msccl.verifying.deadlocks import hang_at
from synth.program.msccl.verifying.structure import structure_faults
from synth.program.msccl.xml import accepts, verify_file
from synth.program.msccl.xml.writer import read_xml
from tests.program.msccl.builders import DATA

pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason="the shared data are absent")

# What the strict reader refuses on purpose: each of these loads in the runtime, and then is not what its author meant.
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
# Right output, but they send scratch chunks that were never written and race on them: dead data.
GARBAGE_READS = {"allreduce.A.n1.gpu4.i3__15c3067c.xml", "allreduce.B.n2.gpu4.i3__98604166.xml"}


def table(path: Path) -> Iterator[dict[str, str]]:
    if path.exists():
        with path.open(encoding="utf-8", newline="") as file:
            yield from csv.DictReader(file, delimiter="\t")


def strict_faults(path: Path) -> list[str]:
    try:
        return parser_faults(read_xml(path), MSCCL)
    except InvalidInputError as error:
        return list(error.faults)


def index() -> list[dict[str, str]]:
    return list(table(DATA / "msccl_xml" / "INDEX.tsv"))


lexed = pytest.mark.parametrize("row", list(table(DATA / "lex" / "VERDICTS.tsv")), ids=lambda row: row["file"])
indexed = pytest.mark.parametrize("row", index(), ids=lambda row: row["file"])


@lexed
def test_lexer_verdicts(row: dict[str, str]) -> None:
    """All 61 files on all three runtimes.

    ``memory-error`` counts as a refusal: the runtime writes out of bounds while it loads the file.
    """
    for target, column in zip(TARGETS, ("legacy", "executor", "rccl"), strict=True):
        verdict = accepts(DATA / "lex" / row["file"], target)
        assert verdict.accepted == (row[column] == "accept"), (target.name, verdict)


@indexed
def test_parser_verdicts(row: dict[str, str]) -> None:
    """All 70 files on all three runtimes."""
    columns = ("legacy_parser", "executor_parser64", "rccl_parser")
    for target, column in zip(TARGETS, columns, strict=True):
        verdict = accepts(DATA / "msccl_xml" / row["file"], target)
        assert verdict.accepted == (row[column] == "OK"), (target.name, verdict)


@indexed
def test_launch_verdicts(row: dict[str, str]) -> None:
    """RCCL loads fused receive steps and refuses to run them.

    The index has no statistics of the two files with two algorithms (its columns are None), hence no launch verdict;
    the first algorithm of both has fused steps.
    """
    verdict = accepts(DATA / "msccl_xml" / row["file"], RCCL)
    if verdict.accepted and row["file"] not in STRICTER_FILES:
        assert bool(verdict.launch) == (row["rccl_fullops_reject"] == "1")


@lexed
def test_strict_reader_on_peculiar_files(row: dict[str, str]) -> None:
    faults = strict_faults(DATA / "lex" / row["file"])
    if row["file"] in STRICTER_LEX:
        assert row["legacy"] == "accept"
        assert STRICTER_LEX[row["file"]] in faults[0]
    else:
        assert (not faults) == (row["legacy"] == "accept"), faults


@indexed
def test_strict_reader_on_real_files(row: dict[str, str]) -> None:
    faults = strict_faults(DATA / "msccl_xml" / row["file"])
    if row["file"] in STRICTER_FILES:
        assert row["legacy_parser"] == "OK"
        assert STRICTER_FILES[row["file"]] in faults[0]
    else:
        assert (not faults) == (row["legacy_parser"] == "OK"), faults


def outcome(report: Report) -> str:
    """Our verdict in the words of the index."""
    if not report.ranks:
        return "XMLERR"
    if report.deadlocks:
        return "DEADLOCK"
    # Files that break the structure are not run; the index ran them, and got wrong data.
    if report.wrong_chunks or report.structure:
        return "WRONG"
    return "OK" if report.modes else "RAN_UNCHECKED"


@indexed
def test_replay_verdicts(row: dict[str, str]) -> None:
    """All 70 files. The index counts wrong chunks over two loop iterations, we over one."""
    report = verify_file(DATA / "msccl_xml" / row["file"], MSCCL)
    verdict = row["exec_model"].partition("=")[2] or row["exec_model"]
    assert outcome(report) == verdict.partition("(")[0], report.summary()
    # The index's count of a reduce leaves the iterations apart.
    if report.wrong_chunks and not report.structure and "reduce.A" not in row["file"]:
        assert f"WRONG({2 * report.wrong_chunks})" == verdict
    if verdict == "OK":
        assert (*report.data, *report.races) == ()
        assert bool(report.dead) == (row["file"] in GARBAGE_READS)


@indexed
def test_dead_data_change_the_verdict_of_right_programs_only(row: dict[str, str]) -> None:
    """Without ``--strict`` the two all-reduces of ``GARBAGE_READS`` pass; no other verdict differs."""
    report = verify_file(DATA / "msccl_xml" / row["file"], MSCCL)
    assert report.ok == (report.strict_ok or row["file"] in GARBAGE_READS)
    if row["file"] in GARBAGE_READS:
        assert not report.strict_ok
        assert any("race (" in text for text in report.dead)
        assert any("before anything was written there" in text for text in report.dead)


def runs() -> list[Path]:
    return sorted((DATA / "measured_mi300x" / "xml").glob("*.xml"))


@pytest.mark.parametrize("path", runs(), ids=lambda path: path.name)
def test_files_that_ran_on_hardware(path: Path) -> None:
    """They ran with right results, except that large messages hang where steps are split (maxBytes 0: no limit).

    The files with 16 instances have 112 blocks per GPU, which this version does not load; nobody measured them.
    """
    report = verify_file(path, RCCL)
    assert report.accepted == ("_x_16" not in path.name), report.summary()
    assert report.launch_reasons == ()
    assert (*report.structure, *report.data, *report.races) == ()
    hangs = path.name.startswith("ar_allpair_simple")
    assert bool(report.deadlocks) == hangs, report.summary()
    assert (report.deadlock_free_max_bytes == (1 << 63) - 1) == (not hangs)


@pytest.mark.parametrize("path", runs(), ids=lambda path: path.name)
def test_hangs_at_exactly_the_measured_sizes(path: Path) -> None:
    """Size by size: a ``Test,timeout`` row is a hang, every other row is not.

    The files are for in-place calls; the out-of-place columns were served by the library's own algorithms.
    """
    times = DATA / "measured_mi300x" / "time" / f"{path.stem}_in_place.csv"
    if not times.exists():
        pytest.skip("not measured")
    draft = read_xml(path, RCCL)
    assert structure_faults(draft) == []
    with times.open(encoding="utf-8", newline="") as file:
        measured = {int(row["size"]): row["time"] == "Test" for row in csv.DictReader(file)}
    replayed = {size: bool(hang_at(draft, RCCL, size)) for size in measured}
    assert replayed == measured
    assert any(measured.values()) == path.name.startswith("ar_allpair_simple")


def test_the_sizes_that_hang() -> None:
    """The first sizes beyond those of formats.md 1.6: 64 MiB with 64 chunks, 128 MiB with 128."""
    for name, chunks in (("ar_allpair_simple_x_1", 64), ("ar_allpair_simple_x_2", 128)):
        report = verify_file(DATA / "measured_mi300x" / "xml" / f"{name}.xml", RCCL)
        assert report.deadlock_free_max_bytes == chunks * (1 << 19)
