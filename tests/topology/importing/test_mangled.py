"""Samples as people paste them: the same machine comes out, or a refusal, and never another machine."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from synth.topology import Topology, import_topology
from tests.topology.importing.samples import SAMPLES, attempt

FILES = sorted(path for path in SAMPLES.rglob("*") if path.is_file())
OPTIONS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "provider.xml": {"gpu": "a100"},
        "rocm.txt": {"gpu": "mi210"},
        "mi250.txt": {"gpu": "mi250"},
        "amd_smi.txt": {"gpu": "mi250"},
        "amd_smi.json": {"gpu": "mi250"},
        "smi_new.txt": {"gpu": "a100"},
        "smi_old.txt": {"gpu": "a100"},
        "nccl.log": {"gpu": "a100"},
        "smi_wide.txt": {"gpu": "h100"},
    }
)
_PROMPTS = (
    "[user@host ~]$ cat topo",
    "user@host:~$ cat topo",
    "root@host:/# ./show",
    "$ nvidia-smi topo -m",
    "PS C:\\> x",
)
_TEXT = (
    "Hello, this is the topology of our machine:",
    "It is slow, please help.",
    "CUDA Archs: Not Set; ROCm: Disabled; Neuron: Disabled",
    "NCCL version 2.19.3+cuda12.2",
    "GPU0 and GPU1 are slow",
    "1. first, 2. second",
    "> what does it show?",
    "---",
)
_PREFIXES = (
    "[1,0]<stdout>:",
    "[1,0]<stdout>: ",
    "[rank0]: ",
    "0: ",
    "> ",
    "> > ",
    "2026-01-02 03:04:05,678 ",
    "2026-01-02T03:04:05.678901Z ",
    "[2026-01-02 03:04:05] ",
    "Jan  2 03:04:05 host app[12]: ",
    "03:04:05 INFO ",
    "worker-1  | ",
    "(Worker pid=123, ip=192.0.2.1) ",
)
_PEER = " \tGPU0\tGPU1\t\n GPU0\tX\tOK\t\n GPU1\tOK\tX\t\n\nLegend:\n\n  X    = Self\n  OK   = Status Ok\n\n"
Mangler = Callable[[st.DrawFn, str], str]


def _prompt(draw: st.DrawFn, text: str) -> str:
    after = draw(st.sampled_from(("", *(f"{prompt[:16]}\n" for prompt in _PROMPTS))))
    return f"{draw(st.sampled_from(_PROMPTS))}\n{text}{after}"


def _prefix(draw: st.DrawFn, text: str) -> str:
    prefix = draw(st.sampled_from(_PREFIXES))
    return "".join(f"{prefix}{line}\n" for line in text.split("\n"))


def _time(draw: st.DrawFn, text: str) -> str:
    """A time that goes on from line to line."""
    start = draw(st.integers(0, 3000))
    times = (f"2026-01-02 03:{(start + k) // 60 % 60:02d}:{(start + k) % 60:02d} " for k in range(10**6))
    return "".join(f"{time}{line}\n" for time, line in zip(times, text.split("\n"), strict=False))


def _fence(draw: st.DrawFn, text: str) -> str:
    return f"```{draw(st.sampled_from(('', 'text', 'xml', 'bash')))}\n{text}\n```\n"


def _details(draw: st.DrawFn, text: str) -> str:
    summary = draw(st.sampled_from(("<details>\n<summary>topo</summary>", "<details><summary>topo</summary>")))
    return f"{summary}\n\n{text}\n</details>\n"


def _colours(draw: st.DrawFn, text: str) -> str:
    """Colours around some words."""
    for _ in range(draw(st.integers(1, 4))):
        words = list(re.finditer(r"\S+", text))
        word = draw(st.sampled_from(words)) if words else None
        if word is not None:
            escape = draw(st.sampled_from(("\x1b[31m", "\x1b[1;4m", "\x1b[K")))
            text = f"{text[: word.start()]}{escape}{word[0]}\x1b[0m{text[word.end() :]}"
    return text


def _around(draw: st.DrawFn, text: str) -> str:
    above, below = (draw(st.lists(st.sampled_from(_TEXT), max_size=3)) for _ in range(2))
    return "".join(f"{line}\n" for line in above) + text + "".join(f"\n{line}" for line in below)


def _peer_matrix(draw: st.DrawFn, text: str) -> str:
    return _PEER + text if draw(st.booleans()) else f"{text}\n{_PEER}"


def _line_ends(draw: st.DrawFn, text: str) -> str:
    return text.replace("\n", draw(st.sampled_from(("\r\n", "\n\n"))))


def _mark(draw: st.DrawFn, text: str) -> str:
    return draw(st.sampled_from(("\ufeff", "\u200b"))) + text


def _blanks(draw: st.DrawFn, text: str) -> str:
    how = draw(st.sampled_from(("nbsp", "tabs", "spaces", "trailing")))
    if how == "nbsp":
        return text.replace(" ", "\u00a0")
    if how == "tabs":
        return re.sub(r"(?<=\S) {2,}", "\t", text)
    return text.expandtabs() if how == "spaces" else re.sub("\n", "   \n", text)


def _collapsed(draw: st.DrawFn, text: str) -> str:
    """Runs of blanks are one blank, as a browser shows them."""
    return re.sub(r"[ \t]+", " ", text)


def _cut(draw: st.DrawFn, text: str) -> str:
    """The end or the beginning is missing, in the middle of a line or behind one."""
    at = draw(st.integers(0, len(text)))
    if draw(st.booleans()):
        at = text.rfind("\n", 0, at) + 1
    return text[:at] if draw(st.booleans()) else text[at:]


def _wrap(draw: st.DrawFn, text: str) -> str:
    """Long lines are broken behind a blank, as when they are copied from a narrow window."""
    width = draw(st.integers(30, 160))
    out = []
    for line in text.split("\n"):
        while len(line) > width and (at := line.rfind(" ", 1, width)) > 0:
            out.append(line[:at])
            line = line[at + 1 :]
        out.append(line)
    return "\n".join(out)


def _broken(draw: st.DrawFn, text: str) -> str:
    """Long lines are broken anywhere, as a terminal does."""
    width = draw(st.integers(20, 160))
    return "\n".join("\n".join(re.findall(f".{{1,{width}}}", line) or [""]) for line in text.split("\n"))


def _column(draw: st.DrawFn, text: str) -> str:
    """Only so many columns of each line were marked."""
    width = draw(st.integers(5, 120))
    return "\n".join(line[:width] for line in text.split("\n"))


MANGLERS: tuple[Mangler, ...] = (
    _prompt,
    _prefix,
    _time,
    _fence,
    _details,
    _colours,
    _around,
    _peer_matrix,
    _line_ends,
    _mark,
    _blanks,
    _collapsed,
    _cut,
    _wrap,
    _broken,
    _column,
)


def machine(topology: Topology) -> object:
    """Everything of a topology that plans depend on."""
    return topology.nodes, topology.links, topology.resources


@cache
def machine_of(path: Path) -> object:
    return machine(import_topology(path, **options(path)))


def options(path: Path) -> dict[str, Any]:
    return {"assume": "gen4", **OPTIONS.get(path.name, {})}


@st.composite
def mangled(draw: st.DrawFn) -> tuple[Path, str, list[str]]:
    """A sample, its text after some manglers, and their names."""
    path = draw(st.sampled_from(FILES))
    text = path.read_text(encoding="utf-8")
    chosen = draw(st.lists(st.sampled_from(MANGLERS), min_size=1, max_size=3))
    for mangle in chosen:
        text = mangle(draw, text)
    return path, text, [mangle.__name__ for mangle in chosen]


@settings(max_examples=600, suppress_health_check=list(HealthCheck))
@given(sample=mangled())
def test_the_same_machine_or_a_refusal(sample: tuple[Path, str, list[str]]) -> None:
    path, text, _ = sample
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / path.name
        copy.write_bytes(text.encode())
        topology, faults = attempt(copy, **options(path))
    assert (topology is None) == bool(faults)
    assert topology is None or machine(topology) == machine_of(path)


#: What a sample survives: these kinds of mangling lose nothing, so a machine's own file must still be read.
_HARMLESS: Mapping[str, Callable[[str], str]] = MappingProxyType(
    {
        "prompt": lambda text: f"[user@host ~]$ cat topo\n{text}user@host:~$ \n",
        "ranks": lambda text: re.sub("^", "[1,0]<stdout>:", text, flags=re.MULTILINE),
        "fence": lambda text: f"Our machine:\n```\n{text}\n```\nIt is slow.\n",
        "details": lambda text: f"<details><summary>topo</summary>\n\n```\n{text}\n```\n</details>\n",
        "quote": lambda text: re.sub("^", "> ", text, flags=re.MULTILINE),
        "times": lambda text: re.sub("^", "2026-01-02 03:04:05,678 INFO ", text, flags=re.MULTILINE),
        "colours": lambda text: re.sub(r"(?m)^(\s*)(\S+)", "\\1\x1b[31m\\2\x1b[0m", text),
        "peer matrix": lambda text: f"$ nvidia-smi topo -p2p r\n{_PEER}$ show\n{text}",
        "environment": lambda text: f"ROCM Version : Could not collect\nCUDA Archs: Not Set; ROCm: Disabled\n{text}",
        "line ends": lambda text: text.replace("\n", "\r\n"),
        "mark": lambda text: "\ufeff" + text,
        "blanks": lambda text: text.replace(" ", "\u00a0"),
        "tabs": lambda text: re.sub(r"(?<=\S) {2,}", "\t", text),
        "spaces": lambda text: text.expandtabs(),
    }
)
_MACHINE_FILES = [path for path in FILES if path.suffix in (".xml", ".log") or path.name.startswith(("smi", "rocm"))]
_MACHINE_FILES += [path for path in FILES if path.name.startswith(("amd", "mi250"))]


@pytest.mark.parametrize("how", _HARMLESS)
@pytest.mark.parametrize("path", _MACHINE_FILES, ids=lambda path: path.name)
def test_what_loses_nothing_changes_nothing(tmp_path: Path, path: Path, how: str) -> None:
    copy = tmp_path / path.name
    copy.write_bytes(_HARMLESS[how](path.read_text(encoding="utf-8")).encode())
    topology, faults = attempt(copy, **options(path))
    # The tree of an NCCL log lives in its indentation: without that it cannot be read, and must be refused.
    assert topology is not None or (path.suffix == ".log" and how == "tabs"), faults
    assert topology is None or machine(topology) == machine_of(path)
