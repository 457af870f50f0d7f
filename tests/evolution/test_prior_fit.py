"""Fits that are shrunk towards prior knowledge, against plain ridge regressions."""

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import spearmanr

from autoprox.evolution.power_law import RIDGE, LabelledNetworks, PowerLawFit, power_law
from autoprox.evolution.prior_fit import ENOUGH_LABELS, penalty, shrunken_fit
from autoprox.evolution.prior_knowledge import prior_for, ready_made_proxy
from autoprox.scoring.correlations import Floats, normal_scores
from autoprox.searchspaces import get_space
from autoprox.searchspaces.language_model_bases import TokenSpace
from autoprox.zoo import EXPRESSION_PROXIES
from autoprox.zoo.prior_file import BOTH, LANGUAGE, VISION, read_prior_file

ROOT = Path(__file__).parents[2]
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


def test_the_fit_is_the_mean_of_ridge_regressions_with_the_prior_and_without() -> None:
    labelled, prior, logs = networks()
    rows = np.arange(12)
    found = shrunken_fit(prior, 0.4, logs, labelled, rows, len(logs), ridge=3.0)
    features = np.concatenate([prior[None], logs])
    x = features / features.std(axis=1)[:, None]
    x = (x - x[:, rows].mean(axis=1)[:, None])[:, rows].T
    y = normal_scores(labelled.truth[rows])
    offset = np.eye(7)[0] * 0.4
    # with as many terms as there are, all members of a committee agree
    shrunken = offset + np.linalg.solve(x.T @ x + 3.0 * np.eye(7), x.T @ (y - x @ offset))
    own = x[:, 1:]
    scratch = np.linalg.solve(own.T @ own + RIDGE * np.eye(6), own.T @ y)
    exponents = (shrunken + np.concatenate([[0], scratch])) / 2 / features.std(axis=1)
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


@pytest.mark.parametrize("group", [BOTH, VISION, LANGUAGE])
def test_an_entry_without_a_table_is_of_all_others(group: str) -> None:
    own = read_prior_file().groups[group]
    tables = [each.table for each in own.without]
    assert len(tables) > 2
    assert own.every.tables == tables
    for each in own.without:
        found = own.entry(each.table.benchmark, each.table.space)
        assert found == each.entry
        assert sorted(map(str, (*found.tables, each.table))) == sorted(map(str, tables))


def test_groups_have_tables_of_vision_or_of_language() -> None:
    of_tokens = {
        name: {isinstance(get_space(own.space), TokenSpace) for own in group.every.tables}
        for name, group in read_prior_file().groups.items()
    }
    assert of_tokens == {BOTH: {False, True}, VISION: {False}, LANGUAGE: {True}}


@pytest.mark.parametrize("space", ["pit", "gpt2-nano"])
def test_an_unknown_table_gets_the_ready_made_proxy_of_its_kind(space: str) -> None:
    name = ready_made_proxy(get_space(space))
    every = read_prior_file().groups[name].every
    for found in (prior_for("mine", space), prior_for("other-bench", space)):
        assert (found.tables, str(found.tree)) == (every.tables, every.expression)
        assert power_law(list(found.exponents), list(found.exponents.values())) == found.tree
    assert EXPRESSION_PROXIES[name].expression == every.expression


def test_defaults_rank_tables_that_they_do_not_know_best() -> None:
    """The figures that were written when the proxies were fitted, each mean computed here."""
    left_out = json.loads((ROOT / "runs" / "prior" / "left_out.json").read_text())["tables"]
    file = read_prior_file()
    for kind, default in ((VISION, file.vision), (LANGUAGE, file.language)):
        rows = [own for own in left_out.values() if kind in own]
        assert len(rows) == len(file.groups[kind].without)
        means = {name: np.mean([own[name]["tau"] for own in rows]) for name in (BOTH, kind)}
        assert max(means, key=lambda name: means[name]) == default


def test_without_terms_the_fit_is_the_prior() -> None:
    labelled, prior, _ = networks()
    found = shrunken_fit(prior, 0.4, np.empty((0, COUNT)), labelled, np.arange(12), 3)
    assert found.exponents.shape == (0,)
    assert np.argsort(found.scores).tolist() == np.argsort(prior).tolist()
