"""The types of values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from autoprox.language.layer_domains import DOMAINS


@dataclass(frozen=True)
class ValueType:
    """The type of a value of a network: a matrix per layer, a number per layer, or one number."""

    level: Literal["Matrix", "Layers", "Network"]
    domain: str | None = None

    def __str__(self) -> str:
        return f"{self.level}[{self.domain}]" if self.domain else self.level


NETWORK = ValueType("Network")
PER_BLOCK = ValueType("Layers", "block")
REDUCED_TYPES: Mapping[ValueType, ValueType] = {
    ValueType("Matrix", "act"): ValueType("Layers", "mlp"),
    **{ValueType("Matrix", d): ValueType("Layers", d) for d in DOMAINS},
    **{ValueType("Layers", d): NETWORK for d in (*DOMAINS, "block")},
}
