"""Taus of many bootstrap draws at once, their intervals, and the differences of two proxies.

A draw is the number of times that each network occurs in it. The sum of any matrix [networks,
networks] over the draw's pairs is half of a quadratic form in these counts, so that no draw is ever
sorted. Two copies of one network are no pair.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Field

from autoprox.errors import AutoproxError
from autoprox.files.json_documents import JSONDocument
from autoprox.scoring.correlations import Correlation, Floats, Indices
from autoprox.scoring.fitness_correlations import partial_kendall

NEAR_SIZE_RATIO = 1.1  # a pair is near in size if the larger has less than this times the smaller
MIN_NEAR_SIZE_PAIRS = 30  # fewer give no tau
_SPLIT, _BOOTSTRAP = 0, 1  # independent streams of one seed

Number = float | None  # None if it isn't finite or can't be known
Interval = tuple[Number, Number]
Verdict = Literal["better", "not significantly different", "worse"]


class RankingMetrics(JSONDocument):
    """How well scores rank networks: taus, overall and with size taken out, with 95 % intervals."""

    kendall: Annotated[Number, Field(description="Kendall tau; tied scores count as unordered.")]
    interval: Interval
    partial_tau: Annotated[
        Number, Field(description="Partial tau, controlling for parameter count.")
    ]
    partial_tau_interval: Interval
    near_size_tau: Annotated[
        Number, Field(description="Tau over pairs whose parameters differ by less than 10 %.")
    ]
    near_size_tau_interval: Interval


class TauDifference(JSONDocument):
    """The difference of two taus, with the 95 % interval of a paired bootstrap."""

    difference: Number
    interval: Interval
    verdict: Verdict | None


class MetricDifferences(JSONDocument):
    """The differences of two proxies' metrics."""

    kendall: TauDifference
    partial_tau: TauDifference
    near_size_tau: TauDifference


class BootstrapSample:
    """Networks and bootstrap draws of them; every figure is [1 + draws], all networks first."""

    def __init__(self, networks: int, seed: int, draws: int = 1000) -> None:
        picks = bootstrap_picks(networks, seed, draws) + networks * np.arange(draws)[:, None]
        counts = np.bincount(picks.ravel(), minlength=networks * draws).reshape(draws, networks)
        self.counts = np.concatenate([np.ones((1, networks)), counts])
        self.pairs = 1.0 - np.eye(networks)

    def tau(
        self, scores: Floats, truth: Floats, ties: str = "unordered", among: Floats | None = None
    ) -> Floats:
        """Return Kendall's tau over all pairs, or `among` some; nan without two distinct values."""
        pairs = self.pairs if among is None else among
        left, right = (np.sign(x[:, None] - x[None, :]) for x in (scores, truth))
        surplus = self._total(left * right * pairs)
        compared = self._total(pairs if ties == "unordered" else np.abs(left) * pairs)
        if not left.any():
            return np.full(len(self.counts), np.nan)
        with np.errstate(divide="ignore", invalid="ignore"):
            return surplus / np.sqrt(compared * self._total(np.abs(right) * pairs))

    def _total(self, pairs: Floats) -> Floats:
        return np.asarray(((self.counts @ pairs) * self.counts).sum(axis=1) / 2)


@dataclass(frozen=True)
class BootstrapMetrics:
    """The metrics of scores on a sample of networks, each [1 + draws]."""

    kendall: Floats
    partial_tau: Floats
    near_size_tau: Floats  # nan of too few pairs

    def summary(self) -> RankingMetrics:
        """Return each metric on all networks, with its bootstrap 95 % interval."""
        figures: dict[str, Any] = {}
        for name, values in vars(self).items():
            figures[name] = finite_or_none(values[0])
            figures["interval" if name == "kendall" else f"{name}_interval"] = _interval(values)
        return RankingMetrics(**figures)

    def minus(self, other: "BootstrapMetrics") -> MetricDifferences:
        """Return the differences from another proxy's metrics, draw by draw, with verdicts."""
        return MetricDifferences(
            **{name: _difference(own - vars(other)[name]) for name, own in vars(self).items()}
        )


def bootstrap_metrics(
    scores: Floats, truth: Floats, params: Floats, sample: BootstrapSample, ties: str = "unordered"
) -> BootstrapMetrics:
    """Measure how well scores rank the sample's networks."""
    own, with_size = (sample.tau(scores, other, ties) for other in (truth, params))
    truth_with_size = sample.tau(truth, params, "tau-b")
    near = near_size_pairs(params)
    few = near.sum() / 2 < MIN_NEAR_SIZE_PAIRS
    near_size = np.full_like(own, np.nan) if few else sample.tau(scores, truth, ties, near)
    return BootstrapMetrics(own, partial_kendall(own, with_size, truth_with_size), near_size)


def mean_metrics(metrics: Sequence[BootstrapMetrics]) -> BootstrapMetrics:
    """Return the mean of each metric, draw by draw: over datasets, or over seeds."""
    columns = ([vars(own)[name] for own in metrics] for name in vars(metrics[0]))
    return BootstrapMetrics(*(reduce(np.add, column) / len(metrics) for column in columns))


def near_size_pairs(params: Floats, limit: float = NEAR_SIZE_RATIO) -> Floats:
    """Return [networks, networks]: 1 for each pair whose sizes differ by less than the limit."""
    larger = np.maximum(params[:, None], params[None, :])
    smaller = np.minimum(params[:, None], params[None, :])
    return (larger < limit * smaller) * (1.0 - np.eye(len(params)))


def count_near_size_pairs(params: Floats) -> int:
    """Count the pairs that are near in size."""
    return int(near_size_pairs(params).sum() / 2)


def standard_error(values: Floats) -> float:
    """Return the standard deviation of a figure [1 + draws] over the draws."""
    return float(np.nanstd(values[1:]))


def finite_or_none(value: Any) -> float | None:
    """Return a figure as JSON can hold it: None if it isn't finite."""
    return float(value) if np.isfinite(value) else None


def bootstrap_interval(
    correlation: Correlation, scores: ArrayLike, truth: ArrayLike, seed: int, draws: int = 1000
) -> tuple[float, float]:
    """Return the 95 % percentile interval of a correlation, networks drawn with replacement.

    `scores` and `truth` have the networks first; the correlation takes draws of them, [draws, ...].
    Draws with fewer than two distinct values on either side are skipped; (nan, nan) without others.
    """
    left, right = np.asarray(scores, dtype=np.float64), np.asarray(truth, dtype=np.float64)
    picks = bootstrap_picks(len(right), seed, draws)
    return percentile_interval(correlation(left[picks], right[picks]))


def bootstrap_picks(networks: int, seed: int, draws: int = 1000) -> Indices:
    """Draw networks with replacement: [draws, networks]."""
    high_bits = _random_integers(seed, _BOOTSTRAP, draws * networks) >> np.uint64(32)
    picks = ((high_bits * np.uint64(networks)) >> np.uint64(32)).astype(np.intp)
    return picks.reshape(draws, networks)


def percentile_interval(values: Floats) -> tuple[float, float]:
    """Return the central 95 % of the finite values; (nan, nan) without any."""
    values = values[np.isfinite(values)]
    if not values.size:
        return math.nan, math.nan
    low, high = np.percentile(values, [2.5, 97.5])
    return float(low), float(high)


def split_networks(networks: int, seed: int, train: float = 0.6) -> tuple[Indices, Indices]:
    """Split the networks' indices into a training and a test part, both sorted.

    The same on every platform and version: it draws on PCG64's guaranteed integer stream only.
    """
    count = round(networks * train)
    if not 0 < count < networks:
        raise AutoproxError(
            "a split must leave networks on both sides, "
            f"but got {networks} networks with {train:g} of them for training"
        )
    order = np.argsort(_random_integers(seed, _SPLIT, networks), kind="stable")
    return np.sort(order[:count]), np.sort(order[count:])


def _difference(values: Floats) -> TauDifference:
    low, high = percentile_interval(values[1:])
    verdict: Verdict = (
        "better" if low > 0 else "worse" if high < 0 else "not significantly different"
    )
    known = np.isfinite([values[0], low, high]).all()
    return TauDifference(
        difference=finite_or_none(values[0]),
        interval=_interval(values),
        verdict=verdict if known else None,
    )


def _interval(values: Floats) -> Interval:
    low, high = percentile_interval(values[1:])
    return finite_or_none(low), finite_or_none(high)


def _random_integers(seed: int, stream: int, count: int) -> NDArray[np.uint64]:
    if seed < 0:
        raise AutoproxError(f"a seed must be a whole number >= 0, but got {seed}")
    return np.random.PCG64([seed, stream]).random_raw(count)
