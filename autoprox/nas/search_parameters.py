"""What the parameters of every strategy have in common."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from autoprox.rules import require_number, require_whole


@dataclass(frozen=True)
class SearchParameters:
    """Whole numbers, least 1 unless LEAST says another, and perhaps a mutation probability."""

    LEAST: ClassVar[Mapping[str, int]] = {}

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if name == "probability":
                require_number(name, value, "> 0 and <= 1", lambda p: 0 < p <= 1)
            else:
                require_whole(name, value, self.LEAST.get(name, 1))

    @property
    def candidates(self) -> int:
        """How many candidates a search with them scores at most."""
        raise NotImplementedError
