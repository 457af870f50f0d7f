"""What a command says it did less of, as its document and as its report have it."""

from collections.abc import Mapping
from typing import Any


def counted(summary: Mapping[str, Any]) -> dict[str, tuple[int, int]]:
    """The numbers asked for and found of everything that a document says fell short."""
    return {own["of"]: (own["asked"], own["found"]) for own in summary["shortfalls"]}


def is_told(text: str, of: str, asked: int, found: int) -> bool:
    """Whether a report has a line with both numbers, which may be wrapped."""
    return f"{of}: {asked} asked for, {found} " in " ".join(text.split())
