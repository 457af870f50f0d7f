"""The types of values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from autoprox.language.domains import DOMAINS


@dataclass(frozen=True)
class Type:
    """The type of a value of a network: a matrix per layer, a number per layer, or one number."""

    level: Literal["Matrix", "Layers", "Network"]
    domain: str | None = None

    def __str__(self) -> str:
        return f"{self.level}[{self.domain}]" if self.domain else self.level


NETWORK = Type("Network")
PER_BLOCK = Type("Layers", "block")
REDUCED_TYPES: Mapping[Type, Type] = {
    Type("Matrix", "act"): Type("Layers", "mlp"),
    **{Type("Matrix", d): Type("Layers", d) for d in DOMAINS},
    **{Type("Layers", d): NETWORK for d in (*DOMAINS, "block")},
}
