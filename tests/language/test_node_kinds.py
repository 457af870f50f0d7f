"""A node kind is one record: kinds that are defined here alone work everywhere."""

import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import sympy
import torch
from helpers.measuring import Conditions, own_weights, streamed
from helpers.networks import SPACE, noise
from helpers.sources import loaded
from torch import Tensor

from autoprox.engine.tree_evaluator import TreeEvaluator
from autoprox.export import EXPORTERS, latex, mathml, pretty_formula, to_sympy
from autoprox.language import (
    LEAVES,
    LanguageError,
    LeafKind,
    canonical,
    parse_expression,
    tree_digest,
)
from autoprox.language.leaf_kinds import LeafError, find_leaf
from autoprox.language.value_types import NETWORK, PER_BLOCK
from autoprox.nas.candidate_measurement import SearchProxy
from autoprox.primitives import OPERATIONS, LatexFormula, operation
from autoprox.report.html.page_rendering import render_macro
from autoprox.testing import check_operation

SETTING = Conditions(SPACE, {"noise": noise(10)})
ARCHITECTURES = [SPACE.sample(random.Random(seed)) for seed in range(4)]


def _read(word: str) -> int | None:
    return int(word[1:]) if word[:1] == "#" and word[1:].isdecimal() else None


# The number of a network's blocks times a number: `#3`.
COUNT = LeafKind(
    name="count",
    read=_read,
    write=lambda times: f"#{times}",
    type=lambda times: NETWORK,
    latex=lambda times: LatexFormula(rf"N_{{{times}}}", nonnegative=True),
    sympy=lambda times: sympy.Symbol(f"N{times}", positive=True),
    python=lambda times, add: f"torch.tensor({times}.0 * len({{*layers}}))",
    values=lambda times, network: [float(times * len(network.blocks))],
    nonnegative=lambda times: True,
    meaning=lambda times: f"{times} times the number of blocks",
)

# The index of each block from 1 up: `position`.
POSITION = LeafKind(
    name="position",
    read=lambda word: 1 if word == "position" else None,
    write=lambda first: "position",
    type=lambda first: PER_BLOCK,
    latex=lambda first: LatexFormula("k", nonnegative=True),
    sympy=lambda first: sympy.Symbol("k", positive=True),
    python=lambda first, add: "torch.arange(len(layers), dtype=torch.float64) + 1",
    values=lambda first, network: [1.0 + k for k in range(len(network.blocks))],
    words=lambda: ["position"],
)


@operation("binary", levels=("network",), drawn=False, latex=r"\overline{<x>, <y>}")
def halfway(x: Tensor, y: Tensor) -> Tensor:
    """The number halfway from x to y."""
    return torch.add(x / 2, y / 2)


@pytest.fixture
def kinds() -> Iterator[None]:
    with LEAVES.trial("count", COUNT), LEAVES.trial("position", POSITION):
        yield


@pytest.mark.usefixtures("kinds")
def test_a_kind_of_leaf_is_read_typed_written_and_hashed() -> None:
    tree = parse_expression("add(sum(mul(position, width)), #03)")
    assert str(tree) == "add(sum(mul(position, width)), #3)"
    assert str(canonical(parse_expression("add(#3, mul(#2, #10))"))) == "add(#3, mul(#10, #2))"
    assert tree_digest(parse_expression("mul(#2, #03)")) == tree_digest(
        parse_expression("mul(#3, #2)")
    )
    assert str(parse_expression("position").type) == "Layers[block]"
    with pytest.raises(LanguageError, match="`pozition`; nearest: `position`"):
        parse_expression("pozition")


@pytest.mark.usefixtures("kinds")
def test_a_kind_of_leaf_is_printed() -> None:
    tree = parse_expression("mul(sum(position), #3)")
    assert pretty_formula(tree) == "(∑ₖ k) ⋅ N₃"
    assert latex(tree).endswith(r"\cdot N_{3}")
    assert "<msub><mi>N</mi><mn>3</mn></msub>" in mathml(tree)
    assert to_sympy(parse_expression("#3")).is_positive
    assert "3 times the number of blocks" in render_macro("sections.html.j2", "formula", tree)
    for exporter in EXPORTERS.values():
        assert exporter(tree)


@pytest.mark.usefixtures("kinds")
@pytest.mark.parametrize("by_block", [False, True])
def test_a_kind_of_leaf_is_evaluated_in_the_engine_and_in_searches(by_block: bool) -> None:
    tree = parse_expression("add(rank(#1), sub(sum(position), #2))")
    found = TreeEvaluator(streamed(SETTING, ARCHITECTURES, 1)).evaluate([tree]).values[0, 0]
    counts = np.array([len(SPACE.blocks(a)) for a in ARCHITECTURES])
    ranks = np.array([(counts < n).sum() + ((counts == n).sum() + 1) / 2 for n in counts])
    np.testing.assert_array_equal(found, ranks + counts * (counts + 1) / 2 - 2 * counts)
    proxy, outcomes = SearchProxy(tree, by_block=by_block), []
    own_weights(proxy, SETTING).measure(ARCHITECTURES, outcomes.append)
    assert proxy.scores(np.array([o.terms for o in outcomes])).tolist() == found.tolist()


@pytest.mark.usefixtures("kinds")
def test_a_kind_of_leaf_is_exported(tmp_path: Path) -> None:
    path = tmp_path / "proxy.py"
    path.write_text(EXPORTERS["python"](parse_expression("add(mul(#2, 0.5), sum(position))")))
    network, batch = SPACE.build(ARCHITECTURES[0], classes=10, seed=0), SETTING.batches["noise"]
    layers = len(network.layers())
    score = loaded(path).score(network, batch.inputs, batch.labels)
    assert score == layers + layers * (layers + 1) / 2


def test_an_operation_is_one_record() -> None:
    check_operation(halfway)
    with OPERATIONS.trial("halfway", halfway):
        tree = parse_expression("halfway(sum(width), -2)")
        found = TreeEvaluator(streamed(SETTING, ARCHITECTURES, 1)).evaluate([tree]).values[0, 0]
        widths = [sum(block.width for block in SPACE.blocks(a)) for a in ARCHITECTURES]
        np.testing.assert_array_equal(found, np.array(widths) / 2 - 1)
        assert pretty_formula(tree) == "halfway(∑ₖ width, -2)"


@pytest.mark.parametrize("name", LEAVES)
def test_the_words_of_a_kind_are_read_and_written(name: str) -> None:
    kind = LEAVES[name]
    for word in kind.words():
        leaf = find_leaf(word)
        assert leaf is not None
        assert (leaf.kind, leaf.word) == (kind, word)
        tree = parse_expression(word)
        assert tree.leaf == leaf
        assert str(tree.type) == str(leaf.type)
        assert canonical(canonical(tree)) == canonical(tree)


def test_what_is_no_kind_is_refused() -> None:
    with pytest.raises(LeafError, match="a kind of leaf is a `LeafKind` of its name, but other"):
        LEAVES.register("other", COUNT)
    with pytest.raises(LeafError, match="a kind of leaf must have values, but statistic is"):
        find_leaf("msa.grad").values([])
