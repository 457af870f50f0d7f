"""Options of which less was possible than was asked: both numbers, and the reason."""

from collections.abc import Mapping
from typing import TypedDict

from autoprox.inputs.batch import Batch


class Shortfall(TypedDict):
    """An option, what was asked, what was used, and why it was less."""

    option: str
    asked: int
    used: int
    reason: str


def of_batches(asked: int, batches: Mapping[str, Batch]) -> list[Shortfall]:
    """Return a shortfall for each batch that has fewer samples than were asked for.

    Datasets that see the same samples have one in common.
    """
    found: dict[str, Shortfall] = {}
    for batch in batches.values():
        if (used := len(batch.inputs)) < asked:
            reason = f"{batch.source} has no more"
            found[reason] = Shortfall(option="batch_size", asked=asked, used=used, reason=reason)
    return list(found.values())
