from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from synth.errors import InvalidInputError
from synth.ground.units import (
    exact_bandwidth,
    exact_time,
    format_bandwidth,
    format_size,
    format_time,
    parse_bandwidth,
    parse_size,
    parse_time,
)

positive = st.floats(min_value=0, allow_nan=False, allow_infinity=False)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("25 GB/s", 25e9),
        ("25GB/s", 25e9),
        ("  25   GB/s ", 25e9),
        ("200 Gb/s", 25e9),
        ("200Gbps", 25e9),
        ("25 GBps", 25e9),
        ("25 GiB/s", 25 * 2**30),
        ("1 MB/s", 1e6),
        ("8 Mb/s", 1e6),
        ("1 KB/s", 1e3),
        ("1 kB/s", 1e3),
        ("1.5 TB/s", 1.5e12),
        ("1 KiB/s", 1024),
        ("1e3 B/s", 1e3),
        (".5 GB/s", 5e8),
        ("8 b/s", 1.0),
        ("53.687 GB/s", 53.687e9),
        ("0 GB/s", 0.0),
    ],
)
def test_bandwidth_by_hand(text: str, value: float) -> None:
    assert parse_bandwidth(text) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0.7 us", 0.7e-6),
        ("0.7us", 7e-7),
        ("0.7 µs", 7e-7),
        ("0.7 μs", 7e-7),
        ("500 ns", 5e-7),
        ("1.5 ms", 1.5e-3),
        ("60s", 60.0),
        ("0 us", 0),
    ],
)
def test_time_by_hand(text: str, value: float) -> None:
    assert parse_time(text) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1GiB", 2**30),
        ("1 GB", 10**9),
        ("64 KiB", 65536),
        ("1024", 1024),
        ("1024 B", 1024),
        (4096, 4096),
        ("1.5 GiB", 3 * 2**29),
        ("0", 0),
        ("1 TiB", 2**40),
        ("9007199254740993", 2**53 + 1),
    ],
)
def test_size_by_hand(text: object, value: int) -> None:
    assert parse_size(text) == value


def test_t07_gigabits_gigabytes_gibibytes() -> None:
    assert parse_size("1 GiB") / parse_bandwidth("200 Gb/s") == pytest.approx(0.04294967296, rel=1e-15)
    assert parse_size("1 GB") / parse_bandwidth("200 Gb/s") == pytest.approx(0.040, rel=1e-15)
    assert parse_size("1 GiB") / parse_bandwidth("200 GB/s") == pytest.approx(0.00536870912, rel=1e-15)


NO_NUMBERS = ("", " ", "25,0", "25,0 GB/s", "25 parsecs", "0x10 B", "1_000 B", "\u0663 GB/s", "1 2 GB")
NOT_FINITE = ("NaN", "nan GB/s", "inf", "Infinity us", "1e400 GB/s", "1e999999999 s", float("nan"), float("inf"))
NEGATIVE = ("-1 GB/s", "-0 us", "-5 B")
NO_TEXTS: tuple[object, ...] = (True, False, None, 2.5, [])


@pytest.mark.parametrize("parse", [parse_bandwidth, parse_time, parse_size])
@pytest.mark.parametrize("value", [*NO_NUMBERS, *NOT_FINITE, *NEGATIVE, *NO_TEXTS])
def test_t25_bad_numbers_are_refused(parse: object, value: object) -> None:
    assert callable(parse)
    with pytest.raises(InvalidInputError, match="write for example"):
        parse(value)


@pytest.mark.parametrize("value", ["25", 25, -1, 1e9, "25 gb/s", "25 mB/s", "25 GB", "1e-400 GB/s"])
def test_bandwidth_needs_a_known_unit(value: object) -> None:
    with pytest.raises(InvalidInputError, match="25 GB/s"):
        parse_bandwidth(value)


@pytest.mark.parametrize("value", ["0.7", 0, 0.7, "1 US", "1 m"])
def test_time_needs_a_known_unit(value: object) -> None:
    with pytest.raises(InvalidInputError, match=r"0\.7 us"):
        parse_time(value)


@pytest.mark.parametrize("value", ["0.5 B", "1 Gb", "1M", -1, "1.1 KiB", "-5"])
def test_sizes_are_whole_bytes(value: object) -> None:
    with pytest.raises(InvalidInputError, match="1GiB"):
        parse_size(value)


@pytest.mark.parametrize("text", ["inf GB/s", "1e400 GB/s"])
def test_an_infinite_bandwidth_is_called_unbounded(text: str) -> None:
    with pytest.raises(InvalidInputError, match="unbounded"):
        parse_bandwidth(text)


@given(positive)
def test_exact_texts_read_back_to_the_last_bit(value: float) -> None:
    assert parse_bandwidth(exact_bandwidth(value)) == value
    assert parse_time(exact_time(value)) == value


@given(positive, st.sampled_from(["B/s", "GB/s", "GiB/s", "Gb/s"]))
def test_what_a_person_writes_is_rounded_once(value: float, unit: str) -> None:
    from fractions import Fraction

    scale = {"B/s": Fraction(1), "GB/s": Fraction(10**9), "GiB/s": Fraction(2**30), "Gb/s": Fraction(10**9, 8)}[unit]
    try:
        expected = float(Fraction(repr(value)) * scale)
    except OverflowError:
        expected = float("inf")
    if expected == float("inf"):
        with pytest.raises(InvalidInputError, match="unbounded"):
            parse_bandwidth(f"{value!r} {unit}")
    elif value == 0 or expected != 0:
        assert parse_bandwidth(f"{value!r} {unit}") == expected


@given(st.integers(0, 2**60))
def test_plain_numbers_are_bytes(value: int) -> None:
    assert parse_size(str(value)) == parse_size(f"{value} B") == parse_size(value) == value


def test_exact_texts_look_as_people_write() -> None:
    assert exact_bandwidth(25e9) == "25 GB/s"
    assert exact_bandwidth(12.5e9) == "12.5 GB/s"
    assert exact_time(0.7e-6) == "0.7 us"
    assert exact_time(0.0) == exact_time(-0.0) == "0 us"
    assert exact_bandwidth(1e300) == "1e+300 B/s"


def test_formats_for_people() -> None:
    assert format_bandwidth(25e9) == "25 GB/s"
    assert format_bandwidth(1.2345e12) == "1.234 TB/s"
    assert format_bandwidth(999.99e6) == "1 GB/s"
    assert format_bandwidth(0.0) == "0 B/s"
    assert format_time(7e-7) == "700 ns"
    assert format_time(0.0429497) == "42.95 ms"
    assert format_time(3e-10) == "0.3 ns"
    assert format_size(2**30) == "1 GiB"
    assert format_size(10**9) == "1 GB"
    assert format_size(65536) == "64 KiB"
    assert format_size(1500) == "1.5 KB"
    assert format_size(0) == "0 B"
    assert format_size(1000 * 2**20) == "1000 MiB"
