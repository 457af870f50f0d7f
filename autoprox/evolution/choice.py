"""The choice of the final formula: the shortest that may well be as good as the best."""

from collections.abc import Sequence

import numpy as np

from autoprox.evolution.individuals import Individual


def shortest(front: Sequence[Individual], errors: Sequence[float], tolerance: float) -> Individual:
    """The shortest within so many standard errors of the best, by each metric; then the fittest.

    `errors` are those of the best by each metric. Where no formula is that near to the best by all
    metrics, it is the one that is nearest.
    """
    metrics = np.array([i.metrics for i in front])
    short_of = metrics.max(axis=0) - metrics
    steps = short_of / np.maximum(errors, np.finfo(float).tiny)
    worst = steps.max(axis=1)
    near = [i for i, step in zip(front, worst, strict=True) if step <= max(tolerance, worst.min())]
    return min(near, key=lambda i: (i.tree.size, *(-m for m in i.metrics), str(i.tree)))


def best_by_each(front: Sequence[Individual]) -> list[Individual]:
    """The best by each metric; of equals the first."""
    return [max(front, key=lambda i: i.metrics[index]) for index in range(len(front[0].metrics))]
