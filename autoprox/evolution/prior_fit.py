"""Power laws that are fitted to few labels and shrunk towards what other tables have taught."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from autoprox.evolution.power_law import RIDGE, LabelledNetworks, Logs, PowerLawFit
from autoprox.evolution.term_archive import random_parts
from autoprox.scoring.correlations import Floats, Indices

PRIOR = 0  # the first feature
LEAST_LABELS = 3  # that anything is fitted to
ENOUGH_LABELS = 30  # with which the penalty is that of a power law without a prior


@dataclass(frozen=True)
class ShrunkenFit:
    """A power law as the exponents of the prior and of terms, and its logarithms on all rows."""

    prior: float  # the exponent of the prior as a whole
    exponents: Floats  # of all terms, most of them 0
    scores: Floats  # [rows]


def penalty(labels: int) -> float:
    """Return the penalty of a fit to some labels, which grows with the square of what is missing.

    Chosen on training parts: penalties with the least out-of-bag error on 5 to 20 labels ranked
    worse.
    """
    return RIDGE * max(1.0, (ENOUGH_LABELS / labels) ** 2)


def shrunken_fit(
    prior: Floats,
    correlation: float,
    logs: Logs,
    labelled: LabelledNetworks,
    rows: Indices,
    terms: int,
    *,
    adjusted: bool = False,
    seed: int = 0,
    ridge: float | None = None,
) -> ShrunkenFit:
    """Fit a committee of power laws to the true scores of some rows, with knowledge from a prior.

    Each member is fitted by a ridge regression whose features are the logarithms of the prior
    [rows] and of a few terms [terms, rows], chosen on a random part of the labelled networks. The
    coefficient of the prior is shrunk towards its expected correlation with the true scores, the
    others towards 0. The result is the mean of this committee and of one without the prior that
    has the usual penalty: it learns sooner where the prior is wrong (docs/results/curve.md).
    Without labels the power law is the prior.
    """
    networks = np.unique(labelled.network[rows])
    every = np.arange(len(labelled.truth))
    features = np.concatenate([np.asarray(prior)[None], logs])
    spread = labelled.centred(features, every).std(axis=1)
    known = labelled.with_target_of(rows)
    exponents = np.zeros(len(features))
    exponents[PRIOR] = correlation / spread[PRIOR]
    if len(networks):
        own = penalty(len(networks)) if ridge is None else ridge
        expected = exponents[PRIOR] * known.centred(features[PRIOR], rows)
        rest = replace(known, target=known.target - expected)
        fitted = partial(committee, rows=rows, terms=terms, adjusted=adjusted, seed=seed)
        exponents += fitted(features, rest, first=[PRIOR], ridge=own, spread=spread)
        scratch = fitted(logs, known, spread=spread[PRIOR + 1 :])
        exponents[PRIOR + 1 :] += scratch
        exponents /= 2
    scores = exponents @ known.centred(features, rows)
    return ShrunkenFit(float(exponents[PRIOR]), exponents[PRIOR + 1 :], scores)


def committee(
    logs: Logs,
    labelled: LabelledNetworks,
    rows: Indices,
    terms: int,
    first: Sequence[int] = (),
    *,
    adjusted: bool = False,
    seed: int = 0,
    ridge: float | None = None,
    spread: Floats | None = None,
) -> Floats:
    """Return the mean exponents of power laws whose terms random parts of the networks choose.

    Each has the terms of `first` too, and its exponents are fitted to all the rows.
    """
    fit = PowerLawFit(logs, labelled, rows, adjusted, ridge, spread)
    found = np.zeros(len(logs))
    parts = random_parts(np.unique(labelled.network[rows]), seed)
    for part in parts:
        inside = np.intersect1d(labelled.rows_of(part), rows, assume_unique=True)
        bag = PowerLawFit(logs, labelled, inside, adjusted, ridge, spread)
        chosen = bag.forward_selection(terms, first)
        found[chosen] += fit.exponents(chosen) / len(parts)
    return found
