"""Sizes: how they are read and shown."""

from typing import Any

import pytest

from autoprox.files.human_readable_sizes import (
    SizeError,
    format_with_unit,
    parse_bytes,
    parse_range,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("4GiB", 4 * 2**30),
        ("4Gi", 4 * 2**30),
        ("500MB", 500_000_000),
        ("1.5 gib", 3 * 2**29),
        ("7k", 7000),
        ("12", 12),
        ("12B", 12),
        ("2TiB", 2**41),
    ],
)
def test_bytes(text: str, expected: int) -> None:
    assert parse_bytes(text) == expected


@pytest.mark.parametrize("text", ["", "GiB", "-1GiB", "4 GiBs", "1e9", "4GiB 2", "9" * 400])
def test_what_is_no_number_of_bytes_is_refused(text: str) -> None:
    with pytest.raises(SizeError, match=r"a size must be .* such as 4GiB or 500MB, got"):
        parse_bytes(text)


@pytest.mark.parametrize(
    ("given", "ends"),
    [
        ("10M:40M", (10_000_000, 40_000_000)),
        ("1.2G:", (1_200_000_000, None)),
        (":6M", (None, 6_000_000)),
        ("5k:7.5K", (5_000, 7_500)),
        ("100:2T", (100, 2 * 10**12)),
        ([None, 5.0], (None, 5)),
        ((10, 20), (10, 20)),
        (None, (None, None)),
    ],
)
def test_ranges(given: Any, ends: Any) -> None:
    assert parse_range("params", given) == ends


@pytest.mark.parametrize(
    "given",
    [
        "10M",
        "10Q:",
        "a:b",
        "1:2:3",
        "-1:5",
        "",
        (1, 2, 3),
        7,
        (True, None),
        "nan:",
        "1e6:",
        "1MB:",
        "9" * 400 + ":",
    ],
)
def test_what_is_no_range_is_refused(given: Any) -> None:
    with pytest.raises(SizeError, match=r"^flops must be LOW:HIGH, for example 10M:40M.*got"):
        parse_range("flops", given)


def test_a_range_begins_below_its_end() -> None:
    with pytest.raises(SizeError, match=r"`low <= high` must hold for params, but got '4M:3M'"):
        parse_range("params", "4M:3M")


@pytest.mark.parametrize("given", [":0", "0:0", (None, 0)])
def test_a_range_holds_something(given: Any) -> None:
    with pytest.raises(SizeError, match=r"`1 <= high` must hold for params, but got"):
        parse_range("params", given)


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0"), (999, "999"), (1000, "1K"), (5_717_416, "5.717M"), (1.25e9, "1.25G"), (2e12, "2T")],
)
def test_numbers_for_people(number: float, text: str) -> None:
    assert format_with_unit(number) == text
