"""Successive halving: only formulas that are good on a few networks are measured on all."""

from collections.abc import Sequence

from autoprox.errors import ConfigError
from autoprox.evaluation.fitness_evaluator import FitnessEvaluator
from autoprox.evolution import METRICS, Individual
from autoprox.language import Tree
from autoprox.scoring.correlations import Indices

MIN_NETWORKS = 12  # training networks of a space, so that a quarter of them gives a tau
STOPPED = "stopped early"


def halving_parts(train: Indices, space: str) -> list[Indices]:
    """Divide a space's training networks into a quarter, another quarter, and the other half."""
    if len(train) < MIN_NETWORKS:
        raise ConfigError(
            f"successive halving needs {MIN_NETWORKS} training networks of each space, "
            f"but {space} has {len(train)}: choose another --train or --no-halving"
        )
    return [train[0::4], train[2::4], train[1::2]]


class SuccessiveHalving:
    """Evaluates formulas on ever more networks, the better half of them each time.

    A formula goes on if it is in the better half by any of the metrics that selection uses.
    """

    def __init__(self, evaluators: Sequence[FitnessEvaluator]) -> None:
        self._evaluators = evaluators

    def evaluate(self, trees: Sequence[Tree]) -> list[Individual]:
        """Return the trees with their fitness on all networks, or why they have none."""
        found: dict[int, Individual] = {}
        left = list(range(len(trees)))
        for stage, evaluator in enumerate(self._evaluators, start=1):
            individuals = evaluator.evaluate([trees[index] for index in left]) if left else []
            found |= dict(zip(left, individuals, strict=True))
            if stage == len(self._evaluators):
                break
            valid = [index for index in left if found[index].valid]
            left = _better_half(found, valid)
            for index in set(valid).difference(left):
                objective = found[index].objective
                found[index] = Individual(trees[index], reason=STOPPED, objective=objective)
        return [found[index] for index in range(len(trees))]


def _better_half(found: dict[int, Individual], indices: Sequence[int]) -> list[int]:
    """Return the indices of the upper half by each metric; of equals, the first."""
    if not indices:
        return []
    count, better = (len(indices) + 1) // 2, set()
    for metric in range(len(METRICS[found[indices[0]].objective])):
        ordered = sorted(indices, key=lambda index: -found[index].metrics[metric])
        better.update(ordered[:count])
    return sorted(better)
