"""A trial of formulas: their fitness on some networks of benchmarks, and the choice of one."""

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from autoprox.engine.evaluator import REASONS, ProxyScores, SourceNetworks, evaluate_sources
from autoprox.evolution import METRICS, Individual, best_by_each, shortest
from autoprox.language import Tree
from autoprox.scoring.correlations import jcm
from autoprox.scoring.fitness import Target, taus
from autoprox.scoring.resampling import standard_error
from autoprox.scoring.tables import Judge
from autoprox.tasks.configurations import EvolveConfig

FIGURES = {"jcm": "kendall", "given_size": "given_size"}  # what a joint metric is the mean of


class Ground:
    """Networks of one benchmark: what they are worth, and where in engines they are measured."""

    def __init__(self, judge: Judge, blocks: Sequence[SourceNetworks]) -> None:
        self.judge, self._blocks = judge, blocks

    @cached_property
    def target(self) -> Target:
        """What the networks' scores are compared with."""
        truth, params = self.judge.truth, self.judge.sizes["params"]
        return Target(np.stack(list(truth.values())), np.stack(list(params.values())))

    def scores(self, trees: Sequence[Tree]) -> ProxyScores:
        """What trees say of the networks."""
        return evaluate_sources(self._blocks, trees)


class Trial:
    """Of formulas, on one or more grounds."""

    def __init__(self, config: EvolveConfig, grounds: Sequence[Ground]) -> None:
        self._config, self._grounds = config, grounds

    def individuals(self, trees: Sequence[Tree]) -> list[Individual]:
        """The trees with their fitness, or with the reason why they have none."""
        config = self._config
        scores = [ground.scores(trees) for ground in self._grounds]
        reasons = np.max([own.reasons.max(axis=(1, 2)) for own in scores], axis=0)
        targets = [ground.target for ground in self._grounds]
        plain, partial = taus([own.values for own in scores], targets, config.ties)
        metrics = zip(jcm(plain, config.weights), jcm(partial, config.weights), strict=True)
        return [
            Individual(tree, reason=REASONS[reason], objective=config.objective)
            if reason
            else Individual(
                tree,
                tuple(map(float, tau)),
                float(joint),
                given_size=float(given_size),
                objective=config.objective,
            )
            for tree, reason, tau, (joint, given_size) in zip(
                trees, reasons, plain, metrics, strict=True
            )
        ]

    def choose(self, front: Sequence[Individual], tolerance: float | None = None) -> Individual:
        """The shortest within so many standard errors of the best, or as configured."""
        names = METRICS[self._config.objective]
        best = zip(best_by_each(front), names, strict=True)
        errors = [self._standard_error(i.tree, FIGURES[name]) for i, name in best]
        return shortest(front, errors, self._config.tolerance if tolerance is None else tolerance)

    def _standard_error(self, tree: Tree, figure: str) -> float:
        """Of a joint metric, by the bootstrap."""
        each = [
            getattr(ground.judge.worth(own, dataset), figure)
            for ground in self._grounds
            for dataset, own in zip(
                ground.judge.truth, ground.scores([tree]).values[0], strict=True
            )
        ]
        return standard_error(jcm(np.stack(each, axis=-1), self._config.weights))
