"""MSCCL XML: read as the runtimes read it, strictly, and written."""

from synth.program.msccl.xml.reader import read_xml
from synth.program.msccl.xml.runtime_parser import Verdict, accepts
from synth.program.msccl.xml.selecting import read_selected
from synth.program.msccl.xml.verify_file import verify_file
from synth.program.msccl.xml.writer import to_xml, write_xml

__all__ = ["Verdict", "accepts", "read_selected", "read_xml", "to_xml", "verify_file", "write_xml"]
