"""Power laws: products of powers of a few terms, with exponents fitted to true scores.

A power law is the form of scaling laws: the score is |t_1|^w_1 ... |t_K|^w_K. Its logarithm is
linear in the logarithms of the terms, so that a ridge regression finds the exponents. It is fitted
to the normal scores of the ranks of the true scores, since ranks are what a proxy is for.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from math import floor, log, log10
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from autoprox.language import Tree, make_tree
from autoprox.primitives.primitive import EPSILON
from autoprox.scoring.correlations import TIES, Floats, Indices, normal_scores
from autoprox.scoring.fitness_correlations import partial_kendall

RIDGE = 20.0  # the penalty of standardised terms, in networks (docs/results/selection.md)
SEVERAL_SPACES = 3  # from which on terms must suit a space that they weren't fitted to
RIDGE_ACROSS = 0.1  # the penalty with several spaces, relative to the rows
MIN_SPREAD = 0.05  # of a term's logarithms; less would need a huge exponent
TINY = 1e-9
LEAST_LOG = log(EPSILON)  # `pow` takes a smaller magnitude for 0
MAX_DEVIATION = 6.0  # of a network's logarithm from the mean, in standard deviations
FOLDS, REPEATS = 5, 4  # of the out-of-fold scores
EXPONENT_DIGITS = 2
FACTOR_NODES = 3  # that a factor has besides its term: `pow`, an exponent and `mul`
Logs: TypeAlias = NDArray[np.floating[Any]]  # of the magnitudes of terms, [terms, rows]


@dataclass(frozen=True)
class LabelledNetworks:
    """The true scores of some networks: a row for each network, space and dataset."""

    truth: Floats
    target: Floats  # what exponents are fitted to, centred within each pair
    params: Floats  # logarithms of the parameter counts
    pair: Indices  # of a space and a dataset
    network: Indices  # its number; networks of different spaces have different numbers
    weight: Floats  # of the row's pair

    @cached_property
    def row_weights(self) -> Floats:
        """Factors of the rows' errors: pairs count by their weights, not by their networks."""
        counts = np.bincount(self.pair)[self.pair]
        share = self.weight / counts
        return np.asarray(np.sqrt(share / share.mean()))

    @cached_property
    def pairs(self) -> list[Indices]:
        """The rows of each pair."""
        return [np.flatnonzero(self.pair == own) for own in range(self.pair.max() + 1)]

    @cached_property
    def space(self) -> Indices:
        """The number of each row's space: pairs of one space have the same networks."""
        first = [self.network[own].min() for own in self.pairs]
        return np.unique(first, return_inverse=True)[1][self.pair]

    def with_target_of(self, rows: Indices) -> "LabelledNetworks":
        """Return the networks with a target that reads the true scores of some rows alone.

        It is 0 on the other rows.
        """
        target = np.zeros(len(self.truth))
        for own in self.pairs:
            if len(known := np.intersect1d(own, rows, assume_unique=True)):
                target[known] = normal_scores(self.truth[known])
        return replace(self, target=target)

    def only(self, rows: Indices) -> "LabelledNetworks":
        """Return some rows."""
        return replace(self, **{own.name: getattr(self, own.name)[rows] for own in fields(self)})

    def rows_of(self, networks: Sequence[int] | Indices) -> Indices:
        """Return the rows of some networks."""
        return np.flatnonzero(np.isin(self.network, networks))

    def centred(self, values: Logs, rows: Indices) -> Floats:
        """Return values [..., rows], less the mean of the chosen rows of their pair.

        A pair without any of the rows keeps its values.
        """
        found = np.array(values, dtype=np.float64)
        for own in self.pairs:
            if len(known := np.intersect1d(own, rows, assume_unique=True)):
                found[..., own] -= found[..., known].mean(axis=-1, keepdims=True)
        return found

    def spread(self, logs: Logs) -> float:
        """Return the standard deviation within pairs of the logarithms of a term, [rows]."""
        return float(self.centred(logs, np.arange(len(logs))).std())

    def taus(self, scores: Floats, ties: str) -> tuple[Floats, Floats]:
        """Return the taus and partial taus of scores [rows] for each pair."""
        tau = TIES[ties]

        def each(left: Floats, right: Floats) -> Floats:
            return np.array([tau(left[own], right[own]) for own in self.pairs])

        with_truth, with_size = each(scores, self.truth), each(scores, self.params)
        return with_truth, partial_kendall(with_truth, with_size, each(self.truth, self.params))


def usable(logs: Floats, labelled: LabelledNetworks) -> bool:
    """Return whether the logarithms of a term, [rows], can be a factor of a power law.

    They are finite, also as `pow` sees them, differ among networks, and none is so far from the
    others that it alone would set the exponent.
    """
    if not np.isfinite(logs).all() or logs.min() <= LEAST_LOG:
        return False
    each, spread = labelled.centred(logs, np.arange(len(logs))), labelled.spread(logs)
    return spread > MIN_SPREAD and float(np.abs(each).max()) <= MAX_DEVIATION * spread


class PowerLawFit:
    """Logarithms of terms as standardised on some rows, and exponents fitted to these rows.

    With `adjusted`, the logarithm of the parameter count is fitted along with the terms, without a
    penalty, and isn't part of the power law. `ridge` replaces the penalty, and `spread` the terms'
    standard deviations on these rows.
    """

    def __init__(
        self,
        logs: Logs,
        labelled: LabelledNetworks,
        rows: Indices,
        adjusted: bool = False,
        ridge: float | None = None,
        spread: Floats | None = None,
    ) -> None:
        self._labelled, self._rows = labelled, rows
        space = labelled.space[rows]
        self._spaces = [np.flatnonzero(space == own) for own in np.unique(space)]
        several = len(self._spaces) >= SEVERAL_SPACES
        usual = RIDGE_ACROSS * len(rows) if several else RIDGE
        self._ridge = usual if ridge is None else ridge
        centred = labelled.centred(logs, rows)
        own = centred[:, rows].std(axis=1) if spread is None else spread
        self.scale = np.maximum(own, TINY)
        self.features = centred / self.scale[:, None]  # [terms, rows]
        weights = labelled.row_weights[rows]
        self._x = self.features[:, rows].T * weights[:, None]
        self._y = labelled.centred(labelled.target, rows)[rows] * weights
        if adjusted:
            size = labelled.centred(labelled.params, rows)[rows] * weights
            size /= max(float(np.linalg.norm(size)), TINY)
            self._x = self._x - np.outer(size, size @ self._x)
            self._y = self._y - size * (size @ self._y)

    def forward_selection(self, count: int, first: Sequence[int] = ()) -> list[int]:
        """Choose terms one after the other, each with the least leave-one-out error.

        The terms of `first` are chosen before and don't count. With several spaces, what counts is
        how well the fit to the other spaces correlates with the target of each, by the mean and by
        the worst space; and no more terms are chosen than that asks for.
        """
        if len(self._spaces) >= SEVERAL_SPACES and not first:
            return self._selection_across_spaces(count)
        x, y = self._x, self._y
        chosen = list(first)
        count = min(count, x.shape[1] - len(chosen))
        for _ in range(count):
            inverse, hat = self._hat(chosen)
            own = x[:, chosen]
            residual = y - hat @ y
            rest = x - own @ (inverse @ (own.T @ x))  # [rows, terms], what is new in each term
            scale = (x * rest).sum(axis=0) + self._ridge
            leverage = np.diag(hat)[:, None] + rest**2 / scale
            errors = residual[:, None] - rest * (x.T @ residual / scale)
            errors = ((errors / np.maximum(1 - leverage, 0.05)) ** 2).sum(axis=0)
            errors[chosen] = np.inf
            chosen.append(int(np.argmin(errors)))
        return chosen

    def _selection_across_spaces(self, count: int) -> list[int]:
        parts = [(self._x[own], self._y[own]) for own in self._spaces]
        squares = np.stack([(x**2).sum(axis=0) for x, _ in parts])  # [spaces, terms]
        sides = np.stack([x.T @ y for x, y in parts])
        spaces, terms = sides.shape
        known = np.empty((spaces, 0, terms))  # products of the chosen terms with all
        chosen: list[int] = []
        reached = -np.inf
        for size in range(1, min(count, terms) + 1):
            grams = np.empty((spaces, terms, size, size))
            grams[..., :-1, :-1] = known[:, :, chosen][:, None]
            grams[..., :-1, -1] = grams[..., -1, :-1] = known.swapaxes(1, 2)
            grams[..., -1, -1] = squares
            right = np.empty((spaces, terms, size))
            right[..., :-1], right[..., -1] = sides[:, None, chosen], sides
            found = []
            for held, (x, y) in enumerate(parts):
                ridge = self._ridge * (1 - len(x) / len(self._x))
                left = grams.sum(axis=0) - grams[held] + ridge * np.eye(size)
                fitted = np.linalg.solve(left, (right.sum(axis=0) - right[held])[..., None])[..., 0]
                length = np.sqrt(np.einsum("ti,tij,tj->t", fitted, grams[held], fitted))
                length *= np.linalg.norm(y)
                found.append((fitted * right[held]).sum(axis=1) / np.maximum(length, TINY))
            value = np.mean(found, axis=0) + np.min(found, axis=0)
            value[chosen] = -np.inf
            best = int(np.argmax(value))
            if value[best] <= reached:
                break
            reached = value[best]
            chosen.append(best)
            products = np.stack([x.T @ x[:, best] for x, _ in parts])
            known = np.concatenate([known, products[:, None]], axis=1)
        return chosen

    def coefficients(self, chosen: Sequence[int]) -> Floats:
        """Return the coefficients of standardised terms."""
        inverse, _ = self._hat(chosen)
        return np.asarray(inverse @ (self._x[:, list(chosen)].T @ self._y))

    def exponents(self, chosen: Sequence[int]) -> Floats:
        """Return the exponents of terms."""
        return np.asarray(self.coefficients(chosen) / self.scale[list(chosen)])

    def predictions(self, chosen: Sequence[int]) -> Floats:
        """Return the logarithms of the power law of some terms for all rows."""
        return np.asarray(self.coefficients(chosen) @ self.features[list(chosen)])

    def _hat(self, chosen: Sequence[int]) -> tuple[Floats, Floats]:
        """Return the inverse of the penalised Gram matrix of some terms, and the hat matrix."""
        own = self._x[:, list(chosen)]
        inverse = np.linalg.inv(own.T @ own + self._ridge * np.eye(own.shape[1]))
        return np.asarray(inverse), np.asarray(own @ inverse @ own.T)


def out_of_fold_scores(
    logs: Logs, labelled: LabelledNetworks, adjusted: bool, seed: int
) -> list[Floats]:
    """Return the logarithms of a power law of terms [terms, rows], with exponents of other folds.

    One array [rows] for each of several divisions of the networks into folds.
    """
    networks, chosen = np.unique(labelled.network), range(len(logs))
    found = []
    for repeat in range(REPEATS):
        order = np.random.default_rng([seed, repeat]).permutation(networks)
        scores = np.empty(logs.shape[1])
        for fold in range(min(FOLDS, len(networks))):
            held = labelled.rows_of(order[fold::FOLDS])
            rest = np.setdiff1d(np.arange(len(scores)), held)
            scores[held] = PowerLawFit(logs, labelled, rest, adjusted).predictions(chosen)[held]
        found.append(scores)
    return found


def power_law(terms: Sequence[Tree], exponents: Sequence[float] | Floats) -> Tree:
    """Return the product of powers of terms, the exponents written with two digits."""
    factors = [
        make_tree("pow", term, make_tree(rounded))
        for term, exponent in zip(terms, exponents, strict=True)
        if (rounded := two_digits(float(exponent))) != "0"
    ]
    factors = factors or [make_tree("pow", terms[0], make_tree("1"))]
    while len(factors) > 1:  # in pairs, for the least depth
        pairs = [factors[index : index + 2] for index in range(0, len(factors), 2)]
        factors = [make_tree("mul", *own) if len(own) == 2 else own[0] for own in pairs]
    return factors[0]


def scores_of(exponents: Mapping[Tree, float], logs: Mapping[Tree, Logs]) -> Floats:
    """Return the logarithms of the scores of a power law, of those of its terms."""
    values = np.stack([logs[term] for term in exponents])
    return np.asarray(np.array(list(exponents.values())) @ values)


def factors_of(tree: Tree) -> list[tuple[Tree, float]] | None:
    """Return the terms and exponents of a power law; None for a tree of another form."""
    if tree.symbol == "mul" and tree.args:
        left, right = map(factors_of, tree.args)
        return None if left is None or right is None else left + right
    if tree.symbol != "pow" or tree.args[1].args:
        return None
    try:
        return [(tree.args[0], float(tree.args[1].symbol))]
    except ValueError:
        return None


def two_digits(number: float) -> str:
    """Write a number with two significant digits, without an exponent of ten."""
    if not number or not np.isfinite(number):
        return "0"
    decimals = EXPONENT_DIGITS - 1 - floor(log10(abs(number)))
    text = f"{round(number, decimals):.{max(decimals, 0)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
