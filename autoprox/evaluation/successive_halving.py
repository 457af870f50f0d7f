"""Successive halving: a formula that is bad on a few networks isn't measured on all."""

from collections.abc import Sequence

from autoprox.errors import ConfigError
from autoprox.evaluation.fitness_evaluator import FitnessEvaluator
from autoprox.evolution import METRICS, Individual
from autoprox.language import Tree
from autoprox.scoring.correlations import Indices

FEWEST = 12  # training networks of a space, of which a quarter says anything
STOPPED = "stopped early"


def blocks(train: Indices, space: str) -> list[Indices]:
    """A quarter of a space's training networks, another quarter, and the other half."""
    if len(train) < FEWEST:
        raise ConfigError(
            f"successive halving needs {FEWEST} training networks of each space, "
            f"but {space} has {len(train)}: choose another --train or --no-halving"
        )
    return [train[0::4], train[2::4], train[1::2]]


class SuccessiveHalving:
    """Trials on ever more networks; of those evaluated together the better half goes on.

    Better is who is in the upper half by any of the metrics that formulas are selected by.
    """

    def __init__(self, trials: Sequence[FitnessEvaluator]) -> None:
        self._trials = trials

    def individuals(self, trees: Sequence[Tree]) -> list[Individual]:
        """The trees with their fitness on all networks, or the reason why they have none."""
        *earlier, last = self._trials
        found: dict[int, Individual] = {}
        places = list(range(len(trees)))
        for trial in earlier:
            found |= _tried(trial, trees, places)
            valid = [place for place in places if found[place].valid]
            places = _better_half(found, valid)
            for place in set(valid).difference(places):
                objective = found[place].objective
                found[place] = Individual(trees[place], reason=STOPPED, objective=objective)
        found |= _tried(last, trees, places)
        return [found[place] for place in range(len(trees))]


def _tried(
    trial: FitnessEvaluator, trees: Sequence[Tree], places: Sequence[int]
) -> dict[int, Individual]:
    individuals = trial.individuals([trees[place] for place in places]) if places else []
    return dict(zip(places, individuals, strict=True))


def _better_half(found: dict[int, Individual], places: Sequence[int]) -> list[int]:
    """The places of the upper half by each metric, of equals the first."""
    if not places:
        return []
    count, better = (len(places) + 1) // 2, set()
    for metric in range(len(METRICS[found[places[0]].objective])):
        ordered = sorted(places, key=lambda place: -found[place].metrics[metric])
        better.update(ordered[:count])
    return sorted(better)
