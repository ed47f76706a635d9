"""Regular expressions for the tags that nearly every file is made of.

A tag that matches is read alike by the runtimes' character-by-character reader; all others take that reader's way.
"""

from __future__ import annotations

import re
from typing import Final

STEP_ATTRIBUTES: Final = ("s", "type", "srcbuf", "srcoff", "dstbuf", "dstoff", "cnt", "depid", "deps", "hasdep")
_VALUE = '"([^"\\0]{0,40})"'
# A whole step, attributes in the order in which every known generator writes them.
STEP: Final = re.compile(r"[ \r\n]*<step " + " ".join(f"{name}={_VALUE}" for name in STEP_ATTRIBUTES) + " ?/>")
# An opening or empty tag with at most 16 attributes, each after one space.
TAG: Final = re.compile(r'[ \r\n]*<([A-Za-z_]{1,50})((?: [A-Za-z_0-9]{1,50}="[^"\0]{0,250}"){0,16})(/?)>')
ATTRIBUTE: Final = re.compile(r' ([A-Za-z_0-9]+)="([^"]*)"')
CLOSE: Final = re.compile(r"[ \r\n]*</([A-Za-z_]{1,50})>")
