"""Evaluation sets against straightforward re-derivations."""

import json
from pathlib import Path

import numpy as np
import pytest
from helpers.tables import table
from scipy.stats import kendalltau

from autoprox.benchmarks import Benchmark, load_benchmark
from autoprox.scoring.evaluation_set import (
    EvaluationSet,
    SizeCorrelations,
    seed_variance_share,
)
from autoprox.searchspaces import get_space

SPACE = get_space("autoformer-nano")


@pytest.fixture(scope="module")
def benchmark(tmp_path_factory: pytest.TempPathFactory) -> Benchmark:
    path = tmp_path_factory.mktemp("table") / "mine.json"
    path.write_text(json.dumps(table(40)))
    return load_benchmark(Path(path))


def test_the_size_check_counts_networks_as_they_are_built(benchmark: Benchmark) -> None:
    networks = list(range(0, 40, 2))
    evaluation_set = EvaluationSet(benchmark, networks, 0, ties="tau-b")
    rng = np.random.default_rng(0)
    scores = {dataset: rng.normal(size=20) for dataset in benchmark.datasets}
    check = evaluation_set.size_check(scores)
    archs = [benchmark.architectures[n] for n in networks]
    built = [SPACE.build(arch, 10) for arch in archs]
    params = [sum(p.numel() for p in network.parameters()) for network in built]
    depth = [len(list(network.blocks)) for network in built]
    assert check.networks == 20
    for name, sizes in (("params", params), ("depth", depth)):
        expected = np.mean([kendalltau(own, sizes).statistic for own in scores.values()])
        assert getattr(check, name) == pytest.approx(
            expected, abs=0.02
        )  # the heads differ by dataset
    near = [max(a, b) < 1.1 * min(a, b) for i, a in enumerate(params) for b in params[:i]]
    assert check.pairs == pytest.approx(sum(near), abs=2)


def test_metrics_of_several_seeds_are_means(benchmark: Benchmark) -> None:
    evaluation_set = EvaluationSet(benchmark, range(40), 0)
    scores = np.random.default_rng(1).normal(size=(3, 40))
    row = evaluation_set.table({"wide": scores})["wide"]
    each = [evaluation_set.table({"wide": own})["wide"] for own in scores]
    for name in ("kendall", "tau_b", "partial_tau", "spearman", "pearson"):
        expected = np.mean([getattr(own, name) for own in each])
        assert getattr(row, name) == pytest.approx(expected)
    np.testing.assert_allclose(row.regret, np.mean([own.regret for own in each], axis=0))


def test_scores_that_are_not_finite_have_no_metrics(benchmark: Benchmark) -> None:
    row = EvaluationSet(benchmark, range(40), 0).table({"deep": np.full(40, np.nan)})["deep"]
    assert row.kendall is row.partial_tau is row.near_size_tau is row.tau_b is None
    assert row.regret == (None,) * 5


@pytest.mark.parametrize(
    ("params", "flops", "expected"),
    [(-0.81, None, True), (0.1, 0.8, True), (0.79, 0.7, False), (None, None, False)],
)
def test_mostly_size(params: float | None, flops: float | None, expected: bool) -> None:
    check = SizeCorrelations(networks=9, pairs=36, params=params, flops=flops, depth=1.0)
    assert check.mostly_size == expected


def test_how_much_the_seed_changes() -> None:
    """Deviations of 2 among networks and, n - 1 in the denominator, of root 2 among two seeds."""
    networks = np.array([1.0, 5.0] * 4)
    change = np.array([[1.0], [-1.0]])
    assert seed_variance_share(networks + change) == pytest.approx(np.sqrt(2) / 2)
    assert seed_variance_share(np.stack([networks, networks])) == 0
    assert seed_variance_share(np.ones((2, 8))) == 0
    both = np.stack([np.stack([networks, networks]), networks + change], axis=1)
    assert seed_variance_share(both) == pytest.approx(np.sqrt(2) / 2)  # the larger of the two
