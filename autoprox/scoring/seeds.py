"""Whether scores depend on the seed, or are a function of the architecture's choices alone."""

import numpy as np

from autoprox.scoring.correlations import Floats

SEED_SHARE = 0.01  # of the spread among networks: who changes less is a function of the choices


def seed_share(scores: Floats) -> float:
    """How much scores [seeds, ..., networks] change with the seed, relative to their spread.

    The root mean square of the deviation among seeds over that among networks, the largest of all
    sets of scores; of scores that are all the same, 0.
    """
    among_seeds = np.sqrt(scores.var(axis=0, ddof=1).mean(axis=-1))
    among_networks = scores.mean(axis=0).std(axis=-1)
    tiny = np.finfo(float).tiny
    return float(np.max(among_seeds / np.maximum(among_networks, tiny), initial=0.0))
