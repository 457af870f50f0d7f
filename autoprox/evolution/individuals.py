"""Individuals, which are trees with their fitness, and the choice of the final one."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from deap import base

from autoprox.errors import AutoproxError
from autoprox.language import Tree
from autoprox.parameters import EvolutionParameters, TreeLimits

LEADERS = 100  # formulas of which the final one is made


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


def most_parsimonious(
    individuals: Sequence[Individual], parameters: EvolutionParameters
) -> list[Individual]:
    """The best when each node of a formula has to be worth something.

    A larger formula fits the training networks by chance a little better than a smaller one. DEAP's
    hall of fame would rank them by fitness.
    """

    def worth(individual: Individual) -> tuple[float, int]:
        size = individual.tree.size
        return individual.jcm - parameters.parsimony * size, -size

    return distinct(sorted(individuals, key=worth, reverse=True))[:LEADERS]


def assemble(
    leaders: Sequence[Individual],
    evaluate: Callable[[Sequence[Tree]], Sequence[Individual]],
    parameters: EvolutionParameters,
    limits: TreeLimits,
) -> Individual:
    """The first leader, with the ranks of others added as long as each is worth its place.

    Formulas that err by chance err differently, so that a sum of ranks errs less.
    """
    chosen = leaders[0]
    ranks = Tree("rank", (chosen.tree,))
    while True:
        sums = [Tree("add", (ranks, Tree("rank", (other.tree,)))) for other in leaders]
        allowed = evaluate([tree for tree in sums if limits.allow(tree)])
        best = max((i for i in allowed if i.valid), key=lambda i: i.fitness, default=chosen)
        if best.jcm - chosen.jcm <= parameters.joining:
            return chosen
        chosen, ranks = best, best.tree
