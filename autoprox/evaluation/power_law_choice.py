"""The power law that an evolution chooses, with exponents of full resolution."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from deap import tools

from autoprox.configurations.commands import EvolveConfig
from autoprox.evaluation.fitness_evaluator import FitnessEvaluator
from autoprox.evaluation.full_resolution_choice import FullResolutionNetworks
from autoprox.evaluation.power_law_evaluator import PowerLawEvaluator, adjustments
from autoprox.evolution import Individual
from autoprox.evolution.power_law import LabelledNetworks, Logs, factors_of, power_law, usable
from autoprox.evolution.prior_fit import ShrunkenFit, shrunken_fit
from autoprox.evolution.prior_knowledge import Prior
from autoprox.evolution.term_archive import TermArchive
from autoprox.language import Tree
from autoprox.scoring.correlations import Floats, Indices


class ChosenPowerLaw(NamedTuple):
    """A power law of a front, both with exponents fitted at full resolution."""

    tree: Tree
    front: list[Individual]
    committee: Tree | None  # the mean of power laws that random parts of the networks choose
    spreads: Mapping[Tree, float]  # of the logarithms of terms on the training networks


def refit_at_full_resolution(
    measured: PowerLawEvaluator,
    networks: Sequence[FullResolutionNetworks],
    config: EvolveConfig,
    front: Sequence[Individual],
    archives: Sequence[TermArchive],
    prior: Prior | None = None,
) -> ChosenPowerLaw:
    """Fit the exponents of a front and of a committee again at full resolution, and choose.

    The committee is the mean of the power laws that random parts of the networks choose, or, with a
    prior, one that is shrunk towards it. Chosen is the power law of K terms that comes closest to
    it: it ranks better than the fittest of the front (docs/results/selection.md), whose terms are
    those that suit all the training networks best, by chance too. Terms that have no value on some
    network of these benchmarks, or aren't usable at full resolution, are left out.
    """
    bags = [
        (own, [archive.terms[index] for index in chosen])
        for own in adjustments(config)
        for archive in archives
        for _, chosen in archive.selections(config.terms, own, config.seed)
    ]
    shrunken = _terms_with_prior(measured, config, prior, archives) if prior else []
    sets = [[term for term, _ in factors_of(own.tree) or []] for own in front]
    groups = (*sets, *(bag for _, bag in bags), shrunken, prior.exponents if prior else ())
    terms = list(dict.fromkeys(term for own in groups for term in own))
    evaluator = PowerLawEvaluator(config, [own.training_networks(terms) for own in networks], [])
    everywhere = np.all([own.usable_everywhere(terms) for own in networks], axis=0)
    values = np.where(everywhere[:, None], evaluator.logs(terms), np.nan)
    logs = dict(zip(terms, values, strict=True))
    kept = {term for term, own in logs.items() if usable(own, evaluator.labelled)}
    bags = [(adjusted, [term for term in own if term in kept]) for adjusted, own in bags]
    shrunken = [term for term in shrunken if term in kept]
    different = [own for own in sets if own and kept.issuperset(own)]
    pairs = [(own, np.stack([logs[term] for term in own])) for own in different]
    refitted: list[Individual] = []
    nearest: list[Individual] = []
    with_prior = _shrunken_to_prior(evaluator, config, prior, shrunken, logs) if prior else None
    for own in adjustments(config):
        refitted += evaluator.fitted(pairs, own) if pairs else []
        votes = with_prior or evaluator.committee([bag for bag in bags if bag[0] == own], logs)
        if votes:
            chosen, exponents = evaluator.imitation(votes, logs)
            values = np.stack([logs[term] for term in chosen])
            nearest += evaluator.individuals([power_law(chosen, exponents)], [values], own)
    best = tools.ParetoFront(similar=lambda one, two: one.taus == two.taus)
    best.update([own for own in refitted if own.valid] or front)
    nearest = [own for own in nearest if own.valid]
    tree = FitnessEvaluator(config, evaluator.networks).choose(nearest or list(best)).tree
    votes = with_prior or evaluator.committee(bags, logs)
    return ChosenPowerLaw(
        tree,
        [*best, *nearest],
        evaluator.shortened(votes, logs) if votes else None,
        {term: evaluator.labelled.spread(own) for term, own in logs.items()},
    )


def _terms_with_prior(
    measured: PowerLawEvaluator,
    config: EvolveConfig,
    prior: Prior,
    archives: Sequence[TermArchive],
) -> list[Tree]:
    """Return the terms of the archives that are chosen next to a prior."""
    shares = np.array(list(prior.exponents.values()))
    found: dict[Tree, None] = {}
    for archive in archives:
        rows = np.arange(len(archive.labelled.truth))
        own = shares @ measured.logs(list(prior.exponents))
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
    shares = np.array(list(prior.exponents.values()))
    rows = np.arange(len(evaluator.labelled.truth))
    own = shares @ np.stack([logs[term] for term in prior.exponents])
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
