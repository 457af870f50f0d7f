"""The correlations against scipy, JCM, split and bootstrap against re-derivations."""

import math
import tracemalloc
import warnings
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from autoprox.errors import AutoproxError
from autoprox.scoring import correlations
from autoprox.scoring.bootstrap import (
    bootstrap_interval,
    split_networks,
)
from autoprox.scoring.correlations import (
    CORRELATIONS,
    jcm,
    kendall,
    kendall_unordered_ties,
    pearson,
)
from autoprox.scoring.fitness_correlations import size_adjusted

SCIPY: dict[str, Callable[..., tuple[float, float]]] = {
    "kendall": stats.kendalltau,
    "spearman": stats.spearmanr,
    "pearson": stats.pearsonr,
}


def reference(name: str, scores: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Scipy on one pair of rows after the other."""
    left, right = np.broadcast_arrays(scores, truth)
    rows = zip(left.reshape(-1, left.shape[-1]), right.reshape(-1, right.shape[-1]), strict=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        values = [SCIPY[name](a, b)[0] for a, b in rows]
    return np.array(values).reshape(left.shape[:-1])


def test_correlations_are_named() -> None:
    assert list(CORRELATIONS) == ["kendall", "spearman", "pearson"]


@pytest.mark.parametrize("name", CORRELATIONS)
@pytest.mark.parametrize(
    ("scores", "truth"),
    [
        ((60,), (60,)),
        ((20, 3, 60), (3, 60)),
        ((7, 1, 40), (3, 40)),
        ((40,), (2, 3, 40)),
        ((5, 3, 40), (5, 3, 40)),
        ((4, 2), (4, 2)),
    ],
)
@pytest.mark.parametrize("levels", [None, 9, 3])
def test_equals_scipy(
    name: str, scores: tuple[int, ...], truth: tuple[int, ...], levels: int | None
) -> None:
    rng = np.random.default_rng(3)

    def draw(shape: tuple[int, ...]) -> np.ndarray:
        values = rng.standard_normal(shape)
        return values if levels is None else rng.integers(0, levels, shape).astype(float)

    left, right = draw(scores), draw(truth)
    actual = CORRELATIONS[name](left, right)
    expected = reference(name, left, right)
    assert actual.shape == expected.shape
    np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-12)


@settings(max_examples=200, deadline=None)
@given(
    arrays(np.float64, (2, 12), elements=st.floats(-1e300, 1e300)),
    arrays(np.int64, (12,), elements=st.integers(-2, 2)),
)
def test_kendall_equals_scipy_at_any_magnitude(scores: np.ndarray, truth: np.ndarray) -> None:
    np.testing.assert_allclose(
        kendall(scores, truth), reference("kendall", scores, truth), rtol=0, atol=1e-12
    )


def test_kendall_is_the_same_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    scores, truth = rng.integers(0, 20, (9, 3, 30)), rng.integers(0, 20, (3, 30))
    whole = kendall(scores, truth)
    monkeypatch.setattr(correlations, "_PAIRS_AT_ONCE", 1000)
    np.testing.assert_array_equal(kendall(scores, truth), whole)


def test_kendall_takes_little_memory() -> None:
    rng = np.random.default_rng(0)
    tracemalloc.start()
    try:
        kendall(rng.random((4000, 100)), rng.random(100))  # 40 million pairs
        _, most = tracemalloc.get_traced_memory()
        assert most < 100e6
        kendall(rng.random((2, 3000)), rng.random(3000))
        left, _ = tracemalloc.get_traced_memory()
        assert left < 1e6
    finally:
        tracemalloc.stop()


def test_kendall_does_not_mistake_one_truth_for_another() -> None:
    scores = np.arange(10.0)
    truth = np.arange(10.0)
    assert kendall(scores, truth) == pytest.approx(1)
    truth[:] = truth[::-1].copy()
    assert kendall(scores, truth) == pytest.approx(-1)


@pytest.mark.parametrize("scale", [1e-300, 1.0, 1e300])
def test_pearson_keeps_huge_and_tiny_scores(scale: float) -> None:
    scores, truth = np.array([1.0, 2.0, 4.0, 3.0]), np.array([2.0, 1.0, 5.0, 3.0])
    expected = stats.pearsonr(scores, truth)[0]
    assert pearson(scores * scale, truth) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("name", CORRELATIONS)
def test_invalid_rows_are_nan_and_alone(name: str) -> None:
    good = [1.0, 2.0, 3.0, 4.0]
    rows = [good, [1.0, 2.0, math.nan, 4.0], [1.0, math.inf, 3.0, -math.inf], [7.1] * 4]
    values = CORRELATIONS[name](rows, good)
    assert values[0] == pytest.approx(1, abs=1e-12)
    assert np.isnan(values[1:]).all()
    assert np.isnan(CORRELATIONS[name](good, rows)[1:]).all()


@pytest.mark.parametrize("name", CORRELATIONS)
def test_different_networks_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"same networks: \(2, 4\), \(2, 1\)"):
        CORRELATIONS[name](np.zeros((2, 4)), np.zeros((2, 1)))


def test_jcm_is_the_plain_mean_for_equal_weights() -> None:
    taus = np.array([[0.1, 0.2, 0.6], [0.5, 0.5, -1.0]])
    np.testing.assert_allclose(jcm(taus), [0.3, 0.0], atol=1e-15)
    np.testing.assert_allclose(jcm(taus, [2, 2, 2]), [0.3, 0.0], atol=1e-15)


def test_jcm_is_weighted() -> None:
    assert jcm([0.1, 0.2, 0.6], [2, 1, 1]) == pytest.approx((0.2 + 0.2 + 0.6) / 4)
    assert jcm([0.1, 0.2], [0, 3]) == pytest.approx(0.2)
    assert math.isnan(jcm([0.1, math.nan]))


@pytest.mark.parametrize("weights", [[1, 1], [1, 1, -1], [0, 0, 0], [1, 1, math.inf], []])
def test_jcm_refuses_wrong_weights(weights: list[float]) -> None:
    with pytest.raises(AutoproxError, match=r"one finite number >= 0 a dataset.*3 datasets"):
        jcm([0.1, 0.2, 0.3], weights)


@given(st.integers(2, 300), st.integers(0, 2**64), st.floats(0.3, 0.7))
def test_split_is_a_partition(networks: int, seed: int, train: float) -> None:
    left, right = split_networks(networks, seed, train)
    assert len(left) == round(networks * train)
    assert sorted([*left, *right]) == list(range(networks))
    assert list(left) == sorted(left)
    assert list(right) == sorted(right)


def test_split_never_changes() -> None:
    train, test = split_networks(10, seed=0)
    assert (list(train), list(test)) == ([0, 1, 2, 3, 6, 8], [4, 5, 7, 9])


def test_split_depends_on_the_seed() -> None:
    assert len({tuple(split_networks(100, seed)[0]) for seed in range(50)}) == 50


@pytest.mark.parametrize(("networks", "train"), [(1, 0.6), (100, 1.0), (100, 0.0), (2, 0.9)])
def test_split_refuses_an_empty_side(networks: int, train: float) -> None:
    with pytest.raises(AutoproxError, match=rf"both sides, but got {networks} networks"):
        split_networks(networks, 0, train)


def test_seed_is_not_negative() -> None:
    with pytest.raises(AutoproxError, match=r">= 0, but got -1"):
        split_networks(10, -1)


def test_bootstrap_agrees_with_scipy() -> None:
    rng = np.random.default_rng(1)
    truth = rng.standard_normal(40)
    scores = truth + rng.standard_normal(40)
    low, high = bootstrap_interval(pearson, scores, truth, seed=0, draws=4000)
    expected = stats.bootstrap(
        (scores, truth),
        lambda a, b: stats.pearsonr(a, b)[0],
        paired=True,
        vectorized=False,
        method="percentile",
        n_resamples=2000,
        random_state=5,
    ).confidence_interval
    assert (low, high) == pytest.approx((expected.low, expected.high), abs=0.03)
    assert low < pearson(scores, truth) < high


def test_bootstrap_is_seeded() -> None:
    scores, truth = np.arange(20.0), np.arange(20.0) % 7
    intervals = [bootstrap_interval(kendall, scores, truth, seed=seed) for seed in (0, 0, 1)]
    assert intervals[0] == intervals[1] != intervals[2]


def test_bootstrap_skips_draws_without_two_values() -> None:
    assert bootstrap_interval(kendall, [1.0, 2.0], [1.0, 2.0], seed=0, draws=50) == (1, 1)
    assert np.isnan(bootstrap_interval(kendall, [1.0, 1.0], [1.0, 2.0], seed=0)).all()


@pytest.mark.parametrize("levels", [2, 3, 6, 100])
def test_unordered_ties_are_the_mean_over_random_orders(levels: int) -> None:
    rng = np.random.default_rng(levels)
    scores, truth = rng.integers(levels, size=30), rng.integers(20, size=30)
    orders = scores + 0.5 * rng.random((4000, 30))
    expected = float(kendall(orders, truth).mean())
    assert kendall_unordered_ties(scores, truth) == pytest.approx(expected, abs=0.01)
    assert abs(kendall_unordered_ties(scores, truth)) <= abs(float(kendall(scores, truth)))


def test_without_ties_both_taus_are_the_same() -> None:
    scores, truth = [3.0, 1.0, 2.0, 9.0], [1, 1, 2, 3]
    assert kendall_unordered_ties(scores, truth) == pytest.approx(
        float(kendall(scores, truth)), abs=1e-12
    )
    assert np.isnan(kendall_unordered_ties([1.0, 1.0], [1, 2]))


def test_size_adjusted_ranks_are_residuals_of_a_line() -> None:
    rng = np.random.default_rng(0)
    params = rng.integers(1, 9, 30).astype(float)
    scores = params + rng.normal(size=30)
    slope, offset = np.polyfit(stats.rankdata(params), stats.rankdata(scores), 1)
    expected = stats.rankdata(scores) - slope * stats.rankdata(params) - offset
    np.testing.assert_allclose(size_adjusted(scores, params), expected, atol=1e-9)
    scores[3] = np.nan
    assert np.flatnonzero(np.isnan(size_adjusted(scores, params))).tolist() == [3]
    np.testing.assert_allclose(size_adjusted(np.array([2.0, 1]), np.ones(2)), [0.5, -0.5])
    assert size_adjusted(np.array([2.0]), np.ones(1)) == 0
