"""The baselines against plain re-derivations."""

import json
import random
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from helpers.tables import table
from scipy import stats
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import minimize
from torch import nn

from autoprox.benchmarks import Benchmark, load_benchmark
from autoprox.scoring import baselines as module
from autoprox.scoring.baselines import (
    REGRESSIONS,
    RIDGE_ALPHAS,
    baselines,
    gaussian_process_predictions,
    network_sizes,
    regression_baselines,
    regression_features,
    regression_scores,
    ridge_predictions,
)
from autoprox.searchspaces import SPACES, get_space
from autoprox.searchspaces.language_model_bases import TokenSpace

SPACE = get_space("autoformer-nano")


@pytest.fixture(scope="module")
def benchmark(tmp_path_factory: pytest.TempPathFactory) -> Benchmark:
    path = tmp_path_factory.mktemp("table") / "mine.json"
    path.write_text(json.dumps(table(40)))
    return load_benchmark(Path(path))


def regression(
    n: int = 50, seed: int = 2, noise: float = 0.3
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features of which the third is constant on the training rows only, truth, training rows."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, 4)) * [1, 100, 1, 0.01] + 5
    train = np.arange(0, n, 2)
    x[train, 2] = 3
    return x, 70 + x[:, 0] - x[:, 1] / 50 + noise * rng.standard_normal(n), train


def ridge(
    x: np.ndarray, y: np.ndarray, train: np.ndarray, alpha: float | None = None
) -> np.ndarray:
    """The predictions for all rows."""
    return ridge_predictions(x[train], y[train], x, alpha)


def naive_ridge(
    x: np.ndarray, y: np.ndarray, train: np.ndarray, kept: np.ndarray, alpha: float
) -> np.ndarray:
    """The normal equations for the ranks, features standardised by `train`, fitted on `kept`."""
    ranks = np.full(len(y), np.nan)
    ranks[train] = stats.rankdata(y[train])
    z = np.delete(x, 2, axis=1)
    z = (z - z[train].mean(0)) / z[train].std(0)
    design = np.column_stack([np.ones(len(z)), z])
    penalty = alpha * np.diag([0.0, 1, 1, 1])
    a = design[kept]
    return design @ np.linalg.solve(a.T @ a + penalty, a.T @ ranks[kept])


@pytest.mark.parametrize("alpha", [0.5, 20.0])
def test_ridge_solves_the_normal_equations_for_ranks(alpha: float) -> None:
    x, y, train = regression()
    np.testing.assert_allclose(
        ridge(x, y, train, alpha), naive_ridge(x, y, train, train, alpha), rtol=1e-10
    )


@pytest.mark.parametrize("seed", range(20))
def test_ridge_takes_the_alpha_of_least_leave_one_out_error(seed: int) -> None:
    x, y, train = regression(16, seed, noise=3)

    def error(alpha: float) -> float:
        predictions = [naive_ridge(x, y, train, train[train != i], alpha)[i] for i in train]
        return float(np.sum((np.array(predictions) - stats.rankdata(y[train])) ** 2))

    errors = [error(alpha) for alpha in RIDGE_ALPHAS]
    best = RIDGE_ALPHAS[int(np.argmin(errors))]
    np.testing.assert_allclose(
        ridge(x, y, train), naive_ridge(x, y, train, train, best), rtol=1e-10
    )


def test_ridge_never_sees_the_test_truth() -> None:
    x, y, train = regression()
    before = ridge(x, y, train)
    hidden = y.copy()
    hidden[1::2] = 1e6
    np.testing.assert_array_equal(ridge(x, hidden, train), before)


def test_ridge_without_any_feature_predicts_the_mean_rank() -> None:
    predictions = ridge_predictions(np.ones((4, 2)), np.arange(4.0), np.ones((6, 2)))
    np.testing.assert_allclose(predictions, 2.5)


def naive_process(
    x: np.ndarray, y: np.ndarray, wanted: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Means and deviations of the textbook's Gaussian process, hyperparameters by scipy."""
    x, wanted = (x - x.mean(0)) / x.std(0), (wanted - x.mean(0)) / x.std(0)
    ranks = stats.rankdata(y)
    target = (ranks - ranks.mean()) / ranks.std()

    def kernel(a: np.ndarray, b: np.ndarray, theta: np.ndarray) -> np.ndarray:
        squares = ((a[:, None] - b[None]) ** 2).sum(-1)
        return np.exp(theta[0]) * np.exp(-squares / (2 * np.exp(2 * theta[1])))

    def negative_evidence(theta: np.ndarray) -> float:
        own = kernel(x, x, theta) + np.exp(theta[2]) * np.eye(len(x))
        _, log_determinant = np.linalg.slogdet(own)
        fit = target @ np.linalg.solve(own, target)
        return 0.5 * (fit + log_determinant + len(x) * np.log(2 * np.pi))

    starts = ([0, 1, -2], [2, 2, -1], [0, 0, -4])
    best = min((minimize(negative_evidence, s) for s in starts), key=lambda found: found.fun)
    factor = cho_factor(kernel(x, x, best.x) + np.exp(best.x[2]) * np.eye(len(x)))
    cross = kernel(wanted, x, best.x)
    left = np.exp(best.x[0]) + np.exp(best.x[2]) - np.sum(cross * cho_solve(factor, cross.T).T, 1)
    mean = cross @ cho_solve(factor, target)
    return mean * ranks.std() + ranks.mean(), np.sqrt(left) * ranks.std()


def curve(n: int = 40, noise: float = 0.1) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features and labels of a curved function, and more features."""
    rng = np.random.default_rng(2)
    x = rng.standard_normal((n + 15, 3)) * [1, 50, 0.1] + 4
    y = np.sin(2 * x[:n, 0]) + x[:n, 1] / 50 + noise * rng.standard_normal(n)
    return x[:n], y, x[n:]


def test_the_gaussian_process_is_that_of_the_textbook() -> None:
    x, y, wanted = curve()
    found = gaussian_process_predictions(x, y, wanted)
    mean, deviation = naive_process(x, y, wanted)
    np.testing.assert_allclose(found.mean, mean, rtol=2e-3)
    np.testing.assert_allclose(found.deviation, deviation, rtol=2e-3)


def test_many_labels_all_count_though_few_set_the_hyperparameters(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x, y, wanted = curve(120)
    every = gaussian_process_predictions(x, y, wanted)
    monkeypatch.setattr(module, "MAX_HYPERPARAMETER_LABELS", 60)
    half = gaussian_process_predictions(x, y, wanted)
    alone = gaussian_process_predictions(x[::2], y[::2], wanted)
    assert stats.kendalltau(every.mean, half.mean).statistic > 0.9
    assert half.deviation.mean() < alone.deviation.mean() * 2 * 0.98  # ranks up to 120, not 60


def test_a_process_without_features_or_labels_that_differ_predicts_the_mean() -> None:
    x, _, wanted = curve()
    constant = gaussian_process_predictions(np.ones((4, 2)), np.arange(4.0), np.ones((6, 2)))
    np.testing.assert_allclose(constant.mean, 2.5)
    np.testing.assert_allclose(constant.deviation, np.std([1, 2, 3, 4]))
    same = gaussian_process_predictions(x, np.zeros(len(x)), wanted)
    np.testing.assert_allclose(same.mean, (len(x) + 1) / 2)
    np.testing.assert_allclose(same.deviation, 0)


@pytest.mark.parametrize("labels", ["noise", "line"])
def test_hyperparameters_at_their_bounds_warn_nobody(labels: str) -> None:
    x, _, wanted = curve()
    y = x[:, 0] if labels == "line" else np.random.default_rng(0).standard_normal(len(x))
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        found = gaussian_process_predictions(x, y, wanted)
    assert not seen
    assert np.isfinite(found.mean).all()


@pytest.mark.parametrize("kind", REGRESSIONS)
def test_a_regression_never_sees_the_other_labels_and_is_seeded(kind: str) -> None:
    x, y, wanted = curve()
    every, train = np.concatenate([x, wanted]), np.arange(len(x))
    truths = [np.concatenate([y, np.full(len(wanted), hidden)]) for hidden in (0.0, 1e6)]
    first, second = (regression_scores(kind, every, truth, train) for truth in truths)
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("kind", REGRESSIONS)
def test_a_cross_fitted_regression_never_saw_what_it_scores(
    benchmark: Benchmark, kind: str
) -> None:
    found = regression_baselines(benchmark)[kind]["wide"]
    features = regression_features(kind, SPACE, benchmark.architectures)
    rest = [n for n in range(40) if n % 5 != 3]
    expected = regression_scores(kind, features, benchmark.scores["wide"], rest)[3::5]
    np.testing.assert_allclose(found[3::5], expected)


@pytest.mark.parametrize("kind", REGRESSIONS)
def test_a_cross_fitted_regression_reads_as_many_labels(benchmark: Benchmark, kind: str) -> None:
    """Networks whose label changes nothing in the other folds weren't among those that are read."""
    before = regression_baselines(benchmark, labels=12)[kind]["wide"]
    read = 0
    for network in range(0, 40, 5):  # the first fold
        scores = {"wide": benchmark.scores["wide"].copy()}
        scores["wide"][network] += 1e3
        after = regression_baselines(replace(benchmark, scores=scores), labels=12)[kind]["wide"]
        np.testing.assert_array_equal(after[::5], before[::5])
        read += sum((after[fold::5] != before[fold::5]).any() for fold in range(1, 5))
    assert 0 < read < 8 * 4  # of 8 networks by 4 folds, each of which reads 12 of 32


def test_the_features_of_a_network(benchmark: Benchmark) -> None:
    arch = benchmark.architectures[0]
    ridge, process = (regression_features(kind, SPACE, [arch])[0] for kind in REGRESSIONS)
    np.testing.assert_array_equal(ridge, SPACE.features(arch))
    built = sum(p.numel() for p in SPACE.build(arch, 1000).parameters())
    means = [np.log1p(np.atleast_1d(value)).mean() for _, value in arch.choices]
    expected = [*ridge, np.log(built), np.log(SPACE.flops(arch)), *sorted(means)]
    count = len(expected) - len(means)
    np.testing.assert_allclose([*process[:count], *sorted(process[count:])], expected)


@pytest.mark.parametrize("name", SPACES)
def test_every_space_has_features_for_every_regression(name: str) -> None:
    space, rng = get_space(name), random.Random(0)
    archs = [space.smallest(), space.largest(), space.sample(rng), space.sample(rng)]
    for kind in REGRESSIONS:
        found = regression_features(kind, space, archs)
        assert found.shape[0] == 4
        assert np.isfinite(found).all()


@pytest.mark.parametrize(
    "name", [n for n, own in SPACES.items() if isinstance(own, TokenSpace) and "nano" in n]
)
def test_parameters_without_embeddings_are_those_of_the_other_layers(name: str) -> None:
    space = get_space(name)
    assert isinstance(space, TokenSpace)
    arch = space.sample(random.Random(1))
    network = space.build(arch)
    left = sum(
        p.numel()
        for module in network.modules()
        if not isinstance(module, nn.Embedding)
        for own, p in module.named_parameters(recurse=False)
        if own != "position"
    )
    assert space.non_embedding_params(arch) == left


def test_published_counts_without_embeddings() -> None:
    """BERT-base's encoder has 85.05 M parameters; its head here has a dense layer and a bias."""
    space = get_space("bert")
    assert isinstance(space, TokenSpace)
    choices = {"depth": 12, "mlp_size": [3072] * 12, "num_heads": [12] * 12}
    head = 768 * 768 + 768 + 2 * 768 + 30522
    left = space.non_embedding_params(space.architecture(choices))
    assert left == 85_054_464 + 2 * 768 + head  # and the norm of the embeddings


def test_language_models_have_a_baseline_more() -> None:
    images, texts = (
        network_sizes(load_benchmark("nano-bench", space=space))
        for space in ("autoformer-nano", "gpt2-nano")
    )
    assert list(images) == ["params", "flops", "depth"]
    assert list(texts) == ["params", "flops", "depth", "non-embedding"]


def test_all_baselines(benchmark: Benchmark) -> None:
    found = baselines(benchmark, range(30))
    assert list(found) == ["params", "flops", "depth", "ridge", "gaussian-process"]
    depths = [arch["depth"] for arch in benchmark.architectures]
    np.testing.assert_array_equal(found["depth"]["wide"], depths)
    for kind in REGRESSIONS:
        tau = stats.kendalltau(found[kind]["deep"][30:], benchmark.scores["deep"][30:]).statistic
        assert tau > 0.3
