"""Files out of the stages: MSCCL XML, plans and schedules as JSON, plots."""

from synth.program.msccl.xml.reader import read_xml
from synth.program.msccl.xml.runtime_parser import Verdict, accepts
from synth.program.msccl.xml.verify_file import verify_file
from synth.program.msccl.xml.writer import to_xml, write_xml

__all__ = ["Verdict", "accepts", "read_xml", "to_xml", "verify_file", "write_xml"]
