"""Broken files: they import, or they are refused with InvalidInputError; nothing else ever happens."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from synth.topology import dump_topology
from synth.topology.importing import KINDS
from tests.topology.importing.samples import SAMPLES, attempt

FILES = sorted(path for path in SAMPLES.rglob("*") if path.is_file())
_NUMBERS = ("", "0", "-1", "1e400", "nan", "9" * 400, "0x10", "1.5", "x", "é", "[]", "null", "true", "65537", "\x01")


@st.composite
def broken(draw: st.DrawFn) -> tuple[str, str]:
    """Name and text of a sample after some mutations."""
    path = draw(st.sampled_from(FILES))
    text = path.read_text(encoding="utf-8")
    for _ in range(draw(st.integers(1, 3))):
        text = draw(
            st.sampled_from((_truncated, _without_span, _wrong_value, _without_attribute, _twice, _without_lines))
        )(draw, text)
    return path.name, text


def _truncated(draw: st.DrawFn, text: str) -> str:
    return text[: draw(st.integers(0, len(text)))]


def _without_span(draw: st.DrawFn, text: str) -> str:
    at, length = draw(st.integers(0, len(text))), draw(st.integers(1, 40))
    return text[:at] + text[at + length :]


def _pick(draw: st.DrawFn, pattern: str, text: str) -> re.Match[str] | None:
    found = list(re.finditer(pattern, text))
    return draw(st.sampled_from(found)) if found else None


def _wrong_value(draw: st.DrawFn, text: str) -> str:
    """A number or an attribute's value becomes something else."""
    match = _pick(draw, r'(?<=")[^"\n]*(?=")|[0-9]+(\.[0-9]+)?|\b[A-Z]{2,6}[0-9]*\b', text)
    if match is None:
        return text
    others = [other[0] for other in re.finditer(r'(?<==")[^"\n]*(?=")', text)][:40]
    value = draw(st.sampled_from((*_NUMBERS, *others)))
    return text[: match.start()] + value + text[match.end() :]


def _without_attribute(draw: st.DrawFn, text: str) -> str:
    match = _pick(draw, r' [a-z_]+="[^"]*"|"[A-Za-z_]+": [^,}\n]*,?', text)
    return text if match is None else text[: match.start()] + text[match.end() :]


def _without_lines(draw: st.DrawFn, text: str) -> str:
    """Whole elements go where they stand on lines of their own."""
    lines = text.split("\n")
    at = draw(st.integers(0, len(lines) - 1))
    return "\n".join(lines[:at] + lines[at + draw(st.integers(1, 6)) :])


def _twice(draw: st.DrawFn, text: str) -> str:
    lines = text.split("\n")
    at = draw(st.integers(0, len(lines) - 1))
    return "\n".join((*lines[: at + 1], *lines[at:]))


@settings(max_examples=1000, suppress_health_check=list(HealthCheck))
@given(
    sample=broken(),
    gpu=st.sampled_from((None, "h100", "mi300x", "rtx4090")),
    assume=st.sampled_from((None, "gen4")),
    hosts=st.sampled_from((1, 1, 2)),
    kind=st.sampled_from((*(None,) * 6, *KINDS)),
)
def test_broken_files_import_or_are_refused(
    sample: tuple[str, str], gpu: str | None, assume: str | None, hosts: int, kind: str | None
) -> None:
    name, text = sample
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_text(text, encoding="utf-8")
        topology, faults = attempt(path, kind, gpu=gpu, assume=assume, hosts=hosts)
        assert (topology is None) == bool(faults)
        assert not any("\n" in fault for fault in faults)
        assert topology is None or dump_topology(topology)


@settings(max_examples=200)
@given(data=st.binary(max_size=200), kind=st.none() | st.sampled_from(KINDS))
def test_any_bytes_are_refused(data: bytes, kind: str | None) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file"
        path.write_bytes(data)
        topology, faults = attempt(path, kind)
        assert (topology is None) == bool(faults)
