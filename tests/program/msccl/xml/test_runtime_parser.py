"""The runtimes' verdicts beyond the collected files: corners of lexer and parser, and files made up at random."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from synth.errors import InvalidInputError
from synth.files import source
from synth.program.meaning.report import Report
from synth.program.msccl.limits.check import parser_faults
from synth.program.msccl.model import Draft
from synth.program.msccl.program import Program
from synth.program.msccl.targets import MSCCL, MSCCL_EXECUTOR, RCCL, TARGETS, Target
from synth.program.msccl.xml import accepts, to_xml, verify_file
from synth.program.msccl.xml.c_integers import c_int, c_long
from synth.program.msccl.xml.lexer import lex
from tests.program.msccl.builders import direct_alltoall, ring_allreduce, scratch_allreduce
from tests.program.msccl.large import allpairs_allreduce, ring_gather
from tests.program.msccl.test_ordering import mutant
from tests.program.msccl.xml.test_xml import PAIR


def unchecked_xml(draft: Draft, target: Target) -> str:
    """The XML of a draft that nobody verified."""
    program = Program.__new__(Program)
    for name, value in (("draft", draft), ("target", target), ("report", Report("", "", "", 0))):
        object.__setattr__(program, name, value)
    return to_xml(program)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("12", 12),
        ("-12", -12),
        ("+7", 7),
        (" \t7 apples", 7),
        ("010", 8),
        ("08", 0),
        ("0x1F", 31),
        ("0x", 0),
        ("true", 0),
        ("", 0),
        ("1.9", 1),
        ("4294967297", 1),
        ("2147483648", -(1 << 31)),
        ("9" * 5000, -1),
        ("-" + "9" * 5000, 0),
    ],
)
def test_integers_like_strtol(text: str, value: int) -> None:
    assert c_int(text) == value
    assert -(1 << 63) <= c_long(text) < 1 << 63


ACCEPTED: list[Callable[[str], str]] = [
    lambda t: "<!-- a > b -- c -->\n" + t,
    lambda t: "<!---->" + t + "<!-- end -->",
    lambda t: t.replace("\n", "\r\n"),
    lambda t: t.replace("\n", ""),
    lambda t: t.replace('send="1"', ' send="1"'),
    lambda t: t.replace('"/>', '" />'),
    lambda t: t.replace('"/>', '"></step>'),
    lambda t: t.replace('"/>', '"/junk>'),
    lambda t: t.replace("<tb", '<copy i_off="0"/><note><algo><step x="1"/></algo></note><tb'),
    # Inside an element that is skipped the reader compares the closing tag with itself.
    lambda t: t.replace("<tb", "<note></other><tb", 1),
    lambda t: t.replace('send="1"', 'loose send="1"'),
    lambda t: t.replace('send="1"', 'send="1" send="0"'),
    lambda t: t.replace('inplace="1"', 'inplace="0x1"'),
    lambda t: t.replace('name="test"', f'name="{"n" * 400}"'),
    lambda t: t.replace('name="test"', 'name="<>"'),
    lambda t: t + t,
    lambda t: t.replace('srcoff="0"', 'srcoff="-1"'),
    lambda t: t.replace("<step s", '<step note="hello" s'),
]


@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.name)
@pytest.mark.parametrize("change", ACCEPTED)
def test_accepted(change: Callable[[str], str], target: Target) -> None:
    assert accepts(change(PAIR), target).accepted, accepts(change(PAIR), target)


REFUSED: list[tuple[Callable[[str], str], str]] = [
    (lambda t: '<?xml version="1.0"?>' + t, "expected '>'"),
    (lambda t: "<!DOCTYPE algo>" + t, "the file ends inside"),
    (lambda t: '<!DOCTYPE a [<!ENTITY x "&x;&x;">]>' + t, "expected"),
    (lambda t: "\ufeff" + t, "expected '<'"),
    (lambda t: t.replace("\n    <tb", "\n\t<tb", 1), "found '\\t'"),
    (lambda t: t.replace(' send="1"', '\n send="1"', 1), "expected '>'"),
    (lambda t: t.replace(' send="1"', '\tsend="1"', 1), "expected '>'"),
    (lambda t: t.replace('send="1"', "send='1'", 1), "expected '>'"),
    (lambda t: t.replace('send="1"', 'send ="1"', 1), ""),
    (lambda t: t.replace('send="1"', "send=1", 1), "double quote"),
    (lambda t: t.replace("</algo>\n", ""), "ends inside <algo>"),
    (lambda t: t.replace("</tb>", "</tb >", 1), "closing tag"),
    (lambda t: t.replace("</tb>", "</gpu>", 1), "</gpu> closes <tb>"),
    (lambda t: t + "</algo>", "ends inside <algo>"),
    (lambda t: t[:-9], "the file ends"),
    (lambda t: t.replace('coll="', f'{"x" * 255}="1" coll="'), "a name of 255"),
    (lambda t: t.replace('hasdep="0"/>', 'hasdep="0"><why/></step>', 1), "crashes"),
    (lambda t: t.replace('<gpu id="0"', "<gpu"), "id of gpu"),
    (lambda t: t.replace('name="test"', f'name="{"n" * 9000}"'), "memory"),
    (lambda t: t.replace(' send="1"', ""), "attribute send of tb"),
    (lambda t: t.replace(' cnt="1"', "", 1), "attribute cnt of step"),
    (lambda t: t.replace("Simple", "simple"), "proto"),
    (lambda t: t.replace('id="0" send="1"', 'id="-1" send="1"'), "id -1"),
    (lambda t: t.replace('recv="1"', 'recv="-2"'), "peers"),
    (lambda t: t.replace('chan="0"', 'chan="-1"', 1), "channel -1"),
    (lambda t: t.replace('s="0" type', 's="999" type', 1), "s=999"),
    (lambda t: t.replace('type="r"', 'type="recv"', 1), "'recv'"),
    (lambda t: t.replace("algo", "alga"), ""),
    (lambda t: "<other/>" * 3, ""),
]


@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.name)
@pytest.mark.parametrize(("change", "words"), REFUSED)
def test_refused(change: Callable[[str], str], words: str, target: Target) -> None:
    verdict = accepts(change(PAIR), target)
    assert not verdict.accepted
    assert any(words in reason for reason in verdict.reasons), verdict.reasons


def test_what_only_some_refuse() -> None:
    """Differences between the runtimes, as (legacy, executor, rccl)."""

    def verdicts(text: str) -> tuple[bool, ...]:
        return tuple(accepts(text, target).accepted for target in TARGETS)

    assert verdicts("<other/>" + PAIR) == (True, False, False)
    assert verdicts(PAIR.replace(' name="test"', "")) == (False, True, True)
    assert verdicts(PAIR.replace(' outofplace="0"', "")) == (True, False, False)
    assert verdicts(PAIR.replace('coll="allreduce"', 'coll="custom"')) == (True, False, False)
    assert verdicts(PAIR.replace('coll="allreduce"', 'coll="alltoallv"')) == (False, True, True)
    assert verdicts(PAIR.replace('minBytes="0"', 'minBytes="-1"')) == (False, True, True)
    assert verdicts(PAIR.replace('inplace="1"', 'inplace="1" nthreads="100"')) == (False, True, True)
    assert verdicts(PAIR.replace('chan="0"', 'chan="32"')) == (False, False, True)
    assert verdicts(PAIR.replace('chan="0"', 'chan="127"')) == (False, False, True)
    assert verdicts(PAIR.replace('chan="0"', 'chan="128"')) == (False, False, False)
    # A closing tag that closes nothing opens an element, which the next closing tag ends.
    assert verdicts("</a></b>" + PAIR) == (True, False, False)


def test_launch_is_kept_apart() -> None:
    assert accepts(PAIR, RCCL).launch == ("g0.tb0.step1: rccl refuses rrcs steps at launch (2 of them)",)
    assert accepts(PAIR, MSCCL_EXECUTOR).launch == ()


def test_job_of_another_size() -> None:
    assert accepts(PAIR, MSCCL, ranks=2).accepted
    assert "for 2 ranks, the job has 4" in accepts(PAIR, MSCCL, ranks=4).reasons[0]


def test_all_our_files_are_accepted() -> None:
    for target in TARGETS:
        for draft in (scratch_allreduce(4), direct_alltoall(4, 3), ring_gather(5, 2), allpairs_allreduce(4, 2)):
            verdict = accepts(to_xml(Program(draft, target)), target, ranks=draft.semantics.ngpus)
            assert verdict == type(verdict)(True)


@settings(deadline=None, max_examples=250)
@given(data=st.data(), target=st.sampled_from(TARGETS))
def test_two_ways_to_the_verdict(data: st.DataObject, target: Target) -> None:
    """The parser's answer about the text, and our limits' opinion of what it would answer about the draft."""
    draft = mutant(data)
    changes: dict[str, Callable[[Draft], Draft]] = {
        "none": lambda d: d,
        "channels": lambda d: replace(d, nchannels=data.draw(st.integers(0, 200))),
        "range": lambda d: replace(d, min_bytes=9, max_bytes=data.draw(st.integers(0, 20))),
        "protocol": lambda d: replace(d, proto=data.draw(st.sampled_from(["LL", "ll"]))),
        "chunks": lambda d: replace(
            d, gpus=(replace(d.gpus[0], i_chunks=data.draw(st.integers(-1, 9)), s_chunks=-1), *d.gpus[1:])
        ),
        "block": lambda d: replace(d, gpus=(replace(d.gpus[0], blocks=d.gpus[0].blocks[1:]), *d.gpus[1:])),
    }
    draft = changes[data.draw(st.sampled_from(sorted(changes)))](draft)
    verdict = accepts(unchecked_xml(draft, target), target)
    assert verdict.accepted == (not parser_faults(draft, target)), (verdict, parser_faults(draft, target))


@settings(deadline=None, max_examples=300)
@given(data=st.data())
def test_damaged_files_never_crash(data: st.DataObject) -> None:
    """Any cut, or any replaced character: a verdict and a report, for every runtime."""
    at = data.draw(st.integers(0, len(PAIR) - 1))
    text = PAIR[:at] + data.draw(st.text(max_size=3)) + PAIR[at + data.draw(st.integers(0, 30)) :]
    assume("<" in text)
    target = data.draw(st.sampled_from(TARGETS))
    verdict, report = accepts(text, target), verify_file(text, target)
    assert report.accepted == verdict.accepted
    assert report.ok <= report.accepted


@settings(deadline=None, max_examples=200)
@given(st.lists(st.sampled_from(["<", ">", "/", "=", '"', " ", "\n", "a", "algo", "<!--", "-->", "</algo>", "\0"])))
def test_any_soup_of_tags_is_read(parts: list[str]) -> None:
    assert isinstance(lex("".join(parts)).refusal, str)


def test_hostile_files_take_no_time() -> None:
    for text in (
        "<a>" * 200_000 + "</a>" * 200_000 + PAIR,
        "<!---->" * 100_000 + PAIR,
        PAIR.replace(' coll="', " " * 300_000 + ' coll="'),
        "<algo" + ' x="1"' * 200_000 + ">",
        PAIR.replace('"Simple"', '"' + "&lol;" * 100_000 + '"'),
        PAIR.replace('nchunksperloop="2"', 'nchunksperloop="2147483647"').replace('"2" ', '"2147483647" '),
        PAIR.replace('ngpus="2"', 'ngpus="2147483647"'),
        PAIR.replace('s_chunks="0"', 's_chunks="2147483647"'),
    ):
        assert not verify_file(text, MSCCL).ok or text.startswith(("<a>", "<!-"))


def test_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.xml"
    with pytest.raises(InvalidInputError, match="No such file"):
        accepts(path, MSCCL)
    with pytest.raises(InvalidInputError, match="directory"):
        accepts(tmp_path, MSCCL)
    with pytest.raises(InvalidInputError, match="not a path"):
        accepts("a\0b", MSCCL)
    path.write_bytes(PAIR.replace("test", "t\xfft").encode("latin-1"))
    assert accepts(path, MSCCL).accepted, "the runtimes do not care about encodings"
    assert verify_file(path).name == "t\ufffdt"
    monkeypatch.setattr(source, "MAX_BYTES", 3)
    with pytest.raises(InvalidInputError, match="more than 3 bytes"):
        accepts(path, MSCCL)


def test_notes_on_what_is_read_differently() -> None:
    text = PAIR.replace("<tb", '<copy i_off="0" o_off="0"/><tb').replace('inplace="1"', 'inplace="true"')
    text = text.replace('s="1" type', 's="01" type').replace("</algo>\n", '<gpu id="7"/></algo>\n') + PAIR
    report = verify_file(text, MSCCL)
    for words in (
        "<copy> is ignored (2 of them)",
        'inplace="true" reads as 0',
        '"01" reads as 1',
        "gpu ids [7] are no ranks",
        "there are 2 <algo> elements",
    ):
        assert any(words in note for note in report.hazards), (words, report.hazards)


def test_dialect_of_the_file_does_not_hide_its_meaning() -> None:
    """A collective's other name is refused, but the data are checked all the same."""
    program = ring_allreduce(2)
    text = PAIR.replace('coll="allreduce"', 'coll="reduce_scatter"')
    report = verify_file(text, MSCCL_EXECUTOR)
    assert not report.accepted
    assert report.collective == "reducescatter"
    assert verify_file(PAIR, MSCCL_EXECUTOR).collective == program.semantics.collective


def test_protocol_of_the_replay() -> None:
    assert verify_file(PAIR, MSCCL, protocol="LL").fifo_depth == 8
    with pytest.raises(InvalidInputError, match="unknown protocol 'XX'"):
        verify_file(PAIR, MSCCL, protocol="XX")


def test_our_own_attributes_are_understood() -> None:
    from tests.program.msccl.xml.test_xml import exchange

    draft = exchange((1, 2, 0, 0, 0, 3, 2, 0, 1), 3, 4)
    report = verify_file(to_xml(Program(draft)))
    assert report.ok, report.summary()
    assert report.collective == "alltoallv"
    assert report.modes == ("out of place",)


TOKENS = (
    '"',
    "=",
    " ",
    "<",
    ">",
    "/",
    "\n",
    "\t",
    "'",
    ' a="1"',
    ' send="1"',
    "</tb>",
    "<x>",
    "</x>",
    "<!--",
    "-->",
    "<tb/>",
)


@settings(deadline=None, max_examples=300)
@given(data=st.data())
def test_the_strict_form_only_takes_what_the_runtimes_read_the_same(data: st.DataObject) -> None:
    """One lexer: where its strict form finds nothing, the runtimes' form has the same elements and nothing to say."""
    text = PAIR
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(text)))
        text = text[:at] + data.draw(st.sampled_from(TOKENS)) + text[at + data.draw(st.integers(0, 2)) :]
    strict, loose = lex(text, strict=True), lex(text)
    if strict.refusal:
        return
    without_id = any("id" not in gpu.attributes for algo in strict.algos for gpu in algo.children)
    assert without_id or loose.refusal == ""
    assert loose.oddities == []
    if not without_id:
        assert strict.algos == loose.algos


def test_the_strict_form_names_what_the_runtimes_let_through() -> None:
    for change, words in (
        (lambda t: t.replace('send="1"', 'loose send="1"'), "line 3: attribute 'loose' of <tb> has no value"),
        (lambda t: t.replace('send="1"', 'send="1" send="0"'), "line 3: attribute 'send' stands twice in <tb>"),
        (lambda t: t.replace("<tb", "<note></other><tb", 1), "line 3: </other> closes <note>"),
        (lambda t: t.replace('"/>', '"/junk>', 1), "line 4: expected '>' in <step>, found 'j'"),
    ):
        text = change(PAIR)  # type: ignore[no-untyped-call]
        assert lex(text).refusal == ""
        assert lex(text, strict=True).refusal == words
