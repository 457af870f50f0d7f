"""Kendall tau with ties or size controlled for, against scipy and loops over pairs."""

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import kendalltau

from autoprox.scoring.bootstrap import (
    BootstrapMetrics,
    BootstrapSample,
    bootstrap_metrics,
    count_near_size_pairs,
    mean_metrics,
)
from autoprox.scoring.correlations import kendall, kendall_unordered_ties
from autoprox.scoring.fitness_correlations import TrueScores, fitness_taus, partial_kendall

RNG = np.random.default_rng(5)
SAME = "not significantly different"


def naive_tau(
    scores: np.ndarray, truth: np.ndarray, params: np.ndarray | None = None
) -> tuple[float, int]:
    """Tau with tied scores as unordered, over all pairs or those near in size, and their number."""
    surplus = pairs = ordered = 0
    for i, j in combinations(range(len(scores)), 2):
        if params is not None and max(params[i], params[j]) >= 1.1 * min(params[i], params[j]):
            continue
        pairs += 1
        ordered += truth[i] != truth[j]
        surplus += np.sign(scores[i] - scores[j]) * np.sign(truth[i] - truth[j])
    return surplus / math.sqrt(pairs * ordered), pairs


def naive_partial(scores: np.ndarray, truth: np.ndarray, params: np.ndarray) -> float:
    xy, xz = naive_tau(scores, truth)[0], naive_tau(scores, params)[0]
    yz = kendalltau(truth, params).statistic
    return (xy - xz * yz) / math.sqrt((1 - xz**2) * (1 - yz**2))


def share_untied(values: np.ndarray) -> float:
    pairs = list(combinations(values, 2))
    return sum(a != b for a, b in pairs) / len(pairs)


def drawn(networks: int = 40, levels: int = 8) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Scores with ties, truth with some, and sizes that both follow."""
    params = RNG.integers(100, 400, networks).astype(float)
    scores = np.round(params / 300 * levels + RNG.normal(size=networks) * 2)
    return scores, np.round(params / 10 + RNG.normal(size=networks) * 8), params


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=3, max_size=12))
def test_tied_scores_count_as_unordered(pairs: list[tuple[int, int]]) -> None:
    scores, truth = np.array(pairs, dtype=float).T
    if len(set(scores)) > 1 and len(set(truth)) > 1:
        expected = kendalltau(scores, truth).statistic * math.sqrt(share_untied(scores))
        assert kendall_unordered_ties(scores, truth) == pytest.approx(expected, abs=1e-12)
        assert naive_tau(scores, truth)[0] == pytest.approx(expected, abs=1e-12)


def test_a_batch_with_ties_equals_loops() -> None:
    scores, truth = RNG.integers(0, 6, (5, 3, 20)), RNG.integers(0, 9, (3, 20))
    expected = [[naive_tau(own, t)[0] for own, t in zip(row, truth, strict=True)] for row in scores]
    np.testing.assert_allclose(kendall_unordered_ties(scores, truth), expected, atol=1e-12)


def test_fitness_of_two_spaces_equals_loops() -> None:
    """[trees, pairs of a space and a dataset]: three datasets of one space, one of another."""
    spaces = [[drawn() for _ in range(3)], [drawn(25)]]
    targets = [TrueScores(*map(np.array, list(zip(*space, strict=True))[1:])) for space in spaces]
    trees = [[RNG.permuted(own) for own, _, _ in (*spaces[0], *spaces[1])] for _ in range(4)]
    scores = [np.array([t[:3] for t in trees]), np.array([t[3:] for t in trees])]
    taus, partial = fitness_taus(scores, targets, "unordered")
    columns = [*spaces[0], *spaces[1]]
    for row, own in zip(range(4), trees, strict=True):
        for i, (_, truth, params) in enumerate(columns):
            assert taus[row, i] == pytest.approx(naive_tau(own[i], truth)[0], abs=1e-12)
            assert partial[row, i] == pytest.approx(naive_partial(own[i], truth, params), abs=1e-12)


def test_ties_may_be_those_of_tau_b() -> None:
    scores, truth, params = drawn()
    (taus,), (partial,) = fitness_taus(
        [scores[None, None]], [TrueScores(truth[None], params[None])], "tau-b"
    )
    xy, xz, yz = (
        kendalltau(*pair).statistic for pair in ((scores, truth), (scores, params), (truth, params))
    )
    assert taus[0] == pytest.approx(xy, abs=1e-12)
    assert partial[0] == pytest.approx((xy - xz * yz) / math.sqrt((1 - xz**2) * (1 - yz**2)))


@pytest.mark.parametrize(
    ("own", "with_size", "truth_with_size", "expected"),
    [
        (0.5, 0.0, 0.3, 0.5 / math.sqrt(0.91)),
        (0.5, math.nan, math.nan, 0.5),  # all networks are of one size
        (0.8, 1.0, 0.8, 0.0),  # the score is size
        (-0.8, -1.0, 0.8, 0.0),
        (0.6, 0.6, 1.0, 0.0),  # the truth is size
    ],
)
def test_partial_tau(own: float, with_size: float, truth_with_size: float, expected: float) -> None:
    assert partial_kendall(own, with_size, truth_with_size) == pytest.approx(expected)


def test_constant_scores_have_no_partial_tau() -> None:
    target = TrueScores(np.arange(5.0)[None], np.arange(5.0)[None])
    taus, partial = target.taus(np.ones((1, 1, 5)), "unordered")
    assert np.isnan([taus, partial]).all()


@pytest.mark.parametrize("seed", range(5))
def test_metrics_of_all_networks_equal_loops(seed: int) -> None:
    scores, truth, params = drawn()
    found = bootstrap_metrics(scores, truth, params, BootstrapSample(40, seed))
    near_size, pairs = naive_tau(scores, truth, params)
    assert found.kendall[0] == pytest.approx(naive_tau(scores, truth)[0])
    assert found.partial_tau[0] == pytest.approx(naive_partial(scores, truth, params))
    assert found.near_size_tau[0] == pytest.approx(near_size)
    assert count_near_size_pairs(params) == pairs > 30


def test_a_draw_equals_loops_over_its_networks() -> None:
    """Copies of a network are no pair, but each of them is a pair with every other network."""
    scores, truth, params = drawn(30)
    sample = BootstrapSample(30, seed=3, draws=20)
    found = bootstrap_metrics(scores, truth, params, sample, "tau-b").kendall
    for draw, counts in enumerate(sample.counts):
        rows = np.repeat(np.arange(30), counts.astype(int))
        assert found[draw] == pytest.approx(kendalltau(scores[rows], truth[rows]).statistic)
    assert (sample.counts[1:].sum(axis=1) == 30).all()


def test_copies_of_a_network_are_not_ties() -> None:
    scores, truth = RNG.permutation(30).astype(float), np.arange(30.0)
    sample = BootstrapSample(30, seed=3, draws=50)
    np.testing.assert_allclose(
        sample.tau(scores, truth), sample.tau(scores, truth, "tau-b"), atol=1e-12
    )


def test_too_few_pairs_near_in_size_have_no_tau() -> None:
    scores, truth = RNG.normal(size=(2, 20))
    row = bootstrap_metrics(scores, truth, 2.0 ** np.arange(20), BootstrapSample(20, 0)).summary()
    assert (row.near_size_tau, row.near_size_tau_interval) == (None, (None, None))
    assert row.partial_tau is not None


@pytest.mark.parametrize(("noise", "verdict"), [(0.1, "better"), (1.0, SAME), (30.0, "worse")])
def test_two_proxies_are_compared_on_the_same_draws(noise: float, verdict: str) -> None:
    rng = np.random.default_rng(0)
    truth = rng.normal(size=80)
    params = np.full(80, 1e6)
    sample = BootstrapSample(80, 0)
    own, other = (
        bootstrap_metrics(truth + scale * rng.normal(size=80), truth, params, sample)
        for scale in (noise, 1.0)
    )
    found = own.minus(other)
    assert found.kendall.verdict == found.near_size_tau.verdict == verdict
    assert found.kendall.difference == pytest.approx(own.kendall[0] - other.kendall[0])
    itself = own.minus(own).kendall
    assert (itself.difference, itself.interval, itself.verdict) == (0, (0, 0), SAME)


def test_an_unknown_difference_has_no_verdict() -> None:
    known, unknown = np.zeros(10), np.full(10, np.nan)
    found = BootstrapMetrics(known, known, unknown).minus(BootstrapMetrics(known, known, known))
    assert found.near_size_tau.model_dump() == {
        "difference": None,
        "interval": (None, None),
        "verdict": None,
    }
    assert found.kendall.verdict == SAME


def test_means_are_taken_draw_by_draw() -> None:
    scores, truth, params = drawn(30)
    sample = BootstrapSample(30, 0)
    one, two = (bootstrap_metrics(own, truth, params, sample) for own in (scores, -scores))
    np.testing.assert_allclose(mean_metrics([one, two]).kendall, 0, atol=1e-12)
    np.testing.assert_allclose(mean_metrics([one, one]).near_size_tau, one.near_size_tau)


def test_both_ways_to_a_tau_agree() -> None:
    scores, truth, _ = drawn()
    sample = BootstrapSample(40, 0, draws=1)
    assert sample.tau(scores, truth)[0] == pytest.approx(
        float(kendall_unordered_ties(scores, truth))
    )
    assert sample.tau(scores, truth, "tau-b")[0] == pytest.approx(float(kendall(scores, truth)))
