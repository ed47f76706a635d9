"""Which matrices of a text are the machine's: one, or one per host that the text names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from synth.topology.importing.dumps.nvidia.table import Table

#: A line that names the host whose matrix follows: ``node1:``, ``=== node1 ===``, a prompt ``user@node1:~$``.
_LABEL = re.compile(r"\s*(?:[-=#*]+ *)?(?:host(?:name)?[:= ]+)?([A-Za-z][\w.-]*?)(?: *[-=#*]+|:)\s*")
_PROMPT = re.compile(r"\s*\[?[\w.-]+@([\w.-]+)[ :]")
#: The form of the matrix that shows the PCIe side alone.
_PCIE_ONLY = re.compile(r"topo\s+(?:-mp\b|--matrix[_-]pci\b)")


def machine_tables(tables: Sequence[Table], faults: list[str], notes: list[str]) -> list[Table]:
    """Matrices to import; the peer-access matrices among ``tables`` are named and left out.

    Two matrices are two hosts only if the text names a host above each; else one may be the other's copy.
    """
    for table in tables:
        if table.peer:
            words = {word for row in table.rows.values() for word in row.words}
            refused = sorted(words - {"X", "OK", "U"})
            says = (
                f" (it has {', '.join(refused)}: pairs without peer access; --peer switch forbids it)"
                if refused
                else ""
            )
            notes.append(f"{table.at}: a matrix of peer access (topo -p2p), no wiring, is left out{says}")
    found = [table for table in tables if not table.peer]
    if len(found) < 2:
        return found
    names = [_host(table) for table in found]
    if all(names) and len(set(names)) == len(names):
        notes.append("hosts h0, h1, ... of the file are " + ", ".join(names))
        return [replace(table, host=name) for table, name in zip(found, names, strict=True)]
    others = ", ".join(table.at for table in found[1:])
    faults.append(
        f"{others}: another matrix (the first: {found[0].at}), and the text does not name a host above each: if they "
        "are two hosts, write a line such as 'node1:' above each; if they are one, keep one (--hosts makes copies)"
    )
    return found[:1]


def hides_nvlink(table: Table) -> bool:
    """Whether the command above the matrix is the one that shows PCIe alone (``topo -mp``)."""
    return any(_PCIE_ONLY.search(line.text) for line in table.above)


def _host(table: Table) -> str:
    if table.heading.stream and not re.search(r"[<>\[\](]|^[0-9 ]+:|\|$", table.heading.stream):
        return table.heading.stream  # pdsh: the host's own name
    for line in reversed(table.above):
        match = _PROMPT.match(line.text) or _LABEL.fullmatch(line.text)
        if match is not None and match[1].lower() not in ("legend", "nic"):
            return match[1]
    return ""
