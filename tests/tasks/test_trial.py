"""The choice among formulas, against differences that are bootstrapped plainly."""

import json
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from helpers.tables import table

from autoprox.benchmarks import Benchmark, load_benchmark
from autoprox.engine.evaluator import Scores
from autoprox.evolution import Individual
from autoprox.language import Tree, parse
from autoprox.scoring.tables import Judge
from autoprox.tasks.configurations import EvolveConfig
from autoprox.tasks.trial import Ground, Trial

LONG, SHORT = parse("sum(abs(abs(width)))"), parse("sum(width)")


@pytest.fixture
def benchmark(tmp_path: Path) -> Benchmark:
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(table(40)))
    return load_benchmark(path, datasets=["wide"])


class Written(Ground):
    """A ground on which the scores of trees are known."""

    def __init__(self, judge: Judge, scores: dict[Tree, np.ndarray]) -> None:
        super().__init__(judge, [])
        self.known = scores

    def scores(self, trees: Sequence[Tree]) -> Scores:
        values = np.array([self.known[tree] for tree in trees])[:, None]
        return Scores(values, np.zeros(values.shape, dtype=np.int8))


def naive_tau(scores: np.ndarray, truth: np.ndarray, picks: np.ndarray) -> float:
    """Ties in the score are worth nothing; copies of a network are no pair."""
    pairs = [(i, j) for i, j in combinations(picks, 2) if i != j]
    surplus = sum(np.sign(scores[i] - scores[j]) * np.sign(truth[i] - truth[j]) for i, j in pairs)
    return float(surplus / np.sqrt(len(pairs) * sum(truth[i] != truth[j] for i, j in pairs)))


@pytest.mark.parametrize("swaps", [4, 12])
def test_a_short_formula_must_be_near_by_the_error_of_the_difference(
    benchmark: Benchmark, swaps: int
) -> None:
    """Two formulas that err alike differ for certain where each alone is uncertain."""
    judge, rng = Judge(benchmark, range(40), 0), np.random.default_rng(1)
    truth = judge.truth["wide"]
    better = np.argsort(np.argsort(truth)) + rng.normal(size=40) * 12
    worse = better.copy()
    for place in rng.choice(39, swaps, replace=False):
        low, high = np.argsort(truth)[[place, place + 1]]
        if better[low] < better[high]:
            worse[[low, high]] = better[[high, low]]
    picks = rng.integers(0, 40, size=(300, 40))
    draws = np.array([[naive_tau(s, truth, p) for s in (better, worse)] for p in picks])
    difference = naive_tau(better, truth, np.arange(40)) - naive_tau(worse, truth, np.arange(40))
    steps = difference / np.std(draws[:, 0] - draws[:, 1])
    assert difference < np.std(draws[:, 0]), "each alone is uncertain by more"
    trial = Trial(EvolveConfig(), [Written(judge, {LONG: better, SHORT: worse})])
    front = [Individual(LONG, (0.5,), 0.5), Individual(SHORT, (0.4,), 0.4)]
    for tolerance, chosen in ((0.8 * steps, LONG), (1.25 * steps, SHORT)):
        assert trial.choose(front, tolerance).tree == chosen
        assert trial.choose(front[::-1], tolerance).tree == chosen
