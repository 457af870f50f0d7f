"""The parameters of an evolution."""

from __future__ import annotations

from dataclasses import dataclass

from autoprox.rules import require_number, require_whole


@dataclass(frozen=True)
class EvolutionParameters:
    """Auto-Prox's parameters, its margin of 0.1 in percent, and those of the final choice."""

    population: int = 20
    iterations: int = 200
    children: int = 10
    sample_ratio: float = 0.5
    top: int = 5
    margin: float = 0.001  # by which a child must be better than its parent: the elitism test
    retries: int = 3
    evaluations: int | None = None  # a budget that may end the evolution before its iterations
    parsimony: float = 0.001  # what a node of the final formula must be worth
    joining: float = 0.005  # what a further formula must be worth in the final one

    def __post_init__(self) -> None:
        least = {"population": 2, "iterations": 1, "children": 1, "top": 1, "retries": 0}
        for name, value in least.items():
            require_whole(name, getattr(self, name), value)
        if self.evaluations is not None:
            require_whole("evaluations", self.evaluations, 1)
        require_number("sample_ratio", self.sample_ratio, "> 0 and <= 1", lambda r: 0 < r <= 1)
        for name in ("margin", "parsimony", "joining"):
            require_number(name, getattr(self, name), ">= 0 and <= 2", lambda m: 0 <= m <= 2)
