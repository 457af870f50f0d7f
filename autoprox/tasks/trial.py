"""A trial of formulas: their fitness on some networks of a benchmark, and the choice of one."""

from collections.abc import Sequence

import numpy as np

from autoprox.benchmarks import Benchmark
from autoprox.engine.evaluator import REASONS, Engine
from autoprox.evolution import METRICS, Individual, best_by_each, shortest
from autoprox.language import Tree
from autoprox.scoring.correlations import jcm
from autoprox.scoring.fitness import Target, taus
from autoprox.scoring.resampling import standard_error
from autoprox.scoring.tables import Judge
from autoprox.tasks.configurations import EvolveConfig

FIGURES = {"jcm": "kendall", "given_size": "given_size"}  # what a joint metric is the mean of


class Trial:
    """Networks, by their number in the benchmark and by their place in an engine's source."""

    def __init__(
        self,
        benchmark: Benchmark,
        config: EvolveConfig,
        engine: Engine,
        networks: Sequence[int],
        places: Sequence[int],
    ) -> None:
        self._config, self._engine, self._places = config, engine, list(places)
        self._judge = Judge(benchmark, networks, config.seed, config.ties)
        truth, params = self._judge.truth, self._judge.sizes["params"]
        self._target = Target(np.stack(list(truth.values())), np.stack(list(params.values())))

    def individuals(self, trees: Sequence[Tree]) -> list[Individual]:
        """The trees with their fitness, or with the reason why they have none."""
        config, scores = self._config, self._engine.evaluate(trees, self._places)
        reasons = scores.reasons.max(axis=(1, 2))
        plain, partial = taus([scores.values], [self._target], config.ties)
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
        scores = self._engine.evaluate([tree], self._places).values[0]
        each = [
            getattr(self._judge.worth(own, dataset), figure)
            for dataset, own in zip(self._judge.truth, scores, strict=True)
        ]
        return standard_error(jcm(np.stack(each, axis=-1), self._config.weights))
