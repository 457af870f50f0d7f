"""Scores that are invalid, and the reason of each."""

from collections.abc import Callable

import numpy as np
import torch
from helpers.measuring import Conditions, streamed
from helpers.networks import tiny
from scipy.stats import rankdata

from autoprox.engine.tree_evaluator import REASONS, ProxyScores, TreeEvaluator
from autoprox.language import parse_expression
from autoprox.searchspaces import Architecture
from autoprox.statistics import matrix_sources as store
from autoprox.statistics.matrix_sources import StatisticGroup, UncachedMatrices
from autoprox.statistics.packed_matrices import MatrixChunk

MakeSetting = Callable[..., Conditions]


def reasons_of(scores: ProxyScores) -> list[list[list[str]]]:
    return [[[REASONS[r] for r in row] for row in tree] for tree in scores.reasons]


def test_equal_scores_are_invalid(setting: MakeSetting) -> None:
    alike = [tiny(8, (1, 1.0)), tiny(8, (2, 1.0)), tiny(8, (1, 2.0))]
    engine = TreeEvaluator(streamed(setting(), alike, 1))
    texts = ["sum(width)", "sum(heads)", "rank(sum(width))", "sub(sum(heads), sum(heads))"]
    found = engine.evaluate([parse_expression(text) for text in texts])
    names = [{r for row in tree for r in row} for tree in reasons_of(found)]
    assert names == [{"constant"}, {"valid"}, {"constant"}, {"constant"}]
    assert (found.values[0] == 8).all()


def test_scores_equal_but_for_rounding_are_invalid(setting: MakeSetting) -> None:
    depths = [tiny(8, *[(1, 1.0)] * depth) for depth in (1, 2, 3)]
    found = TreeEvaluator(streamed(setting(), depths, 1)).evaluate(
        [parse_expression("frobenius_norm(unit(width))")]
    )
    assert 0 < np.ptp(found.values[0, 0]) < 1e-14
    assert reasons_of(found)[0][0] == ["constant"] * 3


def test_scores_that_hardly_differ_are_valid(setting: MakeSetting) -> None:
    close = [tiny(width, (1, 1.0)) for width in (500, 501)]
    found = TreeEvaluator(streamed(setting(), close, 1)).evaluate(
        [parse_expression("sum(log(log(width)))")]
    )
    assert np.ptp(found.values[0, 0]) < 1e-3
    assert reasons_of(found)[0][0] == ["valid"] * 2


def test_where_no_score_is_finite_that_is_the_reason(
    setting: MakeSetting, architectures: list[Architecture]
) -> None:
    tree = parse_expression("sum(sum(square(square(exp(inverse(msa.weight))))))")
    found = TreeEvaluator(streamed(setting(), architectures, 1)).evaluate([tree])
    assert np.isinf(found.values).all()
    assert reasons_of(found)[0] == [["not finite"] * 5] * 3


def test_a_score_on_one_dataset_says_nothing_of_another(setting: MakeSetting) -> None:
    alike = [tiny(8, (1, 1.0)), tiny(8, (2, 1.0))]
    chosen = setting()

    class FlatOnMany(UncachedMatrices):
        def visit(self, programs: store.Programs, take: store.Take) -> None:
            def flat(g: StatisticGroup, d: list[int], p: np.ndarray, chunk: MatrixChunk) -> None:
                values = chunk.values.items()
                same = {s: x if d == [0] else torch.ones_like(x) for s, x in values}
                take(g, d, p, programs[g](MatrixChunk(same, chunk.shapes)))

            super().visit({group: lambda chunk: chunk for group in programs}, flat)

    found = TreeEvaluator(streamed(chosen, alike, 1, FlatOnMany)).evaluate(
        [parse_expression("sum(mean(mlp.grad))")]
    )
    assert reasons_of(found)[0] == [["valid"] * 2, ["constant"] * 2, ["constant"] * 2]


def test_scores_that_are_not_finite_are_invalid(
    setting: MakeSetting, architectures: list[Architecture]
) -> None:
    class Huge(UncachedMatrices):
        """Gives one network's gradients no square in float32."""

        def visit(self, programs: store.Programs, take: store.Take) -> None:
            ends = self.layers.starts["mlp"][1:3]

            def scaled(g: StatisticGroup, d: list[int], p: np.ndarray, chunk: MatrixChunk) -> None:
                factor = 1e30 if ends[0] <= p[0] < ends[1] else 1.0
                larger = {s: x * factor for s, x in chunk.values.items()}
                take(g, d, p, programs[g](MatrixChunk(larger, chunk.shapes)))

            super().visit({group: lambda chunk: chunk for group in programs}, scaled)

    texts = ["sum(sum(square(mlp.grad)))", "rank(sum(sum(square(mlp.grad))))", "sum(sum(mlp.grad))"]
    found = TreeEvaluator(streamed(setting(), architectures, 1, Huge)).evaluate(
        [parse_expression(text) for text in texts]
    )
    bad, good = "not finite", "valid"
    for tree in (0, 1):
        assert reasons_of(found)[tree] == [[good, bad, good, good, good]] * 3
    others = np.delete(found.values[0], 1, axis=1)
    np.testing.assert_array_equal(np.delete(found.values[1], 1, axis=1), rankdata(others, axis=-1))
    assert reasons_of(found)[2] == [[good] * 5] * 3
