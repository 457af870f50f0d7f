"""How far true scores of several trainings can be trusted where size doesn't help."""

from collections.abc import Iterator
from itertools import combinations

import numpy as np

from autoprox.scoring.correlations import Floats
from autoprox.scoring.resampling import FEWEST_PAIRS, Sample, equal_pairs


def reliability(runs: Floats, params: Floats) -> float | None:
    """Kendall's tau at equal size that the mean of all seeds would have with another such mean.

    Of runs [networks, seeds] the mean tau between independent halves of the seeds, over the pairs
    of networks of equal size, stepped up to all seeds by Spearman and Brown. Their formula is one
    of correlations, so that the tau is made one, and back, as for normal scores; on the tau itself
    it would promise some .04 too much. 0 where the halves disagree; None of one seed or of too few
    pairs.
    """
    pairs, sample = equal_pairs(params), Sample(len(params), 0, draws=0)
    if pairs.sum() / 2 < FEWEST_PAIRS or (seeds := runs.shape[1]) < 2:
        return None
    taus = [sample.tau(*halves, "forgiven", pairs)[0] for halves in _halves(runs)]
    if not np.all(np.isfinite(taus)):
        return None
    growth, r = seeds / (seeds // 2), max(0.0, float(np.sin(np.pi / 2 * np.mean(taus))))
    return float(np.arcsin(growth * r / (1 + (growth - 1) * r)) * 2 / np.pi)


def _halves(runs: Floats) -> Iterator[tuple[Floats, Floats]]:
    """The means of two halves of the seeds, for every choice of halves."""
    seeds = runs.shape[1]
    for half in combinations(range(seeds), seeds // 2):
        rest = [seed for seed in range(seeds) if seed not in half][: len(half)]
        yield runs[:, list(half)].mean(1), runs[:, rest].mean(1)
