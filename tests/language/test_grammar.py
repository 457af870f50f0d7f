import inspect
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from random import Random

import numpy as np
import pytest
from deap import gp
from helpers.naive import naive_evaluate, random_world

from autoprox.errors import ConfigError
from autoprox.evolution_parameters import TreeLimits
from autoprox.language import (
    NETWORK,
    STATISTICS,
    STRUCTURE,
    LanguageError,
    Tree,
    ValueType,
    canonical,
    make_tree,
    parse_expression,
    tree_digest,
)
from autoprox.language.grammar import DEAP_TYPES, Grammar, least_trees
from autoprox.primitives import COMBINATORS, OPERATIONS, PRIMITIVES

GRAMMAR = Grammar()
SMALL = TreeLimits(max_size=12, max_depth=6)
DRAWN = {name for name, operation in OPERATIONS.items() if operation.drawn}
OF_LAYERS = {name for name, primitive in PRIMITIVES.items() if "layers" in primitive.levels}
BLOCK, MATRIX = ValueType("Layers", "block"), ValueType("Matrix", "msa")
ALIASES = {"ntk.msa.weight", "ntk.mlp.weight", "ntk.all.weight", "ntk.mlp.act"}


def subtrees(tree: Tree) -> list[Tree]:
    """All subtrees, in the order of the text."""
    return [tree, *(each for arg in tree.args for each in subtrees(arg))]


def symbols(tree: Tree) -> list[str]:
    return [each.symbol for each in subtrees(tree)]


def family(grammar: Grammar, seed: int, count: int) -> Iterator[Tree]:
    """Random trees, mutants of them, and offspring of those."""
    rng = Random(seed)
    while count > 0:
        first, second = grammar.generate(rng), grammar.generate(rng)
        first_mutant = grammar.mutate_subtree(first, rng)
        second_mutant = grammar.mutate_points(second, rng, 0.3)
        child = grammar.crossover(first_mutant, second_mutant, rng)
        yield from (first, second, first_mutant, second_mutant, child, grammar.mutate(child, rng))
        count -= 6


@pytest.mark.parametrize(
    ("limits", "count"),
    [(SMALL, 1200), (TreeLimits(), 1200), (TreeLimits(max_size=200, max_depth=30), 60)],
)
def test_everything_varied_is_a_proxy_within_the_limits(limits: TreeLimits, count: int) -> None:
    for tree in family(Grammar(limits=limits), seed=1, count=count):
        assert tree.type == NETWORK
        assert len(subtrees(tree)) == tree.size <= limits.max_size
        assert tree.depth <= limits.max_depth
        assert parse_expression(str(tree)) == tree
        assert tree_digest(parse_expression(str(tree))) == tree_digest(tree)
        assert canonical(canonical(tree)) == canonical(tree)


def test_everything_varied_evaluates() -> None:
    world = random_world(seed=7)
    for tree in family(GRAMMAR, seed=2, count=300):
        scores = naive_evaluate(tree, world)
        assert scores.shape == (3,)
        np.testing.assert_array_equal(naive_evaluate(canonical(tree), world), scores)


@pytest.mark.parametrize("type_", Grammar().least, ids=str)
def test_generation_honours_type_and_depth(type_: ValueType) -> None:
    grammar, rng = Grammar(limits=SMALL), Random(3)
    for depth in range(grammar.least[type_].depth, SMALL.max_depth + 1):
        for _ in range(20):
            tree = grammar.generate(rng, type_, depth, depth)
            assert (tree.type, tree.depth) == (type_, depth)
            assert tree.size <= SMALL.max_size


def test_generation_fits_where_only_a_chain_does() -> None:
    grammar = Grammar(["msa.grad"], structure=False, limits=TreeLimits(max_size=9, max_depth=8))
    for seed in range(100):
        tree = grammar.generate(Random(seed), min_depth=8)
        assert (tree.size, tree.depth) == (9, 8)


def test_every_word_is_generated_and_no_other() -> None:
    found = {symbol for tree in family(GRAMMAR, seed=4, count=3000) for symbol in symbols(tree)}
    assert found == {*DRAWN, *STATISTICS, *STRUCTURE} - ALIASES


@pytest.mark.parametrize(
    ("grammar", "allowed"),
    [
        (Grammar(["msa.grad"], structure=False), {"msa.grad", *DRAWN}),
        (Grammar(["mlp.act", "data.mlp.act", "ntk.mlp.act"]), {"mlp.act", *STRUCTURE, *DRAWN}),
        (Grammar([], rank=False), {*STRUCTURE, *OF_LAYERS}),
        (Grammar([], combinators=False), {*STRUCTURE, *OF_LAYERS}),
    ],
)
def test_a_vocabulary_can_be_restricted(grammar: Grammar, allowed: set[str]) -> None:
    found = {symbol for tree in family(grammar, seed=5, count=1200) for symbol in symbols(tree)}
    assert found == allowed


def test_without_combinators_no_operation_works_on_networks() -> None:
    for tree in family(Grammar(combinators=False), seed=6, count=300):
        assert all(arg.type != NETWORK for each in subtrees(tree) for arg in each.args)


def vocabulary(*nodes: tuple[str, tuple[ValueType, ...], ValueType]) -> gp.PrimitiveSetTyped:
    pset = gp.PrimitiveSetTyped("broken", [], DEAP_TYPES[NETWORK])
    for name, args, type_ in nodes:
        if args:
            pset.addPrimitive(print, [DEAP_TYPES[arg] for arg in args], DEAP_TYPES[type_], name)
        else:
            pset.addTerminal(name, DEAP_TYPES[type_], name)
    return pset


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ([], "every type needs a terminal below it, but Network has none"),
        (
            [("sum", (BLOCK,), NETWORK), ("abs", (BLOCK,), BLOCK)],
            r"every type needs a terminal below it, but Layers\[block\] has none",
        ),
        (
            [("width", (), BLOCK), ("sum", (BLOCK,), NETWORK), ("msa.grad", (), MATRIX)],
            r"every type must be reachable from Network, but Matrix\[msa\] is not",
        ),
    ],
)
def test_a_broken_vocabulary_is_refused(
    nodes: list[tuple[str, tuple[ValueType, ...], ValueType]], message: str
) -> None:
    with pytest.raises(LanguageError, match=message):
        least_trees(vocabulary(*nodes))


def test_wrong_settings_are_refused() -> None:
    with pytest.raises(LanguageError, match="Network has none"):
        Grammar([], structure=False)
    with pytest.raises(LanguageError, match=r"a statistic is one of msa.weight, .* got width"):
        Grammar(["width"])
    with pytest.raises(LanguageError, match=r"unknown name `msa.wieght`; nearest: `msa.weight`"):
        Grammar(["msa.wieght"])
    with pytest.raises(ConfigError, match="max_size must be a whole number >= 1 and <= 1000"):
        TreeLimits(max_size=0)
    with pytest.raises(
        LanguageError, match=r"a proxy needs max_size >= 3 and max_depth >= 2, got 2 and 10"
    ):
        Grammar(["msa.grad"], structure=False, limits=TreeLimits(max_size=2))
    with pytest.raises(LanguageError, match=r"`4 <= max_depth <= 10` must hold .* got 3"):
        GRAMMAR.generate(Random(0), min_depth=4, max_depth=3)
    with pytest.raises(LanguageError, match=r"a type is one of .*, got Layers\[heads\]"):
        GRAMMAR.generate(Random(0), ValueType("Layers", "heads"))
    with pytest.raises(LanguageError, match="at most 12 nodes and depth 6, got 8 and 7: sum"):
        Grammar(limits=SMALL).mutate(
            parse_expression("sum(log(log(log(log(log(log(width)))))))"), Random(0)
        )


def test_trees_and_deaps_trees_are_the_same() -> None:
    for tree in family(GRAMMAR, seed=8, count=300):
        nodes = GRAMMAR.to_deap(tree)
        assert str(nodes) == str(tree)
        assert (len(nodes), nodes.height) == (tree.size, tree.depth)
        assert GRAMMAR.from_deap(nodes) == tree
        for index, part in enumerate(subtrees(tree)):
            assert nodes[index].arity == len(part.args)
            assert nodes[index].ret is DEAP_TYPES[part.type]
            assert str(gp.PrimitiveTree(nodes[nodes.searchSubtree(index)])) == str(part)


def deap_tree(type_: ValueType) -> gp.PrimitiveTree:
    """A tree by DEAP's own generator, which fails where it wants a terminal of a type without."""
    while True:
        try:
            return gp.PrimitiveTree(gp.genHalfAndHalf(GRAMMAR.pset, 1, 4, DEAP_TYPES[type_]))
        except IndexError:
            continue


def test_deaps_own_operators_work_on_the_primitive_set() -> None:
    random.seed(9)
    assert {tree.name for tree in GRAMMAR.pset.terminals[DEAP_TYPES[BLOCK]]} == set(STRUCTURE)
    for type_ in (NETWORK, BLOCK, ValueType("Matrix", "act")):
        for _ in range(60):
            first, second = deap_tree(type_), deap_tree(type_)
            for nodes in (first, second, *gp.cxOnePoint(first, second)):
                tree = GRAMMAR.from_deap(nodes)
                assert tree.type == type_
                assert parse_expression(str(nodes)) == tree
            for nodes in gp.mutNodeReplacement(GRAMMAR.to_deap(tree), GRAMMAR.pset):
                assert GRAMMAR.from_deap(nodes).type == type_


def test_point_mutation_keeps_every_signature() -> None:
    rng = Random(10)
    for _ in range(100):
        tree = GRAMMAR.generate(rng)
        mutant = GRAMMAR.mutate_points(tree, rng)
        assert [t.type for t in subtrees(mutant)] == [t.type for t in subtrees(tree)]
        assert GRAMMAR.mutate_points(tree, rng, 0) == tree
        pairs = zip(subtrees(tree), subtrees(GRAMMAR.mutate_points(tree, rng, 1)), strict=True)
        # Nothing else maps one Network to another, so `rank` has to stay.
        assert all(old.symbol != new.symbol or old.symbol == "rank" for old, new in pairs)


def replacements(tree: Tree, other: Tree) -> list[tuple[Tree, Tree]]:
    """The pairs of subtrees whose exchange makes the one tree the other, outermost first."""
    found = [(tree, other)] if tree.type == other.type else []
    if tree.symbol == other.symbol and len(tree.args) == len(other.args):
        changed = [(a, b) for a, b in zip(tree.args, other.args, strict=True) if a != b]
        if len(changed) == 1:
            found += replacements(*changed[0])
    return found


def test_subtree_mutation_changes_one_subtree_of_any_place() -> None:
    rng, places = Random(11), set()
    tree = parse_expression("add(rank(sum(width)), sum(mul(std(msa.grad), mean(msa.weight))))")
    for _ in range(300):
        mutant = GRAMMAR.mutate_subtree(tree, rng)
        places.add(str(replacements(tree, mutant)[-1][0]))
    assert places >= {"width", "std(msa.grad)", "mean(msa.weight)", "rank(sum(width))", str(tree)}


def test_crossover_takes_a_subtree_from_the_donor() -> None:
    rng, same = Random(12), 0
    for _ in range(300):
        tree, donor = (GRAMMAR.generate(rng, min_depth=3) for _ in range(2))
        child = GRAMMAR.crossover(tree, donor, rng)
        joined = child.args == (tree, donor) and child.symbol in COMBINATORS
        parts = set(subtrees(donor))
        assert joined or child == tree or any(b in parts for _, b in replacements(tree, child))
        same += child == tree
    assert same < 60


def test_trees_without_a_common_type_are_joined() -> None:
    tree, donor = parse_expression("sum(std(msa.grad))"), parse_expression("sum(std(mlp.grad))")
    children = {str(GRAMMAR.crossover(tree, donor, Random(seed))) for seed in range(50)}
    assert children == {f"{name}({tree}, {donor})" for name in ("add", "sub", "mul", "div")}
    for grammar in (Grammar(combinators=False), Grammar(limits=TreeLimits(max_size=6))):
        assert grammar.crossover(tree, donor, Random(0)) == tree


def test_words_from_outside_the_vocabulary_can_be_varied() -> None:
    grammar, rng = Grammar(["msa.grad"], structure=False), Random(13)
    tree = parse_expression("add(rank(sum(width)), sum(std(ntk.msa.weight)))")
    for _ in range(100):
        mutant = grammar.crossover(grammar.mutate(tree, rng), tree, rng)
        assert mutant.type == NETWORK
    assert grammar.mutate_points(make_tree("width"), rng, 1) == make_tree("width")
    assert grammar.mutate_subtree(make_tree("width"), rng) == make_tree("width")


def drawn_and_varied() -> str:
    """A line for each tree."""
    grammar, rng = Grammar(), Random(14)
    trees = [grammar.generate(rng) for _ in range(60)]
    for _ in range(200):
        trees.append(grammar.crossover(rng.choice(trees), rng.choice(trees), rng))
        trees.append(grammar.mutate(rng.choice(trees), rng))
    return "".join(f"{tree_digest(tree)} {tree}\n" for tree in trees)


def test_one_seed_gives_the_same_trees_in_every_process() -> None:
    """Whatever the hashes of strings are there."""
    imports = (
        "from random import Random\n"
        "from autoprox.language import tree_digest\n"
        "from autoprox.language.grammar import Grammar\n"
    )
    code = f"{imports}{inspect.getsource(drawn_and_varied)}print(drawn_and_varied(), end='')"
    other = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONHASHSEED": "1"},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert other.stdout == drawn_and_varied()
    assert other.stdout.count("\n") == 460


def test_the_global_generator_is_left_alone() -> None:
    state = random.getstate()
    for _ in family(GRAMMAR, seed=15, count=30):
        pass
    assert random.getstate() == state
