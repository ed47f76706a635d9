"""MSCCL++ plans as files: the same bytes, nothing unverified, foreign plans, and what the executor refuses."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import synth
from synth.errors import InvalidInputError, VerificationError
from synth.program.mscclpp.files import loader_faults, read_plan, to_json, verify_plan, write_json
from synth.program.mscclpp.lowering.lower import lower_mscclpp
from synth.program.mscclpp.verifying.hazards import plan_hazards
from synth.program.mscclpp.verifying.loader import size_step, valid_sizes
from synth.program.mscclpp.verifying.verify import verify_mscclpp
from tests import places

SAMPLES = places.SHARED / "mscclpp"
needs_samples = pytest.mark.skipif(not SAMPLES.is_dir(), reason="the sample plans are not here")
PROGRAM = lower_mscclpp(synth.solve("ring:3", "broadcast", 1e6).schedule(1))


def plan() -> dict[str, Any]:
    made: dict[str, Any] = json.loads(to_json(PROGRAM))
    return made


def test_written_plans_read_back(tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    write_json(PROGRAM, file)
    assert read_plan(file) == PROGRAM.draft
    assert file.read_text(encoding="utf-8") == to_json(PROGRAM)
    assert file.read_bytes().endswith(b"}\n")
    again = lower_mscclpp(synth.solve("ring:3", "broadcast", 1e6).schedule(1))
    assert to_json(again) == to_json(PROGRAM)


def test_keys_are_those_of_the_format() -> None:
    made = plan()
    assert list(made)[:6] == ["name", "collective", "protocol", "inplace", "reuse_resources", "gpus"]
    assert made["protocol"] == "Simple"
    assert made["buffer_alignment"] == 16
    gpu = made["gpus"][1]
    assert {
        "id",
        "input_chunks",
        "output_chunks",
        "scratch_chunks",
        "channels",
        "remote_buffers",
        "threadblocks",
    } <= set(gpu)
    ops = [op for block in gpu["threadblocks"] for op in block["ops"]]
    assert not any("channel_ids" in op for op in ops if op["name"] == "put")  # memory puts use buffer ids only
    assert all(set(part) <= {"type", "buffer_id", "index", "size"} for op in ops for part in op.get("src_buff", []))


def test_only_verified_plans_are_written(tmp_path: Path) -> None:
    with pytest.raises(VerificationError, match="only a verified MscclppProgram"):
        to_json(PROGRAM.draft)  # type: ignore[arg-type]
    with pytest.raises(VerificationError):
        write_json(object.__new__(type(PROGRAM)), tmp_path / "plan.json")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"{", "not JSON"),
        (b"\xff\xfe{}", "not UTF-8"),
        (b'{"name": NaN}', "NaN is no JSON value"),
        (b"[" * 100_000, "nested too deeply"),
        (b"[]", "plan must be an object"),
        (b"{}", "key collective is missing"),
    ],
)
def test_files_that_are_no_plans(tmp_path: Path, data: bytes, text: str) -> None:
    file = tmp_path / "plan.json"
    file.write_bytes(data)
    with pytest.raises(InvalidInputError, match=text):
        read_plan(file)


def test_missing_files(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="cannot be read"):
        read_plan(tmp_path / "none.json")


def first_op(made: dict[str, Any], name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(
        op for gpu in made["gpus"] for block in gpu["threadblocks"] for op in block["ops"] if op["name"] == name
    )
    return found


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda p: p.pop("inplace"), "key inplace is missing"),
        (lambda p: p.update(inplace=1), "plan.inplace must be true or false"),
        (lambda p: p.update(gpus=[]), "gpus is empty"),
        (lambda p: p["gpus"].reverse(), "GPU rank does not match"),
        (lambda p: p["gpus"][0].update(input_chunks=0), "input_chunks is 0: integer division by zero"),
        (lambda p: p["gpus"][2].update(output_chunks=0), "output_chunks is 0: integer division by zero"),
        (lambda p: p["gpus"][0].update(output_chunks=3), "Size per chunks inconsistent"),
        (lambda p: p["gpus"][0].pop("remote_buffers"), "key remote_buffers is missing"),
        (lambda p: p["gpus"][0]["channels"][0].update(channel_type="proxy"), "'proxy' is none of memory"),
        (lambda p: first_op(p, "nop").update(name="glre"), "Invalid operation type: glre"),
        (lambda p: first_op(p, "put").pop("channel_type"), "Invalid channel type"),
        (lambda p: first_op(p, "put")["src_buff"][0].update(type="t"), "'t' is none of i, o, s"),
        (lambda p: first_op(p, "put")["src_buff"][0].update(size=0), "a slice of no chunks"),
        (lambda p: p["gpus"][0]["threadblocks"][0]["ops"].extend([{"name": "nop"}] * 64), "at most 64 are supported"),
        (lambda p: p.update(min_message_size=1 << 21), "is above max_message_size"),
        (lambda p: p.update(min_message_size=17, max_message_size=31), "not aligned with buffer alignment"),
        (lambda p: p.update(buffer_alignment=0), "buffer_alignment 0: integer division by zero"),
    ],
)
def test_what_the_executor_refuses(change: Callable[[dict[str, Any]], None], text: str) -> None:
    made = plan()
    assert loader_faults(made) == []
    change(made)
    assert any(text in fault for fault in loader_faults(made)), loader_faults(made)


def test_defaults_and_numbers_are_the_executors() -> None:
    made = plan()
    for key in ("reuse_resources", "use_double_scratch_buffer", "buffer_alignment", "num_threads_per_block", "synth"):
        made.pop(key)
    for gpu in made["gpus"]:
        gpu.pop("semaphores")
        gpu["scratch_chunks"] = float(gpu["scratch_chunks"])  # cut to an integer, as nlohmann::json does
    assert loader_faults(made) == []


def test_nearest_sizes() -> None:
    program = lower_mscclpp(synth.solve("ring:3", "allgather", 1e6).schedule(1), max_bytes=1 << 20)
    assert size_step(program.draft) == 48
    assert valid_sizes(program.draft, 1_000_000) == (999_984, 1_000_032)
    assert valid_sizes(program.draft, 10) == (0, 48)
    assert valid_sizes(program.draft, 1 << 30) == (1_048_560, 0)


def test_reports_on_files(tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    write_json(PROGRAM, file)
    assert verify_plan(file) == PROGRAM.report
    made = plan()
    made["gpus"][0].pop("channels")
    file.write_text(json.dumps(made))
    report = verify_plan(file)
    assert (report.accepted, report.ok, report.ranks) == (False, False, 3)
    assert "key channels is missing" in report.reject_reasons[0]
    made = plan()
    made["gpus"][0]["input_chunks"] = 2
    file.write_text(json.dumps(made))
    assert "Size per chunks inconsistent" in verify_plan(file).reject_reasons[0]


@needs_samples
def test_samples_load_as_upstream_says() -> None:
    """allreduce_pipeline.json has output_chunks 0 (upstream's loader dies of it) and a channel without buffer_type."""
    refused = {f.name for f in SAMPLES.glob("*.json") if loader_faults(json.loads(f.read_text()))}
    assert refused == {"allreduce_pipeline.json"}
    with pytest.raises(InvalidInputError) as caught:
        read_plan(SAMPLES / "allreduce_pipeline.json")
    assert any("output_chunks is 0" in fault for fault in caught.value.faults)
    assert any("key buffer_type is missing" in fault for fault in caught.value.faults)


@needs_samples
def test_samples_without_packets_and_switches_simulate() -> None:
    for name in ("allreduce.json", "reduce.json"):
        report = verify_mscclpp(read_plan(SAMPLES / name))
        assert report.ok
        assert report.modes == ("in place",)


@needs_samples
def test_samples_that_cannot_be_simulated_say_so() -> None:
    for file in sorted(SAMPLES.glob("*pack*.json")) + sorted(SAMPLES.glob("*nvls*.json")):
        draft = read_plan(file)
        assert plan_hazards(draft) == []
        report = verify_mscclpp(draft)
        assert report.modes == ()
        assert any("cannot be simulated" in note for note in report.warnings)


@needs_samples
def test_block_groups_of_a_sample_do_not_match() -> None:
    """Both blocks of reduce_tbg.json take half of every operation, but halves of two chunks are not halves of one.

    And with one aligned unit per chunk, calcOffset gives every slice of a single unit the size 0.
    """
    draft = read_plan(SAMPLES / "reduce_tbg.json")
    assert any("is not ordered after" in race for race in verify_mscclpp(draft, chunk_bytes=(48,)).races)
    assert any("is wrong" in text for text in verify_mscclpp(draft, chunk_bytes=(16,)).data)
