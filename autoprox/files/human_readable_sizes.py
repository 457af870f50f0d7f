"""Sizes as people write them: 4GiB of memory, 10M:40M parameters, 5.72M, 30 days."""

import math
import re
from typing import Any

from autoprox.errors import AutoproxError

SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(i?)(B?)", re.IGNORECASE)
DAYS = re.compile(r"(\d{1,9})d?")
MOST_DAYS = 36_500

SizeRange = tuple[int | None, int | None]


class SizeError(AutoproxError):
    """A text that is no size."""


def parse_bytes(text: str) -> int:
    """Return the number of bytes of a text such as 4GiB, 500MB or 2048."""
    match = SIZE.fullmatch(text.strip())
    unit = _unit(match[2], 1024 if match[3] else 1000) if match else 0
    size = float(match[1]) * unit if match else math.inf
    if not math.isfinite(size):
        raise SizeError(f"a size must be a number of bytes such as 4GiB or 500MB, got {text!r}")
    return int(size)


def parse_days(text: str) -> int:
    """Return the number of days of a text such as 30d or 30."""
    match = DAYS.fullmatch(text.strip())
    if match is None or not 1 <= int(match[1]) <= MOST_DAYS:
        rule = f"an age must be a number of days from 1 to {MOST_DAYS}, such as 30d"
        raise SizeError(f"{rule}, got {text!r}")
    return int(match[1])


def parse_range(name: str, given: Any) -> SizeRange:
    """Return the ends, None if open, of a range: text such as 10M:40M, 1.2G: or :6M, or a pair."""
    if given is None:
        return None, None
    try:
        low, high = map(_count, given.split(":") if isinstance(given, str) else given)
    except (OverflowError, TypeError, ValueError):
        rule = f"{name} must be LOW:HIGH, for example 10M:40M, 1.2G: or :6M"
        raise SizeError(f"{rule}, but got {given!r}") from None
    if low is not None and high is not None and low > high:
        raise SizeError(f"`low <= high` must hold for {name}, but got {given!r}")
    if high is not None and high < 1:
        raise SizeError(f"`1 <= high` must hold for {name}, but got {given!r}")
    return low, high


def parse_series(name: str, given: Any) -> tuple[int, ...]:
    """Return the numbers from LOW to HIGH by STEP, both included: text such as 5M:12M:1M."""
    try:
        low, high, step = map(_count, given.split(":"))
        if low is None or high is None or not step or low > high:
            raise ValueError(given)
    except (AttributeError, OverflowError, TypeError, ValueError):
        rule = f"{name} must be LOW:HIGH:STEP, for example 5M:12M:1M"
        raise SizeError(f"{rule}, but got {given!r}") from None
    return tuple(range(low, high + 1, step))


def parse_size(name: str, given: Any) -> int | None:
    """Return a size that is given as text such as 6M or 1.2G, or as a number."""
    try:
        size = _count(given)
        if given is not None and (size is None or size < 1):
            raise ValueError(given)
        return size
    except (OverflowError, TypeError, ValueError):
        raise SizeError(f"{name} must be a size >= 1, for example 6M, but got {given!r}") from None


def format_with_unit(number: float) -> str:
    """Format a number with four digits and a unit: 5.717M."""
    unit = next((unit for unit in "TGMK" if number >= _unit(unit)), "")
    return f"{number / _unit(unit):.4g}{unit}"


def format_range(ends: SizeRange) -> str:
    """Format a range as `parse_range` reads it."""
    return ":".join("" if end is None else format_with_unit(end) for end in ends)


def _unit(letter: str, base: int = 1000) -> int:
    return int(base ** " KMGT".index(letter.upper() or " "))


def _count(given: Any) -> int | None:
    if given is None or given == "":
        return None
    if isinstance(given, str):
        match = SIZE.fullmatch(given.strip())
        if match is None or match[3] or match[4]:  # a number of bytes
            raise ValueError(given)
        return round(float(match[1]) * _unit(match[2]))
    if isinstance(given, bool) or not math.isfinite(given):
        raise ValueError(given)
    return int(given)
