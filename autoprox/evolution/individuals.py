"""Individuals: trees with their fitness."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from deap import base

from autoprox.errors import AutoproxError
from autoprox.language import Tree


class EvolutionError(AutoproxError):
    """An evolution that cannot begin."""


class Fitness(base.Fitness):  # type: ignore[misc]
    """Joint correlation metric, then size: at the same fitness the shorter formula is better."""

    weights = (1.0, -1.0)


@dataclass(frozen=True, eq=False)
class Individual:
    """A tree with its correlation on each dataset, or with the reason why it has none."""

    tree: Tree
    taus: tuple[float, ...] = ()
    jcm: float = float("-inf")
    reason: str = ""
    fitness: Fitness = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "fitness", Fitness((self.jcm, self.tree.size)))

    @property
    def valid(self) -> bool:
        return not self.reason


def survivors(individuals: Sequence[Individual], count: int) -> list[Individual]:
    """The best; of formulas with the same correlations, the shortest."""
    return distinct(sorted(individuals, key=lambda i: i.fitness, reverse=True))[:count]


def distinct(individuals: Sequence[Individual]) -> list[Individual]:
    """The first of those with the same correlations."""
    found: dict[tuple[float, ...], Individual] = {}
    for individual in individuals:
        found.setdefault(individual.taus, individual)
    return list(found.values())
