"""The fitness of formulas on networks of one or more benchmarks, and the choice among them."""

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from autoprox.configurations.commands import EvolveConfig
from autoprox.engine.tree_evaluator import (
    REASONS,
    ProxyScores,
    SourceNetworks,
    score_across_sources,
)
from autoprox.evolution import METRICS, Individual, best_by_each, shortest
from autoprox.evolution_parameters import TOLERANCE
from autoprox.language import Tree
from autoprox.scoring.bootstrap import standard_error
from autoprox.scoring.correlations import Floats, jcm
from autoprox.scoring.evaluation_set import EvaluationSet
from autoprox.scoring.fitness_correlations import TrueScores, fitness_taus

FIGURES = {"jcm": "kendall", "partial_tau": "partial_tau"}  # the taus that a joint metric averages


class MeasuredNetworks:
    """Networks of one benchmark: their true scores, and the engines that evaluate formulas."""

    def __init__(self, evaluation_set: EvaluationSet, blocks: Sequence[SourceNetworks]) -> None:
        self.evaluation_set, self._blocks = evaluation_set, blocks

    @cached_property
    def truth(self) -> TrueScores:
        """The true scores and the sizes of the networks."""
        truth, params = self.evaluation_set.truth, self.evaluation_set.sizes["params"]
        return TrueScores(np.stack(list(truth.values())), np.stack(list(params.values())))

    def scores(self, trees: Sequence[Tree]) -> ProxyScores:
        """Evaluate trees on the networks."""
        return score_across_sources(self._blocks, trees)

    def bootstrap(self, tree: Tree, figure: str) -> list[Floats]:
        """Return a figure of a tree [1 + draws] on each dataset."""
        values = self.scores([tree]).values[0]
        return [
            getattr(self.evaluation_set.metrics(own, dataset), figure)
            for dataset, own in zip(self.evaluation_set.truth, values, strict=True)
        ]


class FitnessEvaluator:
    """Evaluates formulas by the joint metric over the datasets of all benchmarks."""

    def __init__(self, config: EvolveConfig, networks: Sequence[MeasuredNetworks]) -> None:
        self._config, self.networks = config, networks

    def evaluate(self, trees: Sequence[Tree]) -> list[Individual]:
        """Return the trees with their fitness, or with the reason why they have none."""
        config = self._config
        scores = [networks.scores(trees) for networks in self.networks]
        reasons = np.max([own.reasons.max(axis=(1, 2)) for own in scores], axis=0)
        truths = [networks.truth for networks in self.networks]
        plain, partial = fitness_taus([own.values for own in scores], truths, config.ties)
        metrics = zip(
            jcm(plain, config.dataset_weights), jcm(partial, config.dataset_weights), strict=True
        )
        return [
            Individual(tree, reason=REASONS[reason], objective=config.objective)
            if reason
            else Individual(
                tree,
                tuple(map(float, taus)),
                float(joint),
                partial_tau=float(joint_partial),
                objective=config.objective,
            )
            for tree, reason, taus, (joint, joint_partial) in zip(
                trees, reasons, plain, metrics, strict=True
            )
        ]

    def choose(self, front: Sequence[Individual], tolerance: float | None = None) -> Individual:
        """Choose the shortest formula within some standard errors of the best."""
        if tolerance is None:
            asked = self._config.tolerance
            tolerance = TOLERANCE if asked is None else asked
        names = METRICS[self._config.objective]
        best = zip(best_by_each(front), names, strict=True)
        errors = [self._standard_error(i.tree, FIGURES[name]) for i, name in best]
        return shortest(front, errors, tolerance)

    def _standard_error(self, tree: Tree, figure: str) -> float:
        """Return the standard error of a joint metric."""
        each = [draws for own in self.networks for draws in own.bootstrap(tree, figure)]
        return standard_error(jcm(np.stack(each, axis=-1), self._config.dataset_weights))
