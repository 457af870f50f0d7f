"""Taus of many formulas at once, and partial taus that control for the parameter count."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import rankdata

from autoprox.scoring.correlations import TIES, Floats, kendall

ROUNDING = 1e-12


@dataclass(frozen=True)
class TrueScores:
    """True scores of the networks of one space on its datasets, and their sizes."""

    truth: Floats  # [datasets, networks]
    params: Floats  # [datasets, networks]

    @cached_property
    def _compared(self) -> Floats:
        return np.stack([self.truth, self.params], axis=1)

    @cached_property
    def _truth_with_size(self) -> Floats:
        return kendall(self.truth, self.params)

    def taus(self, scores: Floats, ties: str) -> tuple[Floats, Floats]:
        """Return taus [trees, datasets] of scores [trees, datasets, networks], and partial taus.

        Both are nan for scores that rank nothing.
        """
        with_truth, with_size = np.moveaxis(TIES[ties](scores[:, :, None], self._compared), -1, 0)
        return with_truth, partial_kendall(with_truth, with_size, self._truth_with_size)


def fitness_taus(
    scores: Sequence[Floats], targets: Sequence[TrueScores], ties: str
) -> tuple[Floats, Floats]:
    """Return taus and partial taus [trees, pairs of a space and a dataset].

    The scores are one array [trees, datasets, networks] for each target.
    """
    each = [target.taus(own, ties) for own, target in zip(scores, targets, strict=True)]
    plain, partial = (np.concatenate(found, axis=-1) for found in zip(*each, strict=True))
    return plain, partial


def size_adjusted(scores: Floats, params: Floats) -> Floats:
    """Return the residuals of a linear fit of the scores' ranks to the parameters' ranks.

    They rank networks of different sizes as if these were of one size; nan stays nan.
    """
    known = np.isfinite(scores)
    own, size = (rankdata(values[known]) for values in (scores, params))
    size = size - size.mean()
    slope = size @ own / max(size @ size, 1.0)
    beyond = np.full_like(scores, np.nan)
    beyond[known] = own - own.mean() - slope * size if known.any() else own
    return beyond


def partial_kendall(
    with_truth: ArrayLike, with_size: ArrayLike, truth_with_size: ArrayLike
) -> Floats:
    """Return Kendall's partial tau of scores and truth, controlling for size.

    (t_xy - t_xz t_yz) / sqrt((1 - t_xz^2) (1 - t_yz^2)); 0 if size explains either entirely. A
    size that doesn't vary, whose taus are nan, explains nothing.
    """
    own = np.asarray(with_truth, dtype=np.float64)
    left, right = (np.nan_to_num(np.asarray(tau)) for tau in (with_size, truth_with_size))
    unexplained = (1 - left**2) * (1 - right**2)
    known = np.broadcast_to(unexplained > ROUNDING, (own - left * right).shape)
    rest = np.sqrt(np.where(known, unexplained, 1.0))
    return np.asarray(np.where(known | np.isnan(own), (own - left * right) / rest, 0.0))
