"""Correlations of scores and true scores, in batches, and the joint correlation metric."""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from types import MappingProxyType

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import norm, rankdata

from autoprox.errors import AutoproxError

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]
ScoresByDataset = Mapping[str, Floats]
Correlation = Callable[[ArrayLike, ArrayLike], Floats]

RELATIVE_SPREAD = 1e-12  # scores that differ by less, relative to the largest, differ by rounding

_PAIRS_AT_ONCE = 2**22  # 16 MiB of float32


def evenly_spaced_indices(count: int, most: int) -> Indices:
    """Return at most this many of `count` indices, at even distances, both ends among them."""
    steps = np.linspace(0, count - 1, min(most, count))
    return np.asarray(steps.round().astype(np.intp))


def normal_scores(values: ArrayLike) -> Floats:
    """Return the normal quantiles of the values' ranks."""
    ranks = rankdata(np.asarray(values, dtype=np.float64))
    return np.asarray(norm.ppf((ranks - 0.5) / len(ranks)))


def kendall(scores: ArrayLike, truth: ArrayLike) -> Floats:
    """Kendall's tau-b along the last axis; the leading axes broadcast.

    Like every correlation here, nan where either side holds a non-finite value or fewer than
    two distinct ones. The signs of the truth's pairs are remembered from call to call.
    """
    # With G[i, j] = [score i > score j] and S[i, j] = sign(truth i - truth j), the concordant
    # minus the discordant pairs are the sum of G * S, for S is antisymmetric.
    return _correlation(partial(_tau, tau_b=True), scores, truth)


def kendall_unordered_ties(scores: ArrayLike, truth: ArrayLike) -> Floats:
    """Tau-b times the root of the share of untied pairs of scores, whose ties count as unordered.

    It is the expected tau-b once tied scores are put in random order.
    """
    return _correlation(partial(_tau, tau_b=False), scores, truth)


def spearman(scores: ArrayLike, truth: ArrayLike) -> Floats:
    """Spearman's rho (average ranks for ties) along the last axis; the leading axes broadcast."""
    return _correlation(lambda x, y: _r(rankdata(x, axis=-1), rankdata(y, axis=-1)), scores, truth)


def pearson(scores: ArrayLike, truth: ArrayLike) -> Floats:
    """Pearson's r along the last axis; the leading axes broadcast."""
    return _correlation(_r, scores, truth)


CORRELATIONS: Mapping[str, Correlation] = MappingProxyType(
    {"kendall": kendall, "spearman": spearman, "pearson": pearson}
)
TIES: Mapping[str, Correlation] = MappingProxyType(
    {"unordered": kendall_unordered_ties, "tau-b": kendall}
)


def scores_vary(scores: Floats, tolerance: float = RELATIVE_SPREAD) -> NDArray[np.bool_]:
    """Return whether scores along the last axis are finite and differ by more than rounding.

    Scores that don't can't rank networks: evolution, search, rediscovery and correlations share
    this rule.
    """
    finite = np.asarray(np.isfinite(scores).all(axis=-1))
    known = np.where(finite[..., None], scores, 0.0)
    with np.errstate(over="ignore"):
        spread = known.max(axis=-1, initial=-np.inf) - known.min(axis=-1, initial=np.inf)
    largest = np.abs(known).max(axis=-1, initial=0.0)
    return np.asarray(finite & (spread > tolerance * largest))


def jcm(taus: ArrayLike, weights: Sequence[float] | None = None) -> Floats:
    """Joint correlation metric (Auto-Prox): (1/M) sum of alpha_i tau_i over the last axis.

    The weights alpha are scaled to the sum M, so that equal ones give the plain mean.
    """
    taus = np.asarray(taus, dtype=np.float64)
    datasets = taus.shape[-1]
    alpha = np.asarray([1.0] * datasets if weights is None else weights, dtype=np.float64)
    good = alpha.shape == (datasets,) and bool(np.all(np.isfinite(alpha) & (alpha >= 0)))
    if not good or not 0 < alpha.sum() < np.inf:
        raise AutoproxError(
            "dataset_weights must be one finite number >= 0 a dataset, not all 0, "
            f"but got {alpha.tolist()} for {datasets} datasets"
        )
    return np.asarray(np.mean(taus * (alpha * (datasets / alpha.sum())), axis=-1))


def _correlation(
    measure: Callable[[Floats, Floats], Floats], scores: ArrayLike, truth: ArrayLike
) -> Floats:
    left, right = np.asarray(scores, dtype=np.float64), np.asarray(truth, dtype=np.float64)
    if left.shape[-1:] != right.shape[-1:] or not left.ndim:
        raise ValueError(
            f"scores and truth must be of the same networks: {left.shape}, {right.shape}"
        )
    shape = np.broadcast_shapes(left.shape[:-1], right.shape[:-1])
    axes = max(left.ndim, right.ndim, 2)
    left, right = left[(None,) * (axes - left.ndim)], right[(None,) * (axes - right.ndim)]
    valid = scores_vary(left, tolerance=0.0) & scores_vary(right, tolerance=0.0)
    return np.where(valid, measure(left, right), np.nan).reshape(shape)


def _tau(scores: Floats, truth: Floats, tau_b: bool) -> Floats:
    """Tau, halving the longest leading axis until _PAIRS_AT_ONCE holds."""
    networks = scores.shape[-1]
    shape = np.broadcast_shapes(scores.shape[:-1], truth.shape[:-1])
    if math.prod(shape) * networks**2 > _PAIRS_AT_ONCE and max(shape) > 1:
        axis = shape.index(max(shape))
        halves = zip(_halves(scores, axis), _halves(truth, axis), strict=True)
        return np.concatenate([_tau(*half, tau_b) for half in halves], axis=axis)
    if truth.size * networks <= _PAIRS_AT_ONCE:
        signs, untied_truth = _remembered_signs(truth.tobytes(), truth.shape)
    else:
        signs, untied_truth = _pair_signs(truth)
    greater = (scores[..., :, None] > scores[..., None, :]).astype(signs.dtype)
    greater = greater.reshape(*scores.shape[:-1], 1, networks**2)
    surplus = (greater @ signs)[..., 0, 0].astype(np.float64)
    untied: Floats | float = math.comb(networks, 2)
    if tau_b:
        untied = greater.sum(axis=(-2, -1), dtype=np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.clip(surplus / np.sqrt(untied) / np.sqrt(untied_truth), -1, 1))


def _halves(array: Floats, axis: int) -> list[Floats]:
    return [array, array] if array.shape[axis] == 1 else np.array_split(array, 2, axis=axis)


def _pair_signs(truth: Floats) -> tuple[NDArray[np.floating], Floats]:
    """The signs of all pairs [..., networks^2, 1], and the number of untied pairs [...]."""
    networks = truth.shape[-1]
    # Sums of pair counts stay exact in float32 up to 2^24.
    dtype = np.float32 if networks**2 <= 2**24 else np.float64
    greater = truth[..., :, None] > truth[..., None, :]
    signs = greater.astype(dtype) - np.swapaxes(greater, -1, -2).astype(dtype)
    return signs.reshape(*truth.shape[:-1], networks**2, 1), greater.sum(
        axis=(-2, -1), dtype=np.float64
    )


@lru_cache(maxsize=16)
def _remembered_signs(data: bytes, shape: tuple[int, ...]) -> tuple[NDArray[np.floating], Floats]:
    return _pair_signs(np.frombuffer(data, dtype=np.float64).reshape(shape))


def _r(left: Floats, right: Floats) -> Floats:
    unit = _unit_deviations(left) * _unit_deviations(right)
    return np.asarray(np.clip(np.sum(unit, axis=-1), -1, 1))


def _unit_deviations(x: Floats) -> Floats:
    """Deviations from the mean, of norm 1; powers of two keep huge and tiny values in range."""
    with np.errstate(invalid="ignore", divide="ignore"):
        _, exponent = np.frexp(np.abs(x).max(axis=-1, keepdims=True))
        scaled = np.ldexp(x, -exponent)
        deviations = scaled - scaled.mean(axis=-1, keepdims=True)
        return np.asarray(deviations / np.linalg.norm(deviations, axis=-1, keepdims=True))
