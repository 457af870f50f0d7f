"""The choice of the final formula among all that were evaluated."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from autoprox.evolution.individuals import Individual, distinct
from autoprox.language import Tree
from autoprox.parameters import EvolutionParameters, TreeLimits

LEADERS = 100  # formulas of which the final one is made


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
