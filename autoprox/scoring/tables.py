"""What scores are worth on some networks of a benchmark, beside the baselines."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from autoprox.benchmarks import Benchmark
from autoprox.scoring.correlations import TIES, Floats, kendall, pearson, ridge_scores, spearman
from autoprox.scoring.regret import SHARES, budget_table, regrets
from autoprox.scoring.resampling import Sample, Worth, count_equal_pairs, mean_worth, plain, worth
from autoprox.searchspaces import get_space

Row = dict[str, Any]  # kendall, given_size, equal_size, their intervals, spearman, pearson, ...
Table = dict[str, Row]  # by dataset
Scores = Mapping[str, Floats]  # by dataset

MOSTLY_SIZE = 0.8  # a tau with the parameters or FLOPs, from which on a proxy is mostly size


class Judge:
    """Some networks of a benchmark, what they are truly worth, and bootstrap draws of them."""

    def __init__(
        self, benchmark: Benchmark, networks: Sequence[int], seed: int, ties: str = "nothing"
    ) -> None:
        self.networks = list(networks)
        self.truth = {d: values[self.networks] for d, values in benchmark.scores.items()}
        self._benchmark, self._seed, self._ties = benchmark, seed, ties

    @cached_property
    def sample(self) -> Sample:
        """The bootstrap draws, the same for all that is compared."""
        return Sample(len(self.networks), self._seed)

    @cached_property
    def sizes(self) -> dict[str, dict[str, Floats]]:
        """By dataset, which the head depends on: parameters, FLOPs and depth."""
        found = sizes(self._benchmark)
        return {
            name: {dataset: column[self.networks] for dataset, column in columns.items()}
            for name, columns in found.items()
        }

    def worth(self, scores: Floats, dataset: str) -> Worth:
        """Of the networks' scores on a dataset; of [seeds, networks], the mean over the seeds."""
        truth, params = self.truth[dataset], self.sizes["params"][dataset]
        return mean_worth(
            [worth(own, truth, params, self.sample, self._ties) for own in np.atleast_2d(scores)]
        )

    def mean(self, scores: Scores) -> Worth:
        """Over the datasets."""
        return mean_worth([self.worth(own, dataset) for dataset, own in scores.items()])

    def table(self, scores: Scores) -> Table:
        """A row for each dataset."""
        return {dataset: self._row(own, dataset) for dataset, own in scores.items()}

    def _row(self, scores: Floats, dataset: str) -> Row:
        truth, params = self.truth[dataset], self.sizes["params"][dataset]
        each = np.atleast_2d(scores)
        known = bool(np.isfinite(each).all())
        return {
            **self.worth(scores, dataset).row(),
            "tau_b": plain(kendall(each, truth).mean()),
            "spearman": plain(spearman(each, truth).mean()),
            "pearson": plain(pearson(each, truth).mean()),
            "regret": np.mean([regrets(own, truth, params) for own in each], axis=0).tolist()
            if known
            else [None] * len(SHARES),
        }

    def budgets(self) -> dict[str, Any]:
        """Those of the regrets, and how many networks are within each."""
        return {dataset: budget_table(own) for dataset, own in self.sizes["params"].items()}

    def size_check(self, scores: Scores) -> dict[str, Any]:
        """The scores' taus with parameters, FLOPs and depth, means over the datasets."""
        found: dict[str, Any] = {"networks": len(self.networks), "pairs": self.pairs}
        for name, columns in self.sizes.items():
            taus = [TIES[self._ties](own, columns[d]).mean() for d, own in scores.items()]
            found[name] = plain(np.mean(taus))
        return found

    @property
    def pairs(self) -> int:
        """How many pairs of networks are of equal size; where the head matters, the fewest."""
        return min(map(count_equal_pairs, self.sizes["params"].values()))


def mostly_size(check: Mapping[str, Any]) -> bool:
    """Whether a `size_check` says that a proxy is mostly size."""
    return any(abs(check[name] or 0) >= MOSTLY_SIZE for name in ("params", "flops"))


def sizes(benchmark: Benchmark) -> dict[str, dict[str, Floats]]:
    """Parameters, FLOPs and depth of all networks of a benchmark, by dataset."""
    space, archs = get_space(benchmark.space), benchmark.architectures
    depths = np.array([len(space.blocks(arch)) for arch in archs], dtype=float)
    counts = {"params": space.params, "flops": space.flops}
    return {
        **{
            name: {
                dataset: np.array([count(arch, classes) for arch in archs], dtype=float)
                for dataset, classes in benchmark.classes.items()
            }
            for name, count in counts.items()
        },
        "depth": dict.fromkeys(benchmark.classes, depths),
    }


def baselines(benchmark: Benchmark) -> dict[str, dict[str, Floats]]:
    """Scores of all networks that need neither a proxy nor the truth: parameters and FLOPs."""
    found = sizes(benchmark)
    return {name: found[name] for name in ("params", "flops")}


def fitted_ridge(benchmark: Benchmark, train: Sequence[int]) -> dict[str, Floats]:
    """Scores of all networks by a regression on the choices, fitted to some, for each dataset."""
    space = get_space(benchmark.space)
    features = [space.features(arch) for arch in benchmark.architectures]
    return {d: ridge_scores(features, truth, train) for d, truth in benchmark.scores.items()}


def cross_fitted_ridge(benchmark: Benchmark, folds: int = 5) -> dict[str, Floats]:
    """Such scores, those of each fold fitted to the other folds."""
    every = np.arange(len(benchmark.architectures))
    fold = every % folds
    fitted = [fitted_ridge(benchmark, every[fold != own]) for own in range(folds)]
    return {
        dataset: np.choose(fold, [own[dataset] for own in fitted]) for dataset in benchmark.scores
    }
