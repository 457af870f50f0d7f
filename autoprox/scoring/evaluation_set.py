"""How well scores rank some networks of a benchmark, next to the baselines."""

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from autoprox.benchmarks import Benchmark
from autoprox.files.json_documents import JSONDocument
from autoprox.scoring.baselines import network_sizes
from autoprox.scoring.bootstrap import (
    BootstrapMetrics,
    BootstrapSample,
    Number,
    RankingMetrics,
    bootstrap_metrics,
    count_near_size_pairs,
    finite_or_none,
    mean_metrics,
)
from autoprox.scoring.correlations import (
    TIES,
    Floats,
    ScoresByDataset,
    kendall,
    pearson,
    spearman,
)

MOSTLY_SIZE = 0.8  # a proxy whose tau with the parameters or FLOPs reaches this is mostly size
BUDGET_SHARES = (0.2, 0.4, 0.6, 0.8, 1.0)  # of the networks, smallest first, within each budget
SEED_SHARE = 0.01  # scores that change less with the seed are a function of the choices alone


class DatasetMetrics(RankingMetrics):
    """How well scores rank the networks of one dataset."""

    tau_b: Number
    spearman: Number
    pearson: Number
    regret: tuple[Number, ...]  # of the pick within each of five parameter budgets


MetricsTable = dict[str, DatasetMetrics]  # by dataset


class ParameterBudgets(JSONDocument):
    """Parameter budgets of a regret table, and the number of networks within each."""

    params: list[int]
    networks: list[int]


class SizeCorrelations(JSONDocument):
    """Kendall tau of the scores with parameters, FLOPs and depth, means over the datasets."""

    networks: int
    pairs: int  # near in size
    params: Number
    flops: Number
    depth: Number

    @property
    def mostly_size(self) -> bool:
        """Whether the scores are mostly size."""
        return any(abs(tau or 0) >= MOSTLY_SIZE for tau in (self.params, self.flops))


class EvaluationSet:
    """Some networks of a benchmark, their true scores, and bootstrap draws of them."""

    def __init__(
        self, benchmark: Benchmark, networks: Sequence[int], seed: int, ties: str = "unordered"
    ) -> None:
        self.networks = list(networks)
        self.truth = {d: values[self.networks] for d, values in benchmark.scores.items()}
        self._benchmark, self._seed, self._ties = benchmark, seed, ties

    @cached_property
    def sample(self) -> BootstrapSample:
        """The bootstrap draws, the same for everything that is compared."""
        return BootstrapSample(len(self.networks), self._seed)

    @cached_property
    def sizes(self) -> dict[str, dict[str, Floats]]:
        """The counts of `network_sizes` by dataset, whose classes the head depends on."""
        return {
            name: {dataset: column[self.networks] for dataset, column in columns.items()}
            for name, columns in network_sizes(self._benchmark).items()
        }

    @property
    def pairs(self) -> int:
        """The number of pairs that are near in size, on the dataset that has the fewest."""
        return min(map(count_near_size_pairs, self.sizes["params"].values()))

    def metrics(self, scores: Floats, dataset: str) -> BootstrapMetrics:
        """Measure scores [networks] of a dataset, or the mean over seeds of [seeds, networks]."""
        truth, params = self.truth[dataset], self.sizes["params"][dataset]
        each = np.atleast_2d(scores)
        return mean_metrics(
            [bootstrap_metrics(own, truth, params, self.sample, self._ties) for own in each]
        )

    def mean(self, scores: ScoresByDataset) -> BootstrapMetrics:
        """Return the mean metrics over the datasets."""
        return mean_metrics([self.metrics(own, dataset) for dataset, own in scores.items()])

    def table(self, scores: ScoresByDataset) -> MetricsTable:
        """Return all metrics of each dataset."""
        return {dataset: self._row(own, dataset) for dataset, own in scores.items()}

    def _row(self, scores: Floats, dataset: str) -> DatasetMetrics:
        truth, params = self.truth[dataset], self.sizes["params"][dataset]
        each = np.atleast_2d(scores)
        lost: list[Number] = [None] * len(BUDGET_SHARES)
        if np.isfinite(each).all():
            lost = np.mean([regrets(own, truth, params) for own in each], axis=0).tolist()
        return DatasetMetrics(
            **self.metrics(scores, dataset).summary().model_dump(),
            tau_b=finite_or_none(kendall(each, truth).mean()),
            spearman=finite_or_none(spearman(each, truth).mean()),
            pearson=finite_or_none(pearson(each, truth).mean()),
            regret=tuple(lost),
        )

    def budgets(self) -> dict[str, ParameterBudgets]:
        """Return the budgets of the regrets, by dataset."""
        return {dataset: regret_budgets(own) for dataset, own in self.sizes["params"].items()}

    def size_check(self, scores: ScoresByDataset) -> SizeCorrelations:
        """Return the taus of the scores with parameters, FLOPs and depth."""

        def tau(columns: ScoresByDataset) -> Number:
            taus = [TIES[self._ties](own, columns[d]).mean() for d, own in scores.items()]
            return finite_or_none(np.mean(taus))

        sizes = {name: tau(self.sizes[name]) for name in ("params", "flops", "depth")}
        return SizeCorrelations(networks=len(self.networks), pairs=self.pairs, **sizes)


def regret_budgets(params: Floats) -> ParameterBudgets:
    """Return five sizes, within the first of which are a fifth of the networks."""
    order = np.sort(params)
    found = [int(order[max(round(share * len(order)), 1) - 1]) for share in BUDGET_SHARES]
    return ParameterBudgets(
        params=found, networks=[int((params <= budget).sum()) for budget in found]
    )


def regrets(scores: Floats, truth: Floats, params: Floats) -> list[float]:
    """Return what the best-scored network within each budget loses to the best one there.

    Of networks with the same score, it is the mean.
    """
    found = []
    for budget in regret_budgets(params).params:
        own, true = scores[params <= budget], truth[params <= budget]
        found.append(float(true.max() - true[own == own.max()].mean()))
    return found


def seed_variance_share(scores: Floats) -> float:
    """Measure how much scores [seeds, ..., networks] change with the seed.

    It is the root mean square of the deviation among seeds over that among networks, the largest of
    all sets of scores; 0 for scores that are all the same.
    """
    among_seeds = np.sqrt(scores.var(axis=0, ddof=1).mean(axis=-1))
    among_networks = scores.mean(axis=0).std(axis=-1)
    tiny = np.finfo(float).tiny
    return float(np.max(among_seeds / np.maximum(among_networks, tiny), initial=0.0))
