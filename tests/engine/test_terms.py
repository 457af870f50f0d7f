"""Terms measured network by network, against whole proxies evaluated on all networks at once."""

from collections.abc import Callable

import numpy as np
import pytest
from helpers.measuring import Conditions, streamed

from autoprox.engine.per_network_terms import combine_terms, proxy_terms
from autoprox.engine.tree_evaluator import TreeEvaluator
from autoprox.language import Tree, parse_expression
from autoprox.searchspaces import Architecture
from autoprox.zoo.expression_proxies import parse_with_zoo_names


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("sum(width)", ["sum(width)"]),
        ("mul(sum(width), sum(heads))", ["mul(sum(heads), sum(width))"]),
        ("rank(sum(width))", ["sum(width)"]),
        ("add(rank(sum(width)), sum(heads))", ["sum(heads)", "sum(width)"]),
        ("rank(add(rank(sum(width)), sum(heads)))", ["sum(heads)", "sum(width)"]),
        ("add(rank(sum(width)), rank(sum(width)))", ["sum(width)"]),
    ],
)
def test_terms_are_the_largest_parts_without_rank(expression: str, expected: list[str]) -> None:
    assert sorted(map(str, proxy_terms(parse_expression(expression)))) == expected


@pytest.mark.parametrize("name", ["snip", "dss++", "ntsr", "rank(add(rank(snip), mul(dss, sept)))"])
def test_combined_terms_are_the_proxy(
    name: str, setting: Callable[..., Conditions], architectures: list[Architecture]
) -> None:
    tree: Tree = parse_with_zoo_names(name)
    whole = TreeEvaluator(streamed(setting(), architectures, 1)).evaluate([tree]).values[0]
    parts = proxy_terms(tree)
    single = [
        TreeEvaluator(streamed(setting(), [arch], 1)).evaluate(parts).values[:, :, 0]
        for arch in architectures
    ]
    measured = dict(zip(parts, np.stack(single, axis=-1), strict=True))
    np.testing.assert_allclose(combine_terms(tree, measured), whole, rtol=1e-12)
