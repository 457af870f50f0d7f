"""Checks N (100,000) random trees, mutants and offspring: `python tests/fuzz_language.py [N] [SEED]`.

Each must type-check, keep the limits, be printed and parsed back to the same hash, have a canonical
form of the same value, be displayed in every form, and evaluate.
"""

import sys
import time
from random import Random

import numpy as np
from naive import naive_evaluate, random_world

from autoprox.grammar import Grammar
from autoprox.language import NETWORK, Tree, canonical, parse, result_type
from autoprox.printing import ascii_tree, latex, pretty, to_sympy


def check(tree: Tree, grammar: Grammar, world: dict[str, list[np.ndarray]]) -> None:
    assert tree.type == NETWORK
    assert tree.fold(lambda node, args: result_type(node.symbol, args)) == NETWORK
    assert tree.size <= grammar.limits.max_size
    assert tree.depth <= grammar.limits.max_depth
    assert str(grammar.to_deap(tree)) == str(tree)
    again = parse(str(tree))
    assert again == tree
    assert again.digest == tree.digest
    form = canonical(tree)
    assert canonical(form) == form
    assert parse(str(form)).digest == tree.digest
    assert not to_sympy(tree).free_symbols - to_sympy(tree).free_symbols
    assert pretty(tree)
    assert latex(tree)
    assert ascii_tree(tree).count("\n") == tree.size - 1
    scores = naive_evaluate(tree, world)
    assert scores.shape == (3,)
    assert np.array_equal(naive_evaluate(form, world), scores, equal_nan=True)
