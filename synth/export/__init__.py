"""Files out of the stages: MSCCL XML, plans and schedules as JSON, plots."""

from synth.export.msccl_reader import read_xml
from synth.export.msccl_xml import to_xml, write_xml
from synth.export.schedule_json import dump_schedule

__all__ = ["dump_schedule", "read_xml", "to_xml", "write_xml"]
