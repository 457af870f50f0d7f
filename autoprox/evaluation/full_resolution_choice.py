"""Measurement at full resolution: the final choice of a formula, and its ranking quality."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from autoprox.benchmarks import Benchmark
from autoprox.configurations.commands import EvolveConfig
from autoprox.engine.per_network_terms import proxy_terms
from autoprox.engine.tree_evaluator import SourceNetworks, TreeEvaluator
from autoprox.evaluation.cached_zoo_scores import ZooScores
from autoprox.evaluation.configured_inputs import configured_worker_pool
from autoprox.evaluation.fitness_evaluator import FitnessEvaluator, MeasuredNetworks
from autoprox.evolution import Individual
from autoprox.export import pretty_formula
from autoprox.files.json_documents import JSONDocument
from autoprox.language import Tree, statistics
from autoprox.primitives.primitive import EPSILON
from autoprox.progress import Progress, silent
from autoprox.runs.folder import COMMITTEE, PREDICTOR
from autoprox.runs.predictor_file import PredictorFile, PredictorLabels
from autoprox.runs.proxy_file import VERSION, Found
from autoprox.scoring.baselines import network_sizes, regression_baselines
from autoprox.scoring.bootstrap import MetricDifferences, Number, RankingMetrics, finite_or_none
from autoprox.scoring.correlations import ScoresByDataset, evenly_spaced_indices
from autoprox.scoring.evaluation_set import (
    EvaluationSet,
    MetricsTable,
    ParameterBudgets,
    SizeCorrelations,
    seed_variance_share,
)
from autoprox.searchspaces import get_space
from autoprox.statistics.collector import MeasurementSetting
from autoprox.statistics.matrix_sources import ExtraExpressions, UncachedMatrices
from autoprox.statistics.untrained_networks import untrained_space_networks
from autoprox.zoo.predictor import Predictor, training_logs

TOLERATED_LOSS = 0.005  # of a metric at full resolution, compared with subsampled matrices
MAX_RIVALS = 10  # formulas that are measured at full resolution if the first one loses more
SEEDED_NETWORKS = 12  # networks that are measured with another seed, too
Parts = Mapping[str, Sequence[int]]


class SplitMetricTables(JSONDocument):
    """The metrics of each dataset on both parts of the split."""

    train: MetricsTable
    test: MetricsTable


class SplitMetricMeans(JSONDocument):
    """The mean metrics over the datasets on both parts of the split."""

    train: RankingMetrics
    test: RankingMetrics


class ZooComparison(JSONDocument):
    """The published proxies that were compared; `baselines` and `means` have their metrics."""

    compared: list[str]
    best: Annotated[
        dict[str, str], Field(description="The best on the training part, by each metric.")
    ]
    refused: Annotated[dict[str, str], Field(description="Why a proxy can't be measured.")]
    missing: Annotated[
        dict[str, int] | None,
        Field(description="On how many networks a proxy has no value, if recorded."),
    ]


class NetworkScores(JSONDocument):
    """The networks of a part of the split, in one order."""

    network: list[int]
    params: list[float]
    scores: dict[str, list[Number]]
    truth: dict[str, list[float]]


class RankingQuality(JSONDocument):
    """How well a formula ranks a benchmark's networks, next to baselines and published proxies."""

    expression: str
    formula: str
    train: MetricsTable
    test: MetricsTable
    baselines: dict[str, SplitMetricTables]
    means: dict[str, SplitMetricMeans]
    comparison: dict[str, MetricDifferences]
    zoo: ZooComparison
    budgets: dict[str, dict[str, ParameterBudgets]]
    size: dict[str, SizeCorrelations]
    networks: dict[str, NetworkScores]
    seed_share: Annotated[
        Number, Field(description="How much another seed changes scores, relative to their spread.")
    ]
    failed_networks: dict[str, str]

    @property
    def tables(self) -> dict[str, SplitMetricTables]:
        """The metrics of the proxy and of everything it is compared with, by name."""
        return {"proxy": SplitMetricTables(train=self.train, test=self.test), **self.baselines}


class FullResolutionNetworks:
    """A benchmark's networks at full resolution, without those that failed before."""

    def __init__(
        self,
        benchmark: Benchmark,
        config: EvolveConfig,
        parts: Parts,
        settings: Sequence[MeasurementSetting],
        failed: Mapping[int, str],
        held_out: bool = False,
        extra: ExtraExpressions | None = None,
        progress: Progress = silent,
    ) -> None:
        """Take the settings of the configured seed and of the next one.

        All networks of a held-out space are test networks, so regressions are cross-fitted.
        `extra` is measured in the same passes as the first formulas.
        """
        self._regressions = regression_baselines(benchmark) if held_out else None
        self._benchmark, self._config, self._settings = benchmark, config, settings
        self._parts, self._failed = parts, dict(failed)
        source = self._source(benchmark.architectures)
        source.extra, source.progress = extra, progress
        self._engine = TreeEvaluator(source)

    def training_networks(self, trees: Sequence[Tree]) -> MeasuredNetworks:
        """Return the training networks that don't fail on these trees."""
        self._engine.evaluate(trees)
        train = [n for n in self._parts["train"] if n not in self._lost()]
        return MeasuredNetworks(self._evaluation_set(train), [SourceNetworks(self._engine, train)])

    def usable_everywhere(self, terms: Sequence[Tree]) -> NDArray[np.bool_]:
        """Return which terms can be factors of a power law on all networks that don't fail.

        No true scores are read, so that these may be test networks.
        """
        self._engine.evaluate(terms)
        left = [n for n in range(len(self._benchmark.architectures)) if n not in self._lost()]
        values = np.abs(self._engine.evaluate(terms, left).values)
        return np.asarray((np.isfinite(values) & (values > EPSILON)).all(axis=(1, 2)))

    def predictor(self, tree: Tree, found: Found) -> PredictorFile:
        """Return what a Gaussian process on choices and on the scores of a tree is fitted to."""
        self._engine.evaluate([tree])
        train = [n for n in self._parts["train"] if n not in self._lost()]
        values = self._engine.evaluate([tree], train).values[0]
        archs = [self._benchmark.architectures[n] for n in train]
        return PredictorFile(
            version=VERSION,
            expression=str(tree),
            found=found,
            architectures=[own.to_json()["choices"] for own in archs],
            datasets={
                dataset: PredictorLabels(
                    truth=truth[train].tolist(), logs=training_logs(own).tolist()
                )
                for (dataset, truth), own in zip(
                    self._benchmark.scores.items(), values, strict=True
                )
            },
        )

    def ranking_quality(
        self,
        tree: Tree,
        zoo: ZooScores,
        committee: Tree | None = None,
        predictor: Predictor | None = None,
    ) -> RankingQuality:
        """Measure a proxy on both parts of the split, next to the baselines and the zoo.

        A committee of power laws and a predictor are compared with it too. Networks that failed
        before, or fail now, are left out of all metrics.
        """
        self._engine.evaluate([tree])
        failed, datasets = self._lost(), self._benchmark.datasets
        parts = {name: [n for n in own if n not in failed] for name, own in self._parts.items()}
        sets = {name: self._evaluation_set(networks) for name, networks in parts.items()}
        proxy: dict[str, ScoresByDataset] = {
            name: dict(zip(datasets, self._engine.evaluate([tree], own).values[0], strict=True))
            for name, own in parts.items()
        }
        fitted = self._regressions or regression_baselines(self._benchmark, parts["train"])
        rivals = {**network_sizes(self._benchmark), **fitted, **zoo.scores}
        if committee is not None:
            every = range(len(self._benchmark.architectures))
            values = self._engine.evaluate([committee], every).values[0]
            rivals[COMMITTEE] = dict(zip(datasets, values, strict=True))
        if predictor is not None:
            archs = self._benchmark.architectures
            values = self._engine.evaluate([predictor.tree], range(len(archs))).values[0]
            rivals[PREDICTOR] = {
                dataset: predictor.predict(archs, dataset, own)
                for dataset, own in zip(datasets, values, strict=True)
            }
        scored = {"proxy": proxy} | {
            name: {
                part: {dataset: values[list(own)] for dataset, values in scores.items()}
                for part, own in parts.items()
            }
            for name, scores in rivals.items()
        }
        metrics = {
            name: {part: sets[part].mean(scores) for part, scores in by_part.items()}
            for name, by_part in scored.items()
        }
        tables = {
            name: {part: sets[part].table(scores) for part, scores in by_part.items()}
            for name, by_part in scored.items()
        }
        own = metrics["proxy"]["test"]
        return RankingQuality(
            expression=str(tree),
            formula=pretty_formula(tree),
            **tables.pop("proxy"),
            baselines={name: SplitMetricTables(**by_part) for name, by_part in tables.items()},
            means={
                name: SplitMetricMeans(**{part: found.summary() for part, found in by_part.items()})
                for name, by_part in metrics.items()
            },
            comparison={name: own.minus(metrics[name]["test"]) for name in rivals},
            zoo=ZooComparison(
                compared=list(zoo.scores),
                best=best_zoo_proxies(zoo.scores, sets["train"]),
                refused=dict(zoo.refused),
                missing=_missing_values(zoo, [n for own in parts.values() for n in own]),
            ),
            budgets={name: own.budgets() for name, own in sets.items()},
            size={name: own.size_check(proxy[name]) for name, own in sets.items()},
            networks={name: _network_scores(own, proxy[name]) for name, own in sets.items()},
            seed_share=self._seed_share(tree),
            failed_networks={str(network): reason for network, reason in failed.items()},
        )

    def _seed_share(self, tree: Tree) -> float:
        """Return how much the seed changes the terms of a proxy, relative to their spread."""
        if not statistics(tree):
            return 0.0
        lost = self._lost()
        measurable = [n for n in range(len(self._benchmark.architectures)) if n not in lost]
        chosen = evenly_spaced_indices(len(measurable), SEEDED_NETWORKS)
        networks = [measurable[index] for index in chosen]
        other = TreeEvaluator(
            self._source([self._benchmark.architectures[n] for n in networks], seed=1)
        )
        terms = proxy_terms(tree)
        values = [self._engine.evaluate(terms, networks).values, other.evaluate(terms).values]
        return seed_variance_share(np.stack(values))

    def _source(self, architectures: Sequence[Any], seed: int = 0) -> UncachedMatrices:
        space, config = get_space(self._benchmark.space), self._config
        networks = untrained_space_networks(
            space, architectures, config.seed + seed, shared=config.shares_weights
        )
        return UncachedMatrices(self._settings[seed], networks, configured_worker_pool(config))

    def _evaluation_set(self, networks: Sequence[int]) -> EvaluationSet:
        return EvaluationSet(self._benchmark, networks, self._config.seed, self._config.ties)

    def _lost(self) -> dict[int, str]:
        return {**self._failed, **self._engine.source.failures}


def choose_at_full_resolution(
    networks: Sequence[FullResolutionNetworks],
    config: EvolveConfig,
    found: Individual,
    front: Sequence[Individual],
    progress: Progress,
) -> Tree:
    """Return the formula found on subsampled matrices, unless it ranks worse at full resolution.

    Then choose among the fittest of the front by the training parts at full resolution.
    """

    def evaluator(trees: Sequence[Tree]) -> FitnessEvaluator:
        return FitnessEvaluator(config, [own.training_networks(trees) for own in networks])

    (full,) = evaluator([found.tree]).evaluate([found.tree])
    pairs = zip(full.metrics, found.metrics, strict=True)
    if all(now >= before - TOLERATED_LOSS for now, before in pairs):
        return found.tree
    rivals = sorted(front, key=lambda i: i.fitness, reverse=True)[:MAX_RIVALS]
    note = f"choosing among {len(rivals)}: {full.metrics[0]:.4f}, {found.tree}"
    progress("measure", 0, 1, note)
    trees = [rival.tree for rival in rivals]
    again = evaluator(trees)
    valid = [rival for rival in again.evaluate(trees) if rival.valid]
    return again.choose(valid).tree if valid else found.tree


def best_zoo_proxies(zoo: Mapping[str, ScoresByDataset], train: EvaluationSet) -> dict[str, str]:
    """Return the proxies that rank the training networks best by tau and by partial tau.

    A proxy without scores for all of them isn't considered.
    """
    metrics = {
        name: train.mean({dataset: own[train.networks] for dataset, own in scores.items()})
        for name, scores in zoo.items()
    }
    found = {}
    for figure in ("kendall", "partial_tau"):
        values = {name: getattr(own, figure)[0] for name, own in metrics.items()}
        if known := {name: value for name, value in values.items() if np.isfinite(value)}:
            found[figure] = max(known, key=lambda name: known[name])
    return found


def _network_scores(networks: EvaluationSet, scores: ScoresByDataset) -> NetworkScores:
    params = next(iter(networks.sizes["params"].values()))
    return NetworkScores(
        network=networks.networks,
        params=params.tolist(),
        scores={dataset: list(map(finite_or_none, own)) for dataset, own in scores.items()},
        truth={dataset: own.tolist() for dataset, own in networks.truth.items()},
    )


def _missing_values(zoo: ZooScores, networks: Sequence[int]) -> dict[str, int]:
    """Count the networks on which each published proxy has no value, if there are any."""
    values = {n: np.array([s[networks] for s in own.values()]) for n, own in zoo.scores.items()}
    counts = {n: int((~np.isfinite(own)).any(axis=0).sum()) for n, own in values.items()}
    return {name: count for name, count in counts.items() if count}
