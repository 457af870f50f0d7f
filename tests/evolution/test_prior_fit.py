"""Fits that are shrunk towards prior knowledge, against plain ridge regressions."""

import numpy as np
import pytest
from scipy.stats import spearmanr

from autoprox.evolution.power_law import RIDGE, LabelledNetworks, PowerLawFit, power_law
from autoprox.evolution.prior_fit import ENOUGH_LABELS, penalty, shrunken_fit
from autoprox.evolution.prior_knowledge import prior_for
from autoprox.scoring.correlations import Floats, normal_scores
from autoprox.zoo import EXPRESSION_PROXIES
from autoprox.zoo.prior_file import read_prior_file

COUNT = 40


def networks(count: int = COUNT, seed: int = 0) -> tuple[LabelledNetworks, Floats, Floats]:
    """Networks of one dataset, a prior, and terms."""
    rng = np.random.default_rng(seed)
    prior, logs = rng.normal(size=count), rng.normal(size=(6, count))
    truth = 0.6 * prior + logs[0] - 0.7 * logs[1] + 0.3 * rng.normal(size=count)
    labelled = LabelledNetworks(
        truth=truth,
        target=normal_scores(truth),
        params=rng.normal(size=count),
        pair=np.zeros(count, dtype=int),
        network=np.arange(count),
        weight=np.ones(count),
    )
    return labelled, prior, logs


def test_no_labels_give_the_order_of_the_prior() -> None:
    labelled, prior, logs = networks()
    found = shrunken_fit(prior, 0.4, logs, labelled, np.arange(0), 3)
    assert not found.exponents.any()
    assert np.argsort(found.scores).tolist() == np.argsort(prior).tolist()


def test_the_fit_is_a_ridge_regression_with_an_offset() -> None:
    labelled, prior, logs = networks()
    rows = np.arange(12)
    found = shrunken_fit(prior, 0.4, logs, labelled, rows, len(logs), ridge=3.0)
    features = np.concatenate(
        [prior[None], logs]
    )  # with as many terms as there are, all bags agree
    x = features / features.std(axis=1)[:, None]
    x = (x - x[:, rows].mean(axis=1)[:, None])[:, rows].T
    y = normal_scores(labelled.truth[rows])
    offset = np.eye(7)[0] * 0.4
    plain = offset + np.linalg.solve(x.T @ x + 3.0 * np.eye(7), x.T @ (y - x @ offset))
    exponents = plain / features.std(axis=1)
    assert found.prior == pytest.approx(exponents[0])
    assert found.exponents == pytest.approx(exponents[1:])
    wanted = exponents @ (features - features[:, rows].mean(axis=1)[:, None])
    assert found.scores == pytest.approx(wanted)


def test_only_the_labels_of_the_chosen_rows_are_read() -> None:
    labelled, prior, logs = networks()
    rows = np.arange(12)
    changed = labelled.truth.copy()
    changed[12:] = changed[12:][::-1]
    other = LabelledNetworks(**{**vars(labelled), "truth": changed, "target": changed})
    one, two = (shrunken_fit(prior, 0.4, logs, own, rows, 3) for own in (labelled, other))
    assert one.scores.tolist() == two.scores.tolist()


def test_many_labels_forget_a_wrong_prior() -> None:
    labelled, prior, logs = networks(2000)
    wrong = np.random.default_rng(9).normal(size=2000)
    features = np.concatenate([prior[None], logs])
    rows = np.arange(2000)
    found = shrunken_fit(wrong, 0.9, features, labelled, rows, 7)
    scratch = PowerLawFit(features, labelled, rows).exponents(range(7))
    assert found.exponents == pytest.approx(scratch, abs=0.01)
    assert abs(found.prior) < 0.03


def test_equal_labels_leave_the_order_of_the_prior() -> None:
    labelled, prior, logs = networks()
    flat = LabelledNetworks(**{**vars(labelled), "truth": np.ones(COUNT)})
    found = shrunken_fit(prior, 0.4, logs, flat, np.arange(8), 3)
    assert np.isfinite(found.scores).all()
    assert spearmanr(found.scores, prior).statistic > 0.8


def test_few_labels_are_penalised_more() -> None:
    assert penalty(ENOUGH_LABELS) == penalty(1000) == RIDGE
    assert penalty(10) == pytest.approx(9 * RIDGE)


def test_a_table_gets_the_prior_that_was_fitted_without_it() -> None:
    tables = [own.table for own in read_prior_file().without]
    assert tables
    for own in tables:
        found = prior_for(own.benchmark, own.space)
        assert own not in found.tables
        assert sorted(map(str, (*found.tables, own))) == sorted(map(str, tables))


def test_an_unknown_table_gets_the_prior_of_all_tables() -> None:
    every = read_prior_file().every
    for found in (prior_for("mine", "pit"), prior_for("nano-bench", "pit")):
        assert (found.tables, str(found.tree)) == (every.tables, every.expression)


def test_the_prior_is_a_power_law() -> None:
    found = prior_for("mine", "pit")
    assert power_law(list(found.exponents), list(found.exponents.values())) == found.tree
    assert EXPRESSION_PROXIES["autoprox-1"].expression == str(found.tree)
