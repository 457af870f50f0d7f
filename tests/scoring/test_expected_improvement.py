"""Expected improvement, the process that it is computed from, and the order of suggestions."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import kendalltau, multivariate_normal, norm

from autoprox.scoring.correlations import normal_scores
from autoprox.scoring.expected_improvement import (
    LENGTHS,
    LINEAR_SHARES,
    NOISES,
    OFFSET,
    PRIOR_WEIGHT,
    SLOPE,
    VARIANCES,
    ScoreProcess,
    expected_improvement,
    joint_normal_scores,
    next_networks,
    predicted_scores,
)

RNG = np.random.default_rng(0)
FEATURES = RNG.normal(size=(12, 3))
PROXY = RNG.normal(size=12)
KNOWN = [0, 3, 4, 7, 9]
LABELS = np.array([0.3, -1.2, 0.8, 0.1, -0.4])


@pytest.mark.parametrize("mean", [-2.0, 0.0, 1.5])
@pytest.mark.parametrize("deviation", [0.1, 1.0, 3.0])
def test_expected_improvement_is_the_integral(mean: float, deviation: float) -> None:
    best = 0.4
    density = norm(mean, deviation).pdf
    expected, _ = quad(lambda x: (x - best) * density(x), best, best + 40 * deviation, limit=200)
    found = expected_improvement(np.array([mean]), np.array([deviation]), best)
    assert found == pytest.approx([expected], abs=1e-7)


def test_without_deviation_it_is_the_gain() -> None:
    found = expected_improvement(np.array([1.0, -1.0]), np.zeros(2), 0.25)
    assert found == pytest.approx([0.75, 0.0], abs=1e-8)


def test_normal_scores_are_quantiles_of_ranks() -> None:
    assert normal_scores([5.0, -3.0, 1e9]) == pytest.approx(norm.ppf([0.5, 1 / 6, 5 / 6]))
    assert normal_scores([2.0, 2.0]) == pytest.approx([0.0, 0.0])
    truth = np.array([[1.0, 2.0, 3.0], [30.0, 20.0, 10.0]])
    assert joint_normal_scores(truth) == pytest.approx([0.0, 0.0, 0.0])


def test_the_process_is_the_textbook_s() -> None:
    """Each kernel is written out network by network; the likelihood is scipy's."""
    found = ScoreProcess(FEATURES, [PROXY]).predict(KNOWN, LABELS)
    x = (FEATURES - FEATURES.mean(0)) / FEATURES.std(0) / np.sqrt(3)
    z = normal_scores(PROXY)
    prior = PRIOR_WEIGHT * z / z.std()
    means, deviations, logs = [], [], []
    for length in LENGTHS:
        for share in LINEAR_SHARES:
            for variance in VARIANCES:
                for noise in NOISES:
                    kernel = np.array(
                        [
                            [
                                OFFSET**2
                                + SLOPE**2 * z[i] * z[j]
                                + variance * (1 - share)
                                * np.exp(-np.sum((x[i] - x[j]) ** 2) / (2 * length**2))
                                + variance * share * x[i] @ x[j]
                                for j in range(12)
                            ]
                            for i in range(12)
                        ]
                    )  # fmt: skip
                    among = kernel[np.ix_(KNOWN, KNOWN)] + noise * np.eye(5)
                    gain = np.linalg.solve(among, kernel[KNOWN])
                    means.append(prior + gain.T @ (LABELS - prior[KNOWN]))
                    own = np.diag(kernel) - np.sum(kernel[KNOWN] * gain, axis=0) + noise
                    deviations.append(np.sqrt(own))
                    logs.append(multivariate_normal(prior[KNOWN], among).logpdf(LABELS))
    weights = np.exp(np.array(logs) - max(logs))
    assert found.weight == pytest.approx(weights / weights.sum(), rel=1e-5)
    assert found.mean == pytest.approx(np.array(means), abs=1e-6)
    assert found.deviation == pytest.approx(np.array(deviations), abs=1e-6)


def test_little_memory_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    process = ScoreProcess(FEATURES, [PROXY])
    expected = process.predict(KNOWN, LABELS)
    monkeypatch.setattr("autoprox.scoring.expected_improvement.MOST_VALUES", 200)
    for one, other in zip(process.predict(KNOWN, LABELS), expected, strict=True):
        assert one == pytest.approx(other)


def test_without_labels_the_proxy_decides_and_near_duplicates_are_passed_over() -> None:
    features = np.vstack([np.repeat([[0.0, 0.0]], 3, axis=0), RNG.normal(size=(9, 2)) * 3])
    proxy = np.array([10.0, 9.9, 9.8, *np.linspace(9, 5, 9)])
    process = ScoreProcess(features, [proxy])
    chosen = next_networks(process, [], [], range(12), 3)
    assert chosen[0] == 0
    assert not {1, 2} & set(chosen[1:])
    assert len(next_networks(process, [], [], range(12), 100)) == 12


def test_labels_outweigh_a_wrong_proxy() -> None:
    features = np.linspace(-1, 1, 30)[:, None]
    process = ScoreProcess(features, [-features[:, 0]])
    known = list(range(0, 30, 3))
    labels = normal_scores(features[known, 0])
    [chosen] = next_networks(process, known, labels, [1, 14, 28], 1)
    assert chosen == 28


def test_equal_or_few_labels_change_no_order() -> None:
    process = ScoreProcess(FEATURES, [PROXY])
    left = [own for own in range(12) if own not in KNOWN]
    equal = next_networks(process, KNOWN, np.zeros(5), left, 3)
    assert equal == next_networks(process, [], [], left, 3, pending=KNOWN)
    few = [next_networks(process, [0, 3], own, left, 2) for own in ([1.0, 0.0], [0.0, 1.0])]
    assert few[0] == few[1]


def test_pending_networks_are_not_neighbours_of_what_is_chosen() -> None:
    """The best neighbour of a pending network loses to one that is as good but elsewhere."""
    features = np.array([[0.0], [0.01], [5.0], [-4.0], [-4.5], [2.0]])
    proxy = np.array([3.0, 3.0, 3.0, 1.0, 0.0, 0.5])
    process = ScoreProcess(features, [proxy])
    assert next_networks(process, [], [], [1, 2], 1, pending=[0]) == [2]
    assert next_networks(process, [], [], [0, 1], 1, pending=[2]) != [2]


def test_constant_features_and_no_proxy_are_no_error() -> None:
    process = ScoreProcess(np.ones((4, 2)))
    found = next_networks(process, [0, 1, 2], [0.0, 1.0, 2.0], [3], 1)
    assert found == [3]


def test_a_prediction_does_not_depend_on_the_other_networks() -> None:
    rng = np.random.default_rng(3)
    features, proxy, truth = rng.normal(size=(20, 4)), rng.normal(size=20), rng.normal(size=8)
    every = predicted_scores(features, proxy, range(8), truth)
    some = [*range(8), 11, 17]
    alone = predicted_scores(features[some], proxy[some], range(8), truth)
    np.testing.assert_allclose(alone, every[some], rtol=1e-9)
    np.testing.assert_allclose(predicted_scores(features, 3 * proxy + 5, range(8), truth), every)


def test_a_proxy_that_has_the_answer_helps() -> None:
    rng = np.random.default_rng(4)
    features, answer = rng.normal(size=(40, 4)), rng.normal(size=40)
    taus = [
        kendalltau(predicted_scores(features, proxy, range(6), answer[:6])[6:], answer[6:])
        for proxy in (answer, rng.normal(size=40))
    ]
    assert taus[0].statistic > 0.7 > taus[1].statistic
