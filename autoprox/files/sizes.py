"""Sizes as people write them: 4GiB, 500MB, 5.72M, 10M:40M."""

from __future__ import annotations

import math
import re
from typing import Any

from autoprox.errors import ConfigError

UNITS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}
NUMBER = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(i?)(B?)", re.IGNORECASE)

SizeRange = tuple[int | None, int | None]  # None: no limit on this side


def read_size(text: str) -> int:
    """The whole number of a text such as 4GiB, 500MB or 10M."""
    match = NUMBER.fullmatch(text.strip())
    if match is None or (match[3] and not match[2]):
        raise ConfigError(f"a size must be a number such as 4GiB, 500MB or 10M, but got {text!r}")
    base = 1024 if match[3] else 1000
    return round(float(match[1]) * base ** UNITS[match[2].upper()])


def read_range(given: Any) -> SizeRange:
    """The two ends of a text such as 10M:40M, 1.2G: or :6M, or of a pair, None for no end.

    ValueError states the rule.
    """
    if given is None:
        return None, None
    ends = given.split(":") if isinstance(given, str) else given
    try:
        low, high = map(_end, ends)
    except (TypeError, ValueError, ConfigError):
        raise ValueError("must be LOW:HIGH, for example 10M:40M, 1.2G: or :6M") from None
    if low is not None and high is not None and low > high:
        raise ValueError("must be LOW:HIGH with `LOW <= HIGH`")
    return low, high


def _end(end: Any) -> int | None:
    if end is None or end == "":
        return None
    if isinstance(end, str):
        return read_size(end)
    if isinstance(end, bool) or not math.isfinite(end):
        raise ValueError(end)
    return int(end)


def short_size(number: float) -> str:
    """A size for people: 5.72M."""
    unit = next((u for u in "TGMK" if number >= 1000 ** UNITS[u]), "")
    return f"{number / 1000 ** UNITS[unit]:.4g}{unit}"
