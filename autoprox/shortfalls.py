"""Counts of what a command was asked for and what it did."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Shortfall:
    """A count of which less may have been possible than was asked for.

    `reason` continues a sentence that begins with the number found: 218 "exist within the limits".
    """

    of: str
    asked: int
    found: int
    reason: str


def unmet(counts: Iterable[Shortfall]) -> tuple[Shortfall, ...]:
    """Return the counts that fall short of what was asked for."""
    return tuple(count for count in counts if count.found < count.asked)
