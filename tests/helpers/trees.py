"""Random trees, and scores that must be the same."""

import random
from itertools import chain

import numpy as np

from autoprox.engine.tree_compilation import matrix_reductions
from autoprox.engine.tree_evaluator import ProxyScores
from autoprox.evolution_parameters import TreeLimits
from autoprox.language import NETWORK, Tree, canonical, make_tree, statistics
from autoprox.language.grammar import Grammar

GRAMMAR = Grammar(limits=TreeLimits(max_size=25, max_depth=8))


SNIP = "sum(sum(abs(mul(all.weight, all.grad))))"


def distinct(tree: Tree) -> list[Tree]:
    found: list[Tree] = []
    tree.fold(lambda node, args: found.append(node))
    return found


def aligns(tree: Tree) -> bool:
    """Whether activations of the one all-ones sample meet those of a batch."""
    parts = chain(*matrix_reductions(canonical(tree)).values())
    probes = [
        {s.probe == "ones" for s in statistics(part) if s.quantity.startswith("act")}
        for part in parts
    ]
    return any(len(found) > 1 for found in probes)


def random_trees(count: int, seed: int, grammar: Grammar = GRAMMAR) -> list[Tree]:
    """Trees without such meetings, for which the naive evaluator would need other matrices."""
    rng = random.Random(seed)
    trees = [grammar.generate(rng) for _ in range(count)]
    plain = [tree for tree in trees if not aligns(tree)]
    assert len(plain) > 0.9 * count
    return plain


NUMBERS = ("0", "1", "2", "3", "-1", "0.5", "0.37", "-1.5", "-2", "0.00001", "123456789012345")


def with_numbers(tree: Tree, rng: random.Random) -> Tree:
    """The tree with numbers at random among its scores: in place of one, beside it, or above it."""

    def visit(node: Tree, args: list[Tree]) -> Tree:
        made = Tree(node.symbol, tuple(args)) if args else node
        if made.type != NETWORK or rng.random() < 0.3:
            return made
        number, symbol = (
            make_tree(rng.choice(NUMBERS)),
            rng.choice(["pow", "add", "sub", "mul", "div"]),
        )
        pair = (made, number) if symbol == "pow" or rng.random() < 0.5 else (number, made)
        return Tree(symbol, rng.choice([pair, pair, pair, (number, number)]))

    return tree.fold(visit)


def assert_same_bits(found: ProxyScores, expected: ProxyScores) -> None:
    np.testing.assert_array_equal(found.values, expected.values)
    np.testing.assert_array_equal(found.reasons, expected.reasons)
