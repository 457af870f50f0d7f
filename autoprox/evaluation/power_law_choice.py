"""The power law that an evolution chooses, with exponents of full resolution."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from autoprox.configurations.commands import EvolveConfig
from autoprox.evaluation.fitness_evaluator import FitnessEvaluator
from autoprox.evaluation.full_resolution_choice import FullResolutionNetworks
from autoprox.evaluation.power_law_evaluator import PowerLawEvaluator, adjustments
from autoprox.evolution import Individual
from autoprox.evolution.power_law import LabelledNetworks, Logs, power_law, scores_of, usable
from autoprox.evolution.prior_fit import ShrunkenFit, shrunken_fit
from autoprox.evolution.prior_knowledge import Prior
from autoprox.evolution.term_archive import TermArchive
from autoprox.language import Tree
from autoprox.scoring.correlations import Floats, Indices

COMMITTEE_SIZE = 2  # times the terms of a power law, of those that are measured again


class ChosenPowerLaw(NamedTuple):
    """A power law and a committee with exponents of full resolution, and the front with it."""

    tree: Tree
    front: list[Individual]
    committee: Tree | None
    spreads: Mapping[Tree, float]  # of the logarithms of terms on the training networks


class _Draft(NamedTuple):
    """A committee on the matrices of the evolution, and the few terms that come nearest to it."""

    terms: list[Tree]
    opinion: Floats  # the logarithms of its scores, [rows]


def refit_at_full_resolution(
    measured: PowerLawEvaluator,
    networks: Sequence[FullResolutionNetworks],
    config: EvolveConfig,
    front: Sequence[Individual],
    archives: Sequence[TermArchive],
    prior: Prior | None = None,
) -> ChosenPowerLaw:
    """Choose the power law that comes closest to a committee, both fitted at full resolution.

    The committee is the mean of the power laws that random parts of the networks choose, or, with a
    prior, one that is shrunk towards it. Of the former, only the terms that come closest to its
    opinion of the training networks are measured again, twice as many as a power law has. Chosen is
    the power law of K of them that comes closest to it: it ranks better than the fittest of the
    front (docs/results/selection.md), whose terms are those that suit all the training networks
    best, by chance too, and which is left as it evolved. Terms that have no value on some network
    of these benchmarks, or aren't usable at full resolution, are left out.
    """
    drafts = [_draft(measured, config, archives, own) for own in adjustments(config)]
    shrunken = _terms_with_prior(measured, config, prior, archives) if prior else []
    groups = (*(own.terms for own in drafts), shrunken, prior.exponents if prior else ())
    terms = list(dict.fromkeys(term for own in groups for term in own))
    evaluator = PowerLawEvaluator(config, [own.training_networks(terms) for own in networks], [])
    everywhere = np.all([own.usable_everywhere(terms) for own in networks], axis=0)
    values = np.where(everywhere[:, None], evaluator.logs(terms), np.nan)
    logs = dict(zip(terms, values, strict=True))
    kept = {term for term, own in logs.items() if usable(own, evaluator.labelled)}
    left = measured.rows_in(evaluator)
    drafts = [_Draft([t for t in own.terms if t in kept], own.opinion[left]) for own in drafts]
    shrunken = [term for term in shrunken if term in kept]
    if prior and (found := _shrunken_to_prior(evaluator, config, prior, shrunken, logs)):
        drafts = [_Draft(list(found), scores_of(found, logs)) for _ in drafts]
    else:
        found = evaluator.imitation(*_merged(drafts), logs)
    nearest: list[Individual] = []
    for adjusted, draft in zip(adjustments(config), drafts, strict=True):
        if chosen := evaluator.imitation(*draft, logs, config.terms):
            values = np.stack([logs[term] for term in chosen])
            tree = power_law(list(chosen), list(chosen.values()))
            nearest += evaluator.individuals([tree], [values], adjusted)
    nearest = [own for own in nearest if own.valid]
    known = {own.tree for own in nearest}
    return ChosenPowerLaw(
        FitnessEvaluator(config, evaluator.networks).choose(nearest or front).tree,
        [*(own for own in front if own.tree not in known), *nearest],
        evaluator.shortened(found, logs) if found else None,
        {term: evaluator.labelled.spread(own) for term, own in logs.items()},
    )


def _draft(
    measured: PowerLawEvaluator,
    config: EvolveConfig,
    archives: Sequence[TermArchive],
    adjusted: bool,
) -> _Draft:
    bags = [
        (archive, chosen)
        for archive in archives
        for _, chosen in archive.selections(config.terms, adjusted, config.seed)
    ]
    logs = {archive.terms[i]: archive.logs[i] for archive, chosen in bags for i in chosen}
    sets = [[archive.terms[i] for i in chosen] for archive, chosen in bags]
    opinion = scores_of(measured.committee(sets, logs, adjusted), logs)
    nearest = measured.imitation(list(logs), opinion, logs, COMMITTEE_SIZE * config.terms)
    return _Draft(list(nearest), opinion)


def _merged(drafts: Sequence[_Draft]) -> _Draft:
    terms = dict.fromkeys(term for own in drafts for term in own.terms)
    return _Draft(list(terms), np.mean([own.opinion for own in drafts], axis=0))


def _terms_with_prior(
    measured: PowerLawEvaluator,
    config: EvolveConfig,
    prior: Prior,
    archives: Sequence[TermArchive],
) -> list[Tree]:
    """Return the terms of the archives that are chosen next to a prior."""
    terms = list(prior.exponents)
    own = scores_of(prior.exponents, dict(zip(terms, measured.logs(terms), strict=True)))
    found: dict[Tree, None] = {}
    for archive in archives:
        rows = np.arange(len(archive.labelled.truth))
        fit = _shrunken_fit(config, prior, own, archive.logs, archive.labelled, rows)
        found |= {archive.terms[index]: None for index in np.flatnonzero(fit.exponents)}
    return list(found)


def _shrunken_to_prior(
    evaluator: PowerLawEvaluator,
    config: EvolveConfig,
    prior: Prior,
    terms: Sequence[Tree],
    logs: Mapping[Tree, Floats],
) -> dict[Tree, float] | None:
    """Return the exponents of the power law of some terms that is shrunk towards a prior.

    The terms are chosen among again. A prior that has no value for a network can't be used.
    """
    if not all(np.isfinite(logs[term]).all() for term in prior.exponents):
        return None
    rows = np.arange(len(evaluator.labelled.truth))
    own = scores_of(prior.exponents, logs)
    values = np.reshape([logs[term] for term in terms], (len(terms), len(rows)))
    fit = _shrunken_fit(config, prior, own, values, evaluator.labelled, rows)
    exponents: dict[Tree, float] = defaultdict(float)
    for term, share in prior.exponents.items():
        exponents[term] += fit.prior * share
    for term, exponent in zip(terms, fit.exponents, strict=True):
        exponents[term] += float(exponent)
    return dict(exponents)


def _shrunken_fit(
    config: EvolveConfig,
    prior: Prior,
    scores: Floats,
    logs: Logs,
    labelled: LabelledNetworks,
    rows: Indices,
) -> ShrunkenFit:
    return shrunken_fit(
        scores,
        prior.correlation,
        logs,
        labelled,
        rows,
        config.terms,
        adjusted=adjustments(config)[0],
        seed=config.seed,
    )
