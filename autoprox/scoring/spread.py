"""When scores rank nothing: the rule that evolution, search and correlations share."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

RELATIVE_SPREAD = 1e-12  # scores that differ by less, relative to the largest, differ by rounding


def varies(scores: NDArray[np.float64], tolerance: float = RELATIVE_SPREAD) -> NDArray[np.bool_]:
    """Whether scores along the last axis are finite, and not all the same but for rounding."""
    finite = np.asarray(np.isfinite(scores).all(axis=-1))
    known = np.where(finite[..., None], scores, 0.0)
    with np.errstate(over="ignore"):
        spread = known.max(axis=-1, initial=-np.inf) - known.min(axis=-1, initial=np.inf)
    largest = np.abs(known).max(axis=-1, initial=0.0)
    return np.asarray(finite & (spread > tolerance * largest))
