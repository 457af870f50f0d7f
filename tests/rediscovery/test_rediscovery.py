"""The parts of a rediscovery against plain oracles, and whole ones on tiny networks."""

import itertools
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from helpers.measuring import Conditions, cached, streamed
from helpers.naive import naive_evaluate, random_world
from helpers.networks import noise
from scipy import stats

from autoprox.engine.tree_compilation import split_composite_domains
from autoprox.engine.tree_evaluator import TreeEvaluator
from autoprox.evolution import Individual
from autoprox.evolution_parameters import TreeLimits
from autoprox.language import Tree, ValueType, canonical, make_tree, parse_expression, statistics
from autoprox.language.grammar import Grammar
from autoprox.rediscovery import formula_search
from autoprox.rediscovery.formula_equality import (
    equality_by_networks,
    equality_by_sympy,
    equality_by_tree,
    relative_deviation,
)
from autoprox.rediscovery.formula_growth import (
    REDISCOVERY_GRAMMAR,
    REDISCOVERY_WORDS,
    REDUCTIONS,
    FormulaGrowth,
    PartsOfType,
    ScoredFormulas,
    average_ranks,
    nth_pair,
)
from autoprox.rediscovery.formula_search import (
    NICHE,
    FormulaSearch,
    FormulaSearchGoal,
    TermArchive,
    count_summed_ranks,
)
from autoprox.searchspaces import Architecture, get_space
from autoprox.zoo.proxy_loading import resolve_proxy

SNIP = "sum(sum(abs(mul(all.weight, all.grad))))"
NANO = get_space("autoformer-nano")


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> TreeEvaluator:
    """Twelve of the smallest networks of the nano space, with all their statistics."""
    rng = random.Random(0)
    architectures: dict[Architecture, None] = {}
    while len(architectures) < 12:
        arch = NANO.sample(rng)
        if arch["hidden_dim"] <= 24 and arch["depth"] <= 3:
            architectures[arch] = None
    needs = {
        part for name in REDISCOVERY_WORDS for s in statistics(make_tree(name)) for part in s.parts
    }
    store = cached(
        Conditions(NANO, {"noise": noise(4)}, stride=2),
        list(architectures),
        needs,
        folder=tmp_path_factory.mktemp("statistics"),
    )
    return TreeEvaluator(store)


def test_pairs_come_in_shells() -> None:
    for n in (1, 2, 7):
        pairs = [nth_pair(step) for step in range(n * n)]
        assert set(pairs) == set(itertools.product(range(n), repeat=2))
        largest = [max(p) for p in pairs]
        assert largest == sorted(largest)


def test_single_domains_of_all_layers() -> None:
    matrix = parse_expression("add(all.weight, ones.all.grad)")
    assert [str(part) for part in split_composite_domains(matrix)] == [
        "add(msa.weight, ones.msa.grad)",
        "add(mlp.weight, ones.mlp.grad)",
    ]
    assert split_composite_domains(parse_expression("mlp.act")) == [parse_expression("mlp.act")]


def test_grown_terms_have_the_scores_of_their_trees(engine: TreeEvaluator) -> None:
    growth, rng = FormulaGrowth(engine, random.Random(1)), random.Random(2)
    first = {str(terms.tree(k)) for terms in growth.round() for k in range(len(terms.scores))}
    same = {f"sum({name})" for name in ("sum(ones.msa.weight)", "l1_norm(msa.weight)")}
    assert len(same & first) == 1
    seen: set[Tree] = set()
    for _ in range(2):
        for terms in growth.round():
            sample = rng.sample(range(len(terms.scores)), min(25, len(terms.scores)))
            trees = [terms.tree(k) for k in sample]
            assert [tree.size for tree in trees] == terms.sizes[sample].tolist()
            expected = engine.evaluate(trees).values[:, 0]
            np.testing.assert_allclose(terms.scores[sample], expected, rtol=1e-12)
            assert not seen & set(trees)
            seen |= set(trees)
    assert {tree.type.level for tree in seen} == {"Network"}


def test_an_operation_is_applied_to_all_parts_once() -> None:
    bank = PartsOfType(REDISCOVERY_GRAMMAR.maps(ValueType("Layers", "block")))
    bank.parts += [parse_expression(name) for name in ("width", "tokens", "heads")]
    assert sorted(bank.next_arguments("log", 2) + bank.next_arguments("log", 2)) == [
        (0,),
        (1,),
        (2,),
    ]
    pairs = bank.next_arguments("mul", 99)
    assert set(map(frozenset, pairs)) == set(map(frozenset, itertools.combinations(range(3), 2)))
    assert len(pairs) == 3
    assert len(set(bank.next_arguments("div", 99))) == 9
    bank.parts.append(parse_expression("one"))
    assert bank.next_arguments("log", 99) == [(3,)]
    assert {max(pair) for pair in bank.next_arguments("mul", 99)} == {3}


def some_terms(scores: Any, symbols: str = "width tokens heads one") -> ScoredFormulas:
    trees = [parse_expression(f"sum({symbol})") for symbol in symbols.split()][: len(scores)]
    values = np.asarray(scores, dtype=float)
    return ScoredFormulas(values, np.array([tree.size for tree in trees]), trees.__getitem__)


def test_terms_that_vary() -> None:
    terms = some_terms([[1, 2, 3], [1, np.inf, 2], [5, 5, 5 + 1e-13], [0, 0, 1e-300]]).varying()
    assert [str(terms.tree(k)) for k in range(2)] == ["sum(width)", "sum(one)"]
    np.testing.assert_array_equal(terms.ranks, [[1, 2, 3], [1.5, 1.5, 3]])


def test_sums_of_ranks_are_recognised() -> None:
    rng = np.random.default_rng(0)
    values = rng.integers(0, 9, (2, 20))
    one, other = stats.rankdata(values, axis=1)
    assert count_summed_ranks(one) == 1
    assert count_summed_ranks(one + other) == 2
    assert count_summed_ranks(one + other + one) == 0
    assert count_summed_ranks(one - other) == 0
    assert count_summed_ranks(one + other + 0.25) == 0
    assert count_summed_ranks(rng.normal(size=20)) == 0
    np.testing.assert_array_equal(average_ranks(values.astype(float)), [one, other])
    for many in (rng.normal(size=(50, 9)), rng.integers(-2, 2, (50, 9)) * 0.1, np.zeros((1, 3))):
        np.testing.assert_array_equal(average_ranks(many), stats.rankdata(many, axis=1))


def test_each_type_has_room_in_the_pool(
    engine: TreeEvaluator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Terms of the first types alone would otherwise fill it."""
    monkeypatch.setattr(formula_search, "POOL_ROOM", 30)
    scores = engine.evaluate([parse_expression("sum(sum(tanh(sqrt(msa.weight))))")]).values[0, 0]
    found = FormulaSearch(engine, scores, random.Random(7))
    for _ in range(2):
        found.round()
    trees = [terms.tree(k) for terms in found._pool for k in range(len(terms.scores))]
    types = Counter(str(tree.args[0].type) for tree in trees)
    assert set(types.values()) == {30}
    assert len(types) == sum(type_.level == "Layers" for type_ in REDISCOVERY_GRAMMAR.types)


@pytest.mark.parametrize(
    ("symbol", "combine"),
    [("add", np.add), ("sub", np.subtract), ("mul", np.multiply), ("div", np.divide)],
)
def test_partners_are_found(symbol: str, combine: Callable[..., Any]) -> None:
    scores = np.random.default_rng(1).normal(size=(3, 30))
    terms = some_terms(scores)
    whole = make_tree(symbol, parse_expression("sum(width)"), parse_expression("sum(tokens)"))
    for old, new in ([2, 0], [1]), ([1, 2], [0]):
        archive = TermArchive(30, random.Random(0))
        archive.add(terms.choose(np.array(old[:1])))
        archive.add(terms.choose(np.array(old[1:], dtype=int)))
        searched = combine(scores[0], scores[1])
        found = list(archive.partnerships(searched, terms.choose(np.array(new))))
        assert {canonical(tree) for tree in found} == {canonical(whole)}
        assert not list(archive.partnerships(scores[1] + 0.5, terms))


def test_what_fits_a_goal() -> None:
    values = np.array([1.0, 2.0, 4.0])
    terms = some_terms([values * 3, -values, values * [1, 1, 1.001], values + 1])
    assert FormulaSearchGoal(values, "scores").fits(terms).tolist() == [True, False, False, False]
    assert FormulaSearchGoal(stats.rankdata(values), "ranks").fits(terms).tolist() == [
        True,
        False,
        True,
        True,
    ]
    best = FormulaSearchGoal(values, "scores").individuals(terms)
    third = stats.pearsonr(values, terms.scores[2])[0]
    assert [i.jcm for i in best] == pytest.approx([1, third, -1])
    pairs = FormulaSearchGoal(values, "summand").complete(
        [parse_expression("sum(one)")], [parse_expression("sum(width)")]
    )
    assert list(map(str, pairs)) == ["add(rank(sum(one)), rank(sum(width)))"]


def test_a_population_has_the_best_of_each_size() -> None:
    def individual(text: str, fitness: float) -> Individual:
        return Individual(parse_expression(text), (fitness,), fitness)

    goal = FormulaSearchGoal(np.arange(3.0), "scores")
    small = [individual(f"{name}(width)", n / 10) for n, name in enumerate(REDUCTIONS["layers"])]
    assert len(small) > NICHE
    goal.keep(small[:5])
    goal.keep(small[5:])
    larger = [individual("sum(log(width))", 0.1), individual("sum(exp(width))", 0.1)]
    goal.keep([*larger, individual(f"sum({'neg(' * 10}width{')' * 10})", 0.9)])
    assert goal.population == [*reversed(small[-NICHE:]), larger[0]]


def test_the_first_population_does_not_have_the_target(engine: TreeEvaluator) -> None:
    def search(target: str) -> FormulaSearch:
        scores = engine.evaluate([parse_expression(target)]).values[0, 0]
        return FormulaSearch(engine, scores, random.Random(4))

    drawn = [i.tree for i in search("sum(width)").population]
    for tree in drawn[:3]:
        again = search(str(tree)).population
        assert len({i.tree for i in again} & set(drawn)) >= 20
        assert max(i.jcm for i in again) < 1 - 1e-9


def found_in(engine: TreeEvaluator, target: str, seed: int) -> list[Tree]:
    scores = engine.evaluate([parse_expression(target)]).values[0, 0]
    return FormulaSearch(engine, scores, random.Random(seed)).round()


@pytest.mark.parametrize(
    "target",
    [
        "add(sum(width), mean(square(heads)))",
        "div(sum(width), mean(square(heads)))",
        "add(rank(sum(width)), rank(mean(square(heads))))",
        "add(rank(ntkt), rank(mul(sum(std(msa.weight)), sum(nuclear_norm(mlp.act)))))",
    ],
)
def test_terms_of_one_round_are_put_together(engine: TreeEvaluator, target: str) -> None:
    tree = resolve_proxy(target).tree
    scores = engine.evaluate([tree]).values[0, 0]
    search = FormulaSearch(engine, scores, random.Random(0))
    found = search.round() + search.round()
    assert found
    for other in found:
        values = engine.evaluate([other]).values[0, 0]
        np.testing.assert_allclose(values / values[0], scores / scores[0], rtol=1e-4)


def test_a_search_depends_on_its_seed_alone(engine: TreeEvaluator) -> None:
    target = "add(rank(sum(nuclear_norm(msa.weight))), rank(sum(mul(width, tokens))))"
    first = found_in(engine, target, 1)
    assert first == found_in(TreeEvaluator(engine.source), target, 1)
    assert any(first != found_in(engine, target, seed) for seed in (2, 3, 4))
    assert first
    expected = engine.evaluate([parse_expression(target)]).values
    for tree in first:
        np.testing.assert_array_equal(engine.evaluate([tree]).values, expected)


EQUAL = [
    (SNIP, "sum(l1_norm(mul(ones.all.weight, all.grad)))"),
    (SNIP, "l1_norm(l1_norm(mul(all.grad, all.weight)))"),
    ("sum(square(frobenius_norm(msa.grad)))", "sum(sum(square(msa.grad)))"),
    ("frobenius_norm(frobenius_norm(msa.grad))", "nuclear_norm(frobenius_norm(msa.grad))"),
    ("mean(add(width, heads))", "add(mean(width), mean(heads))"),
    ("sum(add(width, one))", "add(sum(width), sum(one))"),
    ("mul(std(width), std(width))", "sub(mean(square(width)), mul(mean(width), mean(width)))"),
    ("logsumexp(log(width))", "logsumexp(log(neg(width)))"),
    ("rank(sum(sum(square(msa.grad))))", "rank(sum(square(frobenius_norm(msa.grad))))"),
]
DIFFERENT = [
    (SNIP, "sum(sum(mul(all.weight, all.grad)))"),
    (SNIP, "sum(l1_norm(mul(msa.weight, msa.grad)))"),
    (SNIP, "mean(l1_norm(mul(all.weight, all.grad)))"),
    ("sum(frobenius_norm(msa.grad))", "frobenius_norm(frobenius_norm(msa.grad))"),
    ("sum(sum(mlp.act))", "sum(mean(mlp.act))"),
    ("sum(mul(width, width))", "mul(sum(width), sum(width))"),
    ("sum(sum(sqrt(msa.grad)))", "sum(sqrt(sum(msa.grad)))"),
]


@pytest.mark.parametrize(("one", "other"), EQUAL)
def test_equal_forms_are_proved(one: str, other: str) -> None:
    evidence = equality_by_sympy(parse_expression(one), parse_expression(other))
    assert evidence is not None
    assert evidence.kind == "sympy"
    world = random_world(0)
    values = [naive_evaluate(parse_expression(text), world) for text in (one, other)]
    np.testing.assert_allclose(values[0], values[1], rtol=1e-9)


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_different_forms_are_not(one: str, other: str) -> None:
    assert equality_by_sympy(parse_expression(one), parse_expression(other)) is None


def test_what_is_proved_of_random_formulas_holds() -> None:
    grammar, rng = Grammar(limits=TreeLimits(max_size=7, max_depth=4)), random.Random(3)
    world, proved = random_world(1), 0
    for text in ("sum(sum(msa.grad))", "sum(width)", "mean(l1_norm(mlp.act))"):
        tree = parse_expression(text)
        for _ in range(150):
            mutant = grammar.mutate_points(tree, rng, 0.4)
            if canonical(mutant) != canonical(tree) and equality_by_sympy(tree, mutant):
                values = [naive_evaluate(t, world) for t in (tree, mutant)]
                np.testing.assert_allclose(values[0], values[1], rtol=1e-9)
                proved += 1
    assert proved > 0


def test_evidence_by_tree() -> None:
    assert equality_by_tree(
        parse_expression("sum(mul(width, heads))"), parse_expression("sum(mul(heads, width))")
    )
    assert (
        equality_by_tree(
            parse_expression("sum(mul(width, heads))"), parse_expression("sum(mul(width, tokens))")
        )
        is None
    )


def test_relative_deviation() -> None:
    target = np.array([1.0, -2.0, 0.0])
    assert relative_deviation(3 * target, target) == 0
    assert relative_deviation(np.array([1.0, -2.0, 1e-30]), target) == np.inf
    scores = np.array([1.0, 2.0, 4.0])
    scale = scores @ np.array([1.0, 2.0, 5.0]) / (scores @ scores)
    worst = max(abs(s / (scale * t) - 1) for s, t in zip([1, 2, 5], scores, strict=True))
    assert relative_deviation(np.array([1.0, 2.0, 5.0]), scores) == pytest.approx(worst)


def test_evidence_by_networks(
    setting: Callable[..., Conditions], architectures: list[Architecture]
) -> None:
    def judge(target: str, *found: str) -> list[bool]:
        networks = streamed(setting(batches={"few": noise(4)}), architectures, 1)
        evidence = equality_by_networks(
            [parse_expression(text) for text in found], parse_expression(target), networks
        )
        assert all(e is None or e.kind == "networks" for e in evidence)
        return [e is not None for e in evidence]

    double, logarithm = "add(sum(width), sum(width))", "logsumexp(log(width))"
    assert judge("sum(width)", double, logarithm, "sum(one)") == [True, False, False]
    assert judge("rank(sum(width))", double, logarithm, "sum(one)") == [True, True, False]
