"""Gaussian processes on choices and proxies, and which networks to train next by them.

A process predicts normal scores of true scores. Its mean is the proxies' scores, weighted, which
it corrects by a constant, by slopes of the proxies, and by a function of the networks' features:
the sum of an RBF kernel and a linear one. All predictions are averaged over a fixed grid of
hyperparameters, weighted by their likelihood; few labels can't tell one from another.
"""

from collections.abc import Callable, Sequence
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial.distance import cdist
from scipy.stats import norm

from autoprox.scoring.correlations import Floats, normal_scores

PRIOR_WEIGHT = 0.5  # of the proxies: about the correlation that a good one has
OFFSET, SLOPE = 1.0, 0.5  # prior deviations of the constant, and of the proxies' slopes
LENGTHS = (0.5, 1.0, 2.0)  # of the RBF kernel, on standardised features over their number's root
LINEAR_SHARES = (0.0, 0.5)
VARIANCES = (0.25, 1.0)  # of the function of the features
NOISES = (0.1, 0.3, 1.0)
JITTER = 1e-9
MIN_LABELS = 3  # fewer tell too little
MOST_VALUES = 2**24  # of kernels that are in memory at once

Acquisition = Callable[[Floats, Floats, float], Floats]


class WeightedPredictions(NamedTuple):
    """Predictions by each set of hyperparameters, and the weights of these."""

    weight: Floats  # [sets]
    mean: Floats  # [sets, networks]
    deviation: Floats  # [sets, networks], the noise included
    noise: Floats  # [sets, 1], its variance


def joint_normal_scores(truth: Floats) -> Floats:
    """Return the mean of the normal scores of all rows [datasets, networks]."""
    return np.asarray(np.mean([normal_scores(row) for row in truth], axis=0))


def expected_improvement(mean: Floats, deviation: Floats, best: float) -> Floats:
    """Return the mean of max(0, score - best) for normal scores."""
    gain, spread = mean - best, np.maximum(deviation, JITTER)
    return np.asarray(gain * norm.cdf(gain / spread) + spread * norm.pdf(gain / spread))


class ScoreProcess:
    """A Gaussian process on networks with features [networks, features] and scores of proxies."""

    def __init__(
        self,
        features: ArrayLike,
        proxies: Sequence[ArrayLike] = (),
        weight: float = PRIOR_WEIGHT,
        lengths: Sequence[float] = LENGTHS,
        linear_shares: Sequence[float] = LINEAR_SHARES,
        noises: Sequence[float] = NOISES,
    ) -> None:
        x = np.asarray(features, dtype=np.float64)
        x = x[:, np.ptp(x, axis=0) > 0]
        self._x = (x - x.mean(axis=0)) / x.std(axis=0) / np.sqrt(max(x.shape[1], 1))
        columns = [normal_scores(scores) for scores in proxies]
        self._z = np.array(columns).reshape(len(columns), len(x)).T
        together = self._z.sum(axis=1)
        spread = together.std()
        self.prior_mean = weight * together / spread if spread else np.zeros(len(x))
        self._grid = list(product(lengths, linear_shares, VARIANCES, noises))

    @classmethod
    def standardised_on(
        cls, known: Sequence[int], features: ArrayLike, proxy: ArrayLike
    ) -> "ScoreProcess":
        """Return the process whose features and proxy are standardised on some networks alone.

        So what is predicted of a network doesn't depend on the others. The logarithms of a proxy
        [networks] take the place of its normal scores.
        """
        x, rows = np.asarray(features, dtype=np.float64), np.asarray(known, dtype=int)
        x = x[:, np.ptp(x[rows], axis=0) > 0]
        z = np.asarray(proxy, dtype=np.float64)
        spread = z[rows].std()
        found = cls(np.zeros((len(x), 1)))
        found._x = (x - x[rows].mean(axis=0)) / x[rows].std(axis=0) / np.sqrt(max(x.shape[1], 1))
        found._z = ((z - z[rows].mean()) / spread if spread else np.zeros(len(z)))[:, None]
        found.prior_mean = PRIOR_WEIGHT * found._z[:, 0]
        return found

    def predict(self, known: Sequence[int], labels: ArrayLike) -> WeightedPredictions:
        """Predict all networks from the labels of those that are known."""
        y, rows = np.asarray(labels, dtype=np.float64), np.asarray(known, dtype=int)
        x, z = self._x[rows], self._z[rows]
        distances, products = cdist(x, self._x, "sqeuclidean"), x @ self._x.T
        shared = OFFSET**2 + SLOPE**2 * z @ self._z.T
        own = OFFSET**2 + SLOPE**2 * np.sum(self._z**2, axis=1)
        squares = np.sum(self._x**2, axis=1)
        residual = (y - self.prior_mean[rows])[:, None]
        together = max(1, MOST_VALUES // max(distances.size, 1))  # sets that memory is spent on
        parts = []
        for start in range(0, len(self._grid), together):
            lengths, linear, variances, noises = (
                np.array(column)[:, None, None]
                for column in zip(*self._grid[start : start + together], strict=True)
            )
            kernel = shared + variances * (
                (1 - linear) * np.exp(-distances / (2 * lengths**2)) + linear * products
            )
            prior = own + (variances * (1 - linear + linear * squares))[:, 0]
            lower = np.linalg.cholesky(kernel[:, :, rows] + (noises + JITTER) * np.eye(len(rows)))
            whitened, half = np.linalg.solve(lower, residual), np.linalg.solve(lower, kernel)
            determinant = np.sum(np.log(np.diagonal(lower, axis1=1, axis2=2)), axis=1)
            likelihood = -0.5 * np.sum(whitened**2, axis=(1, 2)) - determinant
            mean = self.prior_mean + np.sum(half * whitened, axis=1)
            variance = np.maximum(prior - np.sum(half**2, axis=1), 0) + noises[:, 0]
            parts.append((likelihood, mean, np.sqrt(variance), noises[:, 0]))
        likelihoods, means, deviations, noise = map(np.concatenate, zip(*parts, strict=True))
        weight = np.exp(likelihoods - likelihoods.max())
        return WeightedPredictions(weight / weight.sum(), means, deviations, noise)


def predicted_scores(
    features: ArrayLike, proxy: ArrayLike, known: Sequence[int], truth: ArrayLike
) -> Floats:
    """Predict the normal scores of all networks from the true scores of those that are known.

    The prior mean is a proxy, by its logarithms [networks].
    """
    process = ScoreProcess.standardised_on(known, features, proxy)
    found = process.predict(known, normal_scores(truth))
    return np.asarray(found.weight @ found.mean)


def next_networks(
    process: ScoreProcess,
    known: Sequence[int],
    labels: ArrayLike,
    candidates: Sequence[int],
    count: int,
    acquisition: Acquisition = expected_improvement,
    pending: Sequence[int] = (),
) -> list[int]:
    """Choose among the candidates, one after the other; each is then believed to be as predicted.

    So the deviation near it shrinks, and the next one is another. The same is believed of those
    that are pending, and of all that are known if there are fewer than MIN_LABELS labels or all are
    equal. Without any, the first is the one with the greatest prior mean. As soon as something is
    believed, the deviation has no noise: with it, near duplicates would seem to promise more.
    """
    y = [float(label) for label in np.asarray(labels, dtype=np.float64)]
    rows = list(known)
    learns = len(y) >= MIN_LABELS and min(y) < max(y)
    if not learns:
        y = process.prior_mean[rows].tolist()
    left, chosen = list(candidates), list[int]()
    waiting = list(pending)
    while left and len(chosen) < count:
        mean = values = process.prior_mean
        if rows:
            found = process.predict(rows, y)
            mean = found.weight @ found.mean
            deviation = found.deviation
            if chosen or len(pending) or not learns:
                deviation = np.sqrt(np.maximum(deviation**2 - found.noise, 0))
            values = found.weight @ acquisition(found.mean, deviation, max(y))
        if waiting:
            new = waiting
            waiting = []
        else:
            new = [max(left, key=lambda index: float(values[index]))]
            left.remove(new[0])
            chosen += new
        rows += new
        y += mean[new].tolist()
    return chosen
