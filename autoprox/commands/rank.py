"""The command rank: proxies side by side, each on every network of a benchmark, over some seeds."""

from collections import Counter, defaultdict
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import product, takewhile
from typing import Annotated, Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from pydantic import Field

from autoprox.commands.task_interface import CommandTask
from autoprox.configurations.commands import RankConfig
from autoprox.configurations.shared_options import FRESH, WEIGHTS, require_choice
from autoprox.errors import MeasurementError, RunError, lacked_memory
from autoprox.evaluation.configured_inputs import (
    input_digests,
    load_configured_batches,
    load_configured_benchmark,
)
from autoprox.evaluation.proxy_measurement import (
    SIZE_PROXIES,
    MeasuredProxies,
    NetworkValues,
    requested_proxy_names,
)
from autoprox.evaluation.proxy_training_split import evolved_on_architectures
from autoprox.evaluation.time_estimate import TimeEstimate, median_size_index
from autoprox.files.json_documents import JSONDocument
from autoprox.inputs.batch_loading import batch_shortfalls
from autoprox.language import statistics
from autoprox.progress import Progress
from autoprox.runs.folder import Run, as_written
from autoprox.runs.summary import Summary
from autoprox.scoring.baselines import baselines
from autoprox.scoring.bootstrap import (
    BootstrapMetrics,
    Interval,
    MetricDifferences,
    Number,
    RankingMetrics,
    bootstrap_interval,
    finite_or_none,
    split_networks,
)
from autoprox.scoring.correlations import (
    CORRELATIONS,
    TIES,
    Correlation,
    Floats,
    ScoresByDataset,
)
from autoprox.scoring.evaluation_set import (
    BUDGET_SHARES,
    SEED_SHARE,
    EvaluationSet,
    MetricsTable,
    ParameterBudgets,
    SizeCorrelations,
    seed_variance_share,
)
from autoprox.searchspaces import get_space
from autoprox.shortfalls import Shortfall
from autoprox.statistics.collector import MeasurementSetting, resolve_device
from autoprox.statistics.untrained_networks import untrained_space_networks
from autoprox.zoo.proxy_loading import resolve_proxy
from autoprox.zoo.published_correlations import (
    PublishedComparison,
    compare_with_published,
    published_correlations,
)

NETWORK_FAILED, NOT_FINITE = "network failed", "not finite"  # reasons to leave networks out
MakeSet = Callable[[tuple[int, ...]], EvaluationSet]


class RankLogLine(NetworkValues):
    """The values of one network with one seed, in the log of a ranking."""

    seed: int
    network: int


class Correlations(JSONDocument):
    """Three correlations; None where there is none."""

    kendall: Number
    spearman: Number
    pearson: Number


class CorrelationIntervals(JSONDocument):
    """Bootstrap 95 % intervals of three correlations."""

    kendall: Interval
    spearman: Interval
    pearson: Interval


class RankRow(JSONDocument):
    """A proxy on a dataset: means over the seeds, and their standard deviations."""

    proxy: str
    dataset: str
    kendall: Number
    spearman: Number
    pearson: Number
    std: Correlations
    interval: CorrelationIntervals
    tau_b: Number = None
    partial_tau: Number = None
    partial_tau_interval: Interval = (None, None)
    near_size_tau: Number = None
    near_size_tau_interval: Interval = (None, None)
    regret: tuple[Number, ...] = (None,) * len(BUDGET_SHARES)
    invalid: Annotated[int, Field(description="Networks without a score.")]
    published: Correlations


class ChosenProxy(JSONDocument):
    """The proxy that is best on the training part, and how well it ranks the test part."""

    proxy: str
    train: float
    test: RankingMetrics


class ProxyChoiceOnSplit(JSONDocument):
    """The proxies that a training part of the networks chooses, by each metric."""

    train: int
    test: int
    by: dict[str, ChosenProxy]


class EvolvedProxyOverlap(JSONDocument):
    """How many networks a proxy was evolved on, and how well it ranks the others."""

    networks: int
    others: int
    on_others: Annotated[
        RankingMetrics | None,
        Field(description="Means over the datasets; null with fewer than two others."),
    ]


class RankSummary(Summary):
    """The summary of `autoprox rank`."""

    rows: tuple[RankRow, ...]
    published: PublishedComparison | None
    means: dict[str, RankingMetrics]
    comparison: dict[str, dict[str, MetricDifferences]]
    size: dict[str, SizeCorrelations]
    baselines: dict[str, MetricsTable]
    baseline_means: dict[str, RankingMetrics]
    budgets: dict[str, ParameterBudgets]
    pairs: Annotated[int, Field(description="Pairs of networks that are near in size.")]
    chosen: ProxyChoiceOnSplit
    choices_alone: Annotated[
        tuple[str, ...], Field(description="Proxies that are functions of the choices alone.")
    ]
    evolved_on: dict[str, EvolvedProxyOverlap]
    invalid: Annotated[
        dict[str, dict[str, int]], Field(description="Networks left out, by proxy and reason.")
    ]
    benchmark: str
    networks: int
    seeds: int
    ties: str
    weights: str = FRESH
    evolved_with: Annotated[
        dict[str, str],
        Field(description="Proxies that were evolved with other weights, and with which."),
    ] = Field(default_factory=dict)
    found_on: Annotated[
        dict[str, str],
        Field(description="Proxies that were found on other spaces, and on which."),
    ] = Field(default_factory=dict)
    seconds: float


class RankTask(CommandTask[RankConfig, RankSummary]):
    """A ranking of a benchmark's networks by several proxies."""

    summary = RankSummary

    def __init__(self, config: RankConfig) -> None:
        self.benchmark = load_configured_benchmark(config)
        self.space = get_space(self.benchmark.space)
        names = requested_proxy_names(config.proxies)
        require_choice("ties", config.ties, TIES)
        require_choice("weights", config.weights, WEIGHTS)
        filled = {
            "proxies": names,
            "benchmark": config.benchmark or self.benchmark.name,
            "space": self.benchmark.space,
            "datasets": self.benchmark.datasets,
            "label": self.benchmark.label,
            "device": resolve_device(config.device),
        }
        super().__init__(config.model_copy(update=filled))
        self.proxies = MeasuredProxies(names)
        for predictor in self.proxies.predictors.values():
            predictor.require_space(self.space.name)
        self.setting(config.seed)
        self._trained = {
            name: evolved_on_architectures(name, self.config, self.benchmark)
            for name in self.proxies.trees
        }
        found = {name: resolve_proxy(name).found for name in self.proxies.trees}
        self._evolved_with = {
            name: own.weights
            for name, own in found.items()
            if own and own.weights != config.weights
        }
        self._found_on = {
            name: own.space
            for name, own in found.items()
            if own and not own.includes(self.benchmark.space)
        }

    @property
    def name(self) -> str:
        return f"rank-{self.benchmark.name}-{self.benchmark.space}"

    @property
    def read(self) -> dict[str, str]:
        predictors = {name: own.digest for name, own in self.proxies.predictors.items()}
        texts = {**self.proxies.trees, **predictors}
        proxies = "\n".join(f"{name} {text}" for name, text in texts.items())
        return input_digests(
            self.setting(self.config.seed).batches, self.benchmark, proxies=proxies
        )

    @property
    def counts(self) -> list[Shortfall]:
        return batch_shortfalls(self.config.batch_size, self.setting(self.config.seed).batches)

    def setting(self, seed: int) -> MeasurementSetting:
        """Return how networks are measured with one of the seeds, which also draws the noise."""
        batches = load_configured_batches(self.config, self.space, self.benchmark.classes, seed)
        return MeasurementSetting(batches, device=torch.device(self.config.device))

    def restrict(self, networks: Sequence[int]) -> None:
        """Rank these networks of the benchmark alone."""
        own, chosen = self.benchmark, list(networks)
        self.benchmark = replace(
            own,
            architectures=tuple(own.architectures[n] for n in chosen),
            scores={dataset: scores[chosen] for dataset, scores in own.scores.items()},
        )

    def seeds(self) -> range:
        """Return the seeds, from the configured one on."""
        return range(self.config.seed, self.config.seed + self.config.seeds)

    def estimate(self) -> TimeEstimate:
        """Estimate the time from one of the networks."""
        architectures, config = self.benchmark.architectures, self.config
        one: list[RankLogLine] = []
        self._measure(config.seed, [median_size_index(self.space, architectures)], one.append)
        count = len(architectures) * config.seeds
        work = count * one[0].seconds / self.pool.size
        return TimeEstimate(networks=count, datasets=len(self.benchmark.datasets), seconds=work)

    def work(self, run: Run, progress: Progress) -> RankSummary:
        """Measure each network with each seed that the log lacks, and rank."""
        lines = self.measured(run, progress)
        with as_written(run.path, "a log"):
            return self.summarise(lines)

    def measured(self, run: Run, progress: Progress) -> list[RankLogLine]:
        """Return the lines of the log, one for each network and seed, after measuring the rest."""
        stored = run.read_log_as(RankLogLine)
        lines = list(takewhile(lambda line: not lacked_memory(line.failure), stored))
        known = {(line.seed, line.network) for line in lines}
        networks = range(len(self.benchmark.architectures))
        if len(known) < len(lines) or not known <= set(product(self.seeds(), networks)):
            raise RunError(f"the log of {run.path} must have each seed and network once")
        run.truncate_log(len(lines))
        total = len(networks) * self.config.seeds
        progress("measure", len(lines), total, "")

        def keep(line: RankLogLine) -> None:
            run.log(line.model_dump(mode="json"))
            lines.append(line)
            progress("measure", len(lines), total, "")

        for seed in self.seeds():
            self._measure(seed, [n for n in networks if (seed, n) not in known], keep)
        return lines

    def _measure(
        self, seed: int, networks: Sequence[int], take: Callable[[RankLogLine], None]
    ) -> None:
        architectures = [self.benchmark.architectures[n] for n in networks]
        untrained = untrained_space_networks(
            self.space, architectures, seed, shared=self.config.shares_weights
        )
        numbers = iter(networks)
        self.proxies.measured(
            untrained,
            self.setting(seed),
            seed,
            self.pool,
            lambda own: take(RankLogLine(seed=seed, network=next(numbers), **own.model_dump())),
        )

    def scores(self, lines: Sequence[RankLogLine], proxy: str, dataset: str) -> Floats:
        """Return a proxy's scores [seeds, networks], nan where it has none."""
        architectures = self.benchmark.architectures
        shape = (self.config.seeds, len(architectures))
        if proxy in SIZE_PROXIES:
            count, failed = getattr(self.space, proxy), failed_networks(lines)
            classes = self.benchmark.classes[dataset]
            counts = [
                np.nan if network in failed else float(count(architecture, classes))
                for network, architecture in enumerate(architectures)
            ]
            return np.broadcast_to(counts, shape)
        scores = np.full(shape, np.nan)
        for index, seed in enumerate(self.seeds()):
            own = [line for line in lines if line.seed == seed]
            values = [line.values.get(dataset, {}) for line in own]
            networks = [line.network for line in own]
            archs = [architectures[network] for network in networks]
            scores[index, networks] = self.proxies.scores(proxy, values, archs, dataset)
        return scores

    def summarise(self, lines: Sequence[RankLogLine]) -> RankSummary:
        """Return a row for each proxy and dataset, the best tau first, and means over datasets."""
        config, benchmark, failed = self.config, self.benchmark, failed_networks(lines)
        if len(benchmark.architectures) - len(failed) < 2:
            reason = next(line.failure for line in lines if line.failure)
            raise MeasurementError(f"at least two networks must be measured, but not so: {reason}")
        scores = {
            proxy: {d: self.scores(lines, proxy, d) for d in benchmark.datasets}
            for proxy in config.proxies
        }
        make_set = cache(lambda valid: EvaluationSet(benchmark, valid, config.seed, config.ties))
        rows: list[RankRow] = []
        for dataset in benchmark.datasets:
            own = [self._row(make_set, proxy, dataset, scores[proxy][dataset]) for proxy in scores]
            rows += sorted(own, key=lambda row: 2 if row.kendall is None else -row.kendall)
        table = benchmark.name, benchmark.space, benchmark.label
        figures = [(row.proxy, row.dataset, row.kendall, row.spearman, row.pearson) for row in rows]
        return RankSummary(
            rows=tuple(rows),
            published=compare_with_published(figures, *table) if config.published else None,
            **self._compared_with_baselines(make_set, scores, failed),
            chosen=self._chosen(make_set, scores),
            choices_alone=tuple(p for p in scores if self._is_of_choices(p, scores[p])),
            evolved_on=self._evolved_on(make_set, scores),
            invalid=_left_out(failed, scores),
            benchmark=benchmark.source,
            networks=len(benchmark.architectures),
            seeds=config.seeds,
            ties=config.ties,
            weights=config.weights,
            evolved_with=self._evolved_with,
            found_on=self._found_on,
            seconds=round(sum(line.seconds for line in lines), 3),
        )

    def _row(self, make_set: MakeSet, proxy: str, dataset: str, scores: Floats) -> RankRow:
        """Return all metrics of a proxy on the networks of a dataset for which it has scores."""
        benchmark, seed = self.benchmark, self.config.seed
        valid = _valid(scores)
        truth, known = benchmark.scores[dataset][list(valid)], scores[:, valid]
        enough = len(valid) > 1
        means: dict[str, Number] = {}
        deviations: dict[str, Number] = {}
        intervals: dict[str, Interval] = {"kendall": (None, None)}
        metrics: dict[str, Any] = {}
        if enough:
            metrics = make_set(valid).table({dataset: known})[dataset].model_dump()
            intervals["kendall"] = metrics.pop("interval")
        for name, correlation in {**CORRELATIONS, "kendall": TIES[self.config.ties]}.items():
            each = correlation(known, truth) if enough else np.array(np.nan)
            means[name], deviations[name] = finite_or_none(each.mean()), finite_or_none(each.std())
            if name != "kendall":
                intervals[name] = _interval_of_mean(correlation, known, truth, seed)
        table = benchmark.name, benchmark.space, benchmark.label
        return RankRow(
            proxy=proxy,
            dataset=dataset,
            **{**metrics, **means},
            std=Correlations(**deviations),
            interval=CorrelationIntervals(**intervals),
            invalid=scores.shape[1] - len(valid),
            published=Correlations(**published_correlations(*table, dataset, proxy)._asdict()),
        )

    def _compared_with_baselines(
        self, make_set: MakeSet, scores: Mapping[str, ScoresByDataset], failed: Container[int]
    ) -> dict[str, Any]:
        """Return the means of each proxy over the datasets, and those of the baselines."""
        benchmark = self.benchmark
        rivals = baselines(benchmark)
        means, comparison, size = {}, {}, {}
        for proxy, own in scores.items():
            valid = _valid(np.concatenate(list(own.values())))
            if len(valid) < 2:
                continue
            networks = make_set(valid)
            known = {d: values[:, valid] for d, values in own.items()}
            found = networks.mean(known)
            means[proxy] = found.summary()
            comparison[proxy] = {
                name: found.minus(
                    networks.mean({d: values[list(valid)] for d, values in other.items()})
                )
                for name, other in rivals.items()
            }
            size[proxy] = networks.size_check(known)
        measured = [n for n in range(len(benchmark.architectures)) if n not in failed]
        all_measured = make_set(tuple(measured))
        known_rivals = {n: {d: own[d][measured] for d in own} for n, own in rivals.items()}
        return {
            "means": means,
            "comparison": comparison,
            "size": size,
            "baselines": {name: all_measured.table(own) for name, own in known_rivals.items()},
            "baseline_means": {
                name: all_measured.mean(own).summary() for name, own in known_rivals.items()
            },
            "budgets": all_measured.budgets(),
            "pairs": all_measured.pairs,
        }

    def _chosen(
        self, make_set: MakeSet, scores: Mapping[str, ScoresByDataset]
    ) -> ProxyChoiceOnSplit:
        """Return the proxies that are best on some networks, and how well they rank the others."""
        networks = len(self.benchmark.architectures)
        train, test = (tuple(own.tolist()) for own in split_networks(networks, self.config.seed))
        known = {
            proxy: own
            for proxy, own in scores.items()
            if proxy not in SIZE_PROXIES
            and len(_valid(np.concatenate(list(own.values())))) == networks
        }

        def mean(part: tuple[int, ...], proxy: str) -> BootstrapMetrics:
            return make_set(part).mean({d: values[:, part] for d, values in known[proxy].items()})

        trained = {proxy: mean(train, proxy) for proxy in known}
        found: dict[str, ChosenProxy] = {}
        for name in ("kendall", "partial_tau"):
            values = {proxy: float(getattr(own, name)[0]) for proxy, own in trained.items()}
            if finite := {proxy: value for proxy, value in values.items() if np.isfinite(value)}:
                best = max(finite, key=lambda proxy: finite[proxy])
                test_metrics = mean(test, best).summary()
                found[name] = ChosenProxy(proxy=best, train=finite[best], test=test_metrics)
        return ProxyChoiceOnSplit(train=len(train), test=len(test), by=found)

    def _evolved_on(
        self, make_set: MakeSet, scores: Mapping[str, ScoresByDataset]
    ) -> dict[str, EvolvedProxyOverlap]:
        """Return how many networks each proxy was evolved on, and how well it ranks the others."""
        found = {}
        for proxy, trained in self._trained.items():
            seen = [n for n, arch in enumerate(self.benchmark.architectures) if arch in trained]
            if not seen:
                continue
            own = scores[proxy]
            others = tuple(sorted({*_valid(np.concatenate(list(own.values())))} - {*seen}))
            metrics = None
            if len(others) > 1:
                rest = {dataset: values[:, others] for dataset, values in own.items()}
                metrics = make_set(others).mean(rest).summary()
            found[proxy] = EvolvedProxyOverlap(
                networks=len(seen), others=len(others), on_others=metrics
            )
        return found

    def _is_of_choices(self, proxy: str, scores: ScoresByDataset) -> bool:
        """Return whether a proxy is a function of the architecture's choices alone."""
        if proxy in SIZE_PROXIES:
            return True
        if proxy in self.proxies.trees and not statistics(self.proxies.trees[proxy]):
            return True
        own = np.stack(list(scores.values()))  # [datasets, seeds, networks]
        own = own[..., np.isfinite(own).all(axis=(0, 1))]
        several = own.shape[1] > 1 and own.shape[2] > 1
        return several and seed_variance_share(np.moveaxis(own, 1, 0)) < SEED_SHARE


def failed_networks(lines: Sequence[RankLogLine]) -> set[int]:
    """Return the networks that failed with any seed: they are left out for all proxies."""
    return {line.network for line in lines if line.failure}


def _interval_of_mean(
    correlation: Correlation, scores: Floats, truth: Floats, seed: int
) -> Interval:
    """Return the interval of the mean over the seeds."""

    def mean(left: ArrayLike, right: ArrayLike) -> Floats:
        return np.asarray(correlation(np.moveaxis(np.asarray(left), -1, 0), right).mean(axis=0))

    if len(truth) < 2:
        return None, None
    low, high = bootstrap_interval(mean, scores.T, truth, seed)
    return finite_or_none(low), finite_or_none(high)


def _valid(scores: Floats) -> tuple[int, ...]:
    """Return the networks with all scores [seeds, networks]."""
    return tuple(np.flatnonzero(np.isfinite(scores).all(axis=0)).tolist())


def _left_out(
    failed: Container[int], scores: Mapping[str, ScoresByDataset]
) -> dict[str, dict[str, int]]:
    """Count the networks without a score by a proxy on some dataset, for each reason."""
    found: dict[str, dict[int, str]] = defaultdict(dict)
    for proxy, own in scores.items():
        for values in own.values():
            for network in np.flatnonzero(~np.isfinite(values).all(axis=0)).tolist():
                found[proxy][network] = NETWORK_FAILED if network in failed else NOT_FINITE
    return {proxy: dict(Counter(reasons.values())) for proxy, reasons in found.items()}
