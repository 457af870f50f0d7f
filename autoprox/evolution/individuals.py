"""Individuals: trees with their fitness, the survivors among them, and the final choice."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np
from deap import base, tools

from autoprox.errors import AutoproxError
from autoprox.language import Tree


class EvolutionError(AutoproxError):
    """An evolution that cannot begin."""


class Fitness(base.Fitness):  # type: ignore[misc]
    """A joint metric, then size: at the same fitness the shorter formula is better."""

    weights = (1.0, -1.0)


class ParetoFitness(base.Fitness):  # type: ignore[misc]
    """Both joint metrics and size, as equals."""

    weights = (1.0, 1.0, -1.0)


METRICS: Mapping[str, tuple[str, ...]] = MappingProxyType(  # what formulas are selected by
    {"jcm": ("jcm",), "size-adjusted": ("partial_tau",), "both": ("jcm", "partial_tau")}
)


@dataclass(frozen=True, eq=False)
class Individual:
    """A tree with its correlation on each dataset, or with the reason why it has none.

    `jcm` is the joint metric of these, `partial_tau` that of the partial ones.
    """

    tree: Tree
    taus: tuple[float, ...] = ()
    jcm: float = float("-inf")
    reason: str = ""
    partial_tau: float = float("-inf")
    objective: str = "jcm"
    fitness: base.Fitness = field(init=False, repr=False)

    def __post_init__(self) -> None:
        kind = Fitness if len(self.metrics) == 1 else ParetoFitness
        object.__setattr__(self, "fitness", kind((*self.metrics, self.tree.size)))

    @property
    def valid(self) -> bool:
        return not self.reason

    @property
    def metrics(self) -> tuple[float, ...]:
        """The joint metrics by which it is selected."""
        return tuple(getattr(self, name) for name in METRICS[self.objective])


def survivors(individuals: Sequence[Individual], count: int) -> list[Individual]:
    """Return the best, best first; of formulas with the same correlations, only the shortest.

    With both metrics, these are those of NSGA-II: front by front, the least crowded first.
    """
    ranked: dict[tuple[float, ...], Individual] = {}
    for individual in sorted(individuals, key=lambda i: i.fitness, reverse=True):
        ranked.setdefault(individual.taus, individual)
    found = list(ranked.values())
    if not found or found[0].objective != "both":
        return found[:count]
    chosen = tools.selNSGA2(found, count)
    fronts = tools.sortNondominated(chosen, len(chosen))
    return [i for front in fronts for i in sorted(front, key=lambda i: -i.fitness.crowding_dist)]


def shortest(front: Sequence[Individual], errors: Sequence[float], tolerance: float) -> Individual:
    """Return the shortest formula that may well be as good as the best, then the fittest.

    It is within `tolerance` standard errors of the best by each metric; `errors` are those of the
    best. If no formula is that near to the best by all metrics, the nearest is returned.
    """
    metrics = np.array([i.metrics for i in front])
    short_of = metrics.max(axis=0) - metrics
    steps = short_of / np.maximum(errors, np.finfo(float).tiny)
    worst = steps.max(axis=1)
    near = [i for i, step in zip(front, worst, strict=True) if step <= max(tolerance, worst.min())]
    return min(near, key=lambda i: (i.tree.size, *(-m for m in i.metrics), str(i.tree)))


def best_by_each(front: Sequence[Individual]) -> list[Individual]:
    """Return the best by each metric, the first of equals."""
    return [max(front, key=lambda i: i.metrics[index]) for index in range(len(front[0].metrics))]
