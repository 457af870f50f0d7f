"""Power laws against refits by scikit-learn and scipy: exponents, selection, folds and archive."""

import base64
import zlib
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy import stats
from sklearn.linear_model import Ridge

from autoprox.configurations.commands import EvolveConfig
from autoprox.engine.tree_evaluator import ProxyScores
from autoprox.errors import AutoproxError
from autoprox.evaluation.power_law_evaluator import (
    CHANGES_WITH_SEED,
    IMITATION_RIDGE,
    NOT_USABLE,
    PowerLawEvaluator,
)
from autoprox.evolution import term_archive
from autoprox.evolution.power_law import (
    LEAST_LOG,
    RIDGE,
    RIDGE_ACROSS,
    LabelledNetworks,
    PowerLawFit,
    factors_of,
    out_of_fold_scores,
    power_law,
    scores_of,
    two_digits,
    usable,
)
from autoprox.evolution.term_archive import SavedArchive, TermArchive
from autoprox.language import Tree, canonical, parse_expression
from autoprox.scoring.correlations import Floats, Indices, normal_scores
from autoprox.scoring.fitness_correlations import TrueScores

TERMS = [
    parse_expression(text)
    for text in ("sum(width)", "max(heads)", "mean(log(tokens))", "sum(std(msa.weight))")
]
COUNTS = (17, 11)  # networks of two pairs


def labelled(weights: Sequence[float] = (1.0, 3.0), seed: int = 0) -> LabelledNetworks:
    """Two spaces with one dataset each."""
    rng = np.random.default_rng(seed)
    truth = [rng.normal(size=count) for count in COUNTS]
    rows = sum(COUNTS)
    return LabelledNetworks(
        truth=np.concatenate(truth),
        target=np.concatenate(list(map(normal_scores, truth))),
        params=rng.normal(size=rows),
        pair=np.repeat([0, 1], COUNTS),
        network=np.arange(rows),
        weight=np.repeat(weights, COUNTS),
    )


def draws(labels: LabelledNetworks, count: int, seed: int = 1) -> Floats:
    """Logarithms of terms, which agree with the target more or less."""
    noise = np.random.default_rng(seed).normal(size=(count, len(labels.truth)))
    shares = np.linspace(0.1, 0.6, count)[:, None]
    return np.asarray(shares * labels.target + noise + 5 * labels.pair)


def plain(
    labels: LabelledNetworks, logs: Floats, rows: Indices
) -> tuple[Floats, Floats, Floats, Floats]:
    """Standardised terms [all rows, terms], targets and sample weights, by plain loops."""
    x, y = np.array(logs, dtype=float).T, labels.target.copy()
    for own in (0, 1):
        known = [row for row in rows if labels.pair[row] == own]
        x[labels.pair == own] -= x[known].mean(axis=0)
        y[labels.pair == own] -= y[known].mean()
    scale = np.sqrt((x[rows] ** 2).mean(axis=0) - x[rows].mean(axis=0) ** 2)
    weights = np.array([labels.weight[row] / COUNTS[labels.pair[row]] for row in range(len(y))])
    return x / scale, y, weights / weights.mean(), scale


def ridge(x: Floats, y: Floats, weights: Floats) -> Floats:
    found = Ridge(alpha=RIDGE, fit_intercept=False).fit(x, y, sample_weight=weights).coef_
    return np.asarray(found)


@pytest.mark.parametrize("part", [slice(None), slice(3, 25)])
def test_exponents_are_those_of_a_weighted_ridge_regression(part: slice) -> None:
    labels = labelled()
    rows, logs = np.arange(sum(COUNTS))[part], draws(labels, 4)
    x, y, weights, scale = plain(labels, logs, rows)
    expected = ridge(x[rows], y[rows], weights[rows])
    fit = PowerLawFit(logs, labels, rows)
    assert fit.exponents(range(4)) == pytest.approx(expected / scale)
    assert fit.predictions(range(4)) == pytest.approx(x @ expected)


def test_the_parameter_count_is_fitted_along_without_a_penalty() -> None:
    labels = labelled()
    rows, logs = np.arange(sum(COUNTS)), draws(labels, 4) + 2 * labels.params
    x, y, weights, scale = plain(labels, logs, rows)
    size = labels.params - np.array([labels.params[labels.pair == p].mean() for p in labels.pair])
    root = np.sqrt(weights)
    penalty = np.hstack([np.sqrt(RIDGE) * np.eye(4), np.zeros((4, 1))])
    left = np.vstack([np.column_stack([x, size]) * root[:, None], penalty])
    *expected, _ = np.linalg.lstsq(left, np.concatenate([y * root, np.zeros(4)]), rcond=None)[0]
    fit = PowerLawFit(logs, labels, rows, adjusted=True)
    assert fit.exponents(range(4)) == pytest.approx(expected / scale)
    plainly = PowerLawFit(logs, labels, rows).exponents(range(4))
    assert not np.allclose(plainly, fit.exponents(range(4)), rtol=0.1)


def test_a_term_that_is_the_parameter_count_explains_nothing_once_adjusted() -> None:
    labels = labelled()
    rows = np.arange(sum(COUNTS))
    [exponent] = PowerLawFit(labels.params[None] * 3, labels, rows, True).exponents([0])
    assert exponent == pytest.approx(0, abs=1e-12)


def of_several_spaces(seed: int) -> tuple[LabelledNetworks, Floats]:
    """Four spaces, the first with two datasets, and the logarithms of five terms."""
    rng = np.random.default_rng(seed)
    counts, first = (9, 9, 14, 11, 8), (0, 0, 9, 23, 34)
    rows = sum(counts)
    truth = [rng.normal(size=count) for count in counts]
    found = LabelledNetworks(
        truth=np.concatenate(truth),
        target=np.concatenate(list(map(normal_scores, truth))),
        params=rng.normal(size=rows),
        pair=np.repeat(range(5), counts),
        network=np.concatenate([f + np.arange(c) for f, c in zip(first, counts, strict=True)]),
        weight=np.ones(rows),
    )
    return found, 0.5 * found.target + rng.normal(size=(5, rows)) + found.pair


@pytest.mark.parametrize("seed", range(8))
def test_terms_for_several_spaces_are_selected_by_the_spaces_that_they_are_not_fitted_to(
    seed: int,
) -> None:
    labels, logs = of_several_spaces(seed)
    assert labels.space.tolist() == [0] * 18 + [1] * 14 + [2] * 11 + [3] * 8
    rows = np.arange(len(labels.truth))
    x = labels.centred(logs, rows)
    x = (x / x.std(axis=1, keepdims=True)).T
    y = labels.centred(labels.target, rows)
    root = np.array([1 / (labels.pair == p).sum() for p in labels.pair]) ** 0.5
    root /= np.sqrt(np.mean(root**2))
    x, y = x * root[:, None], y * root

    def quality(terms: list[int]) -> float:
        found = []
        for own in range(4):
            held = labels.space == own
            alpha = RIDGE_ACROSS * (~held).sum()
            fit = Ridge(alpha=alpha, fit_intercept=False).fit(x[~held][:, terms], y[~held])
            guess = x[held][:, terms] @ fit.coef_
            norm = np.linalg.norm(guess) * np.linalg.norm(y[held])
            found.append(float(guess @ y[held] / norm))
        return float(np.mean(found) + min(found))

    expected: list[int] = []
    reached = -np.inf
    while len(expected) < 4:
        others = [n for n in range(5) if n not in expected]
        best = max(others, key=lambda n: quality([*expected, n]))
        if quality([*expected, best]) <= reached:
            break
        expected.append(best)
        reached = quality(expected)
    assert PowerLawFit(logs, labels, rows).forward_selection(4) == expected


@pytest.mark.parametrize("seed", range(8))
def test_terms_are_selected_as_by_refitting_without_each_row(seed: int) -> None:
    labels = labelled(seed=seed)
    rows, logs = np.arange(sum(COUNTS)), draws(labels, 7, seed + 5)
    logs[1::2] += 2 * logs[:-1:2]  # correlated terms, on which a penalty tells most
    x, y, weights, _ = plain(labels, logs, rows)

    def error(chosen: list[int]) -> float:
        found = 0.0
        for row in rows:
            rest = np.delete(rows, row)
            coefficients = ridge(x[rest][:, chosen], y[rest], weights[rest])
            found += weights[row] * (y[row] - x[row, chosen] @ coefficients) ** 2
        return found

    chosen: list[int] = []
    for _ in range(4):
        left = [term for term in range(7) if term not in chosen]
        chosen.append(min(left, key=lambda term: error([*chosen, term])))
    assert PowerLawFit(logs, labels, rows).forward_selection(4) == chosen


def test_out_of_fold_scores_are_of_exponents_of_the_other_networks() -> None:
    labels = labelled()
    logs = draws(labels, 3)
    found = out_of_fold_scores(logs, labels, False, seed=7)
    for repeat, scores in enumerate(found):
        order = np.random.default_rng([7, repeat]).permutation(np.unique(labels.network))
        for first in range(5):
            held = order[first::5]
            rest = np.array(sorted(set(range(sum(COUNTS))) - set(held)))
            x, y, weights, _ = plain(labels, logs, rest)
            assert scores[held] == pytest.approx(x[held] @ ridge(x[rest], y[rest], weights[rest]))


def test_taus_are_those_of_scipy() -> None:
    labels = labelled()
    scores = np.random.default_rng(3).normal(size=sum(COUNTS))
    plainly, partial = labels.taus(scores, "unordered")
    for own in (0, 1):
        pair = labels.pair == own
        one, size, both = (
            stats.kendalltau(*values).statistic
            for values in (
                (scores[pair], labels.truth[pair]),
                (scores[pair], labels.params[pair]),
                (labels.truth[pair], labels.params[pair]),
            )
        )
        assert plainly[own] == pytest.approx(one)
        assert partial[own] == pytest.approx(
            (one - size * both) / np.sqrt((1 - size**2) * (1 - both**2))
        )


def test_usable_terms_vary_without_extremes() -> None:
    labels = labelled()
    logs = np.random.default_rng(2).normal(size=sum(COUNTS))
    assert usable(logs, labels)
    assert not usable(np.where(labels.network == 3, -np.inf, logs), labels)
    assert not usable(0.01 * logs, labels)  # hardly differ
    assert not usable(10.0 * labels.pair, labels)  # differ between the spaces alone
    assert not usable(logs + LEAST_LOG - logs.min(), labels)  # a power of it counts as 0
    many = np.arange(60)
    alone = LabelledNetworks(
        **dict.fromkeys(("truth", "target", "params"), many / 60.0),
        **{"pair": 0 * many, "network": many, "weight": np.ones(60)},
    )
    assert usable(many / 60.0, alone)
    assert not usable(many / 60.0 + 100.0 * (many == 3), alone)  # one network differs


@pytest.mark.parametrize(
    ("number", "text"),
    [
        *((0.0, "0"), (float("nan"), "0"), (1.0, "1"), (-0.5, "-0.5"), (0.0996, "0.1")),
        *((12.34, "12"), (-1.25, "-1.2"), (99.7, "100"), (1234.5, "1200"), (0.000123, "0.00012")),
        *((1e-7, "0.0000001"), (-0.0304, "-0.03"), (10.04, "10"), (0.105, "0.1")),
    ],
)
def test_exponents_have_two_digits(number: float, text: str) -> None:
    assert two_digits(number) == text


def test_a_power_law_is_read_back_from_its_text_and_its_canonical_form() -> None:
    exponents = [0.512, -1.26, 3.0, -0.00171]
    expected = [(str(t), e) for t, e in zip(TERMS, [0.51, -1.3, 3.0, -0.0017], strict=True)]
    tree = power_law(TERMS, exponents)
    assert tree.depth <= 2 + 1 + max(term.depth for term in TERMS)

    def read(tree: Tree) -> list[tuple[str, float]]:
        return [(str(term), exponent) for term, exponent in factors_of(tree) or []]

    assert read(tree) == read(parse_expression(str(tree))) == expected
    assert parse_expression(str(tree)) == tree
    own = {(str(canonical(parse_expression(text))), exponent) for text, exponent in expected}
    assert set(read(canonical(tree))) == own


def test_factors_without_weight_are_left_out() -> None:
    assert str(power_law(TERMS[:2], [0.0, 2.0])) == str(parse_expression("pow(max(heads), 2)"))
    assert factors_of(power_law(TERMS[:2], [0.0, 0.0])) == [(TERMS[0], 1.0)]


@pytest.mark.parametrize("text", ["sum(width)", "mul(sum(width), pow(max(heads), 2))"])
def test_other_formulas_have_no_factors(text: str) -> None:
    assert factors_of(parse_expression(text)) is None


def test_a_power_law_of_many_terms_is_flat() -> None:
    terms = [parse_expression(f"mul(sum(width), {number})") for number in range(2, 90)]
    assert power_law(terms, [1.5] * len(terms)).depth <= 7 + 3


def archive_of(labels: LabelledNetworks, count: int = 4) -> TermArchive:
    archive = TermArchive(labels)
    archive.add(TERMS[:count], draws(labels, count))
    return archive


def test_the_archive_keeps_the_first_of_terms_that_order_alike() -> None:
    labels = labelled()
    archive = archive_of(labels, 2)
    before = archive.logs.copy()
    archive.add(TERMS[2:], np.stack([np.exp(before[0].astype(float)), -before[1]]))
    assert archive.terms == [*TERMS[:2], TERMS[3]]
    assert np.array_equal(archive.logs, [*before, -before[1]])


def test_a_full_archive_keeps_the_terms_nearest_to_the_target(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    labels = labelled(weights=(1.0, 1.0))
    monkeypatch.setattr(term_archive, "MAX_VALUES", 2 * sum(COUNTS) + 5)
    archive, logs = archive_of(labels), draws(labels, 4)
    x, y, _, _ = plain(labels, logs, np.arange(sum(COUNTS)))
    strength = np.abs(x.T @ y)
    assert archive.terms == [TERMS[n] for n in sorted(np.argsort(-strength)[:2])]
    assert archive.logs.shape == (2, sum(COUNTS))
    again = SavedArchive.of(archive).restored(labels)
    for own in (archive, again):  # one that was dropped is new again in both
        own.add(TERMS, logs)
    assert archive.terms == again.terms
    assert np.array_equal(archive.logs, again.logs)


def test_an_archive_is_restored_exactly() -> None:
    labels = labelled()
    archive = archive_of(labels)
    saved = SavedArchive.model_validate_json(SavedArchive.of(archive).model_dump_json())
    again = saved.restored(labels)
    assert again.terms == archive.terms
    assert again.logs.dtype == np.float32
    assert np.array_equal(again.logs, archive.logs)
    assert again.selections(2, False, 0)[3][1] == archive.selections(2, False, 0)[3][1]


def packed(values: Any) -> str:
    return base64.b64encode(zlib.compress(np.asarray(values, "<f4").tobytes())).decode()


NAN = np.full((4, sum(COUNTS)), np.nan)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"logs": "!!!"}, "logs must be zlib and base64"),
        ({"logs": "AAAA"}, "logs must be zlib and base64"),
        ({"logs": packed(np.zeros(3))}, "logs must be of 4 terms on 28 rows"),
        ({"logs": packed(np.zeros(2**24))}, "logs must be of 4 terms on 28 rows"),
        ({"logs": packed(NAN)}, "logs must be finite"),
        ({"logs": packed(np.zeros((4, 28)))}, "terms must order the networks differently"),
        ({"terms": tuple("abcd")}, "unknown"),
        ({"terms": ("sum(width)",) * 200_000}, "terms must be at most 149796, but are 200000"),
    ],
)
def test_a_forged_archive_is_refused(changed: dict[str, Any], message: str) -> None:
    labels = labelled()
    saved = SavedArchive.of(archive_of(labels)).model_copy(update=changed)
    with pytest.raises((ValueError, AutoproxError), match=message):
        saved.restored(labels)


class Networks:
    """Networks on which `TERMS` have the given values, [terms, networks]."""

    def __init__(
        self, networks: list[int], truth: Floats, values: Floats, params: float = 1.0
    ) -> None:
        sizes = params * np.arange(1.0, len(networks) + 1)[None]
        self.truth = TrueScores(truth[None, networks], sizes)
        self.evaluation_set = SimpleNamespace(networks=networks, truth={"one": None})
        self.measured: list[Tree] = []
        self._values = values

    def scores(self, terms: Sequence[Tree]) -> ProxyScores:
        self.measured += terms
        values = self._values[[TERMS.index(term) for term in terms]][:, None]
        return ProxyScores(values, np.zeros(values.shape, dtype=np.int8))


def test_a_term_that_depends_on_the_draw_of_weights_is_dropped() -> None:
    """Kept are those whose Spearman correlation with another seed's values is .9 at least."""
    rng = np.random.default_rng(0)
    networks, few = list(range(20)), list(range(0, 20, 2))
    values = np.exp(rng.normal(size=(4, 20)))
    noise = np.array([0.0, 0.05, 3.0, 0.0])[:, None]
    again = np.exp(np.log(values[:, few]) + noise * rng.normal(size=(4, 10)))
    values[3, 4] = 0.0
    truth = rng.normal(size=20)
    evaluator = PowerLawEvaluator(
        EvolveConfig(),
        [Networks(networks, truth, values)],  # type: ignore[list-item]
        [Networks(few, truth, again)],  # type: ignore[list-item]
    )
    measured = evaluator.measure(TERMS)
    correlations = [stats.spearmanr(values[n, few], again[n]).statistic for n in range(3)]
    expected = [TERMS[n] for n in range(3) if correlations[n] >= 0.9]
    assert measured.terms == expected == TERMS[:2]
    assert measured.logs == pytest.approx(np.log(values[:2]))
    assert measured.unusable == {CHANGES_WITH_SEED: 1, NOT_USABLE: 1}


def test_terms_are_measured_on_the_spaces_of_small_networks_first() -> None:
    """Those that can't be used there aren't measured on the others; rows keep the spaces' order."""
    rng = np.random.default_rng(0)
    values = np.exp(rng.normal(size=(4, 20)))
    small = values.copy()
    small[1, 3] = 0.0
    small[2] = np.exp(rng.normal(size=20))  # with another seed
    large = Networks(list(range(20)), rng.normal(size=20), values, params=1e9)
    first = Networks(list(range(20)), rng.normal(size=20), small, params=1e6)
    again = Networks(list(range(20)), rng.normal(size=20), values)
    evaluator = PowerLawEvaluator(
        EvolveConfig(),
        [large, first],  # type: ignore[list-item]
        [large, again],  # type: ignore[list-item]
    )
    measured = evaluator.measure(TERMS)
    assert measured.terms == [TERMS[0], TERMS[3]]
    assert measured.unusable == {NOT_USABLE: 1, CHANGES_WITH_SEED: 1}
    assert measured.logs == pytest.approx(np.log(np.hstack([values, small])[[0, 3]]))
    assert set(first.measured) == set(TERMS)
    assert set(large.measured) == {TERMS[0], TERMS[3]}


def test_no_term_may_be_usable() -> None:
    networks = Networks(list(range(20)), np.arange(20.0), np.zeros((4, 20)))
    evaluator = PowerLawEvaluator(EvolveConfig(), [networks], [networks])  # type: ignore[list-item]
    measured = evaluator.measure(TERMS)
    assert measured.terms == []
    assert measured.logs.shape == (0, 20)
    assert measured.unusable == {NOT_USABLE: 4}


def test_a_power_law_is_imitated_by_the_terms_that_matter_most() -> None:
    rng = np.random.default_rng(0)
    values = np.exp(rng.normal(size=(4, 30)))
    networks = Networks(list(range(30)), rng.normal(size=30), values)
    evaluator = PowerLawEvaluator(EvolveConfig(), [networks], [])  # type: ignore[list-item]
    logs = dict(zip(TERMS, np.log(values), strict=True))
    exponents = dict(zip(TERMS, (0.02, -2.0, 0.01, 1.0), strict=True))
    whole = scores_of(exponents, logs)
    assert whole == pytest.approx(sum(exponents[term] * logs[term] for term in TERMS))
    found = evaluator.imitation(TERMS, whole, logs, 2)
    terms = list(found)
    assert terms == [TERMS[1], TERMS[3]]
    x = np.stack([logs[term] for term in terms])
    x = (x - x.mean(axis=1, keepdims=True)) / x.std(axis=1, keepdims=True)
    expected = Ridge(alpha=IMITATION_RIDGE, fit_intercept=False).fit(x.T, whole - np.mean(whole))
    scale = np.array([logs[term].std() for term in terms])
    assert list(found.values()) == pytest.approx(expected.coef_ / scale)
    assert set(evaluator.imitation(TERMS, whole, logs)) == set(TERMS)
    assert evaluator.imitation([], whole, logs) == {}


def test_rows_are_found_again_when_networks_are_lost() -> None:
    """Each row of the smaller evaluator has the true score of the larger one's row."""
    values, truth = np.ones((4, 20)), np.arange(20.0)
    whole, left = ([4, 0, 7, 3], [5, 6, 1]), ([0, 7], [1, 5, 6])
    large, small = (
        PowerLawEvaluator(EvolveConfig(), [Networks(n, truth, values) for n in own], [])  # type: ignore[misc]
        for own in (whole, left)
    )
    rows = large.rows_in(small)
    assert rows.tolist() == [1, 2, 6, 4, 5]
    assert large.labelled.truth[rows].tolist() == small.labelled.truth.tolist()


def test_a_committee_is_the_mean_of_ridge_regressions() -> None:
    rng = np.random.default_rng(0)
    values, truth = np.exp(rng.normal(size=(4, 30))), rng.normal(size=30)
    networks = Networks(list(range(30)), truth, values)
    evaluator = PowerLawEvaluator(EvolveConfig(), [networks], [])  # type: ignore[list-item]
    logs = dict(zip(TERMS, np.log(values), strict=True))
    expected = dict.fromkeys(TERMS[:3], 0.0)
    sets = [[TERMS[0], TERMS[1]], [TERMS[1], TERMS[2]]]
    for own in sets:
        x = np.stack([logs[term] for term in own]).T
        fit = Ridge(alpha=RIDGE).fit((x - x.mean(axis=0)) / x.std(axis=0), normal_scores(truth))
        for term, each in zip(own, fit.coef_ / x.std(axis=0), strict=True):
            expected[term] += each / 2
    assert evaluator.committee(sets, logs, adjusted=False) == pytest.approx(expected)
