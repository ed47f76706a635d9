"""Where the tests find the project's files, and the shared data that may be absent."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[1]
NOTEBOOKS = ROOT / "notebooks"
SAMPLES = ROOT / "tests" / "data" / "topo"
SHARED = ROOT / ".." / "shared" / "data"
