"""Checks random trees, mutants and offspring: `python tests/fuzz/language.py [COUNT] [SEED]`.

Each is checked as it is drawn and with numbers among its scores. Every tree must be well-typed and
within the limits, be printed and parsed back to the same hash, have a canonical form of the same
value, be displayed in every form, and evaluate. One JSON line says how many of each kind there
were.
"""

import json
import sys
from collections import Counter
from pathlib import Path
from random import Random

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from helpers.naive import World, naive_evaluate, random_world
from helpers.trees import with_numbers

from autoprox.export import ascii_tree, latex, mathml, pretty_formula, to_sympy
from autoprox.language import NETWORK, Tree, canonical, parse_expression, result_type, tree_digest
from autoprox.language.grammar import Grammar


def check(tree: Tree, grammar: Grammar, world: World) -> None:
    assert tree.fold(lambda node, args: result_type(node.symbol, args)) == NETWORK
    assert grammar.from_deap(grammar.to_deap(tree)) == tree
    assert parse_expression(str(tree)) == tree
    assert tree_digest(parse_expression(str(tree))) == tree_digest(tree)
    form = canonical(tree)
    assert canonical(form) == form
    assert tree_digest(parse_expression(str(form))) == tree_digest(tree)
    assert str(to_sympy(tree))
    assert mathml(tree).startswith("<math")
    assert pretty_formula(tree)
    assert latex(tree)
    assert len(ascii_tree(tree).splitlines()) == tree.size
    scores = naive_evaluate(tree, world)
    assert scores.shape == (3,)
    assert np.array_equal(naive_evaluate(form, world), scores, equal_nan=True)


def main(count: int = 100_000, seed: int = 0) -> None:
    rng, grammar, world = Random(seed), Grammar(), random_world(seed)
    population = [grammar.generate(rng) for _ in range(200)]
    kinds = {
        "generate": lambda tree, other: grammar.generate(rng),
        "mutate_subtree": lambda tree, other: grammar.mutate_subtree(tree, rng),
        "mutate_points": lambda tree, other: grammar.mutate_points(tree, rng),
        "crossover": lambda tree, other: grammar.crossover(tree, other, rng),
    }
    counts: Counter[str] = Counter()
    digests = set()
    for number in range(count):
        kind = rng.choice(list(kinds))
        tree = kinds[kind](rng.choice(population), rng.choice(population))
        try:
            assert grammar.limits.allow(tree)
            check(tree, grammar, world)
            check(with_numbers(tree, rng), grammar, world)
        except Exception as error:
            raise RuntimeError(f"seed {seed}, number {number}, {kind}: {tree}") from error
        population[rng.randrange(len(population))] = tree
        digests.add(tree_digest(tree))
        counts[kind] += 1
    print(json.dumps({"seed": seed, "checked": count, "distinct": len(digests), **counts}))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
