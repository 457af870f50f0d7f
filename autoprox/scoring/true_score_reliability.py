"""The reliability of true scores from several trainings, among networks of nearly one size."""

from collections.abc import Iterator
from itertools import combinations

import numpy as np

from autoprox.scoring.bootstrap import MIN_NEAR_SIZE_PAIRS, BootstrapSample, near_size_pairs
from autoprox.scoring.correlations import Floats


def true_score_reliability(runs: Floats, params: Floats) -> float | None:
    """Estimate the near-size tau of the mean of all seeds with another such mean.

    For runs [networks, seeds] it is the mean tau between independent halves of the seeds, over the
    pairs of networks near in size, extrapolated to all seeds by the Spearman-Brown formula. That is
    a formula for correlations, so the tau is converted to one and back, as for normal scores; on
    the tau itself it would promise some .04 too much. 0 if the halves disagree; None for one seed
    or too few pairs.
    """
    pairs, sample = near_size_pairs(params), BootstrapSample(len(params), 0, draws=0)
    if pairs.sum() / 2 < MIN_NEAR_SIZE_PAIRS or (seeds := runs.shape[1]) < 2:
        return None
    taus = [sample.tau(*halves, "tau-b", pairs)[0] for halves in _halves(runs)]
    if not np.all(np.isfinite(taus)):
        return None
    growth, r = seeds / (seeds // 2), max(0.0, float(np.sin(np.pi / 2 * np.mean(taus))))
    return float(np.arcsin(growth * r / (1 + (growth - 1) * r)) * 2 / np.pi)


def _halves(runs: Floats) -> Iterator[tuple[Floats, Floats]]:
    """Yield the means of two halves of the seeds, for every choice of halves."""
    seeds = runs.shape[1]
    for half in combinations(range(seeds), seeds // 2):
        rest = [seed for seed in range(seeds) if seed not in half][: len(half)]
        yield runs[:, list(half)].mean(1), runs[:, rest].mean(1)
