"""What a value of the language is: its type, and what reductions make of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from autoprox.errors import AutoproxError


class LanguageError(AutoproxError):
    """A text or a tree that isn't of the language."""


@dataclass(frozen=True)
class Type:
    """What a value is for one network: a matrix per layer, a number per layer, or one number."""

    level: Literal["Matrix", "Layers", "Network"]
    domain: str | None = None

    def __str__(self) -> str:
        return f"{self.level}[{self.domain}]" if self.domain else self.level


NETWORK = Type("Network")
REDUCED: Mapping[Type, Type] = MappingProxyType(
    {Type("Matrix", "act"): Type("Layers", "mlp")}
    | {Type("Matrix", d): Type("Layers", d) for d in ("msa", "mlp", "all")}
    | {Type("Layers", d): NETWORK for d in ("msa", "mlp", "all", "block")}
)
