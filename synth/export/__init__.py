"""Files out of the stages: MSCCL XML, plans and schedules as JSON, plots."""

from synth.export.msccl_reader import read_xml
from synth.export.msccl_xml import to_xml, write_xml
from synth.export.runtime_parser import Verdict, accepts
from synth.export.verify_file import verify_file

__all__ = ["Verdict", "accepts", "read_xml", "to_xml", "verify_file", "write_xml"]
