"""The only fold, ranking quality or problem of an evolution that has one."""

from autoprox.commands.evolve import EvolutionFold, EvolveSummary, EvolveTask
from autoprox.evaluation.full_resolution_choice import RankingQuality
from autoprox.evaluation.space_problem import SpaceProblem


def only_fold(summary: EvolveSummary) -> EvolutionFold:
    """Return the fold of a summary that has one."""
    (fold,) = summary.folds
    return fold


def only_quality(summary: EvolveSummary) -> RankingQuality:
    """Return the ranking quality on the space of an evolution on one."""
    (quality,) = only_fold(summary).spaces.values()
    return quality


def only_problem(task: EvolveTask) -> SpaceProblem:
    """Return the problem of an evolution on one space."""
    (problem,) = task.problems.values()
    return problem
