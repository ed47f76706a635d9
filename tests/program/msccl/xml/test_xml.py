"""Writing and reading MSCCL XML: complete attributes, exact bytes, only verified programs, no half-written file."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synth.errors import InvalidInputError, NotExpressibleError, VerificationError
from synth.program.meaning.semantics import Semantics, normalised
from synth.program.msccl.model import Buffer, Draft, Step, ThreadBlock
from synth.program.msccl.program import Program
from synth.program.msccl.xml import reader as msccl_reader
from synth.program.msccl.xml import writer as msccl_xml
from synth.program.msccl.xml.writer import read_xml, to_xml, write_xml
from tests.program.msccl.builders import (
    block,
    direct_alltoall,
    draft,
    gpu,
    ring_allgather,
    ring_allreduce,
    scratch_allreduce,
    step,
)

PAIR = """\
<algo name="test" proto="Simple" nchannels="1" nchunksperloop="2" ngpus="2" coll="allreduce" inplace="1" \
outofplace="0" minBytes="0" maxBytes="1048576">
  <gpu id="0" i_chunks="2" o_chunks="2" s_chunks="0">
    <tb id="0" send="1" recv="1" chan="0">
      <step s="0" type="s" srcbuf="i" srcoff="0" dstbuf="i" dstoff="0" cnt="1" depid="-1" deps="-1" hasdep="0"/>
      <step s="1" type="rrcs" srcbuf="i" srcoff="1" dstbuf="i" dstoff="1" cnt="1" depid="-1" deps="-1" hasdep="0"/>
      <step s="2" type="r" srcbuf="i" srcoff="0" dstbuf="i" dstoff="0" cnt="1" depid="-1" deps="-1" hasdep="0"/>
    </tb>
  </gpu>
  <gpu id="1" i_chunks="2" o_chunks="2" s_chunks="0">
    <tb id="0" send="0" recv="0" chan="0">
      <step s="0" type="s" srcbuf="i" srcoff="1" dstbuf="i" dstoff="1" cnt="1" depid="-1" deps="-1" hasdep="0"/>
      <step s="1" type="rrcs" srcbuf="i" srcoff="0" dstbuf="i" dstoff="0" cnt="1" depid="-1" deps="-1" hasdep="0"/>
      <step s="2" type="r" srcbuf="i" srcoff="1" dstbuf="i" dstoff="1" cnt="1" depid="-1" deps="-1" hasdep="0"/>
    </tb>
  </gpu>
</algo>
"""


def test_exact_text() -> None:
    assert to_xml(Program(ring_allreduce(2))) == PAIR


@pytest.mark.parametrize(
    "program",
    [
        ring_allgather(3, 2),
        ring_allgather(3, inplace=True),
        ring_allreduce(4, 2),
        direct_alltoall(3, 72),
        scratch_allreduce(4),
    ],
)
def test_round_trip(program: Draft) -> None:
    text = to_xml(Program(program))
    assert read_xml(text) == program
    assert to_xml(Program(read_xml(text))) == text
    assert "\t" not in text
    assert not text.startswith("<?")
    root = ET.fromstring(text)
    assert len(list(root.iter("step"))) == sum(len(b.steps) for g in program.gpus for b in g.blocks)
    assert all(len(e.attrib) == 10 for e in root.iter("step"))


def exchange(counts: tuple[int, ...], n: int, c: int) -> Draft:
    """An uneven direct all-to-all."""
    claim = Semantics("alltoallv", n, c, counts=counts)
    gpus = []
    for r in range(n):
        blocks: list[ThreadBlock] = []
        for t in range(n):
            out, back = counts[r * n + t], counts[t * n + r]
            src: tuple[Buffer, int] = ("i", sum(counts[r * n : r * n + t]))
            dst: tuple[Buffer, int] = ("o", sum(counts[s * n + r] for s in range(t)))
            if t == r and out:
                blocks.append(block(len(blocks), -1, -1, [step("cpy", src, dst, out)]))
            elif t != r and out:
                blocks.append(block(len(blocks), t, -1, [step("s", src, ("o", 0), out)]))
            if t != r and back:
                blocks.append(block(len(blocks), -1, t, [step("r", dst, dst, back)]))
        gpus.append(gpu(claim, r, blocks))
    return draft(claim, gpus)


def test_uneven_collectives_travel_in_attributes() -> None:
    program = exchange((1, 2, 0, 0, 0, 3, 2, 0, 1), 3, 4)
    text = to_xml(Program(program))
    assert ' coll="custom" ' in text
    assert ' semantics="alltoallv">' in text
    assert '<gpu id="1" i_chunks="4" o_chunks="4" s_chunks="0" counts="0,0,3">' in text
    assert read_xml(text) == program


def test_long_rows_of_counts_are_cut() -> None:
    """200 ranks of which only 0 and 1 exchange: the row takes 400 characters."""
    n = 200
    counts = [0] * (n * n)
    counts[1] = counts[n] = 2
    program = exchange(tuple(counts), n, 2)
    text = to_xml(Program(program))
    assert ' counts2="' in text
    assert max(len(value) for e in ET.fromstring(text).iter() for value in e.attrib.values()) < 254
    assert read_xml(text) == program


def test_members_and_roots() -> None:
    claim = Semantics("broadcast", 3, 1, root=2, members=(1, 2))
    at: tuple[Buffer, int] = ("i", 0)
    gpus = [
        gpu(claim, 0, [block(0, 1, 2, [step("rcs", dst=("s", 0))])], scratch=1),
        gpu(claim, 1, [block(0, -1, 0, [step("r", dst=at)])]),
        gpu(claim, 2, [block(0, 0, -1, [step("s", at)])]),
    ]
    text = to_xml(Program(draft(claim, gpus, inplace=True)))
    assert ' semantics="broadcast" root="2">' in text
    assert '<gpu id="0" i_chunks="0" o_chunks="0" s_chunks="1" member="0">' in text
    assert read_xml(text).semantics == claim


def test_explicit_full_members_are_the_same_claim(tmp_path: Path) -> None:
    program = ring_allreduce(2)
    explicit = replace(program, semantics=replace(program.semantics, members=(0, 1)))
    write_xml(Program(explicit), tmp_path / "a.xml")
    assert read_xml(tmp_path / "a.xml").semantics == normalised(explicit.semantics)
    assert (tmp_path / "a.xml").read_text() == PAIR


def test_only_programs_are_written(tmp_path: Path) -> None:
    for bad in (ring_allreduce(2), None, Program.__new__(Program)):
        with pytest.raises(VerificationError, match="only a verified Program"):
            to_xml(bad)  # type: ignore[arg-type]
        with pytest.raises(VerificationError):
            write_xml(bad, tmp_path / "a.xml")  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


def test_threads() -> None:
    program = Program(ring_allreduce(2))
    assert ' maxBytes="1048576" nthreads="256">' in to_xml(program, nthreads=256)
    for bad in (0, -32, 100):
        with pytest.raises(ValueError, match="multiple of 32"):
            to_xml(program, nthreads=bad)


def test_a_file_that_reads_differently_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    goal = tmp_path / "a.xml"
    goal.write_text("old")
    monkeypatch.setattr(msccl_xml, "to_xml", lambda *args, **kwargs: PAIR.replace('srcoff="1"', 'srcoff="0"'))
    with pytest.raises(VerificationError, match="read back differs"):
        write_xml(Program(ring_allreduce(2)), goal)
    assert goal.read_text() == "old"
    assert list(tmp_path.iterdir()) == [goal]


@settings(deadline=None, max_examples=60)
@given(name=st.text(max_size=20))
def test_names(name: str) -> None:
    program = replace(ring_allreduce(2), name=name)
    try:
        text = to_xml(Program(program))
    except NotExpressibleError:
        return
    assert read_xml(text) == program
    assert ET.fromstring(text).attrib["name"] == name


@pytest.mark.parametrize("name", ["it's", 'a "b"', "<a & b>", "&amp;lt;", "é 节点"])
def test_awkward_names(name: str) -> None:
    program = replace(ring_allreduce(2), name=name)
    assert read_xml(to_xml(Program(program))) == program


def faults(text: str) -> tuple[str, ...]:
    with pytest.raises(InvalidInputError) as caught:
        read_xml(text)
    return caught.value.faults


def test_all_faults_at_once_each_with_its_line() -> None:
    text = PAIR.replace('s="1" type="rrcs"', 's="2" type="xyz"', 1).replace(' hasdep="0"/>', "/>", 1)
    text = text.replace('send="0"', 'send="true"').replace('inplace="1"', 'inplace="yes"')
    assert faults(text) == (
        "line 4: <step> lacks hasdep",
        'line 5: s="2", but this is step 1 in document order, which is the order of execution',
        'line 5: type="xyz" is not one of cpy, nop, r, rcs, re, rrc, rrcs, rrs, s',
        'line 10: send="true" is not a decimal integer',
        'line 1: inplace="yes" must be 0 or 1',
    )


def test_missing_algo_attributes_come_together() -> None:
    text = PAIR.replace(' coll="allreduce"', "").replace(' ngpus="2"', "").replace(' name="test"', "")
    assert faults(text) == ("line 1: <algo> lacks name, ngpus, coll",)


def test_legacy_dialect_defaults() -> None:
    text = PAIR.replace(' outofplace="0" minBytes="0" maxBytes="1048576"', "")
    program = read_xml(text)
    assert (program.outofplace, program.min_bytes, program.max_bytes) == (False, 0, 1 << 27)
    assert read_xml(text.replace('inplace="1"', 'inplace="0"')).outofplace


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda t: '<?xml version="1.0"?>\n' + t, "not an element"),
        (lambda t: "<!DOCTYPE algo>\n" + t, "not an element"),
        (lambda t: '<!DOCTYPE algo [<!ENTITY a "b">]>' + t, "not an element"),
        (lambda t: "\ufeff" + t, "line 1: expected '<', found '\\ufeff'"),
        (lambda t: t.replace("\n    <tb", "\n\t<tb", 1), "line 3: expected '<', found '\\t'"),
        (lambda t: t.replace("<tb", "x<tb", 1), "line 3: expected '<', found 'x'"),
        (lambda t: t + "x", "line 17: expected '<', found 'x'"),
        (lambda t: t.replace(' send="1"', "\nsend='1'", 1), "expected '>' in <tb>"),
        (lambda t: t.replace('send="1"', "send='1'", 1), "line 3: expected a double quote"),
        (lambda t: t.replace('send="1"', 'send ="1"', 1), "line 3: attribute 'send' of <tb> has no value"),
        (lambda t: t.replace('send="1"', 'send= "1"', 1), "line 3: expected a double quote"),
        (lambda t: t.replace('send="1"', 'send="1"x="2"', 1), "line 3: expected '>' in <tb>"),
        (lambda t: t.replace('send="1"', 'send="1" send="0"', 1), "line 3: attribute 'send' stands twice"),
        (lambda t: t.replace("</algo>\n", ""), "the file ends inside <algo>"),
        (lambda t: t.replace("</algo>\n", "</gpu>\n"), "line 16: </gpu> closes <algo>"),
        (lambda t: "</algo>" + t, "closes nothing"),
        (lambda t: t + t, "there are 2"),
        (lambda t: t[: len(t) // 2], "line "),
        (lambda t: "<!-- -- >" + t, "unterminated comment"),
        (lambda t: "<!--a=b-->" + t, "first word of a comment"),
        (lambda t: t.replace('send="1"', "x" * 300 + '="1"', 1), "a name of 300 characters"),
        (lambda t: t.replace('coll="allreduce"', 'coll="all_reduce"'), 'coll="all_reduce" is not one of'),
        (lambda t: t.replace('coll="allreduce"', 'coll="reducescatter"'), "is not one of"),
        (lambda t: t.replace('proto="Simple"', 'proto="simple"'), 'proto="simple" is not one of Simple, LL, LL128'),
        (lambda t: t.replace('cnt="1"', 'cnt="0x1"', 1), 'line 4: cnt="0x1" is not a decimal integer'),
        (lambda t: t.replace('cnt="1"', 'cnt="01"', 1), "not a decimal integer"),
        (lambda t: t.replace('cnt="1"', 'cnt="1.0"', 1), "not a decimal integer"),
        (lambda t: t.replace('cnt="1"', 'cnt="١"', 1), "not a decimal integer"),
        (lambda t: t.replace('cnt="1"', 'cnt=""', 1), "not a decimal integer"),
        (lambda t: t.replace('cnt="1"', f'cnt="{"9" * 5000}"', 1), "not a decimal integer"),
        (lambda t: t.replace("<algo ", "<alga "), "closes <alga>"),
        (lambda t: t.replace("algo", "alga"), "there are 0"),
        (lambda t: t.replace('inplace="1"', 'inplace="1" ' + " ".join(f'a{k}="0"' for k in range(8))), "over 16"),
        (lambda t: t.replace('coll="allreduce"', 'coll="custom" semantics="gossip"'), "gossip"),
        (lambda t: t.replace('coll="allreduce"', 'coll="custom" semantics="allgatherv"'), "counts must be 1 integers"),
    ],
)
def test_refused(change: Callable[[str], str], words: str) -> None:
    assert any(words in fault for fault in faults(change(PAIR))), faults(change(PAIR))


@pytest.mark.parametrize(
    "change",
    [
        lambda t: "<!-- a > b -- c -->\n" + t,
        lambda t: "<!---->" + t + "<!-- end -->",
        lambda t: t.replace("\n", "\r\n"),
        lambda t: t.replace("\n", ""),
        lambda t: t.replace("  ", " "),
        lambda t: t.replace('send="1"', ' send="1"'),
        lambda t: t.replace('"/>', '" />'),
        lambda t: t.replace('"/>', '"></step>'),
        lambda t: t.replace("<tb", '<copy i_off="0" o_off="0"/><note><algo><step x="1"/></algo></note><tb'),
        lambda t: '<other><step s="9"/></other>' + t,
        lambda t: t.replace('proto="Simple"', 'proto="Simple" redop="nop"'),
        lambda t: t.rstrip("\n"),
        lambda t: "\n\n" + t + "\n \n",
    ],
)
def test_accepted(change: Callable[[str], str]) -> None:
    assert read_xml(change(PAIR)) == ring_allreduce(2)


def test_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.xml"
    with pytest.raises(InvalidInputError, match="No such file"):
        read_xml(path)
    with pytest.raises(InvalidInputError, match="directory"):
        read_xml(tmp_path)
    path.write_bytes(b'<algo name="\xff"/>')
    with pytest.raises(InvalidInputError, match="byte 12 is not UTF-8"):
        read_xml(str(path))
    path.write_text("")
    with pytest.raises(InvalidInputError, match=r"a\.xml: there must be one <algo>"):
        read_xml(path)
    monkeypatch.setattr(msccl_reader, "MAX_BYTES", 3)
    path.write_text(PAIR)
    with pytest.raises(InvalidInputError, match="limit 3"):
        read_xml(path)


@settings(deadline=None, max_examples=200)
@given(data=st.data())
def test_damaged_files_never_crash(data: st.DataObject) -> None:
    """Any cut, or any replaced character, gives a draft or a clean refusal."""
    at = data.draw(st.integers(0, len(PAIR) - 1))
    text = data.draw(
        st.sampled_from([PAIR[:at], PAIR[at:], PAIR[:at] + data.draw(st.text(max_size=3)) + PAIR[at + 1 :]])
    )
    try:
        program = read_xml("<" if not text else text if "<" in text else "<" + text)
    except InvalidInputError:
        return
    assert isinstance(program, Draft)


def test_deeply_nested_unknown_elements() -> None:
    text = "<a>" * 50_000 + "</a>" * 50_000 + PAIR
    assert read_xml(text) == ring_allreduce(2)


def test_steps_keep_unused_fields() -> None:
    """The unused side of a step is carried along, so that a file reads back as it was."""
    program = read_xml(PAIR.replace('dstbuf="i" dstoff="0" cnt', 'dstbuf="s" dstoff="7" cnt', 1))
    assert program.gpus[0].blocks[0].steps[0] == Step("s", "i", 0, "s", 7, 1)
    assert read_xml(to_xml(Program(program))) == program
