"""Terms and power laws measured on the labelled networks of one or more benchmarks."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
from scipy.stats import rankdata

from autoprox.configurations.commands import EvolveConfig
from autoprox.engine.tree_evaluator import REASONS
from autoprox.evaluation.fitness_evaluator import FitnessEvaluator, MeasuredNetworks
from autoprox.evolution import METRICS, Individual, State
from autoprox.evolution.power_law import (
    FACTOR_NODES,
    LEAST_LOG,
    LabelledNetworks,
    Logs,
    PowerLawFit,
    out_of_fold_scores,
    power_law,
    usable,
)
from autoprox.evolution.power_law_loop import MeasuredTerms
from autoprox.evolution.prior_knowledge import Prior
from autoprox.evolution.term_archive import TermArchive
from autoprox.evolution_parameters import MAX_SIZE
from autoprox.language import Tree
from autoprox.scoring.correlations import (
    Floats,
    Indices,
    evenly_spaced_indices,
    jcm,
    normal_scores,
)

RESEEDED_NETWORKS = 32  # of all spaces, which show how much terms change with the seed
LEAST_RESEEDED = 8  # of each space
MIN_SEED_CORRELATION = 0.9  # Spearman's, of a term's values with two seeds of the weights
IMITATION_RIDGE = 2.0  # the penalty of the power law that comes nearest to a committee
NOT_USABLE = "not usable as a factor"
CHANGES_WITH_SEED = "changes with the seed"


def reseeded_indices(networks: int, spaces: int) -> Indices:
    """Return which of the networks of one of some spaces are measured with another seed, too."""
    count = max(RESEEDED_NETWORKS // spaces, LEAST_RESEEDED)
    return evenly_spaced_indices(networks, count)


def adjustments(config: EvolveConfig) -> list[bool]:
    """Return whether exponents are fitted along with the parameter count, for each metric."""
    return [name == "partial_tau" for name in METRICS[config.objective]]


class PowerLawEvaluator:
    """Measures terms on the training networks, and fits power laws to their true scores.

    `reseeded` has some of the networks with other initial weights and inputs: a term that orders
    them differently says more about the draw than about the architecture, and isn't used. An
    archive begins with the terms of the `prior`.
    """

    def __init__(
        self,
        config: EvolveConfig,
        networks: Sequence[MeasuredNetworks],
        reseeded: Sequence[MeasuredNetworks],
        prior: Prior | None = None,
    ) -> None:
        self._config, self.networks, self._reseeded = config, networks, reseeded
        self._prior = prior

    @cached_property
    def labelled(self) -> LabelledNetworks:
        """The networks' true scores."""
        columns: dict[str, list[Floats]] = {name: [] for name in ("truth", "target", "params")}
        pairs: list[Indices] = []
        numbers: list[Indices] = []
        first = 0
        for own in self.networks:
            truth = own.truth
            count = truth.truth.shape[1]
            for scores, params in zip(truth.truth, truth.params, strict=True):
                columns["truth"].append(scores)
                columns["target"].append(normal_scores(scores))
                columns["params"].append(np.log(params))
                pairs.append(np.full(count, len(pairs)))
                numbers.append(first + np.arange(count))
            first += count
        weights = np.asarray(self._config.dataset_weights or np.ones(len(pairs)), dtype=float)
        pair = np.concatenate(pairs)
        return LabelledNetworks(
            **{name: np.concatenate(own) for name, own in columns.items()},
            pair=pair,
            network=np.concatenate(numbers),
            weight=weights[pair],
        )

    def measure(self, terms: Sequence[Tree]) -> MeasuredTerms:
        """Return the usable terms with the logarithms of their magnitudes.

        They are measured on the spaces of small networks first, which spares the others most of
        the terms that can't be used.
        """
        unusable: Counter[str] = Counter()
        left = list(range(len(terms)))
        logs: dict[int, dict[int, Floats]] = {}
        lost = np.zeros(len(terms))  # what the seed has taken from the sum of correlations
        bearable = (1 - MIN_SEED_CORRELATION) * (self.labelled.pair.max() + 1)
        for number in sorted(range(len(self.networks)), key=self._size):
            own = self._valid_logs(terms, left, self.networks[number], unusable)
            logs[number] = {i: each for i, each in own.items() if each.min() > LEAST_LOG}
            unusable[NOT_USABLE] += len(own) - len(logs[number])
            again = self._valid_logs(terms, list(logs[number]), self._reseeded[number], unusable)
            for index, other in again.items():
                lost[index] += self._seed_loss(number, logs[number][index], other)
            left = [index for index in again if lost[index] <= bearable]
            unusable[CHANGES_WITH_SEED] += len(again) - len(left)
        whole = {i: np.concatenate([own[i] for _, own in sorted(logs.items())]) for i in left}
        kept = [index for index in left if usable(whole[index], self.labelled)]
        unusable[NOT_USABLE] += len(left) - len(kept)
        found = np.reshape([whole[index] for index in kept], (-1, len(self.labelled.truth)))
        return MeasuredTerms([terms[index] for index in kept], found, +unusable)

    def logs(self, terms: Sequence[Tree]) -> Floats:
        """Return the logarithms of terms [terms, rows]."""
        return np.concatenate([self._logs(terms, own)[0] for own in self.networks], axis=1)

    def rows_in(self, other: "PowerLawEvaluator") -> Indices:
        """Return the rows of an evaluator that lost some networks of the same spaces, in order."""
        found: list[Indices] = []
        first = 0
        for own, theirs in zip(self.networks, other.networks, strict=True):
            known = own.evaluation_set.networks
            positions = np.array([known.index(n) for n in theirs.evaluation_set.networks])
            for _ in own.truth.truth:
                found.append(first + positions)
                first += len(known)
        return np.concatenate(found)

    def committee(
        self, sets: Sequence[Sequence[Tree]], logs: Mapping[Tree, Logs], adjusted: bool
    ) -> dict[Tree, float]:
        """Return the exponents of the mean of the power laws of several sets of terms."""
        exponents: dict[Tree, float] = defaultdict(float)
        rows = np.arange(len(self.labelled.truth))
        for terms in sets:
            if terms:
                fit = PowerLawFit(np.stack([logs[t] for t in terms]), self.labelled, rows, adjusted)
                for term, exponent in zip(terms, fit.exponents(range(len(terms))), strict=True):
                    exponents[term] += exponent / len(sets)
        return dict(exponents)

    def imitation(
        self,
        terms: Sequence[Tree],
        opinion: Floats,
        logs: Mapping[Tree, Logs],
        count: int | None = None,
    ) -> dict[Tree, float]:
        """Return the exponents of the terms, at most `count`, that come nearest to some scores.

        These scores are the logarithms of those of a longer power law, [rows].
        """
        if not terms:
            return {}
        values = np.stack([logs[term] for term in terms])
        labelled = replace(self.labelled, target=opinion)
        fit = PowerLawFit(values, labelled, np.arange(len(opinion)), ridge=IMITATION_RIDGE)
        chosen = fit.forward_selection(len(terms) if count is None else count)
        found = zip(chosen, fit.exponents(chosen), strict=True)
        return {terms[index]: float(exponent) for index, exponent in found}

    def shortened(
        self, exponents: Mapping[Tree, float], logs: Mapping[Tree, Floats]
    ) -> Tree | None:
        """Return a power law without the factors that matter least if it would be too long."""

        def share(term: Tree) -> float:
            return abs(exponents[term]) * self.labelled.spread(logs[term])

        terms = sorted(exponents, key=share, reverse=True)
        sizes = np.cumsum([term.size + FACTOR_NODES for term in terms])
        terms = [term for term, size in zip(terms, sizes, strict=True) if size <= MAX_SIZE]
        return power_law(terms, [exponents[term] for term in terms]) if terms else None

    def _size(self, number: int) -> float:
        return float(self.networks[number].truth.params.sum())

    def _valid_logs(
        self,
        terms: Sequence[Tree],
        indices: Sequence[int],
        networks: MeasuredNetworks,
        unusable: Counter[str],
    ) -> dict[int, Floats]:
        """Return the logarithms [rows] of those of some terms that are valid on all networks."""
        if not indices:
            return {}
        logs, reasons = self._logs([terms[index] for index in indices], networks)
        unusable.update(REASONS[reason] for reason in reasons if reason)
        found = zip(indices, logs, reasons, strict=True)
        return {index: own for index, own, reason in found if not reason}

    def _logs(
        self, terms: Sequence[Tree], networks: MeasuredNetworks
    ) -> tuple[Floats, Sequence[int]]:
        """Return the logarithms of terms [terms, rows], and the reason of each invalid one."""
        scores = networks.scores(terms)
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = np.log(np.abs(scores.values.reshape(len(terms), -1)))
        return logs, scores.reasons.max(axis=(1, 2)).tolist()

    def _seed_loss(self, number: int, logs: Floats, again: Floats) -> float:
        """Return how far the rank correlations of a term with itself under another seed are below
        one, summed over the datasets of a space."""
        known = self.networks[number].evaluation_set.networks
        reseeded = self._reseeded[number].evaluation_set.networks
        both = sorted(set(known).intersection(reseeded))
        here, there = [known.index(n) for n in both], [reseeded.index(n) for n in both]
        datasets = len(self.networks[number].truth.truth)
        loss = 0.0
        for own, other in zip(
            logs.reshape(datasets, -1)[:, here], again.reshape(datasets, -1)[:, there], strict=True
        ):
            one, two = rankdata(own), rankdata(other)
            one, two = one - one.mean(), two - two.mean()
            spread = np.sqrt((one @ one) * (two @ two))
            loss += 1 - (one @ two / spread if spread else np.array_equal(own, other))
        return float(loss)

    def archive(self, state: State) -> TermArchive:
        """Return the archive of a state, restored from a checkpoint or empty at first."""
        if state.archive is None:
            saved = state.saved_archive
            if saved is None and state.evaluations:
                raise ValueError("power laws need an archive")
            state.archive = saved.restored(self.labelled) if saved else self._first_archive()
        return state.archive

    def _first_archive(self) -> TermArchive:
        archive = TermArchive(self.labelled)
        if self._prior is not None:
            found = self.measure(list(self._prior.exponents))
            archive.add(found.terms, found.logs)
        return archive

    def parents(self, archive: TermArchive) -> list[Tree]:
        """Return the terms that are chosen on random parts of the networks, the best first.

        Larger ones than evolution may draw, such as a prior's, aren't varied.
        """
        config = self._config
        chosen = archive.most_chosen(config.terms, adjustments(config), config.seed)
        return [term for term in chosen if config.allow(term)]

    def combine(self, archive: TermArchive) -> list[Individual]:
        """Return the power laws of 1 to K terms that forward selection chooses."""
        found = []
        rows = np.arange(len(self.labelled.truth))
        for adjusted in adjustments(self._config):
            fit = PowerLawFit(archive.logs, self.labelled, rows, adjusted)
            chosen = fit.forward_selection(self._config.terms)
            sets = [chosen[:count] for count in range(1, len(chosen) + 1)]
            found += self.fitted(
                [([archive.terms[i] for i in own], archive.logs[own]) for own in sets], adjusted
            )
        return found

    def fitted(
        self, sets: Sequence[tuple[Sequence[Tree], Logs]], adjusted: bool
    ) -> list[Individual]:
        """Fit a power law to each set of terms with their logarithms, [terms, rows]."""
        rows = np.arange(len(self.labelled.truth))
        trees = []
        for terms, logs in sets:
            exponents = PowerLawFit(logs, self.labelled, rows, adjusted).exponents(range(len(logs)))
            trees.append(power_law(terms, exponents))
        return self.individuals(trees, [logs for _, logs in sets], adjusted)

    def individuals(
        self, trees: Sequence[Tree], logs: Sequence[Logs], adjusted: bool
    ) -> list[Individual]:
        """Evaluate power laws whose terms have these logarithms, [terms, rows].

        Their metrics are those of out-of-fold scores, whose exponents are fitted to other networks.
        """
        measured = FitnessEvaluator(self._config, self.networks).evaluate(trees)
        return [
            self._with_out_of_fold_metrics(own, values, adjusted) if own.valid else own
            for own, values in zip(measured, logs, strict=True)
        ]

    def _with_out_of_fold_metrics(
        self, individual: Individual, logs: Logs, adjusted: bool
    ) -> Individual:
        scores = out_of_fold_scores(logs, self.labelled, adjusted, self._config.seed)
        each = [self.labelled.taus(own, self._config.ties) for own in scores]
        plain, partial = (np.nan_to_num(np.mean(own, axis=0)) for own in zip(*each, strict=True))
        weights = self._config.dataset_weights
        return replace(
            individual,
            taus=tuple(map(float, plain)),
            jcm=float(jcm(plain, weights)),
            partial_tau=float(jcm(partial, weights)),
        )
