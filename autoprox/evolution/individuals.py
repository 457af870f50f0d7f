"""Individuals, which are trees with their fitness, and which of them survive."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from deap import base, tools

from autoprox.errors import AutoproxError
from autoprox.language import Tree


class EvolutionError(AutoproxError):
    """An evolution that cannot begin."""


class Fitness(base.Fitness):  # type: ignore[misc]
    """A joint metric, then size: at the same fitness the shorter formula is better."""

    weights = (1.0, -1.0)


class ParetoFitness(base.Fitness):  # type: ignore[misc]
    """Both joint metrics and size, none before the others."""

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
        """The joint metrics that it is selected by."""
        return tuple(getattr(self, name) for name in METRICS[self.objective])


def survivors(individuals: Sequence[Individual], count: int) -> list[Individual]:
    """The best, best first; of formulas with the same correlations, the shortest.

    Where both metrics count, they are those of NSGA-II: front by front, the least crowded first.
    """
    found = distinct(sorted(individuals, key=lambda i: i.fitness, reverse=True))
    if not found or found[0].objective != "both":
        return found[:count]
    chosen = tools.selNSGA2(found, count)
    fronts = tools.sortNondominated(chosen, len(chosen))
    return [i for front in fronts for i in sorted(front, key=lambda i: -i.fitness.crowding_dist)]


def distinct(individuals: Sequence[Individual]) -> list[Individual]:
    """The first of those with the same correlations."""
    found: dict[tuple[float, ...], Individual] = {}
    for individual in individuals:
        found.setdefault(individual.taus, individual)
    return list(found.values())
