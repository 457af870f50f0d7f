"""Options of which less was possible than was asked."""

from collections.abc import Mapping
from typing import Any


def shortfall_lines(found: Mapping[str, Any]) -> list[str]:
    """Return a line for each shortfall of a summary: both numbers, and the reason."""
    return [
        f"{own['option']}: {own['asked']} asked, {own['used']} used: {own['reason']}"
        for own in found.get("shortfalls", ())
    ]
