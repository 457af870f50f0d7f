"""Baselines: what ranks networks without measuring any, by their sizes or by a regression.

The regressions are fitted to the true scores of some networks. Both predict ranks, because a few
failed trainings would dominate the squared error of the accuracies.
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import rankdata

from autoprox.benchmarks import Benchmark
from autoprox.scoring.correlations import Floats, ScoresByDataset, evenly_spaced_indices
from autoprox.searchspaces import Architecture, SearchSpace, get_space
from autoprox.searchspaces.language_model_bases import TokenSpace
from autoprox.searchspaces.space import choice_values

RIDGE_ALPHAS = (0.01, 0.1, 1.0, 10.0, 100.0, 1000.0)
RESTARTS = 2  # of the search for a Gaussian process's hyperparameters
MAX_HYPERPARAMETER_LABELS = 200  # labels among which they are searched: the time is cubic in them
FOLDS = 5  # of a cross-fitted regression

Regression = Callable[[ArrayLike, ArrayLike, ArrayLike], Floats]


class GaussianPredictions(NamedTuple):
    """Means and standard deviations of predicted ranks; the deviations include the noise."""

    mean: Floats
    deviation: Floats


def ridge_predictions(
    features: ArrayLike, labels: ArrayLike, wanted: ArrayLike, alpha: float | None = None
) -> Floats:
    """Predict ranks from the `wanted` features, by a ridge regression on labelled networks.

    Features are standardised on the labelled networks and left out if constant there. Without
    `alpha`, the one of RIDGE_ALPHAS with the least leave-one-out error on them is taken.
    """
    x, predicted, ranks = _standardised(features, labels, wanted)
    target = ranks - ranks.mean()
    u, s, vt = np.linalg.svd(x, full_matrices=False)

    def leave_one_out_error(strength: float) -> float:
        shrunk = s**2 / (s**2 + strength)
        leverage = (u**2) @ shrunk + 1 / len(x)
        residual = target - u @ (shrunk * (u.T @ target))
        return float(np.sum((residual / (1 - leverage)) ** 2))

    best = min(RIDGE_ALPHAS, key=leave_one_out_error) if alpha is None else alpha
    coefficients = vt.T @ (s / (s**2 + best) * (u.T @ target))
    return np.asarray(predicted @ coefficients + ranks.mean())


def gaussian_process_predictions(
    features: ArrayLike, labels: ArrayLike, wanted: ArrayLike
) -> GaussianPredictions:
    """Predict ranks from the `wanted` features, by a Gaussian process on labelled networks.

    The kernel is a scaled RBF on standardised features plus white noise; its hyperparameters have
    the greatest marginal likelihood. They are searched from a few fixed starts.
    """
    # Imported here, because it takes a while and most commands need no regression.
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

    x, predicted, ranks = _standardised(features, labels, wanted)
    center, spread = ranks.mean(), ranks.std()
    if not (x.size and spread):
        return GaussianPredictions(*(np.full(len(predicted), v) for v in (center, spread)))
    target = (ranks - center) / spread
    kernel = ConstantKernel() * RBF(np.sqrt(x.shape[1])) + WhiteKernel(0.1)
    some = evenly_spaced_indices(len(x), MAX_HYPERPARAMETER_LABELS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # bounds that the search has reached
        process = GaussianProcessRegressor(kernel, n_restarts_optimizer=RESTARTS, random_state=0)
        process.fit(x[some], target[some])
        if len(some) < len(x):
            process = GaussianProcessRegressor(process.kernel_, optimizer=None).fit(x, target)
        mean, deviation = process.predict(predicted, return_std=True)
    return GaussianPredictions(mean * spread + center, deviation * spread)


def _gaussian_process_means(features: ArrayLike, labels: ArrayLike, wanted: ArrayLike) -> Floats:
    return gaussian_process_predictions(features, labels, wanted).mean


REGRESSIONS: Mapping[str, Regression] = MappingProxyType(
    {"ridge": ridge_predictions, "gaussian-process": _gaussian_process_means}
)


def regression_features(kind: str, space: SearchSpace, archs: Sequence[Architecture]) -> Floats:
    """Return the features [networks, features] of a kind of regression.

    A ridge regression has those of the space. A Gaussian process also has the logarithms of the
    parameters and FLOPs, and the mean logarithm of each choice over the layers.
    """
    columns = [space.features(arch) for arch in archs]
    if kind == "gaussian-process":
        names = _counting_choices(space)
        columns = [
            (
                *own,
                *np.log([space.params(arch), space.flops(arch)]).tolist(),
                *(fmean(np.log1p(choice_values(arch[n]) or (0,)).tolist()) for n in names),
            )
            for own, arch in zip(columns, archs, strict=True)
        ]
    return np.array(columns, dtype=np.float64)


def regression_scores(kind: str, features: ArrayLike, truth: ArrayLike, train: ArrayLike) -> Floats:
    """Score all networks by a regression on the true scores of the training networks."""
    x, rows = np.asarray(features, dtype=np.float64), np.asarray(train)
    return REGRESSIONS[kind](x[rows], np.asarray(truth, dtype=np.float64)[rows], x)


def network_sizes(benchmark: Benchmark) -> dict[str, dict[str, Floats]]:
    """Return parameters, FLOPs and depth of a benchmark's networks, by dataset.

    Those of language models have their parameters without the embeddings, too.
    """
    space, archs = get_space(benchmark.space), benchmark.architectures
    counts = {"params": space.params, "flops": space.flops}
    found = {
        name: {
            dataset: np.array([count(arch, classes) for arch in archs], dtype=float)
            for dataset, classes in benchmark.classes.items()
        }
        for name, count in counts.items()
    }
    depths = np.array([len(space.blocks(arch)) for arch in archs], dtype=float)
    found["depth"] = dict.fromkeys(benchmark.classes, depths)
    if isinstance(space, TokenSpace):
        left = np.array([space.non_embedding_params(arch) for arch in archs], dtype=float)
        found["non-embedding"] = dict.fromkeys(benchmark.classes, left)
    return found


def regression_baselines(
    benchmark: Benchmark, train: Sequence[int] | None = None, labels: int | None = None
) -> dict[str, dict[str, Floats]]:
    """Score all networks by each regression, fitted to the training networks.

    Without these it is cross-fitted: the networks of each fold are scored by a regression on the
    other folds, or on as many `labels` drawn from them.
    """
    space, archs = get_space(benchmark.space), benchmark.architectures
    found: dict[str, dict[str, Floats]] = {}
    for kind in REGRESSIONS:
        x = regression_features(kind, space, archs)
        found[kind] = {
            dataset: _cross_fitted(kind, x, truth, labels)
            if train is None
            else regression_scores(kind, x, truth, train)
            for dataset, truth in benchmark.scores.items()
        }
    return found


def baselines(
    benchmark: Benchmark, train: Sequence[int] | None = None
) -> dict[str, ScoresByDataset]:
    """Return the scores of all baselines: sizes, and regressions as `regression_baselines` has."""
    return {**network_sizes(benchmark), **regression_baselines(benchmark, train)}


def _cross_fitted(kind: str, features: Floats, truth: Floats, labels: int | None) -> Floats:
    every = np.arange(len(truth))
    fold = every % FOLDS
    fitted = []
    for own in range(FOLDS):
        others = np.random.default_rng(own).permutation(every[fold != own])[:labels]
        fitted.append(regression_scores(kind, features, truth, np.sort(others)))
    return np.choose(fold, fitted)


def _standardised(
    features: ArrayLike, labels: ArrayLike, wanted: ArrayLike
) -> tuple[Floats, Floats, Floats]:
    """Return both sets of features as standardised on the first, and the ranks of its labels."""
    x, predicted = (np.asarray(own, dtype=np.float64) for own in (features, wanted))
    kept = np.ptp(x, axis=0) > 0
    mean, deviation = x[:, kept].mean(axis=0), x[:, kept].std(axis=0)
    ranks = rankdata(np.asarray(labels, dtype=np.float64))
    return (x[:, kept] - mean) / deviation, (predicted[:, kept] - mean) / deviation, ranks


def _counting_choices(space: SearchSpace) -> list[str]:
    """Return the fields all of whose options are numbers of at least 0."""
    return [
        name
        for name, field in space.fields.items()
        if all(isinstance(own, int | float) and own >= 0 for row in field.options for own in row)
    ]
