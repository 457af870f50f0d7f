"""Kendall's taus of many bootstrap draws at once, and what differs between two proxies.

A draw is how often it has each network. The sum over its pairs of any matrix [networks, networks]
is half of a quadratic form in these counts, so that no draw is ever sorted. Copies of a network
are no pair.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from autoprox.scoring.correlations import (
    Floats,
    bootstrap_picks,
    percentile_interval,
)
from autoprox.scoring.fitness import partial_tau

EQUAL_SIZE = 1.1  # a pair is of equal size where the larger has less than so many times the other
FEWEST_PAIRS = 30  # of which a tau says anything


class Sample:
    """Networks, and bootstrap draws of them: every figure is [1 + draws], all networks first."""

    def __init__(self, networks: int, seed: int, draws: int = 1000) -> None:
        picks = bootstrap_picks(networks, seed, draws) + networks * np.arange(draws)[:, None]
        counts = np.bincount(picks.ravel(), minlength=networks * draws).reshape(draws, networks)
        self.counts = np.concatenate([np.ones((1, networks)), counts])
        self.pairs = 1.0 - np.eye(networks)

    def tau(
        self, scores: Floats, truth: Floats, ties: str = "nothing", among: Floats | None = None
    ) -> Floats:
        """Kendall's tau, over all pairs or only `among` some; nan without two distinct values."""
        pairs = self.pairs if among is None else among
        left, right = (np.sign(x[:, None] - x[None, :]) for x in (scores, truth))
        surplus = self._total(left * right * pairs)
        compared = self._total(pairs if ties == "nothing" else np.abs(left) * pairs)
        if not left.any():
            return np.full(len(self.counts), np.nan)
        with np.errstate(divide="ignore", invalid="ignore"):
            return surplus / np.sqrt(compared * self._total(np.abs(right) * pairs))

    def _total(self, pairs: Floats) -> Floats:
        return np.asarray(((self.counts @ pairs) * self.counts).sum(axis=1) / 2)


@dataclass(frozen=True)
class Worth:
    """What scores are worth on a sample of networks, each figure [1 + draws]."""

    kendall: Floats
    given_size: Floats  # the partial tau
    equal_size: Floats  # over the pairs of equal size; nan of too few

    def row(self) -> dict[str, Any]:
        """Each figure on all networks, with its bootstrap 95 % interval."""
        return {
            "kendall": plain(self.kendall[0]),
            "interval": interval(self.kendall),
            "given_size": plain(self.given_size[0]),
            "given_size_interval": interval(self.given_size),
            "equal_size": plain(self.equal_size[0]),
            "equal_size_interval": interval(self.equal_size),
        }

    def less(self, other: "Worth") -> dict[str, Any]:
        """By how much it is worth more than another, draw by draw, and what follows."""
        differences = {name: value - vars(other)[name] for name, value in vars(self).items()}
        return {name: compared(difference) for name, difference in differences.items()}


def worth(
    scores: Floats, truth: Floats, params: Floats, sample: Sample, ties: str = "nothing"
) -> Worth:
    """What these scores of the sample's networks are worth."""
    own = sample.tau(scores, truth, ties)
    with_size, truth_with_size = (
        sample.tau(scores, params, ties),
        sample.tau(truth, params, "forgiven"),
    )
    near = equal_pairs(params)
    few = near.sum() / 2 < FEWEST_PAIRS
    at_size = np.full_like(own, np.nan) if few else sample.tau(scores, truth, ties, near)
    return Worth(own, partial_tau(own, with_size, truth_with_size), at_size)


def mean_worth(worths: Sequence[Worth]) -> Worth:
    """The means of each figure, draw by draw: over datasets, or over seeds."""
    return Worth(
        *(
            reduce(np.add, [vars(own)[name] for own in worths]) / len(worths)
            for name in vars(worths[0])
        )
    )


def equal_pairs(params: Floats, limit: float = EQUAL_SIZE) -> Floats:
    """[networks, networks]: 1 for each pair whose parameters differ by less, as a rule by 10 %."""
    larger = np.maximum(params[:, None], params[None, :])
    smaller = np.minimum(params[:, None], params[None, :])
    return (larger < limit * smaller) * (1.0 - np.eye(len(params)))


def count_equal_pairs(params: Floats) -> int:
    """How many pairs are of equal size."""
    return int(equal_pairs(params).sum() / 2)


def compared(difference: Floats) -> dict[str, Any]:
    """A difference [1 + draws] with its interval: better, level or worse."""
    low, high = percentile_interval(difference[1:])
    verdict = "better" if low > 0 else "worse" if high < 0 else "level"
    known = np.isfinite([difference[0], low, high]).all()
    return {
        "difference": plain(difference[0]),
        "interval": interval(difference),
        "verdict": verdict if known else None,
    }


def interval(values: Floats) -> list[float | None]:
    """The bootstrap 95 % interval of a figure [1 + draws]."""
    return [plain(bound) for bound in percentile_interval(values[1:])]


def standard_error(values: Floats) -> float:
    """The deviation of a figure over the draws [1 + draws]."""
    return float(np.nanstd(values[1:]))


def plain(value: Any) -> float | None:
    """JSON has no word for a figure that doesn't exist."""
    return float(value) if np.isfinite(value) else None
