"""Where a command did less than it was asked to: both numbers, and why they differ."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Shortfall:
    """A count of which less may have been possible than was asked for.

    `reason` continues the number that was found: 218 "exist within the limits".
    """

    of: str
    asked: int
    found: int
    reason: str


def shortfalls(counts: Iterable[Shortfall]) -> list[dict[str, Any]]:
    """The counts that fall short of what was asked for, as the documents of `--json` have them."""
    return [asdict(count) for count in counts if count.found < count.asked]
