"""The only fold of an evolution, and the ranking quality of its formula on the only space."""

from autoprox.commands.evolve import EvolveSummary, Fold
from autoprox.evaluation.full_resolution import RankingQuality


def only_fold(summary: EvolveSummary) -> Fold:
    """Return the fold of an evolution that has one."""
    (fold,) = summary.folds
    return fold


def only_quality(summary: EvolveSummary) -> RankingQuality:
    """Return the ranking quality on the space of an evolution that has one."""
    (quality,) = only_fold(summary).spaces.values()
    return quality
