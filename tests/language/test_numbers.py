"""Numbers and `pow`: read, written, hashed, evaluated, exported, and split by searches."""

import math
import random
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import sympy
import torch
from helpers.measuring import Conditions, own_weights, streamed
from helpers.naive import naive_evaluate, random_world
from helpers.networks import SPACE, noise
from helpers.sources import loaded
from helpers.trees import GRAMMAR, NUMBERS, with_numbers

from autoprox.engine.tree_evaluator import TreeEvaluator
from autoprox.export import EXPORTERS, ascii_tree, latex, mathml, pretty_formula, to_sympy
from autoprox.language import (
    LanguageError,
    Tree,
    canonical,
    make_tree,
    parse_expression,
    statistics,
    tree_digest,
)
from autoprox.language.grammar import Grammar
from autoprox.language.numeric_literals import MAX_NUMBER_DIGITS
from autoprox.nas.candidate_measurement import SearchProxy
from autoprox.primitives import COMBINATORS, OPERATIONS, apply_primitive
from autoprox.report.html.page_rendering import render_macro
from autoprox.report.terminal.proxy_report import terminals

SETTING = Conditions(SPACE, {"noise": noise(10)})
POW = OPERATIONS["pow"]
MAX = float(np.finfo(float).max)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("0.37", "0.37"),
        ("-1.5", "-1.5"),
        ("2.0", "2"),
        ("02", "2"),
        ("0.500", "0.5"),
        ("-0.0", "0"),
        ("100", "100"),
        ("-007.10", "-7.1"),
        ("0.00000000000001", "0.00000000000001"),
        (f"{'0' * 50}1.{'0' * 50}", "1"),
    ],
)
def test_a_number_has_one_spelling_and_one_hash(text: str, word: str) -> None:
    tree = parse_expression(text)
    assert str(tree) == word
    assert Fraction(word) == Fraction(text)
    assert str(tree.type) == "Network"
    assert parse_expression(word) == tree == make_tree(text)
    assert tree_digest(parse_expression(f"mul(sum(width), {text})")) == tree_digest(
        parse_expression(f"mul({word}, sum(width))")
    )


def test_different_numbers_have_different_values_and_hashes() -> None:
    largest = 10**MAX_NUMBER_DIGITS - 1
    for numbers in (NUMBERS, [str(largest), str(largest - 1), f"-{largest}", "0.37", "0.3700001"]):
        assert len({tree_digest(parse_expression(n)) for n in numbers}) == len(numbers)
        assert len({naive_evaluate(parse_expression(n), {"one": [0]})[0] for n in numbers}) == len(
            numbers
        )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("9" * 16, f"column 1: a number has at most {MAX_NUMBER_DIGITS} digits, got `9{{16}}`"),
        ("add(sum(width), 0.000000000000001)", "column 17: a number has at most 15 digits"),
        ("9" * 400, r"at most 15 digits, got `9{40}\.\.\.`"),
        (".5", r"column 1: expected an operation, .* found `\.5`"),
        ("+2", r"column 1: expected an operation, .* found `\+2`"),
        ("2.", r"column 1: expected an operation, .* found `2\.`"),
        ("--2", "column 1: expected an operation, .* found `--2`"),
        ("1e5", "column 2: expected the end of the text, found `e5`"),
        ("1/2", "column 1: expected an operation, .* found `1/2`"),
        ("2(sum(width))", "column 1: `2` takes 0 arguments, got 1"),
        ("mul(width, 2)", r"`mul` needs two values of one type, got Layers\[block\] and Network"),
        ("pow(width, width)", r"`pow` needs a Network, got Layers\[block\]: reduce it first"),
        ("pow(sum(width))", "`pow` takes 2 arguments, got 1"),
    ],
)
def test_a_wrong_number_is_refused_at_its_position(text: str, message: str) -> None:
    with pytest.raises(LanguageError, match=message):
        parse_expression(text)


def test_a_tree_holds_the_one_spelling_alone() -> None:
    with pytest.raises(LanguageError, match=r"unknown name `2\.0`"):
        Tree("2.0")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("mul(sum(width), 2)", "mul(2, sum(width))"),
        ("mul(1, sum(width))", "sum(width)"),
        ("div(sum(width), 1.0)", "sum(width)"),
        ("pow(rank(sum(width)), 1)", "rank(sum(width))"),
        ("pow(pow(sum(width), 3), 1)", "pow(sum(width), 3)"),
        ("pow(sum(width), 1)", "pow(sum(width), 1)"),
        ("pow(2, 1)", "2"),
        ("pow(-2, 1)", "pow(-2, 1)"),
        ("mul(0, sum(width))", "mul(0, sum(width))"),
        ("pow(sum(width), 0)", "pow(sum(width), 0)"),
    ],
)
def test_the_canonical_form_keeps_the_value(text: str, expected: str) -> None:
    tree = parse_expression(text)
    assert str(canonical(tree)) == expected
    world = random_world(3)
    np.testing.assert_array_equal(
        naive_evaluate(canonical(tree), world), naive_evaluate(tree, world)
    )


def test_the_power_of_1_is_exact() -> None:
    x = torch.exp(torch.linspace(-300, 300, 100_003, dtype=torch.float64))
    assert torch.equal(apply_primitive(POW, [x, torch.ones_like(x)], "network"), x)


@pytest.mark.parametrize(
    ("x", "y", "expected"),
    [
        (4.0, 0.5, 2.0),
        (-4.0, 0.5, 2.0),
        (-3.0, 3.0, 27.0),
        (0.0, 2.0, 0.0),
        (0.0, 0.0, 1.0),
        (0.0, -1.0, 0.0),
        (-1e-12, -2.0, 0.0),
        (1e-11, -1.0, 1e11),
        (1e300, 2.0, MAX),
        (1e-11, -1e300, MAX),
        (1e-300, 2.0, 0.0),
    ],
)
def test_pow_and_its_protection(x: float, y: float, expected: float) -> None:
    found = apply_primitive(POW, [torch.tensor([x, 1.0]), torch.tensor([y, 1.0])], "network")
    assert found.dtype == torch.float32
    values = [torch.tensor([number], dtype=torch.float64) for number in (x, y)]
    assert apply_primitive(POW, values, "network").item() == pytest.approx(expected, rel=1e-14)


def test_pow_does_not_depend_on_company_and_keeps_what_is_unknown() -> None:
    generator = torch.Generator().manual_seed(0)
    x, y = (torch.randn(2, 101, generator=generator, dtype=torch.float64) for _ in range(2))
    whole = apply_primitive(POW, [x, y], "network")
    np.testing.assert_allclose(whole.numpy(), np.abs(x.numpy()) ** y.numpy(), rtol=1e-14)
    for k in range(101):
        alone = apply_primitive(POW, [x[:, k : k + 1], y[:, k : k + 1]], "network")
        assert torch.equal(alone, whole[:, k : k + 1])
    assert torch.equal(apply_primitive(POW, [x, y[:1]], "network")[0], whole[0])
    assert math.isnan(apply_primitive(POW, [x[:1, :1] * math.nan, y[:1, :1]], "network").item())


@pytest.mark.parametrize(
    ("text", "shown", "in_latex"),
    [
        ("pow(rank(sum(one)), 0.37)", "rank(∑ₖ 1)^0.37", "^{0.37}"),
        ("pow(sum(width), -1.5)", "│∑ₖ width│^(-1.5)", "^{-1.5}"),
        ("mul(-1.5, sum(width))", "(-1.5) ⋅ (∑ₖ width)", r"\left(-1.5\right) \cdot"),
        ("sub(sum(width), -2)", "∑ₖ width - (-2)", r" - \left(-2\right)"),
        ("add(sum(width), 12.5)", "∑ₖ width + 12.5", "+ 12.5"),
        ("pow(sum(width), 2)", "│∑ₖ width│²", "^{2}"),
    ],
)
def test_numbers_are_written(text: str, shown: str, in_latex: str) -> None:
    tree = parse_expression(text)
    assert pretty_formula(tree) == shown
    assert in_latex in latex(tree)
    numbers = {own.lstrip("-") for own in (*NUMBERS, "12.5") if f", {own})" in text}
    assert all(f"<mn>{number}</mn>" in mathml(tree) for number in numbers)


def test_numbers_in_a_tree_a_report_and_a_page() -> None:
    tree = parse_expression("add(sum(width), pow(sum(heads), -1.5))")
    assert "    |-- sum: Network" in ascii_tree(tree)
    assert "    `-- -1.5: Network" in ascii_tree(tree)
    assert terminals(tree) == ["heads", "width"]
    assert statistics(tree) == frozenset()
    page = render_macro("sections.html.j2", "formula", tree)
    assert "<mn>1.5</mn>" in page
    assert ">-1.5</text>" in page
    assert "width of each block" in page
    negative = render_macro("sections.html.j2", "formula", parse_expression("add(sum(width), -2)"))
    assert '<mo>+</mo><mrow><mo fence="true" stretchy="true">(</mo>' in negative


def random_trees(count: int, seed: int, grammar: Grammar = GRAMMAR) -> list[Tree]:
    rng = random.Random(seed)
    return [with_numbers(grammar.generate(rng, min_depth=3), rng) for _ in range(count)]


def parts(tree: Tree) -> set[Tree]:
    """The largest parts without combinators and numbers."""
    if tree.symbol in COMBINATORS and tree.args[0].type == tree.type:
        return set().union(*map(parts, tree.args))
    return set() if tree.leaf else {tree}


@pytest.mark.parametrize("seed", range(60))
def test_sympy_computes_what_is_evaluated(seed: int) -> None:
    [tree] = random_trees(1, seed, Grammar(rank=False))
    rng, found = random.Random(seed), sorted(parts(tree), key=str)
    values = {part: rng.choice([-1, 1]) * rng.uniform(0.5, 2) for part in found}
    form = to_sympy(tree).xreplace({to_sympy(p): sympy.Float(v, 30) for p, v in values.items()})
    expected = complex(sympy.N(form.doit(), 30)) if not form.has(sympy.zoo, sympy.nan) else math.nan

    def visit(node: Tree, args: list[torch.Tensor]) -> torch.Tensor:
        if node in values:
            return torch.tensor([values[node]], dtype=torch.float64)
        if node.type.level != "Network":
            return torch.zeros(0)
        if node.leaf:
            return torch.tensor([float(node.symbol)], dtype=torch.float64)
        return apply_primitive(OPERATIONS[node.symbol], args, "network")

    computed = tree.fold(visit).item()
    if np.isfinite(expected) and abs(expected) < 1e200:
        assert computed == pytest.approx(expected.real, rel=1e-9, abs=1e-9)


def subtrees(tree: Tree) -> list[Tree]:
    return [tree, *(each for arg in tree.args for each in subtrees(arg))]


TEXTS = (
    "2",
    "rank(2)",
    "pow(sum(sum(all.grad)), 0.37)",
    "add(rank(pow(sum(width), -0.5)), mul(-1.5, rank(sum(sum(all.weight)))))",
    "add(rank(sum(width)), 2)",
    "div(2, sub(sum(mean(abs(mlp.grad))), 0.001))",
    "mul(pow(2, 0.5), pow(mean(width), 3))",
)


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("by_block", [False, True])
def test_a_search_splits_what_the_engine_evaluates(text: str, by_block: bool) -> None:
    rng, tree = random.Random(0), parse_expression(text)
    architectures = [SPACE.sample(rng) for _ in range(5)]
    expected = TreeEvaluator(streamed(SETTING, architectures, 1)).evaluate([tree]).values[0, 0]
    proxy, found = SearchProxy(tree, by_block=by_block), []
    own_weights(proxy, SETTING).measure(architectures, found.append)
    assert proxy.scores(np.array([o.terms for o in found])).tolist() == expected.tolist()
    for architecture, outcome in zip(architectures, found, strict=True):
        blocks = {len(own) for own in outcome.blocks}
        assert blocks == ({len(SPACE.blocks(architecture))} if by_block else {0})
        numbers = [k for k, term in enumerate(proxy.terms) if term.leaf]
        assert all(
            {outcome.terms[k], *(outcome.blocks[k] if by_block else ())}
            == {float(str(proxy.terms[k]))}
            for k in numbers
        )


@pytest.mark.parametrize("text", TEXTS)
def test_the_file_scores_as_the_engine(text: str, tmp_path: Path) -> None:
    architectures = [SPACE.sample(random.Random(seed)) for seed in range(2)]
    tree, batch = parse_expression(text), SETTING.batches["noise"]
    expected = (
        TreeEvaluator(streamed(SETTING, architectures, 1)).evaluate([tree]).values[0, 0].tolist()
    )
    path = tmp_path / "proxy.py"
    path.write_text(EXPORTERS["python"](tree))
    module = loaded(path)
    built = [SPACE.build(a, classes=10, seed=SETTING.network_seed(a)) for a in architectures]
    if "rank(" in text:
        found = module.score(built, batch.inputs, batch.labels)
    else:
        found = [module.score(network, batch.inputs, batch.labels) for network in built]
    assert found == pytest.approx(expected, rel=1e-5)


def test_the_grammar_varies_trees_with_numbers_and_draws_none() -> None:
    rng = random.Random(1)
    for tree in random_trees(100, 2):
        if GRAMMAR.limits.allow(tree):
            for made in (GRAMMAR.mutate(tree, rng), GRAMMAR.crossover(tree, tree, rng)):
                assert parse_expression(str(made)) == made
    drawn = {own.symbol for _ in range(300) for own in subtrees(GRAMMAR.generate(rng))}
    assert "pow" not in drawn
    assert not drawn & {*NUMBERS}
