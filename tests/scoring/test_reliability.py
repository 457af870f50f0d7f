"""The reliability of true scores near in size, against simulated trainings and plain loops."""

from itertools import combinations

import numpy as np
import pytest

from autoprox.scoring.correlations import Floats
from autoprox.scoring.true_score_reliability import true_score_reliability


def trained(networks: int, seeds: int, noise: float, seed: int = 0) -> tuple[Floats, Floats]:
    """Runs [networks, seeds] of networks with noise among the seeds, and sizes within 30 %."""
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=(networks, 1))
    return truth + noise * rng.normal(size=(networks, seeds)), rng.uniform(100, 130, networks)


def test_two_seeds_are_compared_pair_by_pair() -> None:
    runs, params = trained(40, 2, noise=0.5)
    signs = [
        np.sign(runs[a, 0] - runs[b, 0]) * np.sign(runs[a, 1] - runs[b, 1])
        for a, b in combinations(range(40), 2)
        if max(params[a], params[b]) / min(params[a], params[b]) < 1.1
    ]
    r = np.sin(np.mean(signs) * np.pi / 2)
    assert true_score_reliability(runs, params) == pytest.approx(
        np.arcsin(2 * r / (1 + r)) / np.pi * 2
    )


@pytest.mark.parametrize("seeds", [2, 4, 6])
def test_the_estimate_is_the_tau_with_as_many_other_seeds(seeds: int) -> None:
    """Half of the seeds predict the tau with the other half: the mean of five trainings."""
    gaps = []
    for draw in range(5):
        runs, params = trained(400, 2 * seeds, noise=1.0, seed=draw)
        found = true_score_reliability(runs[:, :seeds], params)
        assert found is not None
        means = [own.mean(1) for own in (runs[:, :seeds], runs[:, seeds:])]
        one, other = (np.sign(mean[:, None] - mean[None]) for mean in means)
        near = np.maximum(params[:, None], params) < 1.1 * np.minimum(params[:, None], params)
        gaps.append(found - (one * other)[near].mean())
    assert np.mean(gaps) == pytest.approx(0, abs=0.02)


def test_with_three_seeds_the_halves_are_single_seeds() -> None:
    runs, params = trained(400, 3, noise=0.5)
    found, two = true_score_reliability(runs, params), true_score_reliability(runs[:, :2], params)
    assert found is not None
    assert two is not None
    r = np.sin(two * np.pi / 2)
    single = r / (2 - r)
    expected = 3 * single / (1 + 2 * single)
    assert found == pytest.approx(np.arcsin(expected) / np.pi * 2, abs=0.02)


def test_seeds_that_disagree_have_no_reliability() -> None:
    runs, params = trained(40, 1, noise=0.0)
    assert true_score_reliability(np.hstack([runs, -runs]), params) == 0.0


def test_too_few_seeds_or_pairs_have_no_reliability() -> None:
    runs, params = trained(40, 2, noise=0.1)
    assert true_score_reliability(runs[:, :1], params) is None
    assert true_score_reliability(runs, 2.0 ** np.arange(40)) is None
    assert true_score_reliability(runs[:8], params[:8]) is None
    assert true_score_reliability(np.array([]), np.array([])) is None
    assert true_score_reliability(np.ones((40, 2)), params) is None
    assert true_score_reliability(trained(40, 2, noise=0)[0], params) == 1.0
