"""How well proxies and regressions rank a table's networks, by the number of labels they had."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from autoprox.benchmarks import Benchmark
from autoprox.evaluation.term_scores import TermScores
from autoprox.evolution.prior_fit import committee, shrunken_fit
from autoprox.scoring.baselines import network_sizes, regression_features, regression_scores
from autoprox.scoring.correlations import TIES, Floats, Indices, ScoresByDataset
from autoprox.scoring.expected_improvement import predicted_scores
from autoprox.searchspaces import get_space

PARAMS, BEST_OF_ZOO = "parameters", "best of the zoo"
RIDGE, PROCESS = "ridge", "Gaussian process"
SCRATCH, WITH_PRIOR = "power law from scratch", "power law with the prior"
PROCESS_WITH_PRIOR = "Gaussian process with the prior"
METHODS = (PARAMS, BEST_OF_ZOO, RIDGE, PROCESS, SCRATCH, WITH_PRIOR, PROCESS_WITH_PRIOR)
Taus = dict[str, float]  # by method


@dataclass(frozen=True)
class CurveTable:
    """What the methods read of a table: arrays are [datasets, networks], of measurable networks."""

    truth: Floats
    params: Floats
    zoo: Mapping[str, Floats]
    features: Mapping[str, Floats]  # of each kind of regression, [networks, features]
    terms: TermScores
    prior: Floats  # the logarithm of the prior
    correlation: float  # of the prior, as expected
    ties: str
    size: int  # terms of a power law at most

    @classmethod
    def of(
        cls,
        benchmark: Benchmark,
        terms: TermScores,
        exponents: Sequence[float],
        zoo: Mapping[str, ScoresByDataset],
        *,
        correlation: float,
        ties: str,
        size: int,
    ) -> "CurveTable":
        """Collect a table; `exponents` are those of the prior's terms, `terms.fixed`."""
        space, chosen = get_space(benchmark.space), terms.networks
        archs = [benchmark.architectures[n] for n in chosen]

        def stacked(scores: ScoresByDataset) -> Floats:
            return np.stack([np.asarray(scores[own])[chosen] for own in benchmark.datasets])

        return cls(
            truth=stacked(benchmark.scores),
            params=stacked(network_sizes(benchmark)["params"]),
            zoo={name: stacked(own) for name, own in zoo.items()},
            features={
                kind: regression_features(kind, space, archs)
                for kind in ("ridge", "gaussian-process")
            },
            terms=terms,
            prior=np.asarray(exponents) @ terms.fixed,
            correlation=correlation,
            ties=ties,
            size=size,
        )

    @property
    def networks(self) -> int:
        """The number of networks."""
        return int(self.truth.shape[1])

    def tau(self, scores: Floats, networks: Indices) -> float:
        """Return the mean over the datasets of Kendall's tau of some networks.

        Scores that are all equal, as of a regression that finds nothing, have a tau of 0.
        """
        tau = TIES[self.ties]
        pairs = zip(scores[:, networks], self.truth[:, networks], strict=True)
        return float(np.mean(np.nan_to_num([tau(own, truth) for own, truth in pairs])))

    def scores(self, labels: Indices, seed: int) -> dict[str, Floats]:
        """Return the scores of all methods that have labels enough, [datasets, networks]."""
        found = {PARAMS: self.params, WITH_PRIOR: self._with_prior(labels, seed)}
        if not len(labels):
            return found
        regressions: dict[str, Callable[[], Floats]] = {
            **({BEST_OF_ZOO: partial(self._best_of_zoo, labels)} if self.zoo else {}),
            RIDGE: partial(self._regression, "ridge", labels),
            PROCESS: partial(self._regression, "gaussian-process", labels),
            SCRATCH: partial(self._from_scratch, labels, seed),
            PROCESS_WITH_PRIOR: partial(self._process_with_prior, labels),
        }
        found |= {name: own() for name, own in regressions.items()}
        return {name: found[name] for name in METHODS if name in found}

    def _rows(self, values: Floats) -> Floats:
        return values.reshape(self.truth.shape)

    def _with_prior(self, labels: Indices, seed: int) -> Floats:
        own = self.terms.labelled
        rows = own.rows_of(labels)
        fit = shrunken_fit(
            self.prior, self.correlation, self.terms.logs, own, rows, self.size, seed=seed
        )
        return self._rows(fit.scores)

    def _from_scratch(self, labels: Indices, seed: int) -> Floats:
        """Return the mean of power laws that are chosen on random parts of the labels."""
        own = self.terms.labelled
        rows = own.rows_of(labels)
        known = own.with_target_of(rows)
        exponents = committee(self.terms.logs, known, rows, self.size, seed=seed)
        return self._rows(exponents @ own.centred(self.terms.logs, rows))

    def _best_of_zoo(self, labels: Indices) -> Floats:
        """Return the scores of the published proxy that ranks the labelled networks best."""
        candidates = {name: s for name, s in self.zoo.items() if np.isfinite(s).all()}
        taus = {name: self.tau(own, labels) for name, own in candidates.items()}
        return candidates[max(taus, key=lambda name: taus[name])]

    def _regression(self, kind: str, labels: Indices) -> Floats:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            return np.stack(
                [
                    regression_scores(kind, self.features[kind], truth, labels)
                    for truth in self.truth
                ]
            )

    def _process_with_prior(self, labels: Indices) -> Floats:
        """Return what the predictor of an evolution on the labelled networks would predict."""
        features, priors = self.features["gaussian-process"], self._rows(self.prior)
        known = labels.tolist()
        pairs = zip(priors, self.truth, strict=True)
        return np.stack(
            [predicted_scores(features, own, known, truth[known]) for own, truth in pairs]
        )


def draw_taus(table: CurveTable, counts: Sequence[int], draw: int, seed: int) -> dict[int, Taus]:
    """Return the methods' taus on the other networks for each number of labels, drawn at random.

    The first labels of a draw are among its further ones.
    """
    order = np.random.default_rng([seed, draw]).permutation(table.networks)
    found: dict[int, Taus] = {}
    for count in counts:
        labels, rest = np.sort(order[:count]), np.sort(order[count:])
        scores = table.scores(labels, draw)
        found[count] = {name: table.tau(own, rest) for name, own in scores.items()}
    return found
