"""The choice of the final formula: the shortest that may well be as good as the best."""

from collections.abc import Sequence

from autoprox.evolution.individuals import Individual
from autoprox.scoring.correlations import Floats


def shortest(front: Sequence[Individual], short_of: Floats, tolerance: float) -> Individual:
    """The shortest within so many standard errors of the best, by each metric; then the fittest.

    `short_of` is by how many standard errors each is worse than the best, [formulas, metrics].
    Where no formula is that near to the best by all metrics, it is the one that is nearest.
    """
    worst = short_of.max(axis=1)
    near = [i for i, step in zip(front, worst, strict=True) if step <= max(tolerance, worst.min())]
    return min(near, key=lambda i: (i.tree.size, *(-m for m in i.metrics), str(i.tree)))


def best_by_each(front: Sequence[Individual]) -> list[Individual]:
    """The best by each metric; of equals the first."""
    return [max(front, key=lambda i: i.metrics[index]) for index in range(len(front[0].metrics))]
