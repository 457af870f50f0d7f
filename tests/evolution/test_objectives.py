"""The choice of the final formula, and evolution by two metrics at once."""

import random
from collections.abc import Sequence

import pytest

from autoprox.evolution import (
    STRATEGIES,
    EvolutionParameters,
    Individual,
    State,
    best_by_each,
    evolve,
    make_toolbox,
    shortest,
    survivors,
)
from autoprox.evolution_parameters import TreeLimits
from autoprox.language import Tree, parse_expression, tree_digest
from autoprox.language.grammar import Grammar

GRAMMAR = Grammar(limits=TreeLimits(max_size=12, max_depth=6))
Point = tuple[float, float, int]  # joint metrics of tau and partial tau, nodes


def sized(size: int, jcm: float, partial_tau: float = 0.0, objective: str = "jcm") -> Individual:
    tree = parse_expression("sum(" + "abs(" * (size - 2) + "width" + ")" * (size - 1))
    return Individual(tree, (jcm, partial_tau), jcm, partial_tau=partial_tau, objective=objective)


def point(individual: Individual) -> Point:
    return individual.jcm, individual.partial_tau, individual.tree.size


def dominated(own: Point, others: Sequence[Point]) -> bool:
    return any(
        j >= own[0] and g >= own[1] and n <= own[2] and (j, g, n) != own for j, g, n in others
    )


@pytest.mark.parametrize(
    ("front", "error", "tolerance", "chosen"),
    [
        ([(3, 0.50), (5, 0.52), (9, 0.53)], 0.02, 1.0, 5),
        ([(3, 0.50), (5, 0.52), (9, 0.53)], 0.04, 1.0, 3),
        ([(3, 0.50), (5, 0.52), (9, 0.53)], 0.02, 2.0, 3),
        ([(3, 0.50), (5, 0.52), (9, 0.53)], 0.02, 0.0, 9),
        ([(3, 0.50), (5, 0.52), (9, 0.53)], 0.0, 1.0, 9),
        ([(7, 0.25)], 0.5, 1.0, 7),
        ([(3, 0.50), (3, 0.51), (9, 0.53)], 0.04, 1.0, 3),
    ],
)
def test_the_shortest_within_the_standard_errors_of_the_best(
    front: list[tuple[int, float]], error: float, tolerance: float, chosen: int
) -> None:
    individuals = [sized(*own) for own in front]
    for order in (individuals, individuals[::-1]):
        found = shortest(order, [error], tolerance)
        assert found.tree.size == chosen
        alike = [jcm for size, jcm in front if size == chosen]
        assert found.jcm == max(alike)


def test_by_both_metrics_it_is_near_the_best_of_each() -> None:
    points = [(3, 0.30, 0.30), (4, 0.48, 0.28), (5, 0.50, 0.10), (9, 0.49, 0.31)]
    front = [sized(size, j, g, "both") for size, j, g in points]
    assert [i.tree.size for i in best_by_each(front)] == [5, 9]
    assert shortest(front, [0.05, 0.05], 1.0).tree.size == 4
    assert shortest(front, [0.05, 0.01], 1.0).tree.size == 9
    # None is within one error of both: the one that is nearest.
    assert shortest(front[1:3], [0.001, 0.1], 1.0).tree.size == 5


def test_survivors_by_both_metrics_are_those_of_nsga_2() -> None:
    """The first front whole, then of the second the least crowded."""
    first = [(0.9, 0.1, 5), (0.1, 0.9, 5), (0.5, 0.5, 5)]
    second = [(0.8, 0.05, 6), (0.05, 0.8, 6), (0.4, 0.4, 6), (0.41, 0.39, 6)]
    individuals = [sized(n, j, g, "both") for j, g, n in (*second, *first)]
    found = [point(i) for i in survivors(individuals, 5)]
    assert set(found[:3]) == set(first)
    assert set(found[3:]) == set(second[:2])  # the ends, which have neighbours on one side only
    assert [point(i) for i in survivors(individuals, 3)][:3] == found[:3]


def test_the_size_adjusted_objective_sorts_by_the_partial_tau() -> None:
    individuals = [sized(3, 0.9, 0.1, "size-adjusted"), sized(4, 0.1, 0.9, "size-adjusted")]
    assert [i.tree.size for i in survivors(individuals, 2)] == [4, 3]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_front_of_both_metrics_and_size_is_kept(strategy: str) -> None:
    asked: list[Point] = []

    def evaluate(trees: Sequence[Tree]) -> list[Individual]:
        numbers = [int(tree_digest(tree)[:8], 16) for tree in trees]
        found = [
            Individual(tree, (n % 97, n % 89), n % 97, partial_tau=n % 89, objective="both")
            for tree, n in zip(trees, numbers, strict=True)
        ]
        asked.extend(map(point, found))
        return found

    parameters = EvolutionParameters(
        population=8, iterations=10, children=5, parents=2, objective="both"
    )
    toolbox = make_toolbox(GRAMMAR, evaluate, STRATEGIES[strategy], parameters)
    state = State(random.Random(0))
    evolve(toolbox, STRATEGIES[strategy], parameters, state, lambda state: None)
    assert {point(i) for i in state.front} == {p for p in asked if not dominated(p, asked)}
    kept = [point(i) for i in state.population]
    assert len(kept) == 8
    assert not dominated(kept[0], kept)
